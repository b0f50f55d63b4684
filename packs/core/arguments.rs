//! What a tool's input schema lets the harness build: arguments that must work, and arguments that
//! the schema forbids.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{
    stage::Stage,
    surface::{Placement, Tool},
};

/// How many tools are judged (methodology 11).
pub(super) const MAX_TOOLS: usize = 25;

/// A word that is no object and no array.
const WORD: &str = "sm-word";

/// How many `$ref` and `anyOf` steps are followed.
const MAX_STEPS: usize = 16;

/// What a tool may be sent.
pub(super) struct Callable {
    /// Arguments of a call that should work; `None` when none is known.
    pub(super) control: Option<Map<String, Value>>,
    /// Names of arguments that take any text.
    pub(super) texts: Vec<String>,
    /// Arguments to set beside a text under test; `None` when no valid call may be made.
    pub(super) beside: Option<Map<String, Value>>,
}

impl Callable {
    /// Whether valid calls may be made at all.
    pub(super) fn is_safe(&self) -> bool {
        self.beside.is_some()
    }
}

/// Works out what a tool may be sent. Valid calls go to tools with a confirmed reading, listing or
/// writing placement and to tools that declare `readOnlyHint: true`, to no others.
pub(super) fn callable(stage: &dyn Stage, tool: &Tool) -> Callable {
    let placements = stage.placements();
    let confirmed =
        placements.iter().find(|placed| placed.tool == tool.name && { placed.is_confirmed() });
    let placed = confirmed.and_then(|placement| placed_arguments(stage, tool, placement));
    if let Some(arguments) = placed {
        let texts = text_names(tool);
        return Callable { control: Some(arguments.clone()), texts, beside: Some(arguments) };
    }
    if tool.hint("readOnlyHint") != Some(true) || !tool.input_schema().is_object() {
        return Callable { control: None, texts: Vec::new(), beside: None };
    }
    let texts = text_names(tool);
    let mut known = Map::new();
    let mut open = false;
    for name in tool.required() {
        match fixed(property(tool, name)) {
            Some(value) => drop(known.insert(name.into(), value)),
            // A text under test fills every such argument; for a control there is nothing to say.
            None if texts.iter().any(|text| text == name) => open = true,
            None => return Callable { control: None, texts: Vec::new(), beside: None },
        }
    }
    Callable { control: (!open).then(|| known.clone()), texts, beside: Some(known) }
}

/// Arguments of a valid call of a placed tool; `None` for operations that take something away, or
/// when a required argument stays open.
fn placed_arguments(
    stage: &dyn Stage,
    tool: &Tool,
    placement: &Placement,
) -> Option<Map<String, Value>> {
    let path = match placement.operation.as_str() {
        "read" | "multi-read" | "stat" => stage.expand(&placement.inside("ok.txt")),
        "list" | "tree" | "search" => stage.expand(&placement.inside("")),
        "write" => stage.expand(&placement.inside("sm-core.txt")),
        "sql" => String::new(),
        _ => return None,
    };
    let arguments = placement.arguments(&[
        ("path", &path),
        ("content", "sm"),
        ("pattern", "ok.txt"),
        ("sql", "SELECT 1 AS n"),
    ]);
    let Value::Object(arguments) = arguments else { return None };
    tool.required().iter().all(|name| arguments.contains_key(*name)).then_some(arguments)
}

/// The schema of that argument.
pub(super) fn property<'a>(tool: &'a Tool, name: &str) -> &'a Value {
    tool.properties().and_then(|properties| properties.get(name)).unwrap_or(&Value::Null)
}

/// The value a schema fixes by const, a one-value enum or a default that names no other machine.
fn fixed(schema: &Value) -> Option<Value> {
    if let Some(value) = schema.get("const") {
        return Some(value.clone());
    }
    if let Some([value]) = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice) {
        return Some(value.clone());
    }
    let default = schema.get("default")?;
    (!default.is_null() && !names_a_host(default)).then(|| default.clone())
}

/// Whether a default looks like a URL or a host: calling with it would send traffic elsewhere.
fn names_a_host(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let dotted = text.split(['/', ':']).next().is_some_and(|head| {
                head.contains('.') && head.split('.').all(|label| !label.is_empty())
            });
            text.contains("://") || text.contains('@') || dotted || text == "localhost"
        }
        Value::Array(items) => items.iter().any(names_a_host),
        Value::Object(members) => members.values().any(names_a_host),
        _ => false,
    }
}

/// Names of arguments that take any text: type string, without enum, const, pattern or format.
fn text_names(tool: &Tool) -> Vec<String> {
    let Some(properties) = tool.properties() else { return Vec::new() };
    let free = |schema: &Value| {
        types(tool.input_schema(), schema).is_some_and(|types| types.contains("string"))
            && ["enum", "const", "pattern", "format"].iter().all(|key| schema.get(key).is_none())
    };
    properties.iter().filter(|(_, schema)| free(schema)).map(|(name, _)| name.clone()).collect()
}

/// The JSON types a schema allows; `None` when it does not say.
pub(super) fn types<'a>(root: &'a Value, schema: &'a Value) -> Option<BTreeSet<&'a str>> {
    types_within(root, schema, MAX_STEPS)
}

fn types_within<'a>(root: &'a Value, schema: &'a Value, steps: usize) -> Option<BTreeSet<&'a str>> {
    let steps = steps.checked_sub(1)?;
    match schema.get("type") {
        Some(Value::String(one)) => return Some(BTreeSet::from([one.as_str()])),
        Some(Value::Array(many)) => return many.iter().map(Value::as_str).collect(),
        _ => {}
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(key).and_then(Value::as_array) {
            let mut all = BTreeSet::new();
            for branch in branches {
                all.extend(types_within(root, branch, steps)?);
            }
            return Some(all);
        }
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return types_within(root, local(root, target)?, steps);
    }
    let values = schema.get("enum").and_then(Value::as_array);
    values.map(|values| values.iter().map(type_of).collect())
}

/// The target of a reference within the same document.
pub(super) fn local<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value of a type that this argument does not allow and no coercion turns into it: an object for
/// a scalar, a bare word for an object or an array.
pub(super) fn wrong_type(tool: &Tool, name: &str) -> Option<Value> {
    let allowed = types(tool.input_schema(), property(tool, name))?;
    let allows = |type_name: &str| allowed.contains(type_name);
    let scalar = ["string", "number", "integer", "boolean"].iter().any(|name| allows(name));
    match (scalar, allows("object"), allows("array")) {
        (true, false, false) => Some(json!({ "sm": "x" })),
        (false, true, _) | (false, _, true) => Some(json!(WORD)),
        _ => None,
    }
}

/// Arguments in which every required argument, or every typed one where none is required, has a
/// wrong type; `None` when the schema forbids no value of any.
pub(super) fn all_wrong(tool: &Tool) -> Option<Map<String, Value>> {
    let mut names = tool.required();
    if names.is_empty() {
        names = tool.properties()?.keys().map(String::as_str).collect();
    }
    let wrong = |name: &str| Some((name.to_owned(), wrong_type(tool, name)?));
    let arguments: Map<_, _> = names.into_iter().filter_map(wrong).collect();
    (!arguments.is_empty()).then_some(arguments)
}

/// Whether a call without arguments breaks the schema. A required argument with a default may be
/// left out.
pub(super) fn empty_is_forbidden(tool: &Tool) -> bool {
    tool.required().iter().any(|name| property(tool, name).get("default").is_none())
}

/// Values just outside the bounds an argument declares. `number` inside the bounds asks for work
/// and is never built.
pub(super) fn out_of_bounds(schema: &Value) -> Vec<(&'static str, Value)> {
    /// Texts longer than this are not sent (methodology 11).
    const LONGEST: u64 = 64 * 1024;
    let mut outside = Vec::new();
    let bounds = [
        ("minimum", -1.0, "below-minimum"),
        ("maximum", 1.0, "above-maximum"),
        ("exclusiveMinimum", 0.0, "at-exclusive-minimum"),
        ("exclusiveMaximum", 0.0, "at-exclusive-maximum"),
    ];
    for (key, step, id) in bounds {
        let Some(bound) = schema.get(key).filter(|bound| bound.is_number()) else { continue };
        if let Some(value) = stepped(bound, step) {
            outside.push((id, value));
        }
    }
    let longest = schema.get("maxLength").and_then(Value::as_u64);
    if let Some(length) = longest.filter(|length| *length < LONGEST) {
        let length = usize::try_from(length + 1).unwrap_or(usize::MAX);
        outside.push(("above-max-length", Value::from("a".repeat(length))));
    }
    outside
}

/// The bound moved by a whole step; `None` where a float cannot tell the two apart.
fn stepped(bound: &Value, step: f64) -> Option<Value> {
    if let Some(whole) = bound.as_i64() {
        // Whole numbers stay whole: a schema of type integer refuses 3.0 in some languages.
        return whole.checked_add(step as i64).map(Value::from);
    }
    let bound = bound.as_f64()?;
    let moved = bound + step;
    (step == 0.0 || moved != bound).then(|| Value::from(moved))
}

/// Whether the number lies outside the bounds an argument of type number or integer declares.
pub(super) fn forbids_number(tool: &Tool, name: &str, number: f64) -> bool {
    let schema = property(tool, name);
    let numeric = types(tool.input_schema(), schema).is_some_and(|types| {
        !types.is_empty() && types.iter().all(|name| ["number", "integer", "null"].contains(name))
    });
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    numeric
        && (bound("minimum").is_some_and(|least| number < least)
            || bound("maximum").is_some_and(|most| number > most)
            || bound("exclusiveMinimum").is_some_and(|least| number <= least)
            || bound("exclusiveMaximum").is_some_and(|most| number >= most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Canned, FakeStage, confirmed_read, reading_tool, surface, tool};

    fn stage() -> FakeStage {
        FakeStage::new("robust-input", surface([]), |_, _| Canned::failed())
    }

    #[test]
    fn a_tool_that_promises_nothing_gets_no_valid_call() {
        let plain = tool("drop", json!({"type": "object", "properties": {}}));
        assert!(!callable(&stage(), &plain).is_safe());
    }

    #[test]
    fn a_default_that_names_a_host_is_never_used() {
        let schema = |default: &str| {
            json!({"type": "object", "required": ["at"],
                "properties": {"at": {"type": "number", "default": default}}})
        };
        for host in ["https://example.com/x", "db.internal:5432", "localhost", "a@b"] {
            let found = callable(&stage(), &reading_tool("get", schema(host)));
            assert!(found.control.is_none() && !found.is_safe(), "{host}");
        }
        assert!(callable(&stage(), &reading_tool("get", schema("utc"))).control.is_some());
    }

    #[test]
    fn an_open_text_can_be_probed_but_is_no_control() {
        let schema = json!({"type": "object", "required": ["q"],
            "properties": {"q": {"type": "string"}}});
        let found = callable(&stage(), &reading_tool("find", schema));
        assert!(found.control.is_none() && found.is_safe());
        assert_eq!(found.texts, ["q"]);
    }

    #[test]
    fn a_confirmed_reader_reads_the_control_file() {
        let stage = stage().placed([confirmed_read("cat")]);
        let schema = json!({"type": "object", "required": ["path"],
            "properties": {"path": {"type": "string"}}});
        let found = callable(&stage, &tool("cat", schema));
        assert_eq!(found.control.expect("a control")["path"], "/lane/docs/ok.txt");
    }

    #[test]
    fn what_coercion_could_turn_right_is_never_sent_as_wrong() {
        let schema = json!({"type": "object", "$defs": {"n": {"type": "integer"}}, "properties": {
            "text": {"type": "string"}, "list": {"type": "array"}, "free": {},
            "either": {"type": ["string", "object"]}, "maybe": {"anyOf": [{"$ref": "#/$defs/n"},
            {"type": "null"}]}, "loop": {"$ref": "#/properties/loop"}}});
        let tool = tool("t", schema);
        assert_eq!(wrong_type(&tool, "text"), Some(json!({"sm": "x"})));
        assert_eq!(wrong_type(&tool, "list"), Some(json!(WORD)));
        assert_eq!(wrong_type(&tool, "maybe"), Some(json!({"sm": "x"})));
        for open in ["free", "either", "loop", "absent"] {
            assert_eq!(wrong_type(&tool, open), None, "{open}");
        }
    }

    #[test]
    fn values_stand_just_outside_the_bounds() {
        let schema = json!({"minimum": 1, "exclusiveMaximum": 10, "maxLength": 2});
        assert_eq!(
            out_of_bounds(&schema),
            [
                ("below-minimum", json!(0)),
                ("at-exclusive-maximum", json!(10)),
                ("above-max-length", json!("aaa")),
            ]
        );
        assert!(out_of_bounds(&json!({"maximum": 1e300, "maxLength": 65536})).is_empty());
        assert!(out_of_bounds(&json!({"minimum": i64::MIN})).is_empty());
    }

    #[test]
    fn numbers_inside_the_bounds_are_no_probe() {
        let schema = json!({"type": "object", "properties":
            {"n": {"type": "integer", "minimum": 0, "maximum": 100}, "m": {"type": "integer"}}});
        let tool = tool("t", schema);
        assert!(forbids_number(&tool, "n", 2f64.powi(53) + 2.0));
        assert!(!forbids_number(&tool, "n", 50.0));
        assert!(!forbids_number(&tool, "m", 2f64.powi(53)));
    }
}
