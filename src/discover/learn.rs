//! Schemas without properties: the names of arguments learnt from the validation error of a call
//! with `{}`. Only tools whose name says that they read or list are asked.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::words;
use crate::surface::Tool;

/// Whether the tool's schema says nothing and its name says that it reads or lists.
pub fn learnable(tool: &Tool) -> bool {
    let silent =
        tool.properties().is_none_or(Map::is_empty) && tool.input_schema().get("type").is_none();
    let verb = words::segments(&tool.name);
    let reads = ["read", "list", "search", "tree", "get", "info", "stat", "view", "find"];
    let writes =
        ["write", "delete", "move", "create", "edit", "remove", "update", "set", "run", "exec"];
    silent
        && verb.iter().any(|segment| reads.contains(&segment.as_str()))
        && !verb.iter().any(|segment| writes.contains(&segment.as_str()))
}

/// A schema made of the argument names that a validation error names as missing.
pub fn schema_from_error(text: &str) -> Option<Value> {
    /// zod issues: `"expected": "array", ... "path": ["paths"]`, in either order.
    static ZOD: LazyLock<Regex> = LazyLock::new(|| regex(r#"\{[^{}]{0,400}\}"#));
    static ZOD_PATH: LazyLock<Regex> =
        LazyLock::new(|| regex(r#""path"\s*:\s*\[\s*"([A-Za-z_][A-Za-z0-9_]{0,40})"\s*\]"#));
    static ZOD_TYPE: LazyLock<Regex> =
        LazyLock::new(|| regex(r#""expected"\s*:\s*"([a-z]{1,12})""#));
    /// pydantic, jsonschema and plain sentences.
    static OTHERS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        vec![
            regex(r"(?m)^([A-Za-z_][A-Za-z0-9_]{0,40})\n\s+Field required"),
            regex(r"'([A-Za-z_][A-Za-z0-9_]{0,40})' is a required property"),
            regex(
                r#"(?i)missing (?:required )?(?:argument|parameter|property|field)s?:? ["'`]?([A-Za-z_][A-Za-z0-9_]{0,40})"#,
            ),
            regex(r"received undefined at ([A-Za-z_][A-Za-z0-9_]{0,40})"),
        ]
    });
    let head: String = text.chars().take(16_384).collect();
    let mut properties = Map::new();
    for issue in ZOD.find_iter(&head).take(50) {
        let Some(name) = ZOD_PATH.captures(issue.as_str()) else { continue };
        let kind = ZOD_TYPE.captures(issue.as_str()).map_or("string".into(), |c| c[1].to_owned());
        let schema = match kind.as_str() {
            "array" => json!({"type": "array", "items": {"type": "string"}}),
            other => json!({ "type": other }),
        };
        properties.insert(name[1].to_owned(), schema);
    }
    for other in OTHERS.iter() {
        for name in other.captures_iter(&head).take(50) {
            properties.entry(name[1].to_owned()).or_insert(json!({"type": "string"}));
        }
    }
    let required: Vec<&String> = properties.keys().collect();
    (!properties.is_empty())
        .then(|| json!({"type": "object", "required": required, "properties": properties}))
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant that a test compiles")
}
