//! What the tasks of a connection and its client know together.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

use super::{client::Counts, message::Message};
use crate::{
    evidence::{Channel, Form},
    journal::{Hit, Noise},
};

/// Why a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Handshake and lists.
    Surface,
    /// A question.
    Ask,
    /// A sign of life.
    Ping,
}

impl Purpose {
    pub(crate) fn channel(self) -> Channel {
        match self {
            Self::Surface => Channel::Surface,
            Self::Ask | Self::Ping => Channel::Reply,
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// End of file on stdout.
    Closed,
    /// A line was longer than what is counted.
    Overlong,
}

/// What the intake tells the client.
#[derive(Debug)]
pub(crate) enum Event {
    /// The reply to the request with that id, and when its line was complete.
    Reply(i64, Box<Message>, Instant),
    /// The reply to a raw line.
    Stray(Box<Message>, Instant),
    End,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) hits: Vec<Hit>,
    pub(crate) noise: Vec<Noise>,
    pub(crate) counts: Counts,
    /// Methods the server asked for, each once.
    pub(crate) wanted: Vec<String>,
    pub(crate) tools_changed: bool,
    pub(crate) tainted: bool,
    pub(crate) last_id: i64,
    pub(crate) pending: HashMap<i64, Purpose>,
    /// Requests that are no longer waited for.
    pub(crate) forgotten: HashMap<i64, Purpose>,
    /// The last of our requests that the server sent back.
    pub(crate) echoed: Option<i64>,
    /// A raw line is out, and this is where its reply is told from others.
    pub(crate) raw: bool,
    /// When the unfinished line on stdout last grew, and its length.
    pub(crate) growing: Option<(Instant, u64)>,
    pub(crate) end: Option<End>,
    pub(crate) stderr: VecDeque<u8>,
    pub(crate) stderr_bytes: u64,
    pub(crate) stderr_ended: bool,
    pub(crate) out: Option<mpsc::Sender<Vec<u8>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The tool list changed, or stderr ended.
    pub(crate) news: Notify,
    /// The client wants the server to see the end of its input.
    pub(crate) closing: Notify,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes a canary, each object, form and channel once.
    pub(crate) fn hit(&mut self, object: &str, form: Form, channel: Channel) {
        let hit = Hit { object: object.into(), form, channel };
        if !self.hits.contains(&hit) {
            self.hits.push(hit);
        }
    }

    /// Queues an answer to the server, unless it leaves too many of them unread.
    pub(crate) fn answer(&mut self, answer: &Value) {
        let sent = self.out.as_ref().is_some_and(|out| out.try_send(line(answer)).is_ok());
        if !sent {
            self.counts.unanswered += 1;
        }
    }

    /// A new id for a request.
    pub(crate) fn next_id(&mut self, purpose: Purpose) -> i64 {
        self.last_id += 1;
        self.pending.insert(self.last_id, purpose);
        self.last_id
    }

    /// Stops waiting for a request.
    pub(crate) fn forget(&mut self, id: i64) {
        if let Some(purpose) = self.pending.remove(&id) {
            self.forgotten.insert(id, purpose);
        }
    }
}

/// A message as it goes out.
pub(crate) fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
