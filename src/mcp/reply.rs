//! A reply as the reader of refusals needs it.

use serde_json::Value;

use super::{cap, message::Message};

/// How much text of a reply is kept: 1 MiB.
const MAX_TEXT: usize = 1 << 20;

/// A reply to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcReply {
    /// Whether it is a JSON-RPC error or has `isError: true`.
    pub declined: bool,
    /// The code of a JSON-RPC error.
    pub code: Option<i64>,
    /// All text of the content, of embedded resources, or of the error; then, as JSON,
    /// `structuredContent` that the text does not repeat, or the error's structured data. Of a reply that is not whole: the line, or its head and tail,
    /// as it came. At most 1 MiB.
    pub text: String,
    /// The result; `None` when there is none and when the reply is not whole.
    pub result: Option<Value>,
    /// Whether the line was kept and could be parsed.
    pub whole: bool,
    /// What the reply does wrong, as in `has both result and error`.
    pub malformed: Option<String>,
}

impl RpcReply {
    /// `call` says whether the reply should be the result of a tool.
    pub(crate) fn read(message: Message, call: bool) -> Self {
        let Message { facts, value, text, whole, mut malformed, .. } = message;
        let fault = match (facts.result, facts.error) {
            (true, true) => Some("has both result and error"),
            (false, false) => Some("has neither result nor error"),
            _ if !facts.jsonrpc => Some("has no jsonrpc 2.0"),
            (false, true) if facts.code.is_none() => Some("has an error without an integer code"),
            _ => None,
        };
        malformed = malformed.or(fault.map(str::to_owned));
        let error = value.as_ref().and_then(|value| value.get("error"));
        let result = value.as_ref().and_then(|value| value.get("result"));
        if call && let Some(result) = result {
            malformed = malformed.or(fault_of_result(result).map(str::to_owned));
        }
        let said = match (error, result) {
            (Some(error), _) => error_text(error),
            (None, Some(result)) => result_text(result),
            (None, None) if whole => String::new(),
            (None, None) => text,
        };
        Self {
            declined: facts.error || facts.is_error,
            code: facts.code,
            text: cap(said, MAX_TEXT),
            result: result.cloned(),
            whole,
            malformed,
        }
    }
}

fn fault_of_result(result: &Value) -> Option<&'static str> {
    let Some(result) = result.as_object() else { return Some("has a result that is no object") };
    if result.get("isError").is_some_and(|flag| !flag.is_boolean()) {
        return Some("has an isError that is no boolean");
    }
    match result.get("content") {
        Some(Value::Array(_)) => None,
        Some(_) => Some("has a content that is no array"),
        None => Some("has no content"),
    }
}

fn error_text(error: &Value) -> String {
    let parts = [error.get("message"), error.get("data"), Some(error)];
    let mut texts: Vec<_> = parts.into_iter().flatten().filter_map(Value::as_str).collect();
    texts.dedup();
    let data = error.get("data").filter(|data| !is_empty(data) && !data.is_string());
    let data = data.map(Value::to_string);
    texts.extend(data.as_deref());
    texts.join("\n")
}

fn result_text(result: &Value) -> String {
    let mut texts = Vec::new();
    for list in ["content", "contents", "messages"] {
        match result.get(list) {
            Some(Value::Array(items)) => items.iter().for_each(|item| item_text(item, &mut texts)),
            Some(Value::String(text)) => texts.push(text.as_str()),
            _ => {}
        }
    }
    let structured = match result.get("structuredContent") {
        Some(structured) => Some(structured),
        // Results of other methods have other members.
        None if texts.is_empty() && result.get("content").is_none() => Some(result),
        None => None,
    };
    let repeats = |value: &Value, rendered: &str| {
        texts.iter().any(|text| {
            // Python writes the same value with other blanks, and wraps a bare string.
            text.contains(rendered)
                || value.as_object().is_some_and(|members| {
                    members.len() == 1 && members.get("result").is_some_and(|said| said == text)
                })
                || serde_json::from_str::<Value>(text).is_ok_and(|said| said == *value)
        })
    };
    let rendered = structured
        .filter(|value| !is_empty(value))
        .map(|value| (value, value.to_string()))
        .filter(|(value, rendered)| !repeats(value, rendered));
    if let Some((_, rendered)) = &rendered {
        texts.push(rendered);
    }
    texts.join("\n")
}

fn is_empty(value: &Value) -> bool {
    value.is_null()
        || value.as_object().is_some_and(|members| members.is_empty())
        || value.as_array().is_some_and(|items| items.is_empty())
}

fn item_text<'a>(item: &'a Value, texts: &mut Vec<&'a str>) {
    // A tool's text, an embedded resource, the text of a prompt's message.
    let places = ["/text", "/resource/text", "/content/text", "/content/resource/text"];
    texts.extend(places.iter().filter_map(|place| item.pointer(place)?.as_str()));
    if let Some(text) = item.as_str() {
        texts.push(text);
    }
    if item.get("type").and_then(Value::as_str) == Some("resource_link") {
        let members = ["uri", "name", "description"];
        texts.extend(members.iter().filter_map(|name| item.get(name)?.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::lines::{Body, Line};

    fn reply(text: &str) -> RpcReply {
        let line = Line { bytes: text.len() as u64, body: Body::Whole(text.into()) };
        RpcReply::read(Message::read(line), true)
    }

    #[test]
    fn all_text_is_gathered_in_order() {
        let reply = reply(
            r#"{"jsonrpc":"2.0","id":1,"result":{"isError":true,"structuredContent":{"a":1},"content":[
            {"type":"text","text":"one"},{"type":"image","data":"AA"},
            {"type":"resource","resource":{"uri":"x:y","text":"two"}},
            {"type":"resource_link","uri":"x:z","name":"three"},{"type":"martian"}]}}"#,
        );
        assert_eq!(reply.text, "one\ntwo\nx:z\nthree\n{\"a\":1}");
        assert!(reply.declined && reply.whole && reply.code.is_none());
        assert_eq!(reply.malformed, None);
    }

    #[test]
    fn structured_content_speaks_when_there_is_no_text() {
        let text =
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"a":1}}}"#;
        assert_eq!(reply(text).text, r#"{"a":1}"#);
        assert_eq!(reply(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#).text, "");
    }

    #[test]
    fn structured_content_beside_text_is_said_once() {
        let said = |text: &str, structured: Value| {
            let content = serde_json::json!([{"type": "text", "text": text}]);
            let result = serde_json::json!({"content": content, "structuredContent": structured});
            reply(&serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string())
                .text
        };
        let more = serde_json::json!({"a": 1});
        assert_eq!(said("done", more.clone()), "done\n{\"a\":1}");
        assert_eq!(said("it is {\"a\":1}.", more.clone()), "it is {\"a\":1}.");
        assert_eq!(said("{ \"a\": 1 }", more), "{ \"a\": 1 }");
        assert_eq!(said("done", serde_json::json!({"result": "done"})), "done");
        assert_eq!(said("done", serde_json::json!({})), "done");
        let long = said("done", serde_json::json!({"a": "x".repeat(MAX_TEXT - 200)}));
        assert!(long.ends_with("x\"}") && long.len() <= MAX_TEXT);
    }

    #[test]
    fn structured_data_of_an_error_is_part_of_what_it_says() {
        let said = |data: Value| {
            let error = serde_json::json!({"code": -32602, "message": "no", "data": data});
            reply(&serde_json::json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string()).text
        };
        assert_eq!(said(serde_json::json!({"why": "denied"})), "no\n{\"why\":\"denied\"}");
        assert_eq!(said(serde_json::json!(["denied"])), "no\n[\"denied\"]");
        assert_eq!(said(serde_json::json!({})), "no");
        assert_eq!(said(Value::Null), "no");
    }

    #[test]
    fn an_error_says_its_message_and_its_data_when_that_is_text() {
        let reply = reply(
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":"because"}}"#,
        );
        assert_eq!(
            (reply.text.as_str(), reply.code, reply.declined),
            ("no\nbecause", Some(-32602), true)
        );
        assert_eq!(reply.result, None);
    }

    #[test]
    fn what_is_wrong_with_a_reply_is_said() {
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]},"error":{"code":1}}"#,
                "has both result and error",
            ),
            (r#"{"jsonrpc":"2.0","id":1}"#, "has neither result nor error"),
            (r#"{"id":1,"result":{"content":[]}}"#, "has no jsonrpc 2.0"),
            (r#"{"jsonrpc":"2.0","id":1,"error":"boom"}"#, "has an error without an integer code"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "has no content"),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":"hello"}}"#,
                "has a content that is no array",
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":7}"#, "has a result that is no object"),
        ];
        for (text, fault) in cases {
            assert_eq!(reply(text).malformed.as_deref(), Some(fault), "{text}");
        }
        assert_eq!(reply(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).text, "");
        assert_eq!(reply(r#"{"jsonrpc":"2.0","id":1,"error":"boom"}"#).text, "boom");
        assert_eq!(reply(r#"{"jsonrpc":"2.0","id":1,"result":{"content":"hello"}}"#).text, "hello");
    }
}
