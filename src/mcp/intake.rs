//! Everything that comes in on stdout: scanned, cut, told apart, and sent where it belongs.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::mpsc,
    time::Instant,
};

use super::{
    Limits, RAW_ID, cap,
    lines::{Lines, Overlong},
    message::{Message, Sort},
    rows::Rows,
    shared::{End, Event, Purpose, Shared, State},
    skim::Scalar,
};
use crate::{
    canary::{Canaries, Scanner},
    evidence::{Channel, Form},
    journal::Noise,
};

/// Noise lines that are kept, and the characters kept of each.
const NOISE_LINES: usize = 100;
const NOISE_CHARS: usize = 200;
/// The code of the answer to every request of a server (JSON-RPC 2.0, section 5.1).
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// How the methods begin that only a client may ask for.
const OURS: [&str; 4] = ["initialize", "tools/", "prompts/", "resources/"];
/// Methods a server asked for that are kept.
const WANTED: usize = 20;

/// The incoming side of a connection.
pub(crate) struct Intake {
    canaries: Arc<Canaries>,
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Event>,
    lane: String,
    scanner: Scanner,
    /// Canaries of the line that is being read.
    found: Vec<(usize, Form)>,
    rows: Rows,
    lines: Lines,
}

/// Reads to the end of the connection.
pub(crate) async fn read(mut stdout: Box<dyn AsyncRead + Send + Unpin>, mut intake: Intake) {
    let mut chunk = vec![0; 64 << 10];
    let end = loop {
        let read = stdout.read(&mut chunk).await.unwrap_or(0);
        if read == 0 {
            intake.last_line();
            break End::Closed;
        }
        if intake.feed(chunk.get(..read).unwrap_or(&[])).is_err() {
            break End::Overlong;
        }
    };
    intake.shared.state().end = Some(end);
    // The receiver is gone only when the client is.
    let _ = intake.events.send(Event::End);
    intake.shared.news.notify_waiters();
}

impl Intake {
    pub(crate) fn new(
        canaries: Arc<Canaries>,
        shared: Arc<Shared>,
        events: mpsc::UnboundedSender<Event>,
        lane: String,
        limits: Limits,
    ) -> Self {
        let scanner = canaries.scanner();
        let lines = Lines::new(limits);
        Self {
            canaries,
            shared,
            events,
            lane,
            scanner,
            found: Vec::new(),
            rows: Rows::new(),
            lines,
        }
    }

    /// Takes what was read.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), Overlong> {
        let mut rest = bytes;
        // `contains` looks for a byte in whole words, a split by a closure in single bytes: it is
        // worth asking first, as a long line has many reads without an end.
        while rest.contains(&b'\n') {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            self.part(part)?;
            self.line();
            rest = after.get(1..).unwrap_or(&[]);
        }
        self.part(rest)?;
        let length = self.lines.bytes();
        self.shared.state().growing = self.lines.is_open().then(|| (Instant::now(), length));
        Ok(())
    }

    /// The connection ended: an open line is a line.
    fn last_line(&mut self) {
        if self.lines.is_open() {
            self.line();
        }
        self.shared.state().growing = None;
    }

    fn part(&mut self, part: &[u8]) -> Result<(), Overlong> {
        self.rows.feed(part);
        let found = &mut self.found;
        self.scanner.feed(part, &mut |object, form| note(found, object, form));
        self.lines.push(part)
    }

    fn line(&mut self) {
        let found = &mut self.found;
        self.scanner.settle(&mut |object, form| note(found, object, form));
        let mut found = std::mem::take(found);
        let mut message = Message::read(self.lines.take());
        message.rows = self.rows.take();
        if let Some(value) = &message.value {
            // Strings without an escape were scanned as they stand in the line.
            if message.text.contains('\\') {
                self.canaries.scan_value(value, &mut found);
            } else {
                self.canaries.scan_composed(value, &mut found);
            }
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        state.counts.not_utf8 += u64::from(message.lossy);
        let channel = match message.sort {
            Sort::Request => self.request(&mut state, &message),
            Sort::Notification => self.notification(&mut state, &message),
            Sort::Reply => self.reply(&mut state, message),
            Sort::Batch => {
                state.counts.batches += 1;
                self.noise(&mut state, &message)
            }
            Sort::Noise => self.noise(&mut state, &message),
        };
        for (object, form) in found {
            state.hit(self.canaries.object(object), form, channel);
        }
    }

    /// A request of the server is answered at once: unanswered, it would hold up the call.
    fn request(&self, state: &mut State, message: &Message) -> Channel {
        state.counts.messages += 1;
        let method = match &message.facts.method {
            Some(Scalar::Text(method)) => method.as_str(),
            _ => "",
        };
        let id = match (&message.value, &message.facts.id) {
            (Some(value), _) => value.get("id").cloned(),
            (None, Some(Scalar::Int(id))) => Some(Value::from(*id)),
            (None, Some(Scalar::Text(id))) => Some(Value::from(id.as_str())),
            (None, _) => None,
        };
        if let Some(Scalar::Int(id)) = message.facts.id
            && state.pending.contains_key(&id)
            && OURS.iter().any(|ours| method.starts_with(ours))
        {
            state.echoed = Some(id);
        }
        let ping = method == "ping";
        if !ping {
            state.tainted = true;
            let method = cap(method.to_owned(), NOISE_CHARS);
            if state.wanted.len() < WANTED && !state.wanted.contains(&method) {
                state.wanted.push(method);
            }
        }
        match id {
            Some(id) if ping => state.answer(&json!({"jsonrpc": "2.0", "id": id, "result": {}})),
            Some(id) => state.answer(&json!({
                "jsonrpc": "2.0", "id": id,
                "error": {"code": METHOD_NOT_FOUND, "message": "Method not found"}
            })),
            None => state.counts.unanswered += 1,
        }
        Channel::Notification
    }

    fn notification(&self, state: &mut State, message: &Message) -> Channel {
        state.counts.messages += 1;
        let changed = "notifications/tools/list_changed";
        if matches!(&message.facts.method, Some(Scalar::Text(method)) if method == changed) {
            state.tools_changed = true;
            self.shared.news.notify_waiters();
        }
        Channel::Notification
    }

    fn reply(&self, state: &mut State, mut message: Message) -> Channel {
        let now = Instant::now();
        let id = match &message.facts.id {
            Some(Scalar::Int(id)) => Some(*id),
            // The id of another type is a fault of the reply, not its absence.
            Some(Scalar::Text(id)) => id.parse().ok().filter(|id| state.pending.contains_key(id)),
            _ => None,
        };
        if let Some(id) = id
            && let Some(purpose) = state.pending.remove(&id)
        {
            state.counts.messages += 1;
            if matches!(message.facts.id, Some(Scalar::Text(_))) {
                message.malformed = Some("has the id as a string".into());
            }
            let _ = self.events.send(Event::Reply(id, Box::new(message), now));
            return purpose.channel();
        }
        if !message.facts.jsonrpc {
            return self.noise(state, &message);
        }
        state.counts.messages += 1;
        if let Some(purpose) = id.and_then(|id| state.forgotten.remove(&id)) {
            state.counts.late += u64::from(purpose == Purpose::Ask);
            return purpose.channel();
        }
        if state.raw {
            state.raw = false;
            let _ = self.events.send(Event::Stray(Box::new(message), now));
        } else if message.facts.id == Some(Scalar::Text(RAW_ID.into())) {
            state.counts.late += 1;
        } else if id.is_some_and(|id| (1..=state.last_id).contains(&id)) {
            state.counts.duplicates += 1;
        } else {
            state.counts.unknown_ids += 1;
        }
        Channel::Reply
    }

    /// A line that is no message is kept as evidence and never answered.
    fn noise(&self, state: &mut State, message: &Message) -> Channel {
        state.counts.noise += 1;
        if state.noise.len() < NOISE_LINES {
            let head = cap(message.text.clone(), NOISE_CHARS * 16);
            let line = self.canaries.redact(&head).chars().take(NOISE_CHARS).collect();
            let blank = message.text.trim().is_empty();
            state.noise.push(Noise { lane: self.lane.clone(), line, blank });
        }
        Channel::Noise
    }
}

fn note(found: &mut Vec<(usize, Form)>, object: usize, form: Form) {
    if !found.contains(&(object, form)) {
        found.push((object, form));
    }
}
