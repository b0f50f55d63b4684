//! From what the lanes left to verdicts: the runner's own rules first, then each check decides.

use std::collections::BTreeMap;

use super::Worked;
use crate::{
    check::{Check, Collect, Needs},
    evidence::{Collected, Evidence, Kind},
    grade::{Graded, grade},
    journal::Journal,
    judges::runner::Rule,
    lane::Shared,
    plan::{Plan, PlannedCheck, PlannedPack},
    report::{CheckReport, PackReport, PackStatus},
    surface::Surface,
    verdict::Ruling,
};

/// Decides every pack.
pub(super) fn decide(
    plan: &Plan,
    lanes: &[Worked],
    journal: Journal,
    shared: &Shared,
    interrupted: bool,
) -> Vec<PackReport> {
    let scene = Scene::new(lanes, journal, interrupted);
    plan.packs
        .iter()
        .map(|pack| {
            let report = decide_pack(plan, pack, &scene);
            shared.events.tell(crate::event::Event::Decided { pack: Box::new(report.clone()) });
            report
        })
        .collect()
}

/// The journal of all lanes, moved out of their records: it is the largest thing a run holds.
pub(super) fn journal(lanes: &mut [Worked], shared: &Shared) -> Journal {
    let mut journal = Journal::default();
    for Worked { record, .. } in lanes {
        journal.acts.append(&mut record.acts);
        journal.closings.append(&mut record.closings);
        journal.noise.append(&mut record.noise);
        journal.noise_count += record.noise_count;
        journal.messages += record.messages;
        journal.hits.append(&mut record.hits);
        journal.sessions.append(&mut record.sessions);
    }
    journal.acts.sort_by(|a, b| (&a.lane, a.seq).cmp(&(&b.lane, b.seq)));
    journal.own_paths = vec![shared.run.root().display().to_string()];
    journal
}

/// Everything decisions are made from.
struct Scene<'a> {
    lanes: &'a [Worked],
    journal: Journal,
    /// What all lanes showed, at any time.
    surface: Option<Surface>,
    interrupted: bool,
    /// Why no instance started, when none did.
    not_started: Option<String>,
}

impl<'a> Scene<'a> {
    fn new(lanes: &'a [Worked], mut journal: Journal, interrupted: bool) -> Self {
        let started = lanes.iter().find(|lane| lane.record.instance.started);
        journal.tools = started.map_or(0, |lane| lane.record.surface.tools.len());
        let surface = started.map(|_| everything_shown(lanes));
        let not_started = started.is_none().then(|| {
            let troubles = lanes.iter().filter_map(|lane| lane.record.instance.trouble.clone());
            troubles.into_iter().next().unwrap_or_else(|| "no instance was started".into())
        });
        Self { lanes, journal, surface, interrupted, not_started }
    }

    /// The lanes a check asks on.
    fn lanes(&self, check: &Check) -> impl Iterator<Item = &Worked> {
        let asked = check.spec.lanes();
        self.lanes.iter().filter(move |lane| asked.contains(&lane.record.kind))
    }

    /// Whether some lane placed a tool in one of the classes. One whose control failed counts: a
    /// server that could not be asked is a question left open, not one that does not apply.
    fn has(&self, classes: &[&str]) -> bool {
        let mut placements = self.lanes.iter().flat_map(|lane| lane.record.placements.iter());
        placements.any(|placement| classes.contains(&placement.class.as_str()))
    }

    fn offers(&self, operations: &[String]) -> bool {
        self.lanes
            .iter()
            .flat_map(|lane| lane.record.placements.iter())
            .any(|placement| operations.contains(&placement.operation))
    }
}

/// What the first instance showed, and whatever any other list, of any lane and at any time, showed
/// besides: a text that is hidden from the first look is still a text of the server.
fn everything_shown(lanes: &[Worked]) -> Surface {
    let mut records = lanes.iter().map(|lane| &lane.record).filter(|r| r.instance.started);
    let Some(first) = records.next() else { return Surface::default() };
    let mut all = Surface::clone(&first.surface);
    let others = lanes.iter().map(|lane| &lane.record);
    for record in others {
        for tool in record.surface.tools.iter().chain(&record.later) {
            if !all.tools.contains(tool) {
                all.tools.push(tool.clone());
            }
        }
        for shown in &record.surface.shown {
            if !all.shown.contains(shown) {
                all.shown.push(shown.clone());
            }
        }
    }
    all
}

fn decide_pack(plan: &Plan, planned: &PlannedPack, scene: &Scene<'_>) -> PackReport {
    let pack = planned.pack;
    let mut na = planned.na.clone();
    if na.is_none()
        && scene.not_started.is_none()
        && !scene.interrupted
        && let Needs::Sandbox(classes) | Needs::Database(classes) = pack.needs
        && !scene.has(classes)
    {
        na = Some(format!("the server has no {} tool", classes.join(", no ")));
    }
    let checks: Vec<CheckReport> =
        planned.checks.iter().map(|check| decide_check(check, na.as_deref(), scene)).collect();
    let graded: Vec<Graded> = checks
        .iter()
        .map(|check| Graded {
            id: check.id.clone(),
            severity: check.severity,
            verdict: check.verdict,
        })
        .collect();
    let undecided = checks.iter().any(|check| !check.advisory && check.rule == "interrupted");
    let grade = grade(&graded).filter(|_| !plan.only && !undecided);
    let status = match (&grade, &na) {
        (Some(_), _) => PackStatus::Graded,
        (None, Some(_)) => PackStatus::Na,
        (None, None) => PackStatus::Inconclusive,
    };
    let reason = match status {
        PackStatus::Graded => None,
        PackStatus::Na => na,
        PackStatus::Inconclusive => Some(why_ungraded(plan, scene, undecided)),
    };
    PackReport {
        id: pack.id.into(),
        title: pack.title.into(),
        status,
        reason,
        letter: grade.as_ref().map(|grade| grade.letter),
        raw_letter: grade.as_ref().map(|grade| grade.raw_letter),
        capped: grade.as_ref().is_some_and(|grade| grade.capped),
        cap_reasons: grade.as_ref().map(|grade| grade.cap_reasons.clone()).unwrap_or_default(),
        provisional: grade.as_ref().is_some_and(|grade| grade.provisional),
        points: grade.as_ref().map_or(0.0, crate::grade::Grade::points),
        scored: grade.as_ref().map_or(0, |grade| grade.scored),
        non_advisory: u32::try_from(checks.iter().filter(|check| !check.advisory).count())
            .unwrap_or(u32::MAX),
        percentage: grade.as_ref().map_or(0, crate::grade::Grade::percentage),
        candidate: false,
        excluded: grade.map(|grade| grade.excluded).unwrap_or_default(),
        checks,
    }
}

fn why_ungraded(plan: &Plan, scene: &Scene<'_>, undecided: bool) -> String {
    if let Some(why) = &scene.not_started {
        let first = why.lines().next().unwrap_or_default();
        return format!("the server did not start: {first}");
    }
    if undecided || scene.interrupted {
        return "interrupted".into();
    }
    if plan.only {
        return "only chosen checks were asked".into();
    }
    "nothing was scored".into()
}

fn decide_check(planned: &PlannedCheck, na: Option<&str>, scene: &Scene<'_>) -> CheckReport {
    let check = planned.check;
    let spec = &*check.spec;
    let id = check.id();
    let collected = collect(check, scene);
    let settled = settle(planned, na, &collected, scene);
    let (ruling, reason, lines) = match (settled, Collected::new(collected.clone())) {
        (Some((rule, reason)), _) => (rule.because([]), reason, collected),
        (None, None) => (Rule::NothingCollected.because([]), None, collected),
        (None, Some(collected)) => {
            let ruling: Ruling = (check.decide)(&collected);
            (ruling, None, collected.into_lines())
        }
    };
    let spent = scene.lanes.iter().filter_map(|lane| lane.record.spent.get(&id)).sum();
    CheckReport {
        id,
        title: spec.title.clone(),
        verdict: ruling.rule.verdict(),
        rule: ruling.rule.id(),
        rule_text: check.rule_text(ruling.rule),
        severity: planned.severity,
        advisory: planned.severity == crate::check::Severity::Advisory,
        candidate: spec.candidate,
        scope: spec.measures,
        probes: ruling.because,
        evidence: lines,
        duration_ms: super::millis(spent),
        reason,
    }
}

/// The lines of a check: from its lane, or from its pure collector.
fn collect(check: &Check, scene: &Scene<'_>) -> Vec<Evidence> {
    let listed = |surface: &Surface| *surface != Surface::default();
    match check.collect {
        Collect::Surface(collect) => {
            scene.surface.as_ref().filter(|s| listed(s)).map(collect).unwrap_or_default()
        }
        Collect::Journal(collect) if scene.surface.is_some() => collect(&scene.journal),
        Collect::Journal(_) => Vec::new(),
        Collect::Calls | Collect::Script(_) => {
            let of_lanes = scene.lanes(check);
            let mut lines: Vec<Evidence> = of_lanes
                .filter_map(|lane| lane.record.evidence.get(&check.id()))
                .flatten()
                .cloned()
                .collect();
            // As the record has them, so that they decide the same again.
            lines.sort_by(|a, b| (&a.lane, a.seq).cmp(&(&b.lane, b.seq)));
            lines
        }
    }
}

/// The runner's own rules (methodology 3), in order.
fn settle(
    planned: &PlannedCheck,
    na: Option<&str>,
    lines: &[Evidence],
    scene: &Scene<'_>,
) -> Option<(Rule, Option<String>)> {
    let check = planned.check;
    if let Some(rule) = planned.settled {
        return Some((rule, None));
    }
    if let Some(why) = na {
        return Some((Rule::PackNotApplicable, Some(why.to_owned())));
    }
    if let Some(why) = &scene.not_started {
        return Some((Rule::ServerDidNotStart, Some(why.clone())));
    }
    let asks = matches!(check.collect, Collect::Calls | Collect::Script(_));
    let breached = lines.iter().any(Evidence::is_breached);
    if asks {
        // A breach needs nothing more; anything else needs the check to have been asked whole.
        for lane in scene.lanes(check).filter(|_| !breached) {
            if !lane.record.instance.started {
                return Some((Rule::ServerDidNotStart, lane.record.instance.trouble.clone()));
            }
            if !lane.record.done.contains(&check.id()) {
                return Some(if scene.interrupted {
                    (Rule::Interrupted, None)
                } else {
                    (Rule::ServerStoppedAnswering, lane.record.caveats.last().cloned())
                });
            }
        }
    } else if scene.interrupted && !breached {
        return Some((Rule::Interrupted, None));
    }
    if matches!(check.collect, Collect::Calls) {
        if !scene.offers(&operations(check)) {
            return Some((Rule::NoToolOfThisKind, None));
        }
        let controls: Vec<&Evidence> =
            lines.iter().filter(|line| line.kind == Kind::Control).collect();
        if !breached && !controls.is_empty() && !controls.iter().any(|line| line.is_held()) {
            return Some((Rule::ControlFailed, None));
        }
    }
    None
}

/// Every operation the check's probes go to.
fn operations(check: &Check) -> Vec<String> {
    let own = check.spec.probes.iter().flat_map(|probe| probe.tools.iter());
    check.spec.tools.iter().chain(own).cloned().collect()
}

/// What is said of tools, once for all lanes.
pub(super) fn tools(lanes: &[Worked]) -> BTreeMap<&str, &crate::surface::Placement> {
    let mut found: BTreeMap<&str, &crate::surface::Placement> = BTreeMap::new();
    for placement in lanes.iter().flat_map(|lane| lane.record.placements.iter()) {
        let better = found
            .get(placement.tool.as_str())
            .is_none_or(|known| !known.is_confirmed() && placement.is_confirmed());
        if better {
            found.insert(&placement.tool, placement);
        }
    }
    found
}
