//! The record of the run, put together from what was decided.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use regex::Regex;

use super::{Request, Worked, decide, gate, millis};
use crate::{
    check::LaneKind,
    config,
    lane::Shared,
    plan::Plan,
    registry,
    report::{
        Badge, Cleanup, ConfigRef, Harness, NotCovered, PackReport, PackStatus, Report, RunInfo,
        RunKind, SCHEMA_VERSION, ServerInfo, Targets, Timings, ToolInfo,
    },
    surface::Confirmed,
    target,
    target::postgres::{Postgres, Role},
    text,
};

/// A value of the environment shorter than this is no secret: replacing it would tear words apart.
const SECRET: usize = 8;

/// What a record is made of.
pub(super) struct Parts<'a> {
    pub(super) request: &'a Request,
    /// Why the configuration's database is not there.
    pub(super) no_database: Option<String>,
    pub(super) plan: &'a Plan,
    pub(super) shared: &'a Shared,
    pub(super) lanes: &'a [Worked],
    pub(super) decided: Vec<PackReport>,
    pub(super) timings: Timings,
    pub(super) started_at: jiff::Timestamp,
    pub(super) interrupted: bool,
}

/// Where the time went.
pub(super) fn timings(lanes: &[Worked], began: Instant, prepared: Duration) -> Timings {
    let since = |moment: Instant| moment.saturating_duration_since(began);
    let listed = lanes.iter().filter_map(|lane| lane.record.listed).max();
    let listed = listed.map_or(prepared, since);
    let asked = lanes.iter().map(|lane| since(lane.asked)).max().unwrap_or(listed);
    let answers = lanes.iter().map(|lane| lane.record.answering).max().unwrap_or_default();
    Timings {
        server_start_ms: millis(listed.saturating_sub(prepared)),
        targets_ms: millis(prepared),
        probes_ms: millis(asked.saturating_sub(listed)),
        answers_ms: millis(answers),
    }
}

/// The record.
pub(super) fn report(parts: Parts<'_>) -> Report {
    let Parts {
        request,
        no_database,
        plan,
        shared,
        lanes,
        decided,
        timings,
        started_at,
        interrupted,
    } = parts;
    let config = &request.config;
    let today = started_at.to_zoned_datetime(jiff::tz::TimeZone::UTC).date();
    let gate = gate::gate(config, &decided, today);
    let finished = lanes
        .iter()
        .filter(|lane| lane.record.kind != LaneKind::Quoted)
        .all(|lane| lane.record.listed.is_some());
    let mut caveats: Vec<String> = request.warnings.iter().map(|w| w.what.clone()).collect();
    caveats.extend(no_database);
    let notes = shared.database.iter().flat_map(|database| database.notes());
    caveats.extend(notes.map(|note| text::safe(note, 300)));
    for lane in lanes {
        for caveat in &lane.record.caveats {
            if !caveats.contains(caveat) {
                caveats.push(text::safe(caveat, 400));
            }
        }
        caveats.extend(lane.record.surface.troubles.iter().map(|t| text::safe(t, 200)));
    }
    caveats.dedup();
    Report {
        schema_version: SCHEMA_VERSION.into(),
        harness: Harness { name: "sealmark".into(), version: env!("CARGO_PKG_VERSION").into() },
        methodology: registry::METHODOLOGY.into(),
        config: ConfigRef {
            hash: plan.hash.clone(),
            file: config.file.as_ref().map(|file| file.display().to_string()),
            server_line: config.server_line,
        },
        run: RunInfo {
            kind: plan.kind,
            differences: plan.differences.clone(),
            profile: config.profile.as_str().into(),
            world: "open".into(),
            completed: finished && !interrupted,
            started_at: started_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            duration_ms: 0,
            timings,
        },
        server: server(request, lanes),
        tools: tools(lanes),
        targets: Targets {
            sandbox: plan.sandbox.then(|| "temporary".into()),
            sandbox_layout: plan.sandbox.then(|| target::Sandbox::version().into()),
            database: shared.database.as_ref().map(|d| d.origin().into()),
            database_version: shared.database.as_ref().map(|d| text::safe(d.version(), 60)),
            seed: shared.database.as_ref().map(|_| target::postgres::SEED.into()),
        },
        badge: badge(plan, &decided),
        not_covered: not_covered(plan, lanes),
        packs: decided,
        caveats,
        cleanup: Cleanup {
            removed: false,
            left: lanes.iter().flat_map(|lane| lane.record.left.iter().cloned()).collect(),
        },
        gate,
    }
    .without_secrets(shared)
}

fn server(request: &Request, lanes: &[Worked]) -> ServerInfo {
    let shown = request.config.server.shown();
    let started = lanes.iter().find(|lane| lane.record.instance.started);
    let surface = started.map(|lane| &lane.record.surface);
    let name = |text: Option<&str>| text::safe(text.unwrap_or_default(), 120);
    ServerInfo {
        name: name(surface.map(|surface| surface.name.as_str())),
        version: name(surface.map(|surface| surface.version.as_str())),
        protocol_version: name(surface.map(|surface| surface.protocol.as_str())),
        transport: "stdio".into(),
        command: std::iter::once(shown.command).chain(shown.args).collect(),
        env: shown.env.into_iter().collect(),
        headers: Vec::new(),
        instances: lanes.iter().map(|lane| lane.record.instance.clone()).collect(),
    }
}

fn tools(lanes: &[Worked]) -> Vec<ToolInfo> {
    decide::tools(lanes)
        .into_values()
        .map(|placement| ToolInfo {
            name: text::safe(&placement.tool, 128),
            class: placement.class.clone(),
            operation: placement.operation.clone(),
            because: text::safe(&placement.because, 200),
            confirmed_by: placement.is_confirmed().then(|| "control".into()),
            unconfirmed: match &placement.confirmed {
                Confirmed::Failed(why) => Some(text::safe(why, 300)),
                Confirmed::Untried | Confirmed::Good => None,
            },
            read_only_hint: placement.read_only_hint,
        })
        .collect()
}

/// The plan's lines, tools that could not be placed, and tools beyond those judged.
fn not_covered(plan: &Plan, lanes: &[Worked]) -> Vec<NotCovered> {
    let mut lines = plan.not_covered.clone();
    if plan.sandbox {
        lines.extend(unasked(lanes));
    }
    let mut seen = std::collections::BTreeSet::new();
    for skipped in lanes.iter().flat_map(|lane| &lane.record.skipped) {
        if seen.insert(&skipped.tool) {
            lines.push(NotCovered {
                what: format!("tool {}", text::safe(&skipped.tool, 128)),
                why: text::safe(&skipped.why, 200),
            });
        }
    }
    lines
}

/// Tools that no pack with a target asked: named, so that nobody takes a letter for theirs.
fn unasked(lanes: &[Worked]) -> Vec<NotCovered> {
    const NAMED: usize = 20;
    let tools = decide::tools(lanes);
    let mut lines = Vec::new();
    let others: Vec<String> = tools
        .values()
        .filter(|placement| placement.class == "other")
        .map(|placement| text::safe(&placement.tool, 64))
        .collect();
    if !others.is_empty() {
        let more = others.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = others[..others.len().min(NAMED)].join(", ");
        lines.push(NotCovered {
            what: format!("what these tools do with files: {named}{more}"),
            why: "no published words place them, so no probe with a path was sent to them".into(),
        });
    }
    for placement in tools.values().take(200) {
        if let Confirmed::Failed(why) = &placement.confirmed
            && lines.len() < NAMED
        {
            lines.push(NotCovered {
                what: format!(
                    "tool {} as {}",
                    text::safe(&placement.tool, 64),
                    placement.operation
                ),
                why: text::safe(why, 200),
            });
        }
    }
    lines
}

/// Standard, at least one letter, none provisional (methodology 9).
fn badge(plan: &Plan, packs: &[PackReport]) -> Badge {
    let graded: Vec<&PackReport> =
        packs.iter().filter(|pack| pack.status == PackStatus::Graded).collect();
    let why = if plan.kind == RunKind::Custom {
        Some("the run is CUSTOM")
    } else if graded.is_empty() {
        Some("no pack is graded")
    } else if graded.iter().any(|pack| pack.provisional) {
        Some("a letter is provisional")
    } else {
        None
    };
    Badge { eligible: why.is_none(), why: why.map(str::to_owned) }
}

/// The passwords of the run's roles, as they are and encoded for a URL.
fn passwords(database: &Postgres) -> Vec<String> {
    let roles = [Role::Admin, Role::Analyst, Role::Tenant].map(|role| database.password(role));
    let all = roles.into_iter().chain([database.quoted().1]);
    all.flat_map(|password| [password.to_owned(), config::encoded(password)]).collect()
}

impl Report {
    /// A last barrier: nothing that looks like a token of this run, no value taken from the
    /// environment and no path of the run leaves with the record, whatever put it there.
    fn without_secrets(self, shared: &Shared) -> Self {
        static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new("(?i)sm-(?:[a-z]{1,16}-)?[0-9a-f]{16}")
                .expect("the pattern is a constant that every run compiles")
        });
        let Ok(json) = serde_json::to_string(&self) else { return self };
        let mut clean = TOKEN.replace_all(&json, config::CANARY).into_owned();
        if let Some(root) = shared.run.root().to_str() {
            clean = clean.replace(root, "${run}");
        }
        for secret in shared.database.iter().flat_map(|database| passwords(database)) {
            let quoted = serde_json::Value::from(secret.as_str()).to_string();
            clean = clean.replace(quoted.trim_matches('"'), config::secrets::HIDDEN);
        }
        for value in shared.env.values().filter(|value| value.len() >= SECRET) {
            let quoted = serde_json::Value::from(value.as_str()).to_string();
            clean = clean.replace(quoted.trim_matches('"'), config::secrets::HIDDEN);
        }
        if clean == json { self } else { serde_json::from_str(&clean).unwrap_or(self) }
    }
}
