//! Arguments of a schema, the roles they play, and the values that may be filled in.

use serde_json::{Map, Value};

use super::words::folded;
use crate::{
    classes::{CLASSES, Operation},
    surface::{Slot, Step},
};

/// How deep nested objects are looked into.
const DEPTH: usize = 3;
/// How many arguments of one tool are looked at.
const MOST: usize = 200;

/// A place in the arguments that takes a string.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    /// Its own name, folded.
    pub(super) name: String,
    /// The way to it.
    way: Vec<Step>,
    /// Whether it is the item of an array of strings.
    array: bool,
}

/// Every place that takes a string, outer ones first.
pub(super) fn of(schema: &Value) -> Vec<Argument> {
    let mut found = Vec::new();
    walk(schema, schema, &mut Vec::new(), DEPTH, &mut found);
    found.sort_by_key(|argument| argument.way.len());
    found
}

fn walk(
    root: &Value,
    schema: &Value,
    way: &mut Vec<Step>,
    depth: usize,
    found: &mut Vec<Argument>,
) {
    let Some(properties) = resolve(root, schema).get("properties").and_then(Value::as_object)
    else {
        return;
    };
    for (name, property) in properties {
        if found.len() >= MOST || depth == 0 {
            return;
        }
        let property = resolve(root, property);
        way.push(Step::Key(name.clone()));
        if is(property, "object") && property.get("properties").is_some() {
            walk(root, property, way, depth - 1, found);
        } else if is(property, "array") {
            way.push(Step::First);
            let item = resolve(root, property.get("items").unwrap_or(&Value::Null));
            if item.get("properties").is_some() {
                walk(root, item, way, depth - 1, found);
            } else if item.is_null() || is(item, "string") {
                found.push(Argument { name: folded(name), way: way.clone(), array: true });
            }
            way.pop();
        } else if is(property, "string") || untyped(property) {
            found.push(Argument { name: folded(name), way: way.clone(), array: false });
        }
        way.pop();
    }
}

/// Whether a schema allows the type: `type` is it, a list with it, or a branch of a union allows
/// it.
pub(super) fn is(schema: &Value, kind: &str) -> bool {
    let by_type = match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(list)) => list.iter().any(|one| one == kind),
        _ => false,
    };
    by_type
        || ["anyOf", "oneOf"].iter().any(|union| {
            let branches = schema.get(*union).and_then(Value::as_array);
            branches.is_some_and(|list| list.iter().take(8).any(|branch| is_flat(branch, kind)))
        })
}

fn is_flat(schema: &Value, kind: &str) -> bool {
    schema.get("type").is_some_and(|found| found == kind)
}

fn untyped(schema: &Value) -> bool {
    ["type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"]
        .iter()
        .all(|key| schema.get(*key).is_none())
}

/// Follows one local `$ref`. Remote ones are never fetched.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return schema };
    reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

/// A slot for every role of the operation, or `None` when one is missing.
pub(super) fn slots(operation: &Operation, arguments: &[Argument]) -> Option<Vec<Slot>> {
    let mut slots: Vec<Slot> = Vec::new();
    for role in &operation.roles {
        let names = CLASSES.roles.get(role)?;
        let taken = |argument: &Argument| slots.iter().any(|slot| slot.way == argument.way);
        // The order of the names is the order of preference: `oldText` before `search`.
        let find = |array: bool| {
            names.iter().find_map(|name| {
                arguments.iter().find(|argument| {
                    argument.name == *name && argument.array == array && !taken(argument)
                })
            })
        };
        let best = match operation.array && role == "path" {
            true => find(true)?,
            false => find(false).or_else(|| find(true))?,
        };
        slots.push(Slot { role: role.clone(), way: best.way.clone() });
    }
    Some(slots)
}

/// Values of required arguments that are no slots: given ones, const, default, a one-value enum.
///
/// # Errors
/// The name of the first required argument without such a value.
pub(super) fn fill(
    schema: &Value,
    slots: &[Slot],
    given: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let mut filled = given;
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str).take(MOST) {
        let own = |slot: &&Slot| slot.way.first() == Some(&Step::Key(name.into()));
        if let Some(slot) = slots.iter().find(own) {
            let inner = &schema["properties"][name];
            inner_fill(schema, inner, slot, slots).map_err(|inner| format!("{name}.{inner}"))?;
            continue;
        }
        if filled.contains_key(name) {
            continue;
        }
        let property = resolve(schema, &schema["properties"][name]);
        filled.insert(name.into(), safe_value(property).ok_or_else(|| name.to_owned())?);
    }
    Ok(filled)
}

/// Refuses a nested object that requires what no slot fills.
fn inner_fill(root: &Value, schema: &Value, slot: &Slot, slots: &[Slot]) -> Result<(), String> {
    if slot.way.len() < 2 {
        return Ok(());
    }
    let mut inner = resolve(root, schema);
    let mut depth = 1;
    if slot.way.get(depth) == Some(&Step::First) {
        inner = resolve(root, inner.get("items").unwrap_or(&Value::Null));
        depth += 1;
    }
    let required = inner.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let filled = slots.iter().any(|slot| slot.way.get(depth) == Some(&Step::Key(name.into())));
        if !filled {
            return Err(name.to_owned());
        }
    }
    Ok(())
}

/// The value a schema itself names: const, default, or the only member of an enum.
pub(super) fn safe_value(schema: &Value) -> Option<Value> {
    if let Some(value) = schema.get("const").or_else(|| schema.get("default")) {
        return Some(value.clone());
    }
    match schema.get("enum").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => Some(only.clone()),
        _ => None,
    }
}
