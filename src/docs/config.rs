//! The page of the configuration's keys, from its JSON Schema, and of its limits.

use serde_json::{Map, Value};
use std::fmt::Write as _;

use super::{WRITTEN, cell, code};
use crate::config::{Limits, json_schema};

/// The deepest nesting of keys that is followed; a schema that refers to itself ends here.
const DEEPEST: usize = 8;

/// `docs/config.md`.
pub(super) fn page() -> String {
    let schema = json_schema();
    let mut text = format!(
        "# Keys of `sealmark.yaml`\n\n{WRITTEN}\n\
         How to write one: [configuration](configuration.md). The schema for editors:\n\
         [schema/config.json](schema/config.json), or `sealmark schema config`. An unknown key is \
         an error.\n\n| key | type | default | |\n|---|---|---|---|\n"
    );
    rows(&schema, &schema, "", 0, &mut text);
    text += "\n## Limits and times\n\nAll of them are locked: another value makes the run CUSTOM. \
             Times are in seconds, sizes in bytes.\n\n| key | standard | |\n|---|---|---|\n";
    for row in Limits::default().rows() {
        let _ = writeln!(text, "| `{}` | {} | {} |", row.key, row.standard, cell(row.what));
    }
    text
}

fn rows(root: &Value, node: &Value, prefix: &str, depth: usize, text: &mut String) {
    let node = resolved(root, node);
    for (name, property) in properties(node) {
        // They have a table of their own.
        if depth == 0 && (name == "limits" || name == "timeouts") {
            continue;
        }
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let target = resolved(root, property);
        let says = |key: &str| property.get(key).or_else(|| target.get(key));
        let default = says("default").map(|value| code(&value.to_string().replace('"', "")));
        let _ = writeln!(
            text,
            "| `{key}` | {} | {} | {} |",
            cell(&type_of(root, property)),
            default.unwrap_or_default(),
            cell(says("description").and_then(Value::as_str).unwrap_or_default()),
        );
        if depth < DEEPEST {
            inner(root, target, &key, depth + 1, text);
        }
    }
}

/// The keys below a value: its own, those of a list's items, those of a map's values.
fn inner(root: &Value, node: &Value, key: &str, depth: usize, text: &mut String) {
    if let Some(items) = node.get("items") {
        rows(root, items, &format!("{key}[]"), depth, text);
    } else if let Some(values) = node.get("additionalProperties").filter(|v| v.is_object()) {
        rows(root, values, &format!("{key}.<name>"), depth, text);
    } else {
        rows(root, node, key, depth, text);
    }
}

fn properties(node: &Value) -> impl Iterator<Item = (&String, &Value)> {
    node.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Follows `$ref` and takes the one member of `anyOf` that is not null.
fn resolved<'a>(root: &'a Value, node: &'a Value) -> &'a Value {
    let mut node = node;
    for _ in 0..DEEPEST {
        let reference = node.get("$ref").and_then(Value::as_str);
        let next = match reference.and_then(|text| text.strip_prefix('#')) {
            Some(pointer) => root.pointer(pointer),
            None => node
                .get("anyOf")
                .and_then(Value::as_array)
                .and_then(|any| any.iter().find(|one| one["type"] != "null")),
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    node
}

fn type_of(root: &Value, node: &Value) -> String {
    let node = resolved(root, node);
    let constants = |one: &Value| one.get("const").or_else(|| one.get("enum")?.get(0)).cloned();
    let named: Vec<Value> = match (node.get("enum"), node.get("oneOf")) {
        (Some(Value::Array(values)), _) => values.clone(),
        (_, Some(Value::Array(values))) => values.iter().filter_map(constants).collect(),
        _ => Vec::new(),
    };
    if !named.is_empty() {
        let named = named.iter().filter(|value| !value.is_null());
        let named: Vec<String> = named.map(|value| value.to_string().replace('"', "")).collect();
        return named.join(", ");
    }
    let types: Vec<&str> = match node.get("type") {
        Some(Value::String(word)) => vec![word],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let types = types.into_iter().filter(|word| *word != "null").map(|word| match word {
        "object" if node.get("additionalProperties").is_some_and(Value::is_object) => {
            "map".to_owned()
        }
        "array" => match node.get("items").map(|items| type_of(root, items)) {
            Some(items) => format!("list of {items}"),
            None => "list".to_owned(),
        },
        "string" => node.get("format").and_then(Value::as_str).unwrap_or("text").to_owned(),
        other => other.to_owned(),
    });
    types.collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_first_level_has_a_row_and_nothing_is_without_words() {
        let page = page();
        let schema = json_schema();
        for (name, _) in
            properties(&schema).filter(|(name, _)| *name != "limits" && *name != "timeouts")
        {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
        for row in page.lines().filter(|line| line.starts_with("| `")) {
            assert!(!row.ends_with("|  |"), "{row}");
        }
        assert!(page.contains("| `server.command` | text |"), "{page}");
        assert!(page.contains("| `tools.<name>.class` | sql, fetch,"), "{page}");
    }
}
