//! What a server shows of itself: tools, prompts, resources, instructions, and where the harness
//! placed each tool.

use serde_json::{Map, Value};

/// A tool as listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The whole entry of `tools/list`, unrepaired.
    pub raw: Value,
}

impl Tool {
    /// The input schema as sent; `Null` when absent.
    pub fn input_schema(&self) -> &Value {
        self.raw.get("inputSchema").unwrap_or(&Value::Null)
    }

    /// The description, empty when absent.
    pub fn description(&self) -> &str {
        self.raw.get("description").and_then(Value::as_str).unwrap_or("")
    }

    /// A boolean annotation, when it is there and is a boolean.
    pub fn hint(&self, name: &str) -> Option<bool> {
        self.raw.get("annotations")?.get(name)?.as_bool()
    }

    /// The properties of the input schema.
    pub fn properties(&self) -> Option<&Map<String, Value>> {
        self.input_schema().get("properties")?.as_object()
    }

    /// The names in `required`.
    pub fn required(&self) -> Vec<&str> {
        let list = self.input_schema().get("required").and_then(Value::as_array);
        list.map(|names| names.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }
}

/// A text the server shows outside of tools, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Prompt, resource or instructions.
    pub kind: ShownKind,
    /// A name for reports, such as `prompt greet`.
    pub place: String,
    /// The text.
    pub text: String,
}

/// The kinds of texts outside of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownKind {
    /// A prompt's name, description or message text.
    Prompt,
    /// A resource's name, description or text.
    Resource,
    /// `instructions` of the initialize result, and the names in `serverInfo`.
    Instructions,
}

/// Everything one instance showed before it was called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surface {
    /// `serverInfo.name`.
    pub name: String,
    /// `serverInfo.version`.
    pub version: String,
    /// The negotiated protocol revision.
    pub protocol: String,
    /// The capabilities as sent.
    pub capabilities: Value,
    /// The tools, in the order listed.
    pub tools: Vec<Tool>,
    /// Prompts, resources and instructions.
    pub shown: Vec<Shown>,
    /// URI templates and URIs of resources, as listed.
    pub resource_uris: Vec<String>,
    /// What went wrong while listing, such as a cursor that never ends.
    pub troubles: Vec<String>,
}

impl Surface {
    /// The tool of that name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// A step into a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The member of that name.
    Key(String),
    /// The first item of an array.
    First,
}

/// Where a role's value goes in the arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The role, such as `path`, `to`, `content`.
    pub role: String,
    /// The way from the arguments object to the value.
    pub way: Vec<Step>,
}

/// A tool placed as one operation, with the way to fill its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The tool.
    pub tool: String,
    /// The class: read, write, list, other, ...
    pub class: String,
    /// The operation of `packs/classes.yaml`: read, multi-read, list, tree, move, ...
    pub operation: String,
    /// Why it was placed so.
    pub because: String,
    /// Where the values go.
    pub slots: Vec<Slot>,
    /// Arguments filled from const, default, a one-value enum, or the configuration.
    pub filled: Map<String, Value>,
    /// How the server understands paths inside the sandbox: the text that stands for
    /// `${sandbox}/` in probes.
    pub base: String,
    /// Whether a control confirmed it on the lane that asked.
    pub confirmed: Confirmed,
    /// The declared `readOnlyHint`.
    pub read_only_hint: Option<bool>,
}

/// Whether the control of a placement worked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// Not tried yet.
    Untried,
    /// The control worked.
    Good,
    /// The control did not work; the reason.
    Failed(String),
}

impl Placement {
    /// Whether the control worked.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed == Confirmed::Good
    }

    /// The arguments with these roles filled. A role without a slot is left out.
    pub fn arguments(&self, values: &[(&str, &str)]) -> Value {
        let mut arguments = Value::Object(self.filled.clone());
        for (role, value) in values {
            for slot in self.slots.iter().filter(|slot| slot.role == *role) {
                put(&mut arguments, &slot.way, Value::from(*value));
            }
        }
        arguments
    }

    /// A path inside the sandbox as this server understands it, placeholders unexpanded.
    pub fn inside(&self, rest: &str) -> String {
        match (rest, self.base.as_str()) {
            ("", "") => ".".into(),
            (rest, base) => format!("{base}{rest}").trim_end_matches('/').into(),
        }
    }

    /// Puts a value in front of the only one of an array that holds a role.
    pub fn put_before(&self, role: &str, arguments: &mut Value, value: String) {
        for slot in self.slots.iter().filter(|slot| slot.role == role) {
            let Some((Step::First, way)) = slot.way.split_last() else { continue };
            let at = way.iter().try_fold(&mut *arguments, |at, step| match step {
                Step::Key(name) => at.get_mut(name),
                Step::First => at.get_mut(0),
            });
            if let Some(items) = at.and_then(Value::as_array_mut) {
                items.insert(0, Value::from(value.clone()));
            }
        }
    }

    /// Whether the tool takes this role.
    pub fn takes(&self, role: &str) -> bool {
        self.slots.iter().any(|slot| slot.role == role)
    }
}

fn put(at: &mut Value, way: &[Step], value: Value) {
    let Some((step, rest)) = way.split_first() else {
        *at = value;
        return;
    };
    match step {
        Step::Key(name) => {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            if let Some(object) = at.as_object_mut() {
                put(object.entry(name.clone()).or_insert(Value::Null), rest, value);
            }
        }
        Step::First => {
            if !at.is_array() {
                *at = Value::Array(vec![Value::Null]);
            }
            if let Some(first) = at.as_array_mut().and_then(|items| items.first_mut()) {
                put(first, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_reach_nested_members_and_arrays_of_objects() {
        let key = |name: &str| Step::Key(name.into());
        let placement = Placement {
            tool: "edit".into(),
            class: "write".into(),
            operation: "edit".into(),
            because: String::new(),
            slots: vec![
                Slot { role: "path".into(), way: vec![key("params"), key("path")] },
                Slot { role: "find".into(), way: vec![key("edits"), Step::First, key("old")] },
                Slot { role: "content".into(), way: vec![key("edits"), Step::First, key("new")] },
            ],
            filled: Map::from_iter([("mode".into(), json!("text"))]),
            base: String::new(),
            confirmed: Confirmed::Untried,
            read_only_hint: None,
        };
        assert_eq!(
            placement.arguments(&[("path", "a"), ("find", "b"), ("content", "c"), ("to", "x")]),
            json!({"mode": "text", "params": {"path": "a"}, "edits": [{"old": "b", "new": "c"}]})
        );
    }
}
