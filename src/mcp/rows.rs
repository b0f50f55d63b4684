//! Counts rows in an answer while it streams by: a word that stands once in each row of the seed.

use memchr::memmem::Finder;

/// The word (seeds/postgres/seed.sql, column `tag` of table `big`).
pub(crate) const WORD: &[u8] = b"kestrel";
/// What says that a result is sent twice, as text and structured (2025-06-18, server/tools).
const TWICE: &[u8] = b"\"structuredContent\"";

/// How often the word stood in the present line.
#[derive(Debug)]
pub(crate) struct Rows {
    word: Words,
    twice: Words,
}

impl Rows {
    pub(crate) fn new() -> Self {
        Self { word: Words::new(WORD), twice: Words::new(TWICE) }
    }

    /// Reads on in the same line.
    pub(crate) fn feed(&mut self, part: &[u8]) {
        self.word.feed(part);
        self.twice.feed(part);
    }

    /// Ends the line: its rows, those of a result that is sent twice counted once.
    pub(crate) fn take(&mut self) -> u64 {
        let (rows, twice) = (self.word.take(), self.twice.take());
        if twice > 0 { rows.div_ceil(2) } else { rows }
    }
}

/// Occurrences of one word in a stream of parts.
#[derive(Debug)]
struct Words {
    finder: Finder<'static>,
    /// The end of what was read, shorter than the word.
    tail: Vec<u8>,
    count: u64,
}

impl Words {
    fn new(word: &'static [u8]) -> Self {
        Self { finder: Finder::new(word), tail: Vec::new(), count: 0 }
    }

    fn feed(&mut self, part: &[u8]) {
        let keep = self.finder.needle().len() - 1;
        // Only what begins before the part and ends in it is looked for here.
        self.tail.extend_from_slice(&part[..part.len().min(keep)]);
        self.count += self.finder.find_iter(&self.tail).count() as u64;
        self.count += self.finder.find_iter(part).count() as u64;
        if part.len() >= keep {
            self.tail.clear();
            self.tail.extend_from_slice(&part[part.len() - keep..]);
        } else {
            let over = self.tail.len().saturating_sub(keep);
            self.tail.drain(..over);
        }
    }

    fn take(&mut self) -> u64 {
        self.tail.clear();
        std::mem::take(&mut self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(parts: &[&str]) -> u64 {
        let mut rows = Rows::new();
        parts.iter().for_each(|part| rows.feed(part.as_bytes()));
        rows.take()
    }

    #[test]
    fn a_word_is_counted_once_however_the_stream_is_cut() {
        let text = "kestrel, kestrel;kestrekestrel akestrel kestre";
        for size in 1..text.len() {
            let parts: Vec<&str> = text
                .as_bytes()
                .chunks(size)
                .map(|part| std::str::from_utf8(part).unwrap())
                .collect();
            assert_eq!(counted(&parts), 4, "cut into pieces of {size}");
        }
    }

    #[test]
    fn a_result_that_is_sent_twice_counts_once() {
        assert_eq!(
            counted(&[
                "kestrel kestrel kestrel \"structuredCon",
                "tent\": kestrel kestrel kestrel"
            ]),
            3
        );
    }

    #[test]
    fn lines_are_counted_apart() {
        let mut rows = Rows::new();
        rows.feed(b"kestrel kest");
        assert_eq!(rows.take(), 1);
        rows.feed(b"rel");
        assert_eq!(rows.take(), 0);
    }
}
