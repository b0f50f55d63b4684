//! A page of wrapped lines: words in colours, hanging indents, no trailing spaces.

use anstyle::Style as Ink;

use super::style::{self, DIM, MAX_WIDTH, MIN_WIDTH, PLAIN, Style};

/// A text in one colour. The text holds no line ends.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    text: String,
    ink: Ink,
}

impl Span {
    pub(crate) fn new(text: impl Into<String>, ink: Ink) -> Self {
        Self { text: text.into(), ink }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, PLAIN)
    }

    pub(crate) fn dim(text: impl Into<String>) -> Self {
        Self::new(text, DIM)
    }
}

/// A page under way.
pub(crate) struct Page {
    out: String,
    line: Vec<Span>,
    used: usize,
    colour: bool,
    width: usize,
}

impl Page {
    pub(crate) fn new(style: Style) -> Self {
        let width = style.width.clamp(MIN_WIDTH, MAX_WIDTH);
        Self { out: String::new(), line: Vec::new(), used: 0, colour: style.colour, width }
    }

    /// The columns of the page.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The finished page.
    pub(crate) fn finish(self) -> String {
        self.out
    }

    /// Two empty lines, before a section.
    pub(crate) fn section(&mut self) {
        self.blank();
        if !self.out.is_empty() && !self.out.ends_with("\n\n\n") {
            self.out.push('\n');
        }
    }

    /// An empty line; never two.
    pub(crate) fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// A paragraph indented by `indent`.
    pub(crate) fn para(&mut self, indent: usize, body: &[Span]) {
        self.hanging(indent, indent, body);
    }

    /// A paragraph of plain text.
    pub(crate) fn plain(&mut self, indent: usize, text: &str) {
        self.para(indent, &[Span::plain(text)]);
    }

    /// A heading over a section.
    pub(crate) fn heading(&mut self, text: &str) {
        self.section();
        self.para(0, &[Span::new(text, style::BOLD)]);
    }

    /// A dim label and a paragraph beside it, aligned at `indent + column`.
    pub(crate) fn row(&mut self, indent: usize, column: usize, label: &str, body: &[Span]) {
        self.put(&" ".repeat(indent), PLAIN);
        self.put(label, DIM);
        let start = (indent + column).max(self.used + 1);
        self.put(&" ".repeat(start - self.used), PLAIN);
        self.words(indent + column, body);
        self.flush();
    }

    /// Words of a shell command, broken between words only and marked by a backslash there, so
    /// that what is copied still runs.
    pub(crate) fn command(&mut self, indent: usize, column: usize, label: &str, words: &[String]) {
        self.put(&" ".repeat(indent), PLAIN);
        self.put(label, DIM);
        let start = (indent + column).max(self.used + 1);
        self.put(&" ".repeat(start - self.used), PLAIN);
        let hang = self.used + 4;
        for (n, word) in words.iter().enumerate() {
            // Two columns stay free for the backslash.
            if n > 0 && self.used + 1 + style::width(word) > self.width - 2 {
                self.put(" \\", PLAIN);
                self.flush();
                self.put(&" ".repeat(hang), PLAIN);
            } else if n > 0 {
                self.put(" ", PLAIN);
            }
            self.put(word, PLAIN);
        }
        self.flush();
    }

    /// A paragraph whose later lines stand at another column than its first.
    pub(crate) fn hanging(&mut self, first: usize, rest: usize, body: &[Span]) {
        self.put(&" ".repeat(first), PLAIN);
        self.words(rest, body);
        self.flush();
    }

    /// Words from the current column on; later lines start at `hang`. A run of spaces is kept
    /// within a line and dropped where the line ends.
    fn words(&mut self, hang: usize, body: &[Span]) {
        let hang = hang.min(self.width / 2);
        let mut gap = 0;
        for (word, ink) in body.iter().flat_map(pieces) {
            if word.starts_with(' ') {
                gap += word.len();
                continue;
            }
            let wide = style::width(word);
            // Words of one colour share their codes.
            let same = self.line.last().is_some_and(|last| last.ink == ink);
            let between = if same { ink } else { PLAIN };
            if self.used + gap + wide <= self.width {
                self.put(&" ".repeat(gap), between);
                self.put(word, ink);
            } else if hang + wide <= self.width && (gap > 0 || self.used <= hang) {
                self.next(hang);
                self.put(word, ink);
            } else {
                if self.used + gap + 8 < self.width {
                    self.put(&" ".repeat(gap), between);
                } else {
                    self.next(hang);
                }
                self.broken(hang, word, ink);
            }
            gap = 0;
        }
    }

    /// A word longer than a line.
    fn broken(&mut self, hang: usize, mut word: &str, ink: Ink) {
        while !word.is_empty() {
            let part = style::head(word, self.width.saturating_sub(self.used));
            if part.is_empty() {
                self.next(hang);
                continue;
            }
            self.put(part, ink);
            word = &word[part.len()..];
        }
    }

    fn next(&mut self, hang: usize) {
        self.flush();
        self.put(&" ".repeat(hang), PLAIN);
    }

    fn put(&mut self, text: &str, ink: Ink) {
        if text.is_empty() {
            return;
        }
        self.used += style::width(text);
        match self.line.last_mut() {
            Some(last) if last.ink == ink => last.text.push_str(text),
            _ => self.line.push(Span::new(text, ink)),
        }
    }

    fn flush(&mut self) {
        while let Some(last) = self.line.last_mut() {
            last.text.truncate(last.text.trim_end_matches(' ').len());
            if !last.text.is_empty() {
                break;
            }
            self.line.pop();
        }
        self.used = 0;
        if self.line.is_empty() {
            return;
        }
        for span in self.line.drain(..) {
            self.out.push_str(&style::paint(self.colour, span.ink, &span.text));
        }
        self.out.push('\n');
    }
}

/// Runs of spaces and runs of anything else, in turn.
fn pieces(span: &Span) -> impl Iterator<Item = (&str, Ink)> {
    let mut rest = span.text.as_str();
    std::iter::from_fn(move || {
        let space = rest.starts_with(' ');
        let end = rest.find(|c: char| (c == ' ') != space).unwrap_or(rest.len());
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        (!piece.is_empty()).then_some((piece, span.ink))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(f: impl FnOnce(&mut Page)) -> String {
        let mut page = Page::new(Style { width: 60, ..Style::default() });
        f(&mut page);
        page.finish()
    }

    #[test]
    fn paragraphs_wrap_between_words_under_their_first_column() {
        let text = page(|p| p.row(2, 8, "sent", &[Span::plain("word ".repeat(20))]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("  sent    word word") && lines[1].starts_with("          w"));
        assert!(lines.iter().all(|line| line.len() <= 60 && !line.ends_with(' ')));
    }

    #[test]
    fn a_word_longer_than_a_line_is_cut_into_lines() {
        let text = page(|p| p.plain(4, &"x".repeat(200)));
        assert!(text.lines().all(|line| line.len() <= 60));
        assert_eq!(text.matches('x').count(), 200);
    }

    #[test]
    fn a_long_command_is_continued_by_backslashes() {
        let words: Vec<String> = (0..20).map(|n| format!("argument{n}")).collect();
        let text = page(|p| p.command(2, 8, "again", &words));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= 60));
        let joined = text.replace("\\\n", "");
        let back: Vec<&str> = joined.split_whitespace().skip(1).collect();
        assert_eq!(back, words);
    }

    #[test]
    fn spaces_alone_leave_no_line() {
        assert_eq!(page(|p| p.plain(4, "   ")), "");
    }
}
