//! What happens during a run, in order: the stream that live progress reads.

use std::sync::mpsc::Sender;

use crate::report::PackReport;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Something takes longer than usual, such as fetching a Postgres.
    Note {
        /// What.
        what: String,
    },
    /// A lane starts its server.
    Starting {
        /// The lane.
        lane: &'static str,
    },
    /// The server of a lane answered and listed itself.
    Ready {
        /// The lane.
        lane: &'static str,
        /// How many tools it lists.
        tools: usize,
        /// Milliseconds from the spawn.
        ms: u64,
    },
    /// A lane could not start its server, or lost it for good.
    Lost {
        /// The lane.
        lane: &'static str,
        /// Why.
        why: String,
    },
    /// A check is being asked.
    Asking {
        /// The lane.
        lane: &'static str,
        /// The check.
        check: String,
    },
    /// One more question was answered.
    Answered {
        /// The lane.
        lane: &'static str,
    },
    /// A lane is done and its server ended.
    Closed {
        /// The lane.
        lane: &'static str,
    },
    /// A pack is decided.
    Decided {
        /// The pack.
        pack: Box<PackReport>,
    },
}

/// Where events go. Nobody listening is fine.
#[derive(Clone, Default)]
pub struct Events(Option<Sender<Event>>);

impl Events {
    /// Events to this channel.
    pub fn to(sender: Sender<Event>) -> Self {
        Self(Some(sender))
    }

    /// Tells one event.
    pub fn tell(&self, event: Event) {
        if let Some(sender) = &self.0 {
            // A reader that went away must not stop the run.
            let _ = sender.send(event);
        }
    }
}
