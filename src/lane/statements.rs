//! Declared statements of SQL, driven: each to each tool that runs SQL, with a control behind every
//! few of them, and the database brought back between.

use super::{Lane, ask::Asker};
use crate::{
    check::{Check, InstanceUse, LaneKind, Probe},
    evidence::{Evidence, Why},
    stage::{Ask, Label, Life, Stop},
    surface::Placement,
};

/// Statements between two controls.
const BATCH: usize = 8;
/// So many statements in a row, each on a fresh instance, that left the tool unusable: the rest is
/// not sent.
const MOST_SPOILT: usize = 3;

/// So many core statements that took effect tell all there is to tell: a server that runs whatever
/// it is sent gets no more of a check, for bringing the database back takes its time.
const MOST_BREACHES: usize = 40;

/// A statement that was asked, and the index of its line.
type Asked = (usize, &'static Probe);

impl Lane {
    /// Drives the statements of a check on this lane.
    pub(super) async fn drive_statements(
        &mut self,
        check: &'static Check,
        placement: &Placement,
        probes: &[&'static Probe],
    ) -> Result<(), Stop> {
        let (own, shared): (Vec<_>, Vec<_>) =
            probes.iter().copied().partition(|probe| probe.instance == InstanceUse::Own);
        let mut spoilt = 0;
        let mut batch: Vec<Asked> = Vec::new();
        for probe in shared {
            if self.leave_out(check, placement, probe, spoilt) {
                continue;
            }
            let (at, shaky) = self.statement(check, placement, probe, None).await?;
            batch.push((at, probe));
            if shaky || batch.len() >= BATCH {
                spoilt = self.confirmed(check, placement, &mut batch, spoilt).await?;
            }
            self.restore().await;
        }
        if !batch.is_empty() {
            spoilt = self.confirmed(check, placement, &mut batch, spoilt).await?;
            self.restore().await;
        }
        self.on_own_instance(check, placement, &own, spoilt).await
    }

    /// The control behind a batch; where it fails, the batch is asked again.
    async fn confirmed(
        &mut self,
        check: &'static Check,
        placement: &Placement,
        batch: &mut Vec<Asked>,
        spoilt: usize,
    ) -> Result<usize, Stop> {
        let batch = std::mem::take(batch);
        match self.good_control(check, placement).await? {
            true => Ok(spoilt),
            false => self.one_by_one(check, placement, batch, spoilt).await,
        }
    }

    /// Statements of a broken batch again, each with a control behind it: what spoils its control
    /// is no evidence, unless it was a breach. Returns how many in a row did.
    async fn one_by_one(
        &mut self,
        check: &'static Check,
        placement: &Placement,
        batch: Vec<Asked>,
        mut spoilt: usize,
    ) -> Result<usize, Stop> {
        self.restart().await?;
        for (at, probe) in batch {
            let known = self.evidence.get(&check.id()).and_then(|lines| lines.get(at));
            if known.is_some_and(Evidence::is_breached) {
                continue;
            }
            if spoilt >= MOST_SPOILT {
                let line = self.unasked(probe, placement, Why::Unsent);
                self.put_line(check, Some(at), line);
                continue;
            }
            self.statement(check, placement, probe, Some(at)).await?;
            if self.good_control(check, placement).await? {
                spoilt = 0;
            } else {
                spoilt += 1;
                self.disbelieve(check, at);
                self.restart().await?;
            }
            self.restore().await;
        }
        Ok(spoilt)
    }

    /// Statements that carry something over to the next call: on an instance that was asked nothing
    /// else before, or only such of which nothing is known to have stayed.
    async fn on_own_instance(
        &mut self,
        check: &'static Check,
        placement: &Placement,
        probes: &[&'static Probe],
        mut spoilt: usize,
    ) -> Result<(), Stop> {
        let mut used = true;
        for &probe in probes {
            if self.leave_out(check, placement, probe, spoilt) {
                continue;
            }
            if std::mem::take(&mut used) {
                self.restart().await?;
            }
            let (at, shaky) = self.statement(check, placement, probe, None).await?;
            let good = self.good_control(check, placement).await?;
            if !good {
                self.disbelieve(check, at);
            }
            spoilt = if good { 0 } else { spoilt + 1 };
            let lines = self.evidence.get(&check.id());
            let breached = lines.and_then(|l| l.get(at)).is_some_and(Evidence::is_breached);
            used = shaky || breached || !good;
            self.restore().await;
        }
        if used && !probes.is_empty() {
            self.restart().await?;
        }
        Ok(())
    }

    /// Leaves a statement out, with a line that says why, where it could tell nothing.
    fn leave_out(
        &mut self,
        check: &'static Check,
        placement: &Placement,
        probe: &'static Probe,
        spoilt: usize,
    ) -> bool {
        let id = check.id();
        let lines = self.evidence.entry(id.clone()).or_default();
        // One more breach of a core probe, or of the same family, would change nothing.
        let same = |line: &Evidence| line.family.is_some() && line.family == probe.family;
        let breached = lines.iter().filter(|line| line.is_breached());
        let decided = match check.spec.until_breached {
            true => breached.clone().any(|line| line.core || same(line)),
            false => breached.filter(|line| line.core).count() >= MOST_BREACHES,
        };
        let impossible =
            self.database.as_ref().is_some_and(|database| database.cannot_land(&id, &probe.id));
        let why = match () {
            () if impossible => Why::NotPossibleHere,
            () if decided => Why::Decided,
            () if spoilt >= MOST_SPOILT => Why::Unsent,
            () => return false,
        };
        let line = self.unasked(probe, placement, why);
        self.evidence.entry(id).or_default().push(line);
        true
    }

    /// Sends one statement, and the one that follows it. Returns the index of its line, and whether
    /// the next call may meet what it left.
    async fn statement(
        &mut self,
        check: &'static Check,
        placement: &Placement,
        probe: &'static Probe,
        at: Option<usize>,
    ) -> Result<(usize, bool), Stop> {
        self.alive().await?;
        let token = self.new_token();
        let limits = &self.shared.config.limits;
        let patience = if self.kind == LaneKind::Bulk { limits.time_call } else { limits.call };
        let written: Vec<&String> = probe.sql.iter().chain(&probe.then).collect();
        let mut earlier = Vec::new();
        let mut line = self.unasked(probe, placement, Why::NothingSeen);
        let mut shaky = false;
        for (n, text) in written.iter().enumerate() {
            let sql = self.expanded(text, &token);
            let shown: Vec<String> =
                written[..=n].iter().map(|text| format!("sql={text}")).collect();
            let label = Label {
                probe: probe.id.clone(),
                core: probe.core,
                family: probe.family.clone(),
                valid: true,
                sent: format!("{} {}", placement.tool, shown.join(" → ")),
                patience: Some(patience),
                ..Label::default()
            };
            let arguments = placement.arguments(&[("sql", &sql)]);
            let asker = Asker::probe(check, &probe.id, vec![sql], token.clone());
            let answer =
                self.exchange(asker, &label, &Ask::call(&placement.tool, arguments)).await?;
            // Of two calls the second one's line stays, with what the first one showed before it.
            earlier.append(&mut line.facts);
            line = answer.line;
            shaky |= answer.pending || answer.life != Life::Replied;
            if line.is_breached() || answer.life != Life::Replied {
                break;
            }
        }
        line.facts.splice(0..0, earlier);
        let at = self.put_line(check, at, line);
        if let Some(database) = &mut self.database {
            database.asked((check.id(), at));
        }
        Ok((at, shaky))
    }

    fn put_line(&mut self, check: &Check, at: Option<usize>, line: Evidence) -> usize {
        let lines = self.evidence.entry(check.id()).or_default();
        match at.and_then(|at| lines.get_mut(at).map(|known| (at, known))) {
            Some((at, known)) => {
                *known = line;
                at
            }
            None => {
                lines.push(line);
                lines.len() - 1
            }
        }
    }

    /// What held is no evidence when the control behind it failed.
    fn disbelieve(&mut self, check: &Check, at: usize) {
        let line = self.evidence.get_mut(&check.id()).and_then(|lines| lines.get_mut(at));
        if let Some(line) = line.filter(|line| line.is_held()) {
            *line = line.clone().none(Why::ControlLost);
        }
    }

    /// The control again, kept with the check.
    async fn good_control(
        &mut self,
        check: &'static Check,
        placement: &Placement,
    ) -> Result<bool, Stop> {
        if !placement.is_confirmed() {
            return Ok(true);
        }
        let line = self.control_again(placement).await?;
        let good = line.is_held();
        self.evidence.entry(check.id()).or_default().push(line);
        Ok(good)
    }

    /// A fresh instance.
    async fn restart(&mut self) -> Result<(), Stop> {
        self.drop_instance("replaced").await;
        self.restore().await;
        self.alive().await
    }

    /// Brings the database back.
    async fn restore(&mut self) {
        let Some(database) = &mut self.database else { return };
        let caveat = match database.reset().await {
            Ok(false) => return,
            Ok(true) => "the server had left locks in the database, and its sessions were ended",
            Err(why) => return self.caveats.push(why),
        };
        if !self.caveats.iter().any(|known| known == caveat) {
            self.caveats.push(caveat.into());
        }
    }
}
