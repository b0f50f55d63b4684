//! A configuration error: what is wrong, where it stands, and what to write instead.

use std::fmt;

use super::secrets;

/// What sort of error it is. Every one of them ends the run with exit code 2 (methodology 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file could not be read, is too large or is no text.
    Read,
    /// The text is no YAML, or more of it than is accepted.
    Syntax,
    /// A key is unknown, missing or given twice.
    Key,
    /// A value is of the wrong type or outside what the key takes.
    Value,
    /// A placeholder is unknown, unclosed or without a value.
    Placeholder,
    /// The feature exists in the methodology and comes with a later version.
    NotInThisVersion,
}

/// Where in the source an error stands. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The line, or 0 when the error has no place in the text.
    pub line: u32,
    /// The column, or 0.
    pub column: u32,
    /// How many characters to underline; at least one is.
    pub width: u32,
}

/// An error in the configuration. `Display` gives the message, the place, the line with what looks
/// like a credential starred out, and a `help:` line; control characters of the source are escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The sort.
    pub kind: ErrorKind,
    /// The file as it was named, or `command line`.
    pub file: String,
    /// The place.
    pub place: Place,
    /// What is wrong: a lowercase fragment.
    pub message: String,
    /// What to do about it: one line.
    pub help: String,
    snippet: Option<Box<Snippet>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Snippet {
    text: String,
    indent: usize,
    width: usize,
}

/// A line is shown for at most this many characters around the error.
const SHOWN: usize = 100;

impl ConfigError {
    /// An error at a place of a source text.
    pub(crate) fn at(
        kind: ErrorKind,
        source: Source<'_>,
        place: Place,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            file: source.name.to_owned(),
            place,
            message: message.into(),
            help: help.into(),
            snippet: snippet(source.text, place).map(Box::new),
        }
    }

    /// An error of the file as a whole.
    pub(crate) fn whole(
        kind: ErrorKind,
        file: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::at(kind, Source { name: file, text: "" }, Place::default(), message, help)
    }
}

/// A text and the name it is known by.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

fn snippet(source: &str, place: Place) -> Option<Snippet> {
    let index = usize::try_from(place.line.checked_sub(1)?).ok()?;
    let line = source.split('\n').nth(index)?.trim_end_matches('\r');
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let hidden: Vec<char> = secrets::starred(line).chars().collect();
    let at = (place.column.max(1) as usize - 1).min(hidden.len());
    let from = if hidden.len() > SHOWN { at.saturating_sub(SHOWN / 2) } else { 0 };
    let to = hidden.len().min(from + SHOWN);
    let mut text = String::new();
    if from > 0 {
        text.push('…');
    }
    let before = escaped(&hidden[from..at].iter().collect::<String>());
    let marked_to = to.min(at + place.width.max(1) as usize);
    let marked = escaped(&hidden[at..marked_to].iter().collect::<String>());
    let after = escaped(&hidden[marked_to..to].iter().collect::<String>());
    let indent = text.chars().count() + before.chars().count();
    let width = marked.chars().count().max(1);
    text.push_str(&before);
    text.push_str(&marked);
    text.push_str(&after);
    if to < hidden.len() {
        text.push('…');
    }
    Some(Snippet { text, indent, width })
}

/// The text with everything a terminal could act on written as an escape: control characters, and
/// the marks that reorder or hide text (Unicode Cc, the bidi controls, zero-width characters).
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str("  "),
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{61c}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}' => out.extend(c.escape_unicode()),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// A text of the file as it is quoted in a message: escaped, at most 60 characters, and starred
/// out where it looks like a credential.
pub(crate) fn quoted(text: &str) -> String {
    let mut head: String = secrets::starred(text).chars().take(60).collect();
    if text.chars().nth(60).is_some() {
        head.push('…');
    }
    format!("`{}`", escaped(&head))
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column, .. } = self.place;
        let file = escaped(&self.file);
        writeln!(f, "{}", escaped(&self.message))?;
        match &self.snippet {
            Some(snippet) => {
                let number = line.to_string();
                let gutter = " ".repeat(number.len());
                writeln!(f, "{gutter}--> {file}:{line}:{column}")?;
                writeln!(f, "{gutter} |")?;
                writeln!(f, "{number} | {}", snippet.text.trim_end())?;
                let (indent, mark) = (" ".repeat(snippet.indent), "^".repeat(snippet.width));
                writeln!(f, "{gutter} | {indent}{mark}")?;
            }
            None if line > 0 => writeln!(f, " --> {file}:{line}:{column}")?,
            None => writeln!(f, " --> {file}")?,
        }
        write!(f, "help: {}", escaped(&self.help))
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigError({:?}, {self})", self.kind)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, line: u32, column: u32, width: u32) -> String {
        let source = Source { name: "a.yaml", text };
        ConfigError::at(ErrorKind::Value, source, Place { line, column, width }, "bad", "fix it")
            .to_string()
    }

    #[test]
    fn the_caret_stands_under_the_error() {
        let text = shown("a: 1\nserver: what\n", 2, 9, 4);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], " --> a.yaml:2:9");
        assert_eq!(lines[3], "2 | server: what");
        assert_eq!(lines[4], "  |         ^^^^");
        assert_eq!(lines.last(), Some(&"help: fix it"));
    }

    #[test]
    fn control_characters_and_bidi_marks_are_escaped() {
        let text = shown("a: \u{1b}[31mred\u{202e}\n", 1, 4, 1);
        assert!(text.contains("\\u{1b}[31mred\\u{202e}"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    }

    #[test]
    fn a_long_line_is_cut_around_the_error() {
        let line = format!("{}HERE{}", "x".repeat(5000), "y".repeat(5000));
        let text = shown(&line, 1, 5001, 4);
        assert!(text.lines().all(|line| line.chars().count() < 130), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        let at = lines[3].chars().collect::<Vec<_>>();
        let caret = lines[4].chars().position(|c| c == '^').expect("a caret");
        assert_eq!(at[caret], 'H');
    }

    #[test]
    fn a_place_past_the_end_does_no_harm() {
        for (line, column) in [(0, 0), (1, 999), (99, 1), (u32::MAX, u32::MAX)] {
            assert!(shown("a: 1", line, column, u32::MAX).contains("help:"));
        }
    }

    #[test]
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
        assert_eq!(crate::text::nearest("comand", ["command", "cwd"]), Some("command"));
        assert_eq!(crate::text::nearest("CWD", ["command", "cwd"]), Some("cwd"));
        assert_eq!(crate::text::nearest("zzz", ["command", "cwd"]), None);
    }
}
