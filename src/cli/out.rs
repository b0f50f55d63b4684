//! Standard output and standard error: whole texts, written so that a closed pipe is no fault.

use std::io::{self, Write};

use crate::error::Error;

/// Writes a whole text to standard output. A reader that went away is no error.
pub(crate) fn print(text: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::Output { file: "standard output".into(), why: error.to_string() })
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. Nobody reading it is fine.
pub(crate) fn tell(line: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{line}");
}

/// Tells an error, as people read it or as one JSON line.
pub(crate) fn complain(error: &Error, json: bool) {
    if json {
        tell(&error.json().to_string());
    } else {
        tell(&error.to_string());
    }
}

/// The parts of a text between blank lines, each broken into lines of at most `width` characters
/// behind `indent` spaces. A word longer than that has a line to itself.
pub(crate) fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let margin = " ".repeat(indent);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{margin}{word}")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_words_and_indented() {
        assert_eq!(wrapped("one two three", 2, 9), "  one two\n  three");
        assert_eq!(wrapped("a-word-without-end b", 0, 5), "a-word-without-end\nb");
        assert_eq!(wrapped(" \n ", 2, 9), "");
    }
}
