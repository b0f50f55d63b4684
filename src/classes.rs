//! The words by which tools are placed, and the controls that confirm a placement.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};

/// `packs/classes.yaml`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {
    /// Argument names of each role, lower case without separators.
    pub roles: BTreeMap<String, Vec<String>>,
    /// The operations, in the order they are tried.
    pub operations: Vec<Operation>,
}

/// One operation a tool can be placed as.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Its id, as `tools:` of a check names it.
    pub id: String,
    /// Its class.
    pub class: String,
    /// What it does, as a phrase.
    pub title: String,
    /// The first verb of the name must be one of these, when given.
    #[serde(default)]
    pub verbs: Vec<String>,
    /// One segment of the name must be one of these, when given.
    #[serde(default)]
    pub nouns: Vec<String>,
    /// Any segment of the name may be one of these instead of a verb.
    #[serde(default)]
    pub words: Vec<String>,
    /// An argument of one of these names makes any name of a tool fit.
    #[serde(default)]
    pub sure: Vec<String>,
    /// The path argument must be an array.
    #[serde(default)]
    pub array: bool,
    /// The roles the tool must take.
    pub roles: Vec<String>,
    /// Controls, tried in order until one works.
    pub controls: Vec<ControlSpec>,
}

/// A call that must work.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlSpec {
    /// The value of each role.
    pub values: BTreeMap<String, String>,
    /// What the harness makes first.
    #[serde(default)]
    pub prepare: Option<Prepare>,
    /// How it is seen to have worked.
    pub expect: Expect,
}

/// What the harness makes before a control.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// A file of that path.
    #[serde(default)]
    pub path: Option<String>,
    /// Its content.
    #[serde(default)]
    pub content: Option<String>,
    /// A directory of that path.
    #[serde(default)]
    pub directory: Option<String>,
}

/// How a control is seen to have worked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Expect {
    /// The canary of that object comes back.
    Canary(String),
    /// The reply is no error and contains that word, which the call did not send.
    Shows(String),
    /// The reply is no error.
    Answered,
    /// The path exists afterwards.
    Exists(String),
    /// The path is gone afterwards.
    Gone(String),
    /// The file contains the call's token afterwards.
    Contains(String),
    /// The reply shows how many rows of the seed database the role sees, and for the administrator
    /// the role itself.
    Database,
}

/// The built-in table.
pub static CLASSES: LazyLock<Classes> =
    LazyLock::new(|| crate::check::built_in("classes", include_str!("../packs/classes.yaml")));

impl Classes {
    /// The operation of that id.
    pub fn operation(&self, id: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.id == id)
    }
}
