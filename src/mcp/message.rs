//! Decides what a line is: a request, a notification, a reply, or noise.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    lines::{Body, Line},
    skim::{Facts, Scalar, Tokenizer},
};

/// serde_json's own recursion limit.
const MAX_PARSED_DEPTH: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A request of the server.
    Request,
    Notification,
    /// A reply, if its id is known.
    Reply,
    /// A JSON-RPC batch; revision 2025-06-18 removed them.
    Batch,
    Noise,
}

/// A line, read.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) sort: Sort,
    pub(crate) facts: Facts,
    pub(crate) bytes: u64,
    /// The parsed line; `None` when it is long, deep, or holds what serde_json cannot.
    pub(crate) value: Option<Value>,
    /// The line, or its head and tail, as text.
    pub(crate) text: String,
    /// Whether the line was kept whole.
    pub(crate) whole: bool,
    /// Whether it is not UTF-8.
    pub(crate) lossy: bool,
    pub(crate) malformed: Option<String>,
    /// Rows of the seed in it.
    pub(crate) rows: u64,
}

impl Message {
    pub(crate) fn read(line: Line) -> Self {
        let bytes = line.bytes;
        let (head, tail, tokens) = match line.body {
            Body::Whole(kept) => return Self::whole(bytes, &kept),
            Body::Long { head, tail, tokens } => (head, tail, tokens),
        };
        let text = format!("{}…{}", String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail));
        let lossy = text.contains('\u{fffd}') && std::str::from_utf8(&tail).is_err();
        let (facts, malformed) = match tokens.finish() {
            Some((facts, depth)) => (facts, too_deep(depth)),
            None => (Facts::default(), None),
        };
        Self {
            sort: sort(&facts),
            facts,
            bytes,
            value: None,
            text,
            whole: false,
            lossy,
            malformed,
            rows: 0,
        }
    }

    fn whole(bytes: u64, kept: &[u8]) -> Self {
        let text = String::from_utf8_lossy(kept);
        let lossy = matches!(text, Cow::Owned(_));
        let (value, facts, malformed) = match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                let facts = Facts::of(&value);
                (Some(value), facts, lossy.then(|| "is not UTF-8".to_owned()))
            }
            // The tokenizer reads what serde_json cannot hold: depth, lone surrogates, numbers out
            // of range.
            Err(error) => match Tokenizer::skim(text.as_bytes()) {
                Some((facts, depth)) => {
                    let why = too_deep(depth).unwrap_or_else(|| format!("cannot be read: {error}"));
                    (None, facts, Some(why))
                }
                None => (None, Facts::default(), None),
            },
        };
        let (whole, text) = (value.is_some(), text.into_owned());
        Self { sort: sort(&facts), facts, bytes, value, text, whole, lossy, malformed, rows: 0 }
    }
}

fn too_deep(depth: usize) -> Option<String> {
    (depth >= MAX_PARSED_DEPTH).then(|| format!("nests {depth} deep"))
}

/// `method` decides before `id` does: ids of the server's requests collide with ours.
fn sort(facts: &Facts) -> Sort {
    if facts.array {
        return Sort::Batch;
    }
    match (&facts.method, &facts.id) {
        // Log lines of common loggers have members called `method` and `id` too.
        (Some(Scalar::Text(_)), _) if !facts.jsonrpc => Sort::Noise,
        (Some(Scalar::Text(_)), None | Some(Scalar::Null)) => Sort::Notification,
        (Some(Scalar::Text(_)), Some(_)) => Sort::Request,
        (Some(_), _) => Sort::Noise,
        (None, Some(_)) if facts.result || facts.error || facts.jsonrpc => Sort::Reply,
        (None, None) if facts.error && facts.jsonrpc => Sort::Reply,
        (None, _) => Sort::Noise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Message {
        Message::read(Line { bytes: text.len() as u64, body: Body::Whole(text.to_vec()) })
    }

    #[test]
    fn the_method_decides_before_the_id() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#, Sort::Request),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, Sort::Request),
            (r#"{"jsonrpc":"2.0","method":"notifications/message"}"#, Sort::Notification),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Sort::Reply),
            (r#"{"id":1,"result":{}}"#, Sort::Reply),
            (r#"{"jsonrpc":"2.0","id":1}"#, Sort::Reply),
            (r#"{"jsonrpc":"2.0","error":{"code":-32700}}"#, Sort::Reply),
            (r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, Sort::Batch),
            (r#"{"level":30,"method":"GET","id":4}"#, Sort::Noise),
            (r#"{"level":30,"msg":"hello","id":4}"#, Sort::Noise),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, Sort::Noise),
            ("42", Sort::Noise),
            ("Server listening on stdio", Sort::Noise),
            ("", Sort::Noise),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text.as_bytes()).sort, expected, "{text}");
        }
    }

    #[test]
    fn what_serde_json_cannot_hold_is_still_a_reply() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"x":"\ud800"}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":1,"result":{"x":1e999}}"#.to_owned(),
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{}{}}}"#,
                "[".repeat(500),
                "]".repeat(500)
            ),
        ] {
            let message = read(text.as_bytes());
            assert_eq!(message.sort, Sort::Reply);
            assert_eq!(message.facts.id, Some(Scalar::Int(1)));
            assert!(message.malformed.is_some() && !message.whole && message.value.is_none());
        }
        let message = read(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"\xff\"}}");
        assert!(message.lossy && message.whole && message.sort == Sort::Reply);
        assert_eq!(message.malformed.as_deref(), Some("is not UTF-8"));
    }
}
