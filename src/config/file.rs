//! The types of the file as it is written: what YAML is read into, and what the JSON Schema is made
//! from. Descriptions are for the people who write the file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;

use super::limits::{LimitsFile, TimeoutsFile};
use super::{Class, Profile, Protocol, Severity, World};
use crate::letter::Letter;

/// Keys of the methodology that come later, and with what.
pub(crate) const LATER_KEYS: &[(&str, &str)] = &[
    ("net", "pack net"),
    ("exec", "pack exec"),
    ("scope", "pack scope"),
    ("sql_guard", "pack sql-guard"),
    ("upstream", "pack upstream"),
    ("identities", "packs scope and http"),
    ("probes", "own probes"),
];

/// A map with its order and the places of its keys.
#[derive(Debug)]
pub(crate) struct Entries<V>(pub(crate) Vec<(Spanned<String>, V)>);

impl<V> Default for Entries<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for InOrder<V> {
            type Value = Entries<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys with values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

impl<V: JsonSchema> JsonSchema for Entries<V> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("MapOf{}", V::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, V>::json_schema(generator)
    }
}

/// A text with its place.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text(pub(crate) Spanned<String>);

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// The schema of a text that may be written as a number or a boolean without quotes.
struct Scalar;

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

/// The configuration of a run of sealmark: the server under test, and what is asked of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// The server under test, and how it is started.
    #[schemars(with = "ServerFile")]
    pub(crate) server: Spanned<ServerFile>,
    /// The packs to run. Without it, every pack that applies.
    #[schemars(with = "Option<Vec<String>>", extend("examples" = [["core", "fs"]]))]
    pub(crate) packs: Option<Spanned<Vec<Text>>>,
    /// Tools by name: what they do, where sealmark should not find it out by itself.
    #[serde(default)]
    pub(crate) tools: Option<Entries<ToolFile>>,
    /// The tools that run SQL, in place of those sealmark finds by itself.
    #[serde(default)]
    pub(crate) sql_tools: Option<Vec<SqlToolFile>>,
    /// Checks by id: off, or of another severity. For all but candidates this is locked: it makes
    /// the run CUSTOM.
    #[serde(default)]
    pub(crate) checks: Option<Entries<CheckFile>>,
    /// How much is asked. `ci` also counts an inconclusive pack as a failure; `deep` sends longer
    /// probes and makes the run CUSTOM.
    #[schemars(extend("default" = "standard"))]
    pub(crate) profile: Option<Profile>,
    /// Where the server runs. Only `open` is in this version.
    #[schemars(with = "Option<World>", extend("default" = "open"))]
    pub(crate) world: Option<Spanned<World>>,
    /// The lowest letter that meets the gate.
    #[schemars(extend("default" = "A"))]
    pub(crate) fail_under: Option<Letter>,
    /// Known failures that do not fail the gate until a date. Letters stay as they are.
    #[serde(default)]
    pub(crate) accept: Option<Vec<AcceptFile>>,
    /// Counts and sizes; locked.
    pub(crate) limits: Option<LimitsFile>,
    /// Times in seconds; locked.
    pub(crate) timeouts: Option<TimeoutsFile>,
}

/// The server under test. In every text, `${sandbox}`, `${sandbox.out}`, `${files}`, `${role}`,
/// `${pg.url}` and its parts `${pg.host}`, `${pg.port}`, `${pg.user}`, `${pg.password}` and
/// `${pg.database}`, `${canary:NAME}` and `${env:NAME}` are replaced; `$${` is a literal `${`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerFile {
    /// The program: a name looked up in PATH, or a path from the folder of this file.
    pub(crate) command: Option<Text>,
    /// Its arguments.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Scalar>>")]
    pub(crate) args: Option<Vec<Text>>,
    /// Variables of its environment; it gets these and a few general ones, no others.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, Scalar>>")]
    pub(crate) env: Option<Entries<Text>>,
    /// Its working directory, from the folder of this file. Without it, a directory of its own.
    pub(crate) cwd: Option<Text>,
    /// Files written before the start to the folder `${files}`: name and content.
    #[serde(default)]
    pub(crate) files: Option<Entries<Text>>,
    /// The endpoint of an HTTP server. Not in this version.
    pub(crate) url: Option<Text>,
    /// Headers sent to the endpoint. Not in this version.
    #[serde(default)]
    pub(crate) headers: Option<Entries<Text>>,
    /// The command that opens the endpoint. Not in this version.
    #[schemars(with = "Option<StartFile>")]
    pub(crate) start: Option<Spanned<StartFile>>,
    /// The era of the protocol. Only `auto` is in this version.
    #[schemars(with = "Option<Protocol>", extend("default" = "auto"))]
    pub(crate) protocol: Option<Spanned<Protocol>>,
}

/// The command that opens the endpoint of `url`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read so that its keys are known; HTTP servers come with pack http")]
pub(crate) struct StartFile {
    /// The program.
    command: String,
    /// Its arguments.
    #[serde(default)]
    args: Vec<String>,
    /// Variables of its environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Its working directory.
    cwd: Option<String>,
}

/// What a tool does, in place of what sealmark finds out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolFile {
    /// The class of the tool.
    pub(crate) class: Option<Class>,
    /// Values for other required arguments of the tool, by argument: sent as they are, with
    /// placeholders replaced.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub(crate) arguments: Option<Entries<Spanned<serde_json::Value>>>,
}

/// A tool that runs SQL.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SqlToolFile {
    /// The tool.
    pub(crate) tool: Text,
    /// The argument that takes the statement.
    pub(crate) argument: Text,
}

/// What is changed about a check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckFile {
    /// Whether it runs.
    #[schemars(extend("default" = true))]
    pub(crate) enabled: Option<bool>,
    /// How it counts.
    pub(crate) severity: Option<Severity>,
}

/// A known failure that does not fail the gate.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcceptFile {
    /// The id of the check.
    pub(crate) check: Text,
    /// The rule that gave the failure. Without it, any rule of the check.
    pub(crate) rule: Option<Text>,
    /// Why it is accepted.
    pub(crate) reason: Text,
    /// The last day it is accepted on, as YYYY-MM-DD.
    #[schemars(with = "String", extend("format" = "date"))]
    pub(crate) until: Text,
}

/// The JSON Schema (draft 2020-12) of the file, for editors: descriptions, defaults, and no other
/// keys than these.
pub fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(File);
    schema.insert("title".to_owned(), "sealmark configuration".into());
    schema.to_value()
}
