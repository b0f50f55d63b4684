//! Collects every text a JSON Schema carries to the model, with its place.

use serde_json::Value;

/// Nested subschemas that are read; one takes up to three levels of JSON (`properties`, the name,
/// the schema).
const SCHEMA_DEPTH: usize = 8;
/// JSON values that are visited.
const NODES: usize = 5_000;

/// Keywords of JSON Schema 2020-12 and of draft 7: names the schema's author did not choose.
const KEYWORDS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minContains",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

/// Every string of `schema` and every name that is no keyword, each with a JSON-pointer-like place
/// (`/properties/path/description`; a name's place ends in `#name`).
///
/// Names have their separators turned to spaces. `$ref` is never followed: what a local reference
/// points at is in the same document and read there once, so cycles cannot arise, and nothing is
/// fetched. Anything below eight nested subschemas or past 5,000 values is left unread.
pub fn schema_texts(schema: &Value) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let mut nodes = NODES;
    collect(schema, "", false, SCHEMA_DEPTH * 3, &mut nodes, &mut texts);
    texts
}

fn collect(
    value: &Value,
    place: &str,
    names_below: bool,
    depth: usize,
    nodes: &mut usize,
    texts: &mut Vec<(String, String)>,
) {
    let Some(left) = nodes.checked_sub(1) else { return };
    *nodes = left;
    match value {
        Value::String(text) if !text.is_empty() => texts.push((place.to_owned(), text.clone())),
        Value::Array(items) if depth > 0 => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{place}/{index}"), false, depth - 1, nodes, texts);
            }
        }
        Value::Object(members) if depth > 0 => {
            for (name, member) in members {
                let below = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
                let chosen = names_below || !KEYWORDS.contains(&name.as_str());
                if chosen && !name.is_empty() && *nodes > 0 {
                    texts.push((format!("{below}#name"), name_text(name)));
                }
                let holds_names = !names_below
                    && matches!(
                        name.as_str(),
                        "properties"
                            | "patternProperties"
                            | "$defs"
                            | "definitions"
                            | "dependentSchemas"
                    );
                collect(member, &below, holds_names, depth - 1, nodes, texts);
            }
        }
        _ => {}
    }
}

/// A name as words: separators and the borders of camelCase become spaces (`ignoreAll_rules` is
/// `ignore All rules`).
pub fn name_text(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 8);
    let mut before_is_lower = false;
    for c in name.chars() {
        if before_is_lower && c.is_uppercase() {
            words.push(' ');
        }
        before_is_lower = c.is_lowercase() || c.is_ascii_digit();
        words.push(if matches!(c, '_' | '-' | '.' | '/' | ':' | '+') { ' ' } else { c });
    }
    words
}
