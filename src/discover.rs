//! Places each listed tool by the published words: argument names first, then the name, then the
//! description. Pure: what a placement is worth is decided by its control.

mod arguments;
mod learn;
mod words;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use learn::{learnable, schema_from_error};

use crate::{
    classes::{CLASSES, Operation},
    surface::{Confirmed, Placement, Slot, Step, Surface, Tool},
};

/// What the configuration says of one tool.
#[derive(Clone, Debug, Default)]
pub struct Override {
    /// The class it is to be placed in, instead of the one found.
    pub class: Option<String>,
    /// Values of other required arguments.
    pub arguments: Map<String, Value>,
    /// The argument that takes a statement of SQL.
    pub statement: Option<String>,
}

/// A tool that could not be placed though its arguments say it belongs somewhere, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The tool.
    pub tool: String,
    /// The reason, for "Not covered".
    pub why: String,
}

/// Places every tool of a surface.
pub fn place_all(
    surface: &Surface,
    overrides: &BTreeMap<String, Override>,
) -> (Vec<Placement>, Vec<Skipped>) {
    let mut placed = Vec::new();
    let mut skipped = Vec::new();
    // Tools of SQL that are named replace those that would be found.
    let named = overrides.values().any(|set| set.statement.is_some());
    for tool in &surface.tools {
        let set = overrides.get(&tool.name);
        let own = match set.and_then(|set| set.statement.as_deref()) {
            Some(argument) => statement_tool(tool, argument, set),
            None => place(tool, set),
        };
        let own = own.map(|own| own.filter(|own| !named || own.class != SQL || is_named(set)));
        match own {
            Ok(Some(placement)) => placed.push(placement),
            Ok(None) => placed.push(other(tool)),
            Err(why) => {
                placed.push(Placement { because: why.clone(), ..other(tool) });
                skipped.push(Skipped { tool: tool.name.clone(), why });
            }
        }
    }
    (placed, skipped)
}

/// The class of tools that run SQL.
const SQL: &str = "sql";

fn is_named(set: Option<&Override>) -> bool {
    set.is_some_and(|set| set.statement.is_some())
}

/// Places a tool that the configuration says runs SQL.
fn statement_tool(
    tool: &Tool,
    argument: &str,
    set: Option<&Override>,
) -> Result<Option<Placement>, String> {
    let slots = vec![Slot { role: SQL.into(), way: vec![Step::Key(argument.into())] }];
    let given = set.map(|set| set.arguments.clone()).unwrap_or_default();
    let filled = arguments::fill(tool.input_schema(), &slots, given)
        .map_err(|name| format!("its required argument `{name}` has no value to be filled with"))?;
    Ok(Some(Placement {
        class: SQL.into(),
        operation: SQL.into(),
        because: format!("the configuration says so; argument `{argument}`"),
        slots,
        filled,
        ..other(tool)
    }))
}

/// What the configuration says of tools that this server does not have: one line each.
pub fn unknown_tools(surface: &Surface, overrides: &BTreeMap<String, Override>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, set) in overrides {
        let Some(tool) = surface.tool(name) else {
            wrong.push(format!("the server lists no tool `{name}`"));
            continue;
        };
        let Some(argument) = &set.statement else { continue };
        // A schema without properties names no argument that could be wrong.
        let known =
            tool.properties().is_none_or(|known| known.is_empty() || known.contains_key(argument));
        if !known {
            wrong.push(format!("the tool `{name}` has no argument `{argument}`"));
        }
    }
    wrong
}

/// Places one tool.
///
/// # Errors
/// When it fits an operation and has another required argument that cannot be filled.
pub fn place(tool: &Tool, set: Option<&Override>) -> Result<Option<Placement>, String> {
    let arguments = arguments::of(tool.input_schema());
    let segments = words::segments(&tool.name);
    let class = set.and_then(|set| set.class.as_deref());
    for operation in &CLASSES.operations {
        if class.is_some_and(|class| class != operation.class) {
            continue;
        }
        let sure = arguments.iter().find(|argument| operation.sure.contains(&argument.name));
        let because = match sure {
            Some(argument) => Some(format!("argument `{}`", argument.name)),
            None => fits(operation, tool, &segments, class.is_some()),
        };
        let Some(because) = because else { continue };
        let Some(slots) = arguments::slots(operation, &arguments) else { continue };
        let given = set.map(|set| set.arguments.clone()).unwrap_or_default();
        let filled = arguments::fill(tool.input_schema(), &slots, given).map_err(|name| {
            format!("its required argument `{name}` has no value to be filled with")
        })?;
        let named: Vec<&str> = slots.iter().map(|slot| slot.role.as_str()).collect();
        return Ok(Some(Placement {
            tool: tool.name.clone(),
            class: operation.class.clone(),
            operation: operation.id.clone(),
            because: format!("{because}; arguments for {}", named.join(", ")),
            slots,
            filled,
            base: ABSOLUTE.into(),
            confirmed: Confirmed::Untried,
            read_only_hint: tool.hint("readOnlyHint"),
        }));
    }
    Ok(None)
}

/// The way paths inside the sandbox are written unless a control shows another.
pub const ABSOLUTE: &str = "${sandbox}/";

/// The ways tried, in order: absolute, relative to the sandbox, relative to its parent.
pub const BASES: [&str; 3] = [ABSOLUTE, "", "docs/"];

/// Writes a path of a probe the way the server understands paths.
pub fn rebase(path: &str, base: &str) -> String {
    if base == ABSOLUTE {
        return path.to_owned();
    }
    match path.strip_prefix(ABSOLUTE) {
        Some(rest) => format!("{base}{rest}"),
        None if path == "${sandbox}" && base.is_empty() => ".".into(),
        None if path == "${sandbox}" => base.trim_end_matches('/').into(),
        None => path.to_owned(),
    }
}

fn other(tool: &Tool) -> Placement {
    Placement {
        tool: tool.name.clone(),
        class: "other".into(),
        operation: "other".into(),
        because: "no published words fit".into(),
        slots: Vec::new(),
        filled: Map::new(),
        base: ABSOLUTE.into(),
        confirmed: Confirmed::Untried,
        read_only_hint: tool.hint("readOnlyHint"),
    }
}

/// Why the tool's words fit the operation, if they do. A class given by the configuration stands
/// for the words.
fn fits(operation: &Operation, tool: &Tool, segments: &[String], given: bool) -> Option<String> {
    let any = |list: &[String]| segments.iter().find(|segment| list.contains(segment));
    if let Some(word) = any(&operation.words) {
        return Some(format!("`{word}` in its name"));
    }
    let verb = segments.iter().find(|segment| words::is_verb(segment));
    if !operation.nouns.is_empty() && any(&operation.nouns).is_none() {
        return None;
    }
    match verb {
        Some(verb) if operation.verbs.contains(verb) => Some(format!("`{verb}` in its name")),
        Some(_) if !given => None,
        _ if given && operation.words.is_empty() => Some("the configuration says so".into()),
        _ => {
            let first = words::first_word(tool.description())?;
            operation.verbs.contains(&first).then(|| format!("`{first}` in its description"))
        }
    }
}

/// Arguments that a tool's schema lets the harness build without guessing: every required one has
/// a const, a default or a one-value enum. `None` when one has not.
pub fn plain_arguments(tool: &Tool, given: Map<String, Value>) -> Option<Map<String, Value>> {
    arguments::fill(tool.input_schema(), &[], given).ok()
}

#[cfg(test)]
mod tests;
