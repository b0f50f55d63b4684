//! From the configuration and the registry to what will run, and why the rest will not. Pure.

use crate::{
    check::{Check, Collect, LaneKind, Needs, Pack, Severity},
    config::{Config, Placeholder, Profile},
    judges::runner::Rule,
    registry,
    report::{NotCovered, RunKind},
    standard::{self, Names},
};

/// What will run.
pub struct Plan {
    /// The packs, in report order.
    pub packs: Vec<PlannedPack>,
    /// The lanes with something to do, in order.
    pub lanes: Vec<LanePlan>,
    /// Whether the lanes may run beside each other.
    pub parallel: bool,
    /// Whether the sandbox is used.
    pub sandbox: bool,
    /// Whether the database is used.
    pub database: bool,
    /// Standard or custom.
    pub kind: RunKind,
    /// What differs from the standard.
    pub differences: Vec<String>,
    /// The hash of the locked settings.
    pub hash: String,
    /// Whether only chosen checks run, so that no letter can be given.
    pub only: bool,
    /// What the run says nothing about, known beforehand.
    pub not_covered: Vec<NotCovered>,
}

/// One pack of the run.
pub struct PlannedPack {
    /// The pack.
    pub pack: &'static Pack,
    /// Why it does not apply, when that is known from the configuration alone.
    pub na: Option<String>,
    /// Its checks, in report order.
    pub checks: Vec<PlannedCheck>,
}

/// One check of the run.
pub struct PlannedCheck {
    /// The check.
    pub check: &'static Check,
    /// Its severity in this run.
    pub severity: Severity,
    /// The rule that settles it before anything is asked.
    pub settled: Option<Rule>,
}

/// One lane and the checks that ask on it, in order.
#[derive(Clone)]
pub struct LanePlan {
    /// The lane.
    pub kind: LaneKind,
    /// Checks driven or scripted there.
    pub checks: Vec<&'static Check>,
    /// The client name its server is told.
    pub client: &'static str,
}

/// The client name of ordinary lanes.
pub const CLIENT: &str = "sealmark";
/// The client name of the hostile lane: a host that servers know, so that a server which shows
/// itself differently to it is seen.
pub const OTHER_CLIENT: &str = "claude-ai";

/// Makes the plan. `only` names checks of a partial run.
pub fn plan(config: &Config, only: &[String]) -> Plan {
    let placeholders = config.placeholders();
    let sandbox = placeholders.contains(&Placeholder::Sandbox);
    let database = placeholders.iter().any(|used| matches!(used, Placeholder::Pg(_)));
    let chosen = |pack: &Pack| match &config.packs {
        Some(packs) => packs.iter().any(|id| id == pack.id),
        None => true,
    };
    let packs: Vec<PlannedPack> = registry::packs()
        .iter()
        .filter(|pack| chosen(pack))
        .map(|pack| PlannedPack {
            pack,
            na: match pack.needs {
                Needs::Sandbox(_) if !sandbox => {
                    Some("the configuration does not use `${sandbox}`".into())
                }
                Needs::Database(_) if !database => {
                    Some("the configuration does not use `${pg.url}` or a part of it".into())
                }
                Needs::Sandbox(_) | Needs::Database(_) | Needs::Nothing => None,
            },
            checks: pack.checks.iter().map(|check| planned(config, check, only)).collect(),
        })
        .collect();
    let lanes = lanes(&packs, database);
    let differences = differences(config, only);
    Plan {
        lanes,
        parallel: !shares_a_store(config),
        sandbox,
        database,
        kind: if differences.is_empty() { RunKind::Standard } else { RunKind::Custom },
        differences,
        hash: standard::hash(&standard::locked(Some(config))),
        only: !only.is_empty(),
        not_covered: not_covered(config, &packs),
        packs,
    }
}

fn planned(config: &Config, check: &'static Check, only: &[String]) -> PlannedCheck {
    let id = check.id();
    let set = config.checks.get(&id);
    let severity = match set.and_then(|set| set.severity).map(|severity| severity.as_str()) {
        Some("critical") => Severity::Critical,
        Some("scored") => Severity::Scored,
        Some(_) => Severity::Advisory,
        None => check.spec.effective_severity(),
    };
    let settled = if set.and_then(|set| set.enabled) == Some(false) {
        Some(Rule::SwitchedOff)
    } else if !only.is_empty() && !only.contains(&id) {
        Some(Rule::NotChosen)
    } else if check.spec.deep && config.profile != Profile::Deep {
        Some(Rule::DeepOnly)
    } else {
        None
    };
    PlannedCheck { check, severity, settled }
}

/// Every lane a driven or scripted check asks for. The main lane is always there: it is what the
/// surface is read from.
fn lanes(packs: &[PlannedPack], database: bool) -> Vec<LanePlan> {
    let asked: Vec<&'static Check> = packs
        .iter()
        .filter(|pack| pack.na.is_none())
        .flat_map(|pack| &pack.checks)
        .filter(|planned| planned.settled.is_none())
        .map(|planned| planned.check)
        .filter(|check| matches!(check.collect, Collect::Calls | Collect::Script(_)))
        .collect();
    let of = |kind: LaneKind| {
        let mut checks: Vec<&'static Check> =
            asked.iter().copied().filter(|check| check.spec.lanes().contains(&kind)).collect();
        checks.sort_by_key(|check| check.spec.turn);
        LanePlan {
            kind,
            checks,
            client: if kind == LaneKind::Hostile { OTHER_CLIENT } else { CLIENT },
        }
    };
    LaneKind::ALL
        .into_iter()
        .map(of)
        .filter(|lane| match lane.kind {
            LaneKind::Main => true,
            // It asks nothing: what the server says of its start is read with the rest of its own.
            LaneKind::Quoted => database && packs.iter().any(|p| p.pack.needs == Needs::Nothing),
            _ => !lane.checks.is_empty(),
        })
        .collect()
}

impl Plan {
    /// Whether a check reads what all lanes did, the ends of their servers included.
    pub fn reads_journal(&self) -> bool {
        let packs = self.packs.iter().filter(|pack| pack.pack.needs == Needs::Nothing);
        let mut checks = packs.flat_map(|pack| &pack.checks).filter(|c| c.settled.is_none());
        checks.any(|planned| matches!(planned.check.collect, Collect::Journal(_)))
    }

    /// Takes out what needs a database that could not be had.
    pub fn without_database(&mut self, why: &str) {
        for pack in &mut self.packs {
            if matches!(pack.pack.needs, Needs::Database(_)) {
                pack.na.get_or_insert_with(|| why.to_owned());
            }
        }
        self.lanes.retain(|lane| !lane.kind.needs_database());
    }
}

/// Whether the server is given a store that its instances would share: an absolute path that is
/// not below a placeholder, in an argument or a variable of the configuration.
fn shares_a_store(config: &Config) -> bool {
    let server = &config.server;
    let values = server.args.iter().chain(server.env.iter().map(|(_, value)| value));
    values.into_iter().any(|value| {
        let path = std::path::Path::new(value);
        let program = path.extension().and_then(|end| end.to_str()).is_some_and(|end| {
            matches!(end, "js" | "mjs" | "cjs" | "ts" | "py" | "jar" | "rb" | "php" | "sh")
        });
        path.is_absolute() && !program
    })
}

fn differences(config: &Config, only: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Names::of_registry().with(|known| {
        config
            .departures(known)
            .into_iter()
            .map(|d| format!("{} is {}, the standard is {}", d.key, d.value, d.standard))
            .collect()
    });
    if !only.is_empty() {
        found.push(format!("only {} was asked", only.join(", ")));
    }
    found
}

/// Known blind spots (methodology 13) that apply to the packs of this run, and packs left out.
fn not_covered(config: &Config, packs: &[PlannedPack]) -> Vec<NotCovered> {
    let line = |what: &str, why: &str| NotCovered { what: what.into(), why: why.into() };
    let mut lines = vec![
        line("what tool results make a model do", "there is no model in the loop"),
        line("supply chain: provenance, dependencies, install scripts", "only behaviour is tested"),
        line("load, concurrency and long sessions", "one call is in flight at a time"),
        line(
            "tools shown only to clients with roots, sampling or elicitation, and prompt arguments",
            "the harness declares no capabilities",
        ),
        line(
            "tools that need valid-looking arguments",
            "arguments are filled from const, default or a one-value enum, never guessed",
        ),
    ];
    if packs.iter().any(|pack| pack.pack.id == "fs" && pack.na.is_none()) {
        lines.push(line(
            "writes outside the watched directories",
            "in the open world only the lane's own directories are watched",
        ));
    }
    if packs.iter().any(|pack| pack.pack.id == "db" && pack.na.is_none()) {
        lines.push(line(
            "files, programs and other sessions of the database",
            "the seed's roles are no superusers, so the database itself refuses them",
        ));
        lines.push(line("policies of another shape", "rows and columns are those of the seed"));
    }
    if config.packs.is_some() {
        let left: Vec<&str> = registry::packs()
            .iter()
            .map(|pack| pack.id)
            .filter(|id| !packs.iter().any(|pack| pack.pack.id == *id))
            .collect();
        if !left.is_empty() {
            lines.push(line(&format!("packs {}", left.join(", ")), "the pack list was chosen"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(argument: &str, only: &[&str]) -> Plan {
        let (config, _) = crate::config::from_command(&["x".into(), argument.into()]).unwrap();
        let only: Vec<String> = only.iter().map(|id| (*id).to_owned()).collect();
        plan(&config, &only)
    }

    fn settled(plan: &Plan, id: &str) -> Option<Rule> {
        let mut checks = plan.packs.iter().flat_map(|pack| &pack.checks);
        checks.find(|planned| planned.check.id() == id).unwrap().settled
    }

    #[test]
    fn a_plain_run_is_standard_and_has_every_lane_it_needs() {
        let plan = of("${sandbox}", &[]);
        assert_eq!(
            (plan.kind, plan.hash),
            (RunKind::Standard, standard::hash(&standard::locked(None)))
        );
        let lanes: Vec<&str> = plan.lanes.iter().map(|lane| lane.kind.name()).collect();
        assert_eq!(lanes, ["main", "hostile", "second"]);
        assert!(plan.parallel && plan.sandbox);
    }

    #[test]
    fn without_the_placeholder_the_sandbox_pack_does_not_apply() {
        let plan = of("--stdio", &[]);
        let fs = plan.packs.iter().find(|pack| pack.pack.id == "fs").unwrap();
        assert!(fs.na.as_deref().is_some_and(|why| why.contains("${sandbox}")) && !plan.sandbox);
    }

    #[test]
    fn chosen_checks_make_a_custom_run_without_a_letter() {
        let plan = of("${sandbox}", &["fs-path-escape"]);
        assert_eq!(plan.kind, RunKind::Custom);
        assert!(plan.only);
        assert_eq!(settled(&plan, "fs-path-escape"), None);
        assert_eq!(settled(&plan, "secret-echo"), Some(Rule::NotChosen));
    }

    #[test]
    fn one_store_for_all_instances_lets_one_lane_run_at_a_time() {
        assert!(!of("/var/lib/notes", &[]).parallel);
        assert!(of("/opt/server/index.js", &[]).parallel);
    }

    #[test]
    fn early_checks_come_first_on_their_lane_and_late_ones_last() {
        for lane in of("${sandbox}", &[]).lanes {
            let turns: Vec<_> = lane.checks.iter().map(|check| check.spec.turn).collect();
            assert!(turns.is_sorted(), "{}: {turns:?}", lane.kind.name());
        }
    }
}
