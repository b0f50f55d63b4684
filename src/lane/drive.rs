//! Declared probes, driven: each one to each confirmed tool of its operations.

use super::{Lane, ask::Asker};
use crate::{
    check::{Check, Direct, InstanceUse, Probe},
    classes::CLASSES,
    config::Profile,
    discover,
    evidence::{Evidence, Fact, How, Kind, Observer, Outcome, What, Why},
    stage::{Ask, Label, Life, Stop},
    surface::Placement,
};

/// A tool that ended the server so often gets no more probes of a check.
const MOST_DEATHS: usize = 3;
/// A tool that left so many probes in a row without a reply gets no more of a check.
const MOST_SILENCES: usize = 3;
/// After so many probes the control is run again in between.
const CONTROL_EVERY: usize = 24;

impl Lane {
    /// Drives the probes of a check that use the instance in this way.
    pub(super) async fn drive(
        &mut self,
        check: &'static Check,
        usage: InstanceUse,
    ) -> Result<(), Stop> {
        let deep = self.shared.config.profile == Profile::Deep;
        let last = usage == InstanceUse::Last;
        let probes: Vec<&'static Probe> = check
            .spec
            .probes_on(self.kind)
            .filter(|probe| (probe.instance == InstanceUse::Last) == last && (deep || !probe.deep))
            .collect();
        let placements = std::sync::Arc::clone(&self.placements);
        if usage == InstanceUse::Shared {
            self.keep_first_controls(check);
        }
        for placement in placements.iter().filter(|placement| is_asked(placement)) {
            let mine: Vec<&'static Probe> =
                probes.iter().copied().filter(|probe| goes_to(check, probe, placement)).collect();
            match mine.first() {
                None => {}
                Some(probe) if probe.sql.is_some() => {
                    self.drive_statements(check, placement, &mine).await?;
                }
                Some(_) => self.drive_tool(check, placement, &mine).await?,
            }
        }
        Ok(())
    }

    /// The first controls of the operations the check asks about, also those that failed.
    fn keep_first_controls(&mut self, check: &Check) {
        let id = check.id();
        let placements = std::sync::Arc::clone(&self.placements);
        for placement in placements.iter() {
            let asked = check.spec.tools.contains(&placement.operation)
                || check.spec.probes.iter().any(|p| p.tools.contains(&placement.operation));
            if let Some(line) = self.first_controls.get(&placement.tool).filter(|_| asked) {
                self.evidence.entry(id.clone()).or_default().push(line.clone());
            }
        }
    }

    async fn drive_tool(
        &mut self,
        check: &'static Check,
        placement: &Placement,
        probes: &[&'static Probe],
    ) -> Result<(), Stop> {
        let id = check.id();
        let mut since = self.evidence.get(&id).map_or(0, Vec::len);
        let mut deaths = 0;
        let mut silences = 0;
        for (n, probe) in probes.iter().enumerate() {
            if deaths >= MOST_DEATHS || silences >= MOST_SILENCES {
                for unsent in &probes[n..] {
                    let line = self.unasked(unsent, placement, Why::Unsent);
                    self.evidence.entry(id.clone()).or_default().push(line);
                }
                break;
            }
            let life = self.probe(check, placement, probe).await?;
            deaths += usize::from(matches!(life, Life::Died(_) | Life::Mute));
            silences = if life == Life::Silent { silences + 1 } else { 0 };
            let due = (n + 1) % CONTROL_EVERY == 0 && n + 1 < probes.len();
            if life != Life::Replied || due || n + 1 == probes.len() {
                since = self.control_between(&id, placement, since).await?;
            }
        }
        Ok(())
    }

    /// Runs the control again. When it does not work, whatever held since the last good one is no
    /// evidence.
    async fn control_between(
        &mut self,
        id: &str,
        placement: &Placement,
        since: usize,
    ) -> Result<usize, Stop> {
        let line = self.control_again(placement).await?;
        let good = line.is_held();
        let lines = self.evidence.entry(id.to_owned()).or_default();
        if !good {
            for held in lines.iter_mut().skip(since) {
                if held.kind == Kind::Probe && held.is_held() && held.tool == line.tool {
                    *held = held.clone().none(Why::ControlLost);
                }
            }
        }
        lines.push(line);
        Ok(lines.len())
    }

    async fn probe(
        &mut self,
        check: &'static Check,
        placement: &Placement,
        probe: &'static Probe,
    ) -> Result<Life, Stop> {
        self.alive().await?;
        let id = check.id();
        let token = self.new_token();
        let inputs = inputs(probe);
        let rebased: Vec<(&str, String)> = inputs
            .iter()
            .map(|(role, text)| (*role, discover::rebase(text, &placement.base)))
            .collect();
        let mut values: Vec<(&str, String)> =
            rebased.iter().map(|(role, text)| (*role, self.expanded(text, &token))).collect();
        if probe.direct == Direct::Object && !self.is_possible(&inputs, &token) {
            let line = self.unasked(probe, placement, Why::NotPossibleHere);
            self.keep(&id, line, &token);
            return Ok(Life::Replied);
        }
        if placement.takes("content") {
            values.push(("content", token.clone()));
        }
        if placement.takes("find") {
            values.push(("find", FIND.into()));
        }
        if placement.takes("pattern") {
            let spec = self.proofs.get(&placement.tool).map(|proof| proof.spec);
            let worked = spec.and_then(|spec| spec.values.get("pattern")).cloned();
            let pattern = probe.pattern.as_ref().map(|pattern| self.expanded(pattern, &token));
            values.push(("pattern", pattern.or(worked).unwrap_or_else(|| "*".into())));
        }
        let pairs: Vec<(&str, &str)> =
            values.iter().map(|(role, value)| (*role, value.as_str())).collect();
        let mut shown: Vec<String> =
            rebased.iter().map(|(role, value)| format!("{role}={value}")).collect();
        shown.extend(probe.pattern.iter().map(|pattern| format!("pattern={pattern}")));
        let label = Label {
            probe: probe.id.clone(),
            core: probe.core,
            family: probe.family.clone(),
            environment: probe.environment,
            valid: true,
            sent: format!("{} {}", placement.tool, shown.join(" ")),
            ..Label::default()
        };
        let sent = values.iter().map(|(_, value)| value.clone()).collect();
        let mut arguments = placement.arguments(&pairs);
        if placement.operation == MULTI_READ {
            // A guard that looks at the first path only is met by a good one in front.
            let good = self.expanded(&placement.inside("ok.txt"), &token);
            placement.put_before("path", &mut arguments, good);
        }
        let ask = Ask::call(&placement.tool, arguments);
        let asker = Asker::probe(check, &probe.id, sent, token.clone());
        let answer = self.exchange(asker, &label, &ask).await?;
        let mut line = answer.line;
        if let Some(fact) = self.broken_sandbox() {
            line.facts.push(fact);
            let watches = check.spec.observers.contains(&Observer::Filesystem);
            if watches {
                line = line.breached(Observer::Filesystem);
            } else {
                line.caveats.push("the sandbox itself was moved or removed by this call".into());
            }
        }
        self.keep(&id, line, &token);
        self.tidy();
        Ok(answer.life)
    }

    /// Whether the object a path means exists and is readable by the harness.
    fn is_possible(&self, inputs: &[(&'static str, String)], token: &str) -> bool {
        let Some(sandbox) = &self.sandbox else { return false };
        let meant = inputs.iter().find(|(role, _)| *role == "path" || *role == "from");
        meant.is_some_and(|(_, text)| sandbox.readable(&self.expanded(text, token)))
    }

    pub(super) fn unasked(&self, probe: &Probe, placement: &Placement, why: Why) -> Evidence {
        let mut line = Evidence::new(Kind::Probe, probe.id.clone()).none(why);
        line.core = probe.core;
        line.family.clone_from(&probe.family);
        line.tool = Some(placement.tool.clone());
        line.lane = self.kind.name().into();
        line.role.clone_from(&self.values.role);
        line.seq = self.seq;
        line
    }

    /// Keeps a line, and remembers its token for what may come late.
    fn keep(&mut self, id: &str, line: Evidence, token: &str) {
        let lines = self.evidence.entry(id.to_owned()).or_default();
        if line.outcome != Outcome::None || line.why != Some(Why::NotPossibleHere) {
            self.tokens.push((token.to_owned(), (id.to_owned(), lines.len())));
        }
        lines.push(line);
    }

    /// The fact that the sandbox is gone, when it is.
    fn broken_sandbox(&self) -> Option<Fact> {
        let sandbox = self.sandbox.as_ref()?;
        (!sandbox.intact()).then(|| {
            Fact::now(
                Observer::Filesystem,
                What::Changed { path: "box/docs".into(), how: How::Deleted, inside: false },
            )
        })
    }
}

/// The operation that takes several paths at once (packs/classes.yaml).
const MULTI_READ: &str = "multi-read";

/// What the targets of edit probes contain (seeds/sandbox.yaml).
const FIND: &str = "harbour";

/// Whether a tool is asked: its control worked, or it has none.
fn is_asked(placement: &Placement) -> bool {
    let operation = CLASSES.operation(&placement.operation);
    placement.is_confirmed() || operation.is_some_and(|operation| operation.controls.is_empty())
}

fn goes_to(check: &Check, probe: &Probe, placement: &Placement) -> bool {
    let operations = if probe.tools.is_empty() { &check.spec.tools } else { &probe.tools };
    let fits = match (&probe.path, &probe.path_pair) {
        (Some(_), _) => placement.takes("path"),
        (None, Some(_)) => placement.takes("from") && placement.takes("to"),
        (None, None) => probe.sql.is_some() && placement.takes("sql"),
    };
    fits && operations.contains(&placement.operation)
}

fn inputs(probe: &Probe) -> Vec<(&'static str, String)> {
    match (&probe.path, &probe.path_pair) {
        (Some(path), _) => vec![("path", path.clone())],
        (None, Some(pair)) => vec![("from", pair.from.clone()), ("to", pair.to.clone())],
        (None, None) => Vec::new(),
    }
}
