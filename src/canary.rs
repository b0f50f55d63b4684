//! Finds canaries, tokens that exist in one object only, in everything a server lets out, in the
//! spellings a leak takes on its way.

mod forms;
mod scan;

use std::{fmt, sync::Arc};

use aho_corasick::{
    Anchored, MatchKind, StartKind,
    automaton::{Automaton, StateID},
    dfa::DFA,
};
use serde_json::Value;

use crate::evidence::Form;

pub use scan::Scanner;

/// Tokens shorter than this would be found by chance. It is also the length of a piece of a secret
/// that counts as the secret.
pub const MIN_TOKEN: usize = 12;

/// The most canaries of one scanner; the automaton takes about 60 KiB for each.
pub const MAX_CANARIES: usize = 1_000;

/// What a found canary is replaced by.
pub const REDACTED: &str = "<canary>";

/// How closely a canary is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The content of a file, a row, a page: raw, base64, hexadecimal, percent-encoded, reversed.
    Plain,
    /// A secret such as an environment variable: also any 12 consecutive characters of it.
    Secret,
}

/// A token and the object it stands in.
#[derive(Clone, PartialEq, Eq)]
pub struct Canary {
    /// The object, as it is called in evidence.
    pub object: String,
    /// The token: printable ASCII, at least [`MIN_TOKEN`] characters.
    pub token: String,
    /// How closely it is looked for.
    pub kind: Kind,
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canary")
            .field("object", &self.object)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Why no scanner could be built.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    /// A token is too short or holds something other than printable ASCII.
    #[error(
        "use the canary of {object}: a token is at least {MIN_TOKEN} printable ASCII characters"
    )]
    Token {
        /// The object of the canary.
        object: String,
    },
    /// There are more than [`MAX_CANARIES`].
    #[error("use {0} canaries: at most {MAX_CANARIES} are looked for")]
    TooMany(usize),
    /// The automaton could not be built.
    #[error("build the canary automaton")]
    Automaton,
}

/// A spelling the automaton looks for.
struct Pattern {
    object: usize,
    form: Form,
    len: usize,
    /// For a piece of a secret: how many characters of the secret follow it.
    after: u64,
}

/// All canaries of a lane, in one automaton. It does not change once built.
pub struct Canaries {
    objects: Vec<String>,
    patterns: Vec<Pattern>,
    dfa: DFA,
    start: StateID,
    /// The length of the longest spelling.
    longest: usize,
}

impl fmt::Debug for Canaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canaries").field("objects", &self.objects).finish_non_exhaustive()
    }
}

impl Canaries {
    /// Builds the automaton over every spelling of every canary.
    pub fn new(canaries: &[Canary]) -> Result<Self, CanaryError> {
        if canaries.len() > MAX_CANARIES {
            return Err(CanaryError::TooMany(canaries.len()));
        }
        let mut patterns = Vec::new();
        let mut spellings = Vec::new();
        for (object, canary) in canaries.iter().enumerate() {
            let token = canary.token.as_bytes();
            if token.len() < MIN_TOKEN || !token.iter().all(u8::is_ascii_graphic) {
                return Err(CanaryError::Token { object: canary.object.clone() });
            }
            for spelling in forms::spellings(token, canary.kind) {
                let len = spelling.bytes.len();
                patterns.push(Pattern { object, form: spelling.form, len, after: spelling.after });
                spellings.push(spelling.bytes);
            }
        }
        let dfa = DFA::builder()
            .match_kind(MatchKind::Standard)
            .start_kind(StartKind::Unanchored)
            .prefilter(false)
            // A server may change the case. For base64 that is too generous, and harmless: no
            // spelling is short enough to be met by chance in either case.
            .ascii_case_insensitive(true)
            .build(&spellings)
            .map_err(|_| CanaryError::Automaton)?;
        let start = dfa.start_state(Anchored::No).map_err(|_| CanaryError::Automaton)?;
        let objects = canaries.iter().map(|canary| canary.object.clone()).collect();
        let longest = patterns.iter().map(|pattern| pattern.len).max().unwrap_or(0);
        Ok(Self { objects, patterns, dfa, start, longest })
    }

    /// A scanner that finds nothing.
    pub fn none() -> Result<Self, CanaryError> {
        Self::new(&[])
    }

    /// The object of that index; empty when there is none.
    pub fn object(&self, index: usize) -> &str {
        self.objects.get(index).map_or("", String::as_str)
    }

    /// A scanner at the start of a stream.
    pub fn scanner(self: &Arc<Self>) -> Scanner {
        Scanner::new(Arc::clone(self))
    }

    /// The canaries in a text, each object and form once.
    pub fn scan_text(self: &Arc<Self>, text: &str) -> Vec<(usize, Form)> {
        let mut found = Vec::new();
        self.scan_parts([text.as_bytes()], &mut found);
        found
    }

    /// Adds to `seen` what the decoded strings and keys of a message hold beyond it, and what
    /// [`Canaries::scan_composed`] finds. A token that was not seen as it stands was escaped.
    pub fn scan_value(self: &Arc<Self>, value: &Value, seen: &mut Vec<(usize, Form)>) {
        self.scan_walk(value, true, seen);
    }

    /// Adds to `seen` what no single string of a message shows: bytes written as an array of at
    /// least [`MIN_TOKEN`] numbers from 0 to 255, and texts split over adjacent blocks.
    pub fn scan_composed(self: &Arc<Self>, value: &Value, seen: &mut Vec<(usize, Form)>) {
        self.scan_walk(value, false, seen);
    }

    fn scan_walk(self: &Arc<Self>, value: &Value, strings: bool, seen: &mut Vec<(usize, Form)>) {
        let mut found = Vec::new();
        self.walk(value, strings, &mut found);
        for (object, form) in found {
            let form = match form {
                Form::Raw if !seen.contains(&(object, Form::Raw)) => Form::Escaped,
                form => form,
            };
            if !seen.contains(&(object, form)) {
                seen.push((object, form));
            }
        }
    }

    // serde_json bounds the depth of a parsed value at 128.
    fn walk(self: &Arc<Self>, value: &Value, strings: bool, found: &mut Vec<(usize, Form)>) {
        match value {
            Value::String(text) if strings => self.scan_parts([text.as_bytes()], found),
            Value::Array(items) => {
                if let Some(bytes) = bytes_of(items) {
                    return self.scan_parts([bytes.as_slice()], found);
                }
                for blocks in items.chunk_by(|one, next| text_of(one).and(text_of(next)).is_some())
                {
                    if blocks.len() > 1 {
                        let texts = blocks.iter().filter_map(text_of).map(str::as_bytes);
                        self.scan_parts(texts, found);
                    }
                }
                items.iter().for_each(|item| self.walk(item, strings, found));
            }
            Value::Object(members) => {
                for (key, value) in members {
                    if strings {
                        self.scan_parts([key.as_bytes()], found);
                    }
                    self.walk(value, strings, found);
                }
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Scans parts as the one text they make.
    fn scan_parts<'a>(
        self: &Arc<Self>,
        parts: impl IntoIterator<Item = &'a [u8]>,
        found: &mut Vec<(usize, Form)>,
    ) {
        let mut note = |object, form| {
            if !found.contains(&(object, form)) {
                found.push((object, form));
            }
        };
        let mut scanner = self.scanner();
        parts.into_iter().for_each(|part| scanner.feed(part, &mut note));
        scanner.settle(&mut note);
    }

    /// The text with every found spelling replaced by [`REDACTED`]. A spelling is longer than its
    /// replacement, so the result is never longer than the text.
    pub fn redact(&self, text: &str) -> String {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        let mut state = self.start;
        for (at, byte) in text.bytes().enumerate() {
            state = self.dfa.next_state(Anchored::No, state, byte);
            if !self.dfa.is_match(state) {
                continue;
            }
            let longest = (0..self.dfa.match_len(state))
                .filter_map(|n| self.patterns.get(self.dfa.match_pattern(state, n).as_usize()))
                .map(|pattern| pattern.len)
                .max();
            let (mut from, to) = (at + 1 - longest.unwrap_or(0).min(at + 1), at + 1);
            while let Some(last) = spans.pop_if(|last| last.1 > from) {
                from = from.min(last.0);
            }
            spans.push((from, to));
        }
        let mut out = String::with_capacity(text.len());
        let mut kept = 0;
        for (from, to) in spans {
            // Spellings are ASCII, so both ends are character boundaries.
            out.push_str(text.get(kept..from).unwrap_or(""));
            out.push_str(REDACTED);
            kept = to;
        }
        out.push_str(text.get(kept..).unwrap_or(""));
        out
    }
}

/// The bytes an array of numbers stands for, when it may hold a token.
fn bytes_of(items: &[Value]) -> Option<Vec<u8>> {
    if items.len() < MIN_TOKEN {
        return None;
    }
    items.iter().map(|item| u8::try_from(item.as_u64()?).ok()).collect()
}

/// The text of a block of content or of an embedded resource.
fn text_of(block: &Value) -> Option<&str> {
    block.get("text").or_else(|| block.pointer("/resource/text"))?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::prelude::*;

    const TOKEN: &str = "sm-0f1e2d3c4b5a6978";

    fn canaries() -> Arc<Canaries> {
        let canary = |object: &str, token: &str, kind| Canary {
            object: object.into(),
            token: token.into(),
            kind,
        };
        let list = [
            canary("attic/a.txt", "sm-aaaabbbbccccdddd", Kind::Plain),
            canary("env SM_CANARY_A", TOKEN, Kind::Secret),
        ];
        Arc::new(Canaries::new(&list).unwrap())
    }

    #[test]
    fn every_spelling_of_a_secret_is_found_and_called_by_its_name() {
        let canaries = canaries();
        let hex: String = TOKEN.bytes().map(|b| format!("{b:02x}")).collect();
        let percent: String = TOKEN.bytes().map(|b| format!("%{b:02X}")).collect();
        let reversed: String = TOKEN.chars().rev().collect();
        let mut cases = vec![
            (TOKEN.to_owned(), Form::Raw),
            (hex.to_uppercase(), Form::Hex),
            (hex, Form::Hex),
            (percent.to_lowercase(), Form::Percent),
            (percent, Form::Percent),
            (reversed, Form::Reversed),
            (format!("{}****", &TOKEN[..13]), Form::Masked),
            (format!("****{}", &TOKEN[7..]), Form::Masked),
        ];
        for before in ["", "x", "xy", "xyz", "\u{ff}\u{ff}"] {
            for after in ["", "x", "xy"] {
                let inside = format!("{before}{TOKEN}{after}");
                cases.push((BASE64_STANDARD.encode(&inside), Form::Base64));
                cases.push((BASE64_URL_SAFE_NO_PAD.encode(&inside), Form::Base64));
            }
        }
        for (text, form) in cases {
            assert_eq!(canaries.scan_text(&format!("<{text}>")), [(1, form)], "{text}");
            assert!(canaries.redact(&format!("a {text} b")).contains(REDACTED), "{text}");
        }
    }

    #[test]
    fn a_changed_case_hides_no_token_and_does_not_change_the_form() {
        let canaries = canaries();
        let upper = TOKEN.to_uppercase();
        assert_eq!(canaries.scan_text(&upper), [(1, Form::Raw)]);
        assert_eq!(canaries.scan_text("Sm-AAAAbbbbCCCCdddd"), [(0, Form::Raw)]);
        assert_eq!(canaries.scan_text(&upper[..13]), [(1, Form::Masked)]);
        assert_eq!(canaries.redact(&format!("a {upper} b")), "a <canary> b");
        let mut text = vec![b'x'; 2_000];
        text[900..900 + upper.len()].copy_from_slice(upper.as_bytes());
        assert_eq!(canaries.scan_text(&String::from_utf8(text).unwrap()), [(1, Form::Raw)]);
    }

    #[test]
    fn a_plain_canary_is_found_percent_encoded() {
        let percent: String = "sm-aaaabbbbccccdddd".bytes().map(|b| format!("%{b:02x}")).collect();
        assert_eq!(canaries().scan_text(&percent), [(0, Form::Percent)]);
        assert_eq!(canaries().redact(&percent.to_uppercase()), REDACTED);
    }

    #[test]
    fn bytes_as_numbers_and_texts_split_over_blocks_are_put_together() {
        let canaries = canaries();
        let scan = |value: &Value| {
            let mut seen = Vec::new();
            canaries.scan_composed(value, &mut seen);
            let mut all = Vec::new();
            canaries.scan_value(value, &mut all);
            assert!(seen.iter().all(|hit| all.contains(hit)), "{value}");
            seen
        };
        let text = |text: &str| serde_json::json!({"type": "text", "text": text});
        let image = serde_json::json!({"type": "image", "data": ""});
        let token = "sm-aaaabbbbccccdddd";
        let (one, two) = token.split_at(7);

        let buffer = serde_json::json!({"type": "Buffer", "data": token.as_bytes()});
        assert_eq!(scan(&serde_json::json!({"result": [buffer]})), [(0, Form::Escaped)]);
        let mut numbers: Vec<i64> = token.bytes().map(i64::from).collect();
        numbers.push(256);
        assert_eq!(scan(&serde_json::json!(numbers)), []);

        let split = serde_json::json!({"content": [image, text(one), text(""), text(two)]});
        assert_eq!(scan(&split), [(0, Form::Escaped)]);
        let parted = serde_json::json!({"content": [text(one), image, text(two)]});
        assert_eq!(scan(&parted), []);
        assert_eq!(scan(&serde_json::json!({"content": [text(token)]})), []);
    }

    #[test]
    fn a_piece_of_eleven_characters_and_a_piece_of_a_plain_canary_are_nothing() {
        let canaries = canaries();
        assert_eq!(canaries.scan_text(&TOKEN[..11]), []);
        assert_eq!(canaries.scan_text("sm-aaaabbbbcccc"), []);
        assert_eq!(canaries.scan_text("nothing at all"), []);
    }

    #[test]
    fn a_piece_inside_the_whole_is_no_second_find_but_one_elsewhere_is() {
        let canaries = canaries();
        assert_eq!(canaries.scan_text(TOKEN), [(1, Form::Raw)]);
        let both = format!("{TOKEN} and {}", &TOKEN[2..15]);
        assert_eq!(canaries.scan_text(&both), [(1, Form::Raw), (1, Form::Masked)]);
    }

    #[test]
    fn a_token_split_over_reads_is_found_wherever_it_is_split() {
        let canaries = canaries();
        let text = format!("..{TOKEN}..");
        for cut in 0..text.len() {
            let mut found = Vec::new();
            let mut scanner = canaries.scanner();
            scanner.feed(&text.as_bytes()[..cut], &mut |object, form| found.push((object, form)));
            scanner.feed(&text.as_bytes()[cut..], &mut |object, form| found.push((object, form)));
            scanner.settle(&mut |object, form| found.push((object, form)));
            assert_eq!(found, [(1, Form::Raw)], "cut at {cut}");
        }
    }

    #[test]
    fn a_long_read_hides_no_token_wherever_it_stands() {
        let canaries = canaries();
        for len in [1_100, 1_113] {
            for at in 0..len - TOKEN.len() {
                let mut text = vec![b'x'; len];
                text[at..at + TOKEN.len()].copy_from_slice(TOKEN.as_bytes());
                // The next read is to begin in the right state, too.
                let (now, next) = text.split_at(len * 9 / 10);
                let mut found = Vec::new();
                let mut scanner = canaries.scanner();
                scanner.feed(now, &mut |object, form| found.push((object, form)));
                scanner.feed(next, &mut |object, form| found.push((object, form)));
                assert_eq!(found, [(1, Form::Raw)], "{at} of {len}");
            }
        }
    }

    #[test]
    fn escaped_spellings_are_found_in_decoded_messages_only() {
        let canaries = canaries();
        let line = r#"{"a":["\u0073m-aaaabbbbccccdddd"]}"#;
        assert_eq!(canaries.scan_text(line), []);
        let mut seen = Vec::new();
        canaries.scan_value(&serde_json::from_str(line).unwrap(), &mut seen);
        assert_eq!(seen, [(0, Form::Escaped)]);

        let mut seen = vec![(0, Form::Raw)];
        canaries.scan_value(&serde_json::json!({"sm-aaaabbbbccccdddd": 1}), &mut seen);
        assert_eq!(seen, [(0, Form::Raw)]);
    }

    #[test]
    fn redaction_leaves_the_rest_and_debug_shows_no_token() {
        let canaries = canaries();
        let text = format!("ä {TOKEN}{TOKEN} ö {} ü", &TOKEN[..14]);
        assert_eq!(canaries.redact(&text), "ä <canary><canary> ö <canary> ü");
        assert_eq!(canaries.redact("nothing"), "nothing");
        assert!(!format!("{canaries:?} {:?}", canaries.scanner()).contains("0f1e"));
        let canary = Canary { object: "o".into(), token: TOKEN.into(), kind: Kind::Plain };
        assert!(!format!("{canary:?}").contains("0f1e"));
    }

    #[test]
    fn short_and_unprintable_tokens_are_errors_that_do_not_show_them() {
        for token in ["sm-short", "sm-äöüäöüäöüäöü", "sm-aaaa bbbbcccc"] {
            let canary = Canary { object: "it".into(), token: token.into(), kind: Kind::Plain };
            let error = Canaries::new(&[canary]).unwrap_err().to_string();
            assert!(error.contains("it") && !error.contains(token), "{error}");
        }
        assert_eq!(Arc::new(Canaries::none().unwrap()).scan_text(TOKEN), []);
    }
}
