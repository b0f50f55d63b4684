//! The shape of a reply: an error in the clothes of a success, the wrappers of SDKs, and what a
//! declared schema rejected.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::Regex;
use serde_json::{Map, Value};

use super::spellings::fold;
use super::vocabulary::{Lists, expression};

/// Bytes up to which a result that is not marked as an error can be one as a whole.
const WHOLE_ERROR_BYTES: usize = 8 * 1024;
/// Bytes, after the probe's own text is taken out, of a whole error; the longest seen has 600.
const LONG_ERROR_BYTES: usize = 2_000;
/// Bytes and line breaks of a whole error that begins like ordinary text.
const SHORT_ERROR: (usize, usize) = (400, 2);
/// How deep an error object is looked into.
const DEPTH: usize = 4;
/// How many wrappers are taken off one message.
const WRAPPERS: usize = 8;

/// A JSON object, and what it says.
pub(super) struct Object {
    /// Whether the object as a whole says that nothing was done.
    pub(super) declares_error: bool,
    /// Its messages, one a line; the whole text when it has none.
    pub(super) says: String,
}

/// Members whose text is the message of an error object. A hint is none: it tells what would help.
const MESSAGES: [&str; 12] = [
    "error",
    "errors",
    "message",
    "msg",
    "reason",
    "detail",
    "details",
    "description",
    "error_message",
    "errormessage",
    "code",
    "type",
];

/// Members that carry a result; an object with one of them filled is no error as a whole.
const RESULTS: [&str; 10] =
    ["data", "result", "results", "rows", "content", "body", "output", "stdout", "items", "value"];

/// Reads a text that is one JSON object; `None` for any other text.
pub(super) fn error_object(text: &str) -> Option<Object> {
    let text = text.trim();
    if text.len() > WHOLE_ERROR_BYTES || !text.starts_with('{') {
        return None;
    }
    let Ok(Value::Object(object)) = serde_json::from_str(text) else { return None };
    let mut says = Vec::new();
    messages(&object, DEPTH, &mut says);
    let says = if says.is_empty() { text.to_owned() } else { says.join("\n") };
    Some(Object { declares_error: declares_error(&object), says })
}

fn declares_error(object: &Map<String, Value>) -> bool {
    for (name, value) in object {
        match (name.to_ascii_lowercase().as_str(), value) {
            ("success" | "ok", Value::Bool(good)) => return !good,
            ("iserror" | "is_error", Value::Bool(bad)) => return *bad,
            ("status", Value::String(status)) => {
                let bad =
                    ["error", "failed", "failure", "denied", "blocked", "refused", "rejected"];
                if bad.contains(&status.to_ascii_lowercase().as_str()) {
                    return true;
                }
            }
            _ => {}
        }
    }
    let filled = |name: &str| object.iter().any(|(key, value)| is(key, name) && is_filled(value));
    filled("error") && !RESULTS.iter().any(|name| filled(name))
}

fn is(key: &str, name: &str) -> bool {
    key.eq_ignore_ascii_case(name)
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

fn messages(object: &Map<String, Value>, depth: usize, says: &mut Vec<String>) {
    for (name, value) in object {
        if MESSAGES.iter().any(|message| is(name, message)) {
            message(value, depth, says);
        }
    }
}

fn message(value: &Value, depth: usize, says: &mut Vec<String>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::String(text) => says.push(text.clone()),
        Value::Object(members) => messages(members, depth - 1, says),
        Value::Array(items) => items.iter().for_each(|item| message(item, depth - 1, says)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a text that is not marked as an error is too long to be one as a whole.
pub(super) fn too_long(text: &str) -> bool {
    text.len() > WHOLE_ERROR_BYTES
}

/// Whether a folded text, without what the probe sent, is an error as a whole.
pub(super) fn is_whole_error(lists: &Lists, text: &str) -> bool {
    let text = text.trim();
    if text.len() > LONG_ERROR_BYTES {
        return false;
    }
    let (bytes, breaks) = SHORT_ERROR;
    let short = text.len() <= bytes && text.matches('\n').count() <= breaks;
    lists.whole_errors.is_match(text.as_bytes())
        || (short && lists.whole_errors_short.is_match(text.as_bytes()))
}

/// The message of a check the server's author put into a schema; `None` when there is none.
pub(super) fn guard_message<'a>(lists: &Lists, text: &'a str) -> Option<Cow<'a, str>> {
    static PYDANTIC: LazyLock<Regex> = LazyLock::new(|| {
        expression(r"(?:value error|assertion failed), ([^\n]*?)(?: \[type=|\n|$)")
    });
    static ZOD: LazyLock<Regex> = LazyLock::new(|| {
        expression(
            r#""code"\s*:\s*"custom"[^{}]*"message"\s*:\s*"([^"]*)"|"message"\s*:\s*"([^"]*)"[^{}]*"code"\s*:\s*"custom""#,
        )
    });
    if !lists.guards.is_match(text.as_bytes()) {
        return None;
    }
    let found =
        [&*PYDANTIC, &*ZOD].into_iter().flat_map(|says| says.captures_iter(text.as_bytes()));
    let mut said: Vec<&str> = Vec::new();
    for captures in found {
        let group = captures.iter().skip(1).flatten().next();
        said.extend(group.and_then(|group| text.get(group.range())));
    }
    match said[..] {
        [] => Some(Cow::Borrowed(text)),
        [one] => Some(Cow::Borrowed(one)),
        _ => Some(Cow::Owned(said.join("\n"))),
    }
}

/// Takes the wrappers, and the tool's own name before a colon, off a folded message; true when one
/// of them speaks of a schema.
pub(super) fn unwrap<'a>(lists: &Lists, tool: &str, mut text: &'a str) -> (&'a str, bool) {
    let tool = fold(tool);
    let mut by_schema = false;
    for _ in 0..WRAPPERS {
        text = text.trim();
        if let Some(rest) = after_tool(text, &tool) {
            text = rest;
        }
        let schema = lists.schema_wrappers.find(text.as_bytes());
        by_schema |= schema.is_some();
        let Some(found) = schema.or_else(|| lists.wrappers.find(text.as_bytes())) else { break };
        let Some(rest) = text.get(found.end()..) else { break };
        text = rest;
    }
    (text.trim(), by_schema)
}

/// What follows `tool:`, `tool failed:` or `tool error:`.
fn after_tool<'a>(text: &'a str, tool: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(tool).filter(|_| !tool.is_empty())?;
    [":", " failed:", " error:"].iter().find_map(|end| rest.strip_prefix(end))
}
