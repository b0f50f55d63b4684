//! Cuts stdout into lines: short ones kept whole, long ones tokenised and counted.

use super::{Limits, skim::Tokenizer};

/// A line longer than what is counted: the connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlong;

/// A complete line without its end.
#[derive(Debug)]
pub(crate) struct Line {
    /// Its length.
    pub(crate) bytes: u64,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Whole(Vec<u8>),
    Long { head: Vec<u8>, tail: Vec<u8>, tokens: Box<Tokenizer> },
}

/// The line that is being read.
#[derive(Debug)]
pub(crate) struct Lines {
    limits: Limits,
    bytes: u64,
    /// The whole line, or its head once it is long.
    kept: Vec<u8>,
    long: Option<Long>,
}

#[derive(Debug, Default)]
struct Long {
    tail: Vec<u8>,
    tokens: Box<Tokenizer>,
}

impl Long {
    fn push(&mut self, part: &[u8], keep: usize) {
        self.tokens.push(part);
        self.tail.extend_from_slice(&part[part.len().saturating_sub(keep)..]);
        let over = self.tail.len().saturating_sub(keep);
        self.tail.drain(..over);
    }
}

impl Lines {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, bytes: 0, kept: Vec::new(), long: None }
    }

    /// Whether a line has begun.
    pub(crate) fn is_open(&self) -> bool {
        self.bytes > 0
    }

    /// How much of the line was read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads on in the same line: a part without a newline.
    pub(crate) fn push(&mut self, part: &[u8]) -> Result<(), Overlong> {
        self.bytes += part.len() as u64;
        if self.bytes > self.limits.counted {
            return Err(Overlong);
        }
        if let Some(long) = &mut self.long {
            long.push(part, self.limits.tail);
            return Ok(());
        }
        self.kept.extend_from_slice(part);
        if self.kept.len() > self.limits.whole {
            let mut long = Long::default();
            long.push(&self.kept, self.limits.tail);
            self.kept.truncate(self.limits.head);
            self.kept.shrink_to_fit();
            self.long = Some(long);
        }
        Ok(())
    }

    /// Ends the line. One carriage return before the newline belongs to the end.
    pub(crate) fn take(&mut self) -> Line {
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut kept = std::mem::take(&mut self.kept);
        let body = match self.long.take() {
            None => {
                bytes -= u64::from(kept.pop_if(|last| *last == b'\r').is_some());
                Body::Whole(kept)
            }
            Some(Long { mut tail, tokens }) => {
                bytes -= u64::from(tail.pop_if(|last| *last == b'\r').is_some());
                Body::Long { head: kept, tail, tokens }
            }
        };
        Line { bytes, body }
    }

    /// Bytes held, for the test of the bound.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        let long = self.long.as_ref();
        self.kept.capacity() + long.map_or(0, |long| long.tail.capacity() + long.tokens.held())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::skim::Scalar;

    #[test]
    fn a_long_line_is_counted_and_read_without_being_held() {
        let limits = Limits::default();
        let mut lines = Lines::new(limits);
        // Debug builds read slowly; the bound does not depend on the length.
        let megabytes = if cfg!(debug_assertions) { 8 } else { 100 };
        let part = vec![b'a'; 65_536];
        let mut most = 0;
        let head = br#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""#;
        let foot = br#""}],"isError":true},"id":3}"#;
        lines.push(head).unwrap();
        for _ in 0..megabytes * 16 {
            lines.push(&part).unwrap();
            most = most.max(lines.held());
        }
        lines.push(foot).unwrap();
        lines.push(b"\r").unwrap();
        assert!(most < 4 << 20, "{most} bytes held");
        let line = lines.take();
        assert_eq!(line.bytes as usize, head.len() + megabytes * (1 << 20) + foot.len());
        let Body::Long { head, tail, tokens } = line.body else { panic!("kept whole") };
        assert_eq!((head.len(), tail.len() + 1), (limits.head, limits.tail));
        assert!(tail.ends_with(b"\"id\":3}"));
        let (facts, _) = tokens.finish().unwrap();
        assert_eq!((facts.id, facts.is_error), (Some(Scalar::Int(3)), true));
        assert!(!lines.is_open());
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_whole_and_one_byte_more_is_not() {
        let limits = Limits { whole: 10, head: 4, tail: 3, counted: 20, ..Limits::default() };
        let mut lines = Lines::new(limits);
        lines.push(b"0123456789").unwrap();
        assert!(matches!(lines.take().body, Body::Whole(line) if line == b"0123456789"));
        lines.push(b"01234567").unwrap();
        lines.push(b"89X").unwrap();
        lines.push(b"Y").unwrap();
        let line = lines.take();
        assert_eq!(line.bytes, 12);
        let Body::Long { head, tail, .. } = line.body else { panic!("kept whole") };
        assert_eq!((head.as_slice(), tail.as_slice()), (&b"0123"[..], &b"9XY"[..]));
        assert_eq!(lines.push(&[b'x'; 21]), Err(Overlong));
    }
}
