//! Reads a reply against the published vocabulary and names the rule that read it (methodology 6).

mod shape;
mod spellings;
mod vocabulary;

#[cfg(test)]
mod other_servers;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::evidence::{Reading, Reply};

pub use spellings::{MARK, Spellings, fold};
pub use vocabulary::{Phrase, Subject, Vocabulary, vocabulary};

use vocabulary::{Lists, lists};

/// Bytes of a reply that are read; what lies behind is ignored.
pub const READ_LIMIT: usize = 64 * 1024;

/// Characters at the head of the message in which step 4 looks (methodology 6, step 4).
pub const HEAD_CHARS: usize = 300;

/// Label: the call was carried out.
pub const ANSWERED: &str = "answered";
/// Label: the declared schema rejected the arguments.
pub const BY_SCHEMA: &str = "rejected by schema";
/// Label of step 2 for network subjects.
pub const NAMES_THE_CLASS: &str = "names the address class";
/// Label of step 4 for network subjects.
pub const TIED_TO_THE_HOST: &str = "refusal tied to the host";
/// Label of steps 2 and 4 for every other subject.
pub const TIED_TO_THE_TARGET: &str = "refusal tied to the target";
/// Label of step 5.
pub const NAMES_THE_ADDRESS: &str = "validation error naming the address";
/// Label of steps 3 and 6.
pub const FAILED: &str = "failed without saying the target was refused";

/// JSON-RPC codes that speak of the protocol and never of a target: parse error, invalid request,
/// method not found, header mismatch, missing capability, unsupported version.
const PROTOCOL_CODES: [i64; 6] = [-32700, -32600, -32601, -32020, -32021, -32022];

/// JSON-RPC "invalid params", the one error code of step 5.
const INVALID_PARAMS: i64 = -32602;

/// A reply, as the harness got it.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// A JSON-RPC error, or a result with `isError: true`.
    pub declined: bool,
    /// The code of a JSON-RPC error.
    pub code: Option<i64>,
    /// All text of the result, structured content as JSON text; or message and data of the error.
    pub text: &'a str,
}

/// What was asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Which nouns name a target.
    pub subject: Subject,
    /// The tool that was called.
    pub tool: &'a str,
    /// The URLs, paths and statements that were sent.
    pub sent: &'a [&'a str],
}

/// Reads a reply. Never fails and never panics; a reply that never came is not read here.
pub fn read(answer: &Answer<'_>, asked: &Asked<'_>) -> Reading {
    let text = head(answer.text, READ_LIMIT);
    let object = shape::error_object(text);
    let declares_error = object.as_ref().is_some_and(|object| object.declares_error);
    if !answer.declined && !declares_error && (object.is_some() || shape::too_long(text)) {
        return reading(Reply::Answered, ANSWERED);
    }
    let said = object.map_or(Cow::Borrowed(text), |object| Cow::Owned(object.says));
    let named = fold(&said);
    let spellings = Spellings::of(asked.sent);
    let stripped = spellings.strip(&named);
    let lists = lists(asked.subject);
    if !answer.declined && !declares_error && !shape::is_whole_error(lists, &stripped) {
        return reading(Reply::Answered, ANSWERED);
    }
    let declined = Declined { code: answer.code, named: &named, stripped: &stripped };
    declined.read(lists, asked, &spellings)
}

/// A reply that was declined: its message as named, and without what the probe sent.
struct Declined<'a> {
    code: Option<i64>,
    named: &'a str,
    stripped: &'a str,
}

impl Declined<'_> {
    fn read(&self, lists: &Lists, asked: &Asked<'_>, spellings: &Spellings) -> Reading {
        let failed = reading(Reply::Failed, FAILED);
        if self.code.is_some_and(|code| PROTOCOL_CODES.contains(&code)) {
            return failed;
        }
        let guard = shape::guard_message(lists, self.stripped);
        if guard.is_none() && lists.schema.is_match(self.stripped.as_bytes()) {
            return reading(Reply::RejectedBySchema, BY_SCHEMA);
        }
        let (message, by_schema) =
            shape::unwrap(lists, asked.tool, guard.as_deref().unwrap_or(self.stripped));
        let by_schema = by_schema || guard.is_some();
        match self.rule(lists, asked.subject, message, spellings) {
            Some(rule) => reading(Reply::Refused, rule),
            None if by_schema => reading(Reply::RejectedBySchema, BY_SCHEMA),
            None => failed,
        }
    }

    /// The rule that makes this message a refusal; `None` when it is none (steps 2 to 6).
    fn rule(
        &self,
        lists: &Lists,
        subject: Subject,
        message: &str,
        spellings: &Spellings,
    ) -> Option<&'static str> {
        if lists.elsewhere.is_match(message.as_bytes()) {
            return None;
        }
        let message = lists.pardons.replace_all(message.as_bytes(), &b" "[..]);
        let tied = if subject.is_net() { TIED_TO_THE_HOST } else { TIED_TO_THE_TARGET };
        if lists.names_the_class.is_match(&message) {
            return Some(if subject.is_net() { NAMES_THE_CLASS } else { tied });
        }
        if lists.names_the_target.is_match(&message) {
            return Some(tied);
        }
        if lists.failures.is_match(&message) || !lists.refusal_words.is_match(&message) {
            return None;
        }
        let first = first_chars(&message, HEAD_CHARS);
        // Outside the network the probe's own path or statement, where it stood, names the target.
        let echoed = !subject.is_net() && contains(first, MARK.as_bytes());
        if lists.refusal_words.is_match(first) && (echoed || lists.target_nouns.is_match(first)) {
            return Some(tied);
        }
        let validation = self.code.is_none_or(|code| code == INVALID_PARAMS);
        let named = validation && subject.knows_addresses() && {
            lists.addresses.is_match(self.named.as_bytes()) || spellings.address_in(self.named)
        };
        named.then_some(NAMES_THE_ADDRESS)
    }
}

fn reading(reply: Reply, rule: &str) -> Reading {
    Reading { reply, rule: rule.to_owned() }
}

/// The longest prefix of at most `limit` bytes that ends between characters.
fn head(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The prefix that holds at most `limit` characters.
fn first_chars(text: &[u8], limit: usize) -> &[u8] {
    let starts = text.iter().enumerate().filter(|(_, byte)| (**byte as i8) >= -0x40);
    match starts.map(|(at, _)| at).nth(limit) {
        Some(end) => &text[..end],
        None => text,
    }
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|window| window == needle)
}
