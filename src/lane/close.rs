//! The end of a lane: the instance is ended, the targets are looked at once more, and what the lane
//! holds is handed over.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::Lane;
use crate::{
    check::LaneKind,
    discover::Skipped,
    event::Event,
    evidence::Evidence,
    journal::{Act, Closing, Hit, Noise, Session},
    report::InstanceInfo,
    surface::{Placement, Surface, Tool},
    world::{Graces, Step},
};

/// What a lane leaves.
pub struct LaneRecord {
    /// The lane.
    pub kind: LaneKind,
    /// What its server showed.
    pub surface: Arc<Surface>,
    /// Tools that a later list showed for the first time, or differently.
    pub later: Vec<Tool>,
    /// When it had listed itself.
    pub listed: Option<Instant>,
    /// Its tools as placed.
    pub placements: Arc<Vec<Placement>>,
    /// Tools that could not be placed.
    pub skipped: Vec<Skipped>,
    /// Requests, in order.
    pub acts: Vec<Act>,
    /// Ends of its instances.
    pub closings: Vec<Closing>,
    /// Stdout lines that are no messages.
    pub noise: Vec<Noise>,
    /// How many there were.
    pub noise_count: u64,
    /// Messages read.
    pub messages: u64,
    /// Canaries seen outside of requests.
    pub hits: Vec<Hit>,
    /// Sessions of the server in the database.
    pub sessions: Vec<Session>,
    /// Lines by check.
    pub evidence: BTreeMap<String, Vec<Evidence>>,
    /// Time by check.
    pub spent: BTreeMap<String, Duration>,
    /// Checks that were asked whole.
    pub done: BTreeSet<String>,
    /// The server's own answering time.
    pub answering: Duration,
    /// What weakens the lane.
    pub caveats: Vec<String>,
    /// What could not be removed.
    pub left: Vec<String>,
    /// The instance.
    pub instance: InstanceInfo,
}

impl LaneRecord {
    /// The record of a lane that never had an instance.
    pub fn empty(kind: LaneKind) -> Self {
        Self {
            kind,
            surface: Arc::default(),
            later: Vec::new(),
            listed: None,
            placements: Arc::default(),
            skipped: Vec::new(),
            acts: Vec::new(),
            closings: Vec::new(),
            noise: Vec::new(),
            noise_count: 0,
            messages: 0,
            hits: Vec::new(),
            sessions: Vec::new(),
            evidence: BTreeMap::new(),
            spent: BTreeMap::new(),
            done: BTreeSet::new(),
            answering: Duration::ZERO,
            caveats: Vec::new(),
            left: Vec::new(),
            instance: InstanceInfo {
                role: "default".into(),
                lane: kind.name().into(),
                started: false,
                restarts: 0,
                trouble: None,
            },
        }
    }
}

impl Lane {
    /// Ends the instance, looks again, and hands over. By value: no probe after this.
    pub async fn close(mut self) -> LaneRecord {
        // Only a fair end is a question to the server, and only where one is asked about it; any
        // other is to be over soon.
        let asked = self.shared.asks_for_ends && self.kind.classes().is_empty();
        let asks = asked && self.fair && !self.stopped();
        let limits = &self.shared.config.limits;
        let graces = match asks {
            true => {
                Graces { eof: limits.close_stdin, term: limits.close_term, ..Graces::default() }
            }
            false => crate::instance::hasty(),
        };
        if let Some(database) = &mut self.database {
            self.sessions = database.sessions(self.kind).await;
        }
        let started = self.instance.is_some() || !self.closings.is_empty();
        if let Some(instance) = self.instance.take() {
            let died = instance.has_exited();
            let (ending, mut client) = instance.end(graces).await;
            self.take_in(&mut client);
            self.left.extend(ending.left);
            self.closings.push(Closing {
                lane: self.kind.name().into(),
                step: match ending.step {
                    _ if died => "died",
                    Step::Eof => "eof",
                    Step::Term => "term",
                    Step::Kill => "kill",
                },
                seconds: ending.seconds_to_exit,
                outlived: ending.outlived,
                fair: asks,
            });
        }
        if let Some(spare) = self.spare.take() {
            // Dropping an instance, ready or on its way, ends its process.
            spare.abort();
            drop(spare.await);
        }
        self.second_look();
        self.last_state().await;
        self.shared.events.tell(Event::Closed { lane: self.kind.name() });
        LaneRecord {
            kind: self.kind,
            surface: self.surface,
            later: self.later,
            listed: self.listed,
            placements: self.placements,
            skipped: self.skipped,
            acts: self.acts,
            closings: self.closings,
            noise: self.noise,
            noise_count: self.noise_count,
            messages: self.messages,
            hits: self.hits,
            sessions: self.sessions,
            evidence: self.evidence,
            spent: self.spent,
            done: self.done,
            answering: self.answering,
            caveats: self.caveats,
            left: self.left,
            instance: InstanceInfo {
                role: self.values.role.clone(),
                lane: self.kind.name().into(),
                started,
                restarts: self.restarts,
                trouble: None,
            },
        }
    }

    /// What a closed server's sessions left in the database.
    async fn last_state(&mut self) {
        let Some(database) = &mut self.database else { return };
        let mark = database.mark();
        let seen = database.seen(mark, &[], true).await;
        if let Some(why) = seen.unread {
            self.caveats.push(format!("failed to {why}"));
        }
        self.late_state(&seen.changes);
    }

    /// What changed after the last answer belongs to the probe whose token it carries; else it is
    /// a caveat.
    fn second_look(&mut self) {
        let Some(sandbox) = &mut self.sandbox else { return };
        let changes = sandbox.look(&[]);
        for change in changes.iter().filter(|change| !change.inside) {
            match self.owner(change, usize::MAX) {
                Some(line) => self.late(&line, change),
                None if change.token => self.caveats.push(format!(
                    "{} outside the sandbox changed after the last answer, and carries no probe's \
                     token",
                    self.path(change)
                )),
                None => {}
            }
        }
    }
}
