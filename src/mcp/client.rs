//! One connection to one server.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, timeout_at},
};

use super::{
    Handshake, Io, Options,
    intake::{self, Intake},
    message::Message,
    shared::{End, Event, Purpose, Shared, line},
    stderr, wire,
};
use crate::journal::{Hit, Noise};

/// What the tail of stderr shows: 4 KiB.
const STDERR_TAIL: usize = 4 << 10;

/// Counted figures of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// JSON-RPC messages read.
    pub messages: u64,
    /// Lines on stdout that are no messages.
    pub noise: u64,
    /// Batches among them.
    pub batches: u64,
    /// Replies to ids that were never sent.
    pub unknown_ids: u64,
    /// Replies to a request that was answered before.
    pub duplicates: u64,
    /// Replies to requests that were no longer waited for.
    pub late: u64,
    /// Lines that are not UTF-8.
    pub not_utf8: u64,
    /// Requests of the server that could not be answered because it does not read.
    pub unanswered: u64,
}

/// Why a request of the harness itself got no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReply {
    Closed,
    Silent,
}

/// A client of one server. Dropping it closes the three streams.
pub struct Client {
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared>,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    pub(crate) handshake: Option<Handshake>,
    /// Canaries seen outside of any question.
    outside: Vec<Hit>,
    tasks: [AbortHandle; 3],
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("lane", &self.options.lane).finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Client {
    /// Starts reading and draining. It sends nothing. Must be called inside a tokio runtime.
    pub fn open(io: Io, options: Options) -> Self {
        let shared = Arc::new(Shared::default());
        let (out, queue) = mpsc::channel(wire::QUEUE);
        let (events_in, events) = mpsc::unbounded_channel();
        shared.state().out = Some(out);
        let canaries = &options.canaries;
        let limits = options.limits;
        let lane = options.lane.clone();
        let intake =
            Intake::new(Arc::clone(canaries), Arc::clone(&shared), events_in, lane, limits);
        let errors = stderr::drain(io.stderr, Arc::clone(canaries), limits, Arc::clone(&shared));
        let tasks = [
            tokio::spawn(wire::write(io.stdin, queue, Arc::clone(&shared))).abort_handle(),
            tokio::spawn(intake::read(io.stdout, intake)).abort_handle(),
            tokio::spawn(errors).abort_handle(),
        ];
        Self { options, shared, events, handshake: None, outside: Vec::new(), tasks }
    }

    /// Canaries seen outside of any question since the last time: at start, while listing, late,
    /// on stderr.
    pub fn drain_hits(&mut self) -> Vec<Hit> {
        self.set_aside();
        std::mem::take(&mut self.outside)
    }

    /// Canaries found from here on belong to what comes next.
    pub(crate) fn set_aside(&mut self) {
        for hit in self.take_hits() {
            if !self.outside.contains(&hit) {
                self.outside.push(hit);
            }
        }
    }

    pub(crate) fn take_hits(&self) -> Vec<Hit> {
        std::mem::take(&mut self.shared.state().hits)
    }

    /// Lines on stdout that are no messages: the first 100, canaries redacted, 200 characters of
    /// each. [`Counts::noise`] counts all.
    pub fn noise(&self) -> Vec<Noise> {
        self.shared.state().noise.clone()
    }

    /// Counted figures.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts
    }

    /// How many JSON-RPC messages were read.
    pub fn messages(&self) -> u64 {
        self.counts().messages
    }

    /// Methods the server asked for although no capability was offered: the first 20, each once.
    pub fn wanted(&self) -> Vec<String> {
        self.shared.state().wanted.clone()
    }

    /// The last 4 KiB of stderr, canaries redacted.
    pub fn stderr_tail(&self) -> String {
        let kept: Vec<u8> = self.shared.state().stderr.iter().copied().collect();
        let text = self.options.canaries.redact(&String::from_utf8_lossy(&kept));
        let from = text.len().saturating_sub(STDERR_TAIL);
        let from = (from..text.len()).find(|at| text.is_char_boundary(*at));
        from.and_then(|from| text.get(from..)).unwrap_or("").to_owned()
    }

    /// How many bytes came on stderr.
    pub fn stderr_bytes(&self) -> u64 {
        self.shared.state().stderr_bytes
    }

    /// Waits until stderr has ended, so that its tail is complete. Whether it ended in time.
    pub async fn stderr_ended(&self, limit: Duration) -> bool {
        self.news(Instant::now() + limit, |shared| shared.state().stderr_ended).await
    }

    /// Lets the server see the end of its input. What is queued is written if the server reads it
    /// within 200 ms.
    pub fn close_stdin(&mut self) {
        self.shared.state().out = None;
        self.shared.closing.notify_one();
    }

    /// Whether stdout has ended or was given up.
    pub fn is_closed(&self) -> bool {
        self.shared.state().end.is_some()
    }

    /// Waits for a condition that the tasks announce. Whether it came true in time.
    pub(crate) async fn news(&self, deadline: Instant, is: impl Fn(&Shared) -> bool) -> bool {
        loop {
            let news = self.shared.news.notified();
            tokio::pin!(news);
            // Listen before looking, or an announcement between the two is lost.
            news.as_mut().enable();
            if is(&self.shared) {
                return true;
            }
            if timeout_at(deadline, news).await.is_err() {
                return is(&self.shared);
            }
        }
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.shared.state().end
    }

    /// Forgets events of earlier requests.
    pub(crate) fn skip_stale(&mut self) {
        while self.events.try_recv().is_ok() {}
    }

    /// Queues a line for the server. Whether it was queued in time; to a server that has stopped
    /// reading nothing can be sent.
    pub(crate) async fn send(&self, bytes: Vec<u8>, deadline: Instant) -> bool {
        let out = self.shared.state().out.clone();
        match out {
            Some(out) => matches!(timeout_at(deadline, out.send(bytes)).await, Ok(Ok(()))),
            None => false,
        }
    }

    /// A request of the harness itself: handshake and lists.
    pub(crate) async fn request(
        &mut self,
        method: &str,
        params: Value,
        deadline: Instant,
    ) -> Result<Message, NoReply> {
        self.skip_stale();
        if self.end().is_some() {
            return Err(NoReply::Closed);
        }
        let id = self.shared.state().next_id(Purpose::Surface);
        self.send(line(&request(id, method, &params)), deadline).await;
        loop {
            match timeout_at(deadline, self.events.recv()).await {
                Ok(Some(Event::Reply(replied, message, _))) if replied == id => {
                    return Ok(*message);
                }
                Ok(Some(Event::Reply(..) | Event::Stray(..))) => {}
                Ok(Some(Event::End) | None) => return Err(NoReply::Closed),
                Err(_) => {
                    self.shared.state().forget(id);
                    return Err(NoReply::Silent);
                }
            }
        }
    }
}

/// A request; params that are `null` are left out.
pub(crate) fn request(id: i64, method: &str, params: &Value) -> Value {
    let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
    if !params.is_null() {
        request["params"] = params.clone();
    }
    request
}
