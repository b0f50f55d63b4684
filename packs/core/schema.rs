//! Whether an input schema is an object schema that compiles.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::arguments::local;

/// The type names of JSON Schema 2020-12, 6.1.1.
const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
/// Nodes beyond this many, and levels beyond this depth, are not looked at.
const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 64;
/// Faults beyond this many are not kept.
const MAX_FAULTS: usize = 8;

/// What is wrong with an input schema, each as `place: words`; empty when it compiles. References
/// to other documents are never followed.
pub(super) fn faults(schema: &Value) -> Vec<String> {
    let mut walk = Walk { root: schema, faults: Vec::new(), nodes: 0 };
    match schema.as_object() {
        None => walk.fault("", "is no object schema"),
        Some(members) => {
            // MCP: the root of an input schema has type "object", not a list that contains it.
            if members.get("type").and_then(Value::as_str) != Some("object") {
                walk.fault("", "does not have type object");
            }
            walk.node(schema, "", true, 0);
        }
    }
    walk.faults
}

struct Walk<'a> {
    root: &'a Value,
    faults: Vec<String>,
    nodes: usize,
}

impl Walk<'_> {
    fn fault(&mut self, place: &str, words: &str) {
        if self.faults.len() < MAX_FAULTS {
            let place = if place.is_empty() { "the schema" } else { place };
            self.faults.push(super::shown(&format!("{place}: {words}")));
        }
    }

    /// One schema. `whole` is false below allOf and its like, where `required` may name what a
    /// neighbour declares.
    fn node(&mut self, schema: &Value, place: &str, whole: bool, depth: usize) {
        self.nodes += 1;
        if self.nodes > MAX_NODES || depth > MAX_DEPTH {
            return;
        }
        let members = match schema {
            Value::Bool(_) => return,
            Value::Object(members) => members,
            _ => return self.fault(place, "is neither an object nor a boolean"),
        };
        self.own(members, place, whole);
        for (key, value) in members {
            let place = format!("{place}/{key}");
            match key.as_str() {
                "properties" | "patternProperties" | "$defs" | "definitions" => match value {
                    Value::Object(named) => {
                        for (name, schema) in named {
                            self.node(schema, &format!("{place}/{name}"), true, depth + 1);
                        }
                    }
                    _ => self.fault(&place, "is no object"),
                },
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => match value {
                    Value::Array(schemas) => {
                        for schema in schemas {
                            self.node(schema, &place, key == "prefixItems", depth + 1);
                        }
                    }
                    _ => self.fault(&place, "is no list"),
                },
                // Before 2020-12 a list of schemas was allowed here.
                "items" if value.is_array() => {}
                "items" | "additionalProperties" | "contains" | "propertyNames" => {
                    self.node(value, &place, true, depth + 1);
                }
                "not" | "if" | "then" | "else" => self.node(value, &place, false, depth + 1),
                _ => {}
            }
        }
    }

    /// The keywords of one schema that hold no schema.
    fn own(&mut self, members: &Map<String, Value>, place: &str, whole: bool) {
        let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
        match members.get("type") {
            None => {}
            Some(Value::Array(names)) if !names.is_empty() && names.iter().all(known) => {}
            Some(name) if known(name) => {}
            Some(_) => self.fault(place, "has an unknown type"),
        }
        self.required(members, place, whole);
        if members.get("enum").is_some_and(|values| !values.is_array()) {
            self.fault(place, "has an enum that is no list");
        }
        for key in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"] {
            // Draft 4 had boolean exclusive bounds; generators still write them.
            let fits = |value: &Value| {
                value.is_number() || (key.starts_with("exclusive") && value.is_boolean())
            };
            if members.get(key).is_some_and(|value| !fits(value)) {
                self.fault(place, &format!("has a {key} that is no number"));
            }
        }
        for key in ["minLength", "maxLength", "minItems", "maxItems"] {
            let fits = |value: &Value| value.as_f64().is_some_and(|n| n >= 0.0 && n.fract() == 0.0);
            if members.get(key).is_some_and(|value| !fits(value)) {
                self.fault(place, &format!("has a {key} that is no count"));
            }
        }
        match members.get("pattern") {
            None => {}
            Some(Value::String(pattern)) if is_balanced(pattern) => {}
            Some(_) => self.fault(place, "has a pattern that does not compile"),
        }
        match members.get("$ref") {
            None => {}
            Some(Value::String(to)) if to.starts_with('#') => {
                // Without a slash it is an anchor, which may stand anywhere.
                let anchor = to.len() > 1 && !to.starts_with("#/");
                if !anchor && local(self.root, to).is_none() {
                    self.fault(place, "has a reference to nothing");
                }
            }
            Some(_) => self.fault(place, "has a reference to another document"),
        }
    }

    fn required(&mut self, members: &Map<String, Value>, place: &str, whole: bool) {
        // Draft 3 had a boolean here, which every later draft refuses.
        let names = match members.get("required") {
            None => return,
            Some(Value::Array(names)) => names,
            Some(_) => return self.fault(place, "has a required that is no list"),
        };
        let texts: BTreeSet<&str> = names.iter().filter_map(Value::as_str).collect();
        if texts.len() != names.len() {
            self.fault(place, "has a required that is no list of different names");
        }
        let properties = members.get("properties").and_then(Value::as_object);
        let elsewhere = ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"]
            .iter()
            .any(|key| members.contains_key(*key));
        if let Some(properties) = properties.filter(|_| whole && !elsewhere) {
            let absent = |name: &&&str| !properties.contains_key(**name);
            if texts.iter().any(|name| absent(&name)) {
                self.fault(place, "requires an argument it does not declare");
            }
        }
    }
}

/// Whether the groups and classes of a regular expression are closed. Dialects differ in the rest.
fn is_balanced(pattern: &str) -> bool {
    let (mut open, mut class, mut escaped) = (0_usize, false, false);
    for c in pattern.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' if class => class = false,
            _ if class => {}
            '[' => class = true,
            '(' => open += 1,
            ')' => match open.checked_sub(1) {
                Some(left) => open = left,
                None => return false,
            },
            _ => {}
        }
    }
    open == 0 && !class && !escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_generators_write_compiles() {
        for schema in [
            json!({"type": "object"}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                "properties": {"a": {"type": ["string", "null"], "pattern": "^(?!x)[^\\]()]+$"},
                "b": {"$ref": "#/$defs/b"}, "c": true, "d": {"items": [{"type": "string"}]}},
                "$defs": {"b": {"enum": [1, "x"], "exclusiveMinimum": true, "maxItems": 2.0}},
                "required": ["a"], "additionalProperties": false}),
            json!({"type": "object", "properties": {"a": {}},
                "anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {}}]}),
        ] {
            assert_eq!(faults(&schema), Vec::<String>::new(), "{schema}");
        }
    }

    #[test]
    fn what_does_not_compile_is_named() {
        for (schema, words) in [
            (json!(null), "is no object schema"),
            (json!({}), "does not have type object"),
            (json!({"type": ["object"]}), "does not have type object"),
            (with(json!({"type": "text"})), "unknown type"),
            (with(json!({"enum": "x"})), "enum"),
            (with(json!({"minimum": "1"})), "minimum"),
            (with(json!({"maxLength": -1})), "maxLength"),
            (with(json!({"pattern": "(["})), "pattern"),
            (with(json!({"pattern": "a)"})), "pattern"),
            (with(json!({"$ref": "#/$defs/none"})), "reference to nothing"),
            (with(json!({"$ref": "https://example.com/s"})), "another document"),
            (with(json!(7)), "neither an object"),
            (json!({"type": "object", "required": "a"}), "required"),
            (json!({"type": "object", "required": ["a", "a"]}), "different names"),
            (json!({"type": "object", "required": ["b"], "properties": {}}), "does not declare"),
            (json!({"type": "object", "properties": []}), "is no object"),
        ] {
            let found = faults(&schema);
            assert!(found.iter().any(|fault| fault.contains(words)), "{schema}: {found:?}");
        }
    }

    #[test]
    fn depth_and_number_of_faults_are_bounded() {
        let mut deep = json!({"type": "none"});
        for _ in 0..100 {
            deep = json!({"not": deep});
        }
        assert!(faults(&with(deep)).is_empty());
        let many: Map<_, _> = (0..99).map(|n| (n.to_string(), json!(7))).collect();
        assert_eq!(faults(&json!({"type": "object", "properties": many})).len(), MAX_FAULTS);
    }

    fn with(property: Value) -> Value {
        json!({"type": "object", "properties": {"a": property}})
    }
}
