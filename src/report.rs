//! The versioned record of a run: the one thing everything is rendered from.
//!
//! Field names are a contract: CI scripts, replay, baseline and comparison read them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    check::{Measures, Severity},
    evidence::Evidence,
    letter::Letter,
    verdict::Verdict,
};

/// The version of this record's shape; raised on a breaking change.
pub const SCHEMA_VERSION: &str = "1";

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: String,
    /// The program that wrote it.
    pub harness: Harness,
    /// The version of the methodology.
    pub methodology: String,
    /// The configuration.
    pub config: ConfigRef,
    /// How it ran.
    pub run: RunInfo,
    /// The server under test.
    pub server: ServerInfo,
    /// Its tools, as placed.
    pub tools: Vec<ToolInfo>,
    /// What the harness owned.
    pub targets: Targets,
    /// The packs, in report order.
    pub packs: Vec<PackReport>,
    /// What a grade says nothing about.
    pub not_covered: Vec<NotCovered>,
    /// What weakens the whole run.
    pub caveats: Vec<String>,
    /// What was cleaned up.
    pub cleanup: Cleanup,
    /// Whether the gate was met.
    pub gate: Gate,
    /// Whether a badge may be made of it.
    pub badge: Badge,
}

/// The program that wrote a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Harness {
    /// `sealmark`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Which configuration was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigRef {
    /// SHA-256 of the locked settings in canonical JSON (methodology 9).
    pub hash: String,
    /// The file, as given; absent for a command on the command line.
    pub file: Option<String>,
    /// The line of the server entry, from 1.
    pub server_line: u32,
}

/// How it ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunInfo {
    /// Standard or custom.
    pub kind: RunKind,
    /// What differs from the standard.
    pub differences: Vec<String>,
    /// The profile.
    pub profile: String,
    /// The world.
    pub world: String,
    /// False when it was interrupted or the server was lost for good.
    pub completed: bool,
    /// When it started, RFC 3339 in UTC.
    pub started_at: String,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Where the time went.
    pub timings: Timings,
}

/// Standard or custom (methodology 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunKind {
    /// Every locked setting as published.
    Standard,
    /// A locked setting differs.
    Custom,
}

/// Milliseconds by phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timings {
    /// From the first spawn to the last list.
    pub server_start_ms: u64,
    /// Making the targets.
    pub targets_ms: u64,
    /// From the first control to the last reply of the longest lane.
    pub probes_ms: u64,
    /// The server's own answering time on the longest lane.
    #[serde(default)]
    pub answers_ms: u64,
}

/// The server under test. Values stand as written in the configuration, placeholders unexpanded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerInfo {
    /// `serverInfo.name`.
    pub name: String,
    /// `serverInfo.version`.
    pub version: String,
    /// The negotiated revision.
    pub protocol_version: String,
    /// `stdio` or `http`.
    pub transport: String,
    /// The command as configured.
    pub command: Vec<String>,
    /// The environment as configured.
    pub env: BTreeMap<String, String>,
    /// Names of configured headers.
    pub headers: Vec<String>,
    /// The instances that were started.
    pub instances: Vec<InstanceInfo>,
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceInfo {
    /// The role.
    pub role: String,
    /// The lane.
    pub lane: String,
    /// Whether it started and initialised.
    pub started: bool,
    /// How often it had to be started again.
    #[serde(default)]
    pub restarts: u32,
    /// Why it did not start, with the tail of its standard error.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// One tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// The class it was placed in.
    pub class: String,
    /// The operation it was placed as.
    pub operation: String,
    /// Why.
    pub because: String,
    /// `control` when its control worked; else null.
    pub confirmed_by: Option<String>,
    /// Why its control did not work.
    #[serde(default)]
    pub unconfirmed: Option<String>,
    /// The declared hint.
    pub read_only_hint: Option<bool>,
}

/// What the harness owned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Targets {
    /// The sandbox: `temporary`, or null when the configuration uses none.
    pub sandbox: Option<String>,
    /// The version of its layout.
    #[serde(default)]
    pub sandbox_layout: Option<String>,
    /// Where the Postgres came from: `given`, `installed`, `cached` or `acquired`; null without one.
    #[serde(default)]
    pub database: Option<String>,
    /// The version of its server.
    #[serde(default)]
    pub database_version: Option<String>,
    /// The version of its seed.
    #[serde(default)]
    pub seed: Option<String>,
}

/// One pack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackReport {
    /// The id.
    pub id: String,
    /// The title.
    pub title: String,
    /// Graded or not.
    pub status: PackStatus,
    /// Why it is not graded.
    pub reason: Option<String>,
    /// The letter, after the cap.
    pub letter: Option<Letter>,
    /// The letter before the cap.
    pub raw_letter: Option<Letter>,
    /// Whether the cap lowered it.
    pub capped: bool,
    /// The critical checks that failed.
    pub cap_reasons: Vec<String>,
    /// Whether a critical check is inconclusive.
    pub provisional: bool,
    /// Points: pass 1, part 0.5.
    pub points: f64,
    /// Checks that were scored.
    pub scored: u32,
    /// Checks that are not advisory.
    pub non_advisory: u32,
    /// Floored.
    pub percentage: u32,
    /// Whether the pack is outside the standard.
    pub candidate: bool,
    /// Non-advisory checks that were not scored.
    pub excluded: Vec<String>,
    /// The checks, in report order.
    pub checks: Vec<CheckReport>,
}

/// Whether a pack has a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PackStatus {
    /// It has a letter.
    Graded,
    /// It does not apply.
    Na,
    /// Nothing could be scored.
    Inconclusive,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckReport {
    /// The id.
    pub id: String,
    /// The title.
    pub title: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that gave it.
    pub rule: String,
    /// The rule's sentence.
    pub rule_text: String,
    /// The severity in this run.
    pub severity: Severity,
    /// Whether it never counts in this run.
    pub advisory: bool,
    /// Whether it is a candidate.
    pub candidate: bool,
    /// Whose behaviour it measures.
    pub scope: Measures,
    /// The probes that decided.
    pub probes: Vec<String>,
    /// All lines.
    pub evidence: Vec<Evidence>,
    /// Time spent on it, in milliseconds.
    pub duration_ms: u64,
    /// A reason in words, where the runner settled it.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Something a grade says nothing about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotCovered {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What was cleaned up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cleanup {
    /// Whether nothing is left.
    pub removed: bool,
    /// What is left.
    pub left: Vec<String>,
}

/// The gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gate {
    /// The letter every graded pack must meet.
    pub threshold: Letter,
    /// Whether all do.
    pub met: bool,
    /// Why not.
    pub causes: Vec<String>,
    /// Failures accepted by the configuration.
    pub accepted: Vec<String>,
}

/// Whether a badge may be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Badge {
    /// Standard, at least one letter, none provisional.
    pub eligible: bool,
    /// Why not.
    pub why: Option<String>,
}

impl PackReport {
    /// The line of the pack, as published.
    pub fn line(&self) -> String {
        let id = &self.id;
        let Some(letter) = self.letter else {
            let status = match self.status {
                PackStatus::Na => "na",
                _ => "inconclusive",
            };
            return format!(
                "PACK {id} NOT GRADED ({status}: {})",
                self.reason.as_deref().unwrap_or("nothing was scored")
            );
        };
        let star = if self.provisional { "*" } else { "" };
        let capped = if self.capped { " (capped)" } else { "" };
        let missing = self.non_advisory.saturating_sub(self.scored);
        let excluded = match missing {
            0 => String::new(),
            n => format!(" · {n} of {} checks not scored", self.non_advisory),
        };
        format!(
            "PACK {id} GRADE {letter}{star}{capped} ({}/{} points, {}%{excluded})",
            self.points, self.scored, self.percentage
        )
    }
}

/// The JSON Schema of the record, for those who read it.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}
