//! How text is laid out, and the colours of verdicts and letters.

use anstyle::{AnsiColor, Style as Ink};

use crate::{letter::Letter, verdict::Verdict};

/// The narrowest page, in columns; a smaller width is raised to it.
pub const MIN_WIDTH: usize = 60;
/// The widest page, in columns; a greater width is lowered to it.
pub const MAX_WIDTH: usize = 200;

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours are written. The caller decides by terminal, `NO_COLOR` and flags.
    pub colour: bool,
    /// Columns to wrap at, kept within [`MIN_WIDTH`] and [`MAX_WIDTH`].
    pub width: usize,
    /// 0 shows the evidence that decided; from 1 on every line of evidence and every tool.
    pub verbose: u8,
    /// The summary in place of the report.
    pub quiet: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { colour: false, width: 100, verbose: 0, quiet: false }
    }
}

pub(crate) const PLAIN: Ink = Ink::new();
pub(crate) const BOLD: Ink = Ink::new().bold();
pub(crate) const DIM: Ink = Ink::new().dimmed();

/// The colour of a verdict.
pub(crate) fn of_verdict(verdict: Verdict) -> Ink {
    match verdict {
        Verdict::Pass => AnsiColor::Green.on_default(),
        Verdict::Part => AnsiColor::Yellow.on_default(),
        Verdict::Fail => AnsiColor::Red.on_default().bold(),
        Verdict::Inconclusive => AnsiColor::Magenta.on_default(),
        Verdict::Na => DIM,
    }
}

/// The colour of a letter.
pub(crate) fn of_letter(letter: Letter) -> Ink {
    match letter {
        Letter::A | Letter::B => AnsiColor::Green.on_default().bold(),
        Letter::C => AnsiColor::Yellow.on_default().bold(),
        Letter::D | Letter::F => AnsiColor::Red.on_default().bold(),
    }
}

/// A text in a colour, or as it is.
pub(crate) fn paint(colour: bool, ink: Ink, text: &str) -> String {
    if colour && ink != PLAIN && !text.is_empty() {
        format!("{ink}{text}{ink:#}")
    } else {
        text.to_owned()
    }
}

/// Columns a character takes on a terminal: East Asian wide and emoji two, combining marks none
/// (the blocks of Unicode 16, UAX 11 and UAX 44, without their exceptions).
pub(crate) fn columns(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36F
        | 0x483..=0x489
        | 0x591..=0x5BD
        | 0x610..=0x61A
        | 0x64B..=0x65F
        | 0x1AB0..=0x1AFF
        | 0x1DC0..=0x1DFF
        | 0x20D0..=0x20FF
        | 0xFE20..=0xFE2F => 0,
        0x1100..=0x115F
        | 0x2E80..=0x303E
        | 0x3041..=0xA4CF
        | 0xA960..=0xA97F
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1F64F
        | 0x1F680..=0x1F6FF
        | 0x1F900..=0x1FAFF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

/// Columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// The head of a text in at most so many columns.
pub(crate) fn head(text: &str, most: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += columns(c);
        if used > most {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns_and_marks_none() {
        assert_eq!((width("abc"), width("日本"), width("e\u{301}")), (3, 4, 1));
        assert_eq!((head("日本", 3), head("abc", 2), head("abc", 9)), ("日", "ab", "abc"));
    }

    #[test]
    fn without_colour_nothing_is_added() {
        assert_eq!(paint(false, BOLD, "x"), "x");
        assert_eq!(paint(true, PLAIN, "x"), "x");
        assert_eq!(paint(true, BOLD, "x"), "\x1b[1mx\x1b[0m");
    }
}
