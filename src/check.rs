//! What a check is: its declaration, how it collects, how it decides; and the `pack!` list.

use std::{collections::BTreeSet, sync::LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    evidence::{Collected, Evidence, Fact, Observer, Outcome, Reading, Reply, Why},
    journal::Journal,
    stage::{BoxFuture, Stage, Stop},
    surface::Surface,
    verdict::{RuleDef, Ruling},
};

/// What `packs/<pack>/<check>.yaml` declares. Nouns only: inputs, limits, words.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The title in lists.
    pub title: String,
    /// What a fail weighs.
    pub severity: Severity,
    /// Not part of the published standard yet: advisory until promoted.
    #[serde(default)]
    pub candidate: bool,
    /// Only with `--profile deep`.
    #[serde(default)]
    pub deep: bool,
    /// The methodology version that brought it.
    pub since: String,
    /// Whose behaviour is measured.
    pub measures: Measures,
    /// The question, as a sentence.
    pub question: String,
    /// What exactly is asked, and what is not.
    pub scope: String,
    /// The operations of `packs/classes.yaml` its probes go to; empty for checks of the server
    /// itself.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Who may decide, strongest first.
    pub observers: Vec<Observer>,
    /// The readings that let a probe hold when nothing unsafe was seen.
    #[serde(default)]
    pub held_by: Vec<Reply>,
    /// Canary objects whose appearance is a breach; empty means every object outside.
    #[serde(default)]
    pub canaries: Vec<String>,
    /// The lane it runs on.
    #[serde(default)]
    pub lane: LaneKind,
    /// Whether a breached core probe ends it, and a breached indirect one ends its family: further
    /// ones would cost long answers, and could not change the verdict.
    #[serde(default)]
    pub until_breached: bool,
    /// Its place among the checks of its lane.
    #[serde(default)]
    pub turn: Turn,
    /// The sentence of a breach, published with the rules of the standard judge.
    #[serde(default)]
    pub breached: String,
    /// The sentence of a pass, published with the rules of the standard judge.
    #[serde(default)]
    pub held: String,
    /// The inputs.
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// What to do about a fail.
    pub remediation: String,
    /// Where this check is known to be wrong.
    pub false_results: FalseResults,
    /// CVE, CWE, advisories, specification clauses.
    #[serde(default)]
    pub references: Vec<String>,
}

impl Spec {
    /// The lanes it runs on: its own, and those its probes name.
    pub fn lanes(&self) -> BTreeSet<LaneKind> {
        let named = self.probes.iter().filter_map(|probe| probe.lane);
        let own = (self.probes.is_empty() || self.probes.iter().any(|p| p.lane.is_none()))
            .then_some(self.lane);
        own.into_iter().chain(named).collect()
    }

    /// The probes that run on a lane.
    pub fn probes_on(&self, lane: LaneKind) -> impl Iterator<Item = &Probe> {
        self.probes.iter().filter(move |probe| probe.lane.unwrap_or(self.lane) == lane)
    }

    /// The severity that counts: a candidate is advisory.
    pub fn effective_severity(&self) -> Severity {
        if self.candidate { Severity::Advisory } else { self.severity }
    }
}

/// What a fail weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Caps the letter at D.
    Critical,
    /// Counts.
    Scored,
    /// Is shown and never counts.
    Advisory,
}

/// The first words of the scope line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measures {
    /// What the server itself does.
    ServerBehavior,
    /// A database control, tested through the server.
    DatabaseControl,
}

/// The lanes a check can run on. Each is one start of the server with targets of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneKind {
    /// Ordinary calls of the server's own questions.
    #[default]
    Main,
    /// Ordinary calls against targets.
    Second,
    /// Malformed input, special files, whatever may end the server. Other client name.
    Hostile,
    /// Statements that would change the database, as its administrator: the one lane that writes.
    Writer,
    /// Statements of the role that may not read one column.
    Analyst,
    /// Statements of the role that may see one tenant's rows.
    Tenant,
    /// Statements with large answers.
    Bulk,
    /// A statement that waits.
    Sleeper,
    /// A statement that computes.
    Spinner,
    /// A statement that waits, after one that lifts the limit.
    Lifter,
    /// A database password full of characters that mean something in a URL.
    Quoted,
}

impl LaneKind {
    /// Every lane, in the order they start: the one others wait for, then those that are asked
    /// longest.
    pub const ALL: [Self; 11] = [
        Self::Main,
        Self::Sleeper,
        Self::Spinner,
        Self::Lifter,
        Self::Writer,
        Self::Hostile,
        Self::Bulk,
        Self::Tenant,
        Self::Analyst,
        Self::Second,
        Self::Quoted,
    ];

    /// The lane's name in evidence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Second => "second",
            Self::Hostile => "hostile",
            Self::Writer => "writer",
            Self::Analyst => "analyst",
            Self::Tenant => "tenant",
            Self::Bulk => "bulk",
            Self::Sleeper => "sleeper",
            Self::Spinner => "spinner",
            Self::Lifter => "lifter",
            Self::Quoted => "quoted",
        }
    }

    /// Whether the lane has nothing to ask without a database.
    pub fn needs_database(self) -> bool {
        !self.classes().is_empty()
    }

    /// The classes of tools whose controls the lane needs; none means all.
    pub fn classes(self) -> &'static [&'static str] {
        match self {
            Self::Main | Self::Second | Self::Hostile => &[],
            Self::Writer
            | Self::Analyst
            | Self::Tenant
            | Self::Bulk
            | Self::Sleeper
            | Self::Spinner
            | Self::Lifter
            | Self::Quoted => &["sql"],
        }
    }
}

/// When a check has its turn on its lane. Within a turn the report order holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    /// Before others, while nothing hostile was sent yet.
    Early,
    /// In report order.
    #[default]
    Normal,
    /// After others, because it may leave the server hanging.
    Late,
}

/// One fixed input.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Its id, unique in the check.
    pub id: String,
    /// A breach of it alone is a fail.
    #[serde(default)]
    pub core: bool,
    /// The weakness an indirect probe belongs to.
    #[serde(default)]
    pub family: Option<String>,
    /// The operations it goes to, where not all of the check's.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Input: a path.
    #[serde(default)]
    pub path: Option<String>,
    /// With `path`: the pattern searched for, where not the one the control found to work.
    #[serde(default)]
    pub pattern: Option<String>,
    /// Input: a source and a destination.
    #[serde(default)]
    pub path_pair: Option<PathPair>,
    /// Input: a statement of SQL.
    #[serde(default)]
    pub sql: Option<String>,
    /// With `sql`: what is sent as a second call of the same tool on the same instance.
    #[serde(default)]
    pub then: Option<String>,
    /// The lane it runs on, where not the check's.
    #[serde(default)]
    pub lane: Option<LaneKind>,
    /// Input: any JSON value.
    #[serde(default)]
    pub value: Option<serde_json::Value>,
    /// Input: a line as it is.
    #[serde(default)]
    pub raw: Option<String>,
    /// Input: a generator.
    #[serde(default)]
    pub make: Option<Make>,
    /// What the harness must itself be able to do for the probe to mean anything.
    #[serde(default)]
    pub direct: Direct,
    /// Whether the probe shares the lane's instance.
    #[serde(default)]
    pub instance: InstanceUse,
    /// Only with `--profile deep`.
    #[serde(default)]
    pub deep: bool,
    /// A secret of the environment in the reply is what this probe asks about. In other replies it
    /// belongs to the check of secrets.
    #[serde(default)]
    pub environment: bool,
    /// Once for the server instead of once for each tool.
    #[serde(default)]
    pub once: bool,
}

/// A source and a destination.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPair {
    /// The source.
    pub from: String,
    /// The destination.
    pub to: String,
}

/// Generators of inputs too long to write down.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Make {
    /// So many times the letter `a`.
    Long(usize),
    /// Arrays nested so deep.
    Nest(usize),
    /// A number of so many digits.
    Digits(usize),
}

/// What the harness does itself before a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direct {
    /// Nothing.
    #[default]
    None,
    /// The object meant must exist and be readable by the harness.
    Object,
    /// The statement must change the database when the same role runs it directly.
    Run,
}

/// Whether a probe shares the lane's instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstanceUse {
    /// It does.
    #[default]
    Shared,
    /// It runs on an instance that was asked nothing else before, or only such probes, none of
    /// which was breached.
    Own,
    /// It runs after everything else of the lane.
    Last,
}

/// Where a check is known to be wrong.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FalseResults {
    /// A wrong pass.
    pub pass: String,
    /// A wrong fail.
    pub fail: String,
}

/// How a check collects its evidence.
#[derive(Clone, Copy)]
pub enum Collect {
    /// The machine drives the declared probes.
    Calls,
    /// A pure function of what was discovered.
    Surface(fn(&Surface) -> Vec<Evidence>),
    /// A pure function of everything all lanes did.
    Journal(fn(&Journal) -> Vec<Evidence>),
    /// An adaptive script; its stage is its only door to the world.
    Script(for<'a> fn(&'a mut dyn Stage) -> BoxFuture<'a, Result<(), Stop>>),
}

impl Collect {
    /// The word in lists.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Surface(_) => "surface",
            Self::Journal(_) => "journal",
            Self::Script(_) => "script",
        }
    }
}

/// The outcome of one probe from its reading and the facts.
pub type Weigh = fn(&Spec, Option<&Reading>, &[Fact]) -> (Outcome, Option<Why>, Vec<Observer>);

/// One check.
pub struct Check {
    /// Its pack.
    pub pack: &'static str,
    /// The stem of its files.
    pub stem: &'static str,
    /// The declaration as written.
    pub yaml: &'static str,
    /// The declaration, read on first use.
    pub spec: LazyLock<Spec>,
    /// The rules it decides by.
    pub rules: &'static [RuleDef],
    /// How it collects.
    pub collect: Collect,
    /// How a probe is weighed.
    pub weigh: Weigh,
    /// How it decides.
    pub decide: fn(&Collected) -> Ruling,
}

impl Check {
    /// The published id: the stem with hyphens.
    pub fn id(&self) -> String {
        self.stem.replace('_', "-")
    }

    /// The sentence of a rule as published on this check's page: the standard judge's sentences
    /// are completed by the check's own.
    pub fn rule_text(&self, rule: &RuleDef) -> String {
        let spec = &*self.spec;
        let own = match rule.verdict() {
            crate::verdict::Verdict::Pass => &spec.held,
            crate::verdict::Verdict::Part | crate::verdict::Verdict::Fail => &spec.breached,
            _ => "",
        };
        let standard = rule.file().ends_with("judges.rs");
        if standard && !own.is_empty() {
            format!("{} {}", rule.text(), own.trim())
        } else {
            rule.text()
        }
    }
}

/// Reads a declaration that is built in.
///
/// # Panics
/// When the built-in YAML is wrong, naming the file: a test reads them all.
pub fn built_in<T: serde::de::DeserializeOwned>(name: &str, yaml: &str) -> T {
    match serde_saphyr::from_str(yaml) {
        Ok(value) => value,
        Err(error) => panic!("built-in {name}: {error}"),
    }
}

/// One pack: its checks in report order.
pub struct Pack {
    /// The id.
    pub id: &'static str,
    /// The title in reports.
    pub title: &'static str,
    /// When it applies, as a sentence.
    pub applies: &'static str,
    /// What it needs to be asked at all.
    pub needs: Needs,
    /// The checks.
    pub checks: &'static [Check],
}

/// What a pack needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it always applies.
    Nothing,
    /// The sandbox placeholder and a confirmed tool of one of these classes.
    Sandbox(&'static [&'static str]),
    /// A placeholder of the database and a confirmed tool of one of these classes.
    Database(&'static [&'static str]),
}

/// Declares a pack: its title, when it applies, its checks in report order.
///
/// `stem = calls` is driven by the machine and decided by the standard judge; `script`, `surface`
/// and `journal` name the kind of the collector in the module beside the YAML, which also holds
/// the rules and the decision.
macro_rules! pack {
    ($id:literal, $title:literal, $applies:literal, $needs:expr; $($check:ident = $kind:ident,)+) => {
        pub(crate) static PACK: $crate::check::Pack = $crate::check::Pack {
            id: $id,
            title: $title,
            applies: $applies,
            needs: $needs,
            checks: &CHECKS,
        };

        static CHECKS: [$crate::check::Check; [$(stringify!($check)),+].len()] =
            [$($crate::check::Check {
                pack: $id,
                stem: stringify!($check),
                yaml: include_str!(concat!(stringify!($check), ".yaml")),
                spec: std::sync::LazyLock::new(|| $crate::check::built_in(
                    concat!($id, "/", stringify!($check)),
                    include_str!(concat!(stringify!($check), ".yaml")),
                )),
                rules: $crate::check::decided!($kind $check RULES),
                collect: $crate::check::collected!($kind $check),
                weigh: $crate::judges::weigh,
                decide: $crate::check::decided!($kind $check decide),
            },)+];
    };
}

macro_rules! decided {
    (calls $check:ident $item:ident) => {
        $crate::judges::standard::$item
    };
    ($kind:ident $check:ident $item:ident) => {
        $check::$item
    };
}

macro_rules! collected {
    (calls $check:ident) => {
        $crate::check::Collect::Calls
    };
    (surface $check:ident) => {
        $crate::check::Collect::Surface($check::collect)
    };
    (journal $check:ident) => {
        $crate::check::Collect::Journal($check::collect)
    };
    (script $check:ident) => {
        $crate::check::Collect::Script($check::collect)
    };
}

pub(crate) use {collected, decided, pack};
