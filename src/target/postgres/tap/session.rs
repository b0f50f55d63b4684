//! Follows one connection: which answer of Postgres belongs to which statement.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{
    HEAD, NAME,
    frames::{Frame, Malformed},
    head,
    log::{Key, Log, Statement, TAG},
};

/// Prepared statements and portals remembered of one connection.
const MOST_NAMES: usize = 256;
/// Messages of one connection that may wait for an answer.
const MOST_PENDING: usize = 1 << 16;
/// Stands for the text of a prepared statement that was not remembered.
const UNKNOWN: &str = "(a prepared statement whose text was not kept)";
/// Stands for the text where a client calls a function by its number.
const CALL: &str = "(a function call of the wire protocol)";

/// A message of the client that Postgres has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Query(Key),
    Parse(Key),
    Bind(Key),
    Execute(Key),
    Describe,
    Close,
    Sync,
    Function(Key),
    /// The end of a COPY from the client, which gets no answer of its own.
    CopyEnd,
}

impl Pending {
    fn key(self) -> Option<Key> {
        match self {
            Self::Query(key)
            | Self::Parse(key)
            | Self::Bind(key)
            | Self::Execute(key)
            | Self::Function(key) => Some(key),
            Self::Describe | Self::Close | Self::Sync | Self::CopyEnd => None,
        }
    }

    /// Whether `ReadyForQuery` answers it.
    fn ends_cycle(self) -> bool {
        matches!(self, Self::Query(_) | Self::Sync | Self::Function(_))
    }
}

/// A prepared statement: its text, and the entry of its `Parse` until that is used.
#[derive(Debug)]
struct Prepared {
    sql: Arc<str>,
    parsed: Option<Key>,
}

#[derive(Debug)]
struct Portal {
    sql: Arc<str>,
    key: Key,
}

/// What Postgres said about the connection itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    Accepted,
    Refused(String),
    Pid(i32),
    ApplicationName(String),
}

#[derive(Debug)]
pub(super) struct Session {
    user: String,
    ready: bool,
    prepared: HashMap<Vec<u8>, Prepared>,
    portals: HashMap<Vec<u8>, Portal>,
    pending: VecDeque<Pending>,
    /// After an error of the extended protocol Postgres reads over everything up to the next Sync.
    skips: bool,
    /// While it takes COPY data, Postgres does not answer a Sync.
    copies: bool,
    /// The statement answered last, to which an error of the closing commit belongs.
    last: Option<Key>,
}

impl Session {
    pub(super) fn new(user: String) -> Self {
        Self {
            user,
            ready: false,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            pending: VecDeque::new(),
            skips: false,
            copies: false,
            last: None,
        }
    }

    fn add(&self, log: &mut Log, sql: &str, extended: bool) -> Key {
        let (user, sql) = (self.user.clone(), sql.to_owned());
        log.add(Statement { user, sql, extended, ..Statement::default() })
    }

    /// Reads a message of the client.
    pub(super) fn client(&mut self, frame: &Frame<'_>, log: &mut Log) -> Result<(), Malformed> {
        let body = frame.head;
        let pending = match frame.kind {
            b'Q' => Pending::Query(self.add(log, &head(cut(body).0, HEAD), false)),
            b'P' => Pending::Parse(self.parse(body, log)),
            b'B' => Pending::Bind(self.bind(body, log)),
            b'E' => Pending::Execute(self.execute(body, log)),
            b'D' => Pending::Describe,
            b'C' => {
                self.close(body);
                Pending::Close
            }
            b'F' => Pending::Function(self.add(log, CALL, true)),
            b'S' if self.copies => return Ok(()),
            b'S' => {
                self.skips = false;
                Pending::Sync
            }
            b'c' | b'f' if self.copies => {
                self.copies = false;
                return Ok(());
            }
            b'c' | b'f' => Pending::CopyEnd,
            _ => return Ok(()),
        };
        if self.skips {
            return Ok(());
        }
        if self.pending.len() == MOST_PENDING {
            return Err(Malformed);
        }
        self.pending.push_back(pending);
        Ok(())
    }

    fn parse(&mut self, body: &[u8], log: &mut Log) -> Key {
        let (name, rest) = cut(body);
        let sql: Arc<str> = head(cut(rest).0, HEAD).into();
        let key = self.add(log, &sql, true);
        let name = short(name);
        if self.prepared.len() < MOST_NAMES || self.prepared.contains_key(name) {
            self.prepared.insert(name.to_vec(), Prepared { sql, parsed: Some(key) });
        }
        key
    }

    fn bind(&mut self, body: &[u8], log: &mut Log) -> Key {
        let (portal, rest) = cut(body);
        let (sql, parsed) = match self.prepared.get_mut(short(cut(rest).0)) {
            Some(prepared) => (Arc::clone(&prepared.sql), prepared.parsed.take()),
            None => (UNKNOWN.into(), None),
        };
        let key = match parsed {
            Some(key) if !log.is_before_mark(key) => key,
            _ => self.add(log, &sql, true),
        };
        if self.portals.len() == MOST_NAMES {
            self.portals.clear();
        }
        self.portals.insert(short(portal).to_vec(), Portal { sql, key });
        key
    }

    fn execute(&mut self, body: &[u8], log: &mut Log) -> Key {
        let name = short(cut(body).0);
        match self.portals.get(name).map(|portal| (Arc::clone(&portal.sql), portal.key)) {
            Some((_, key)) if !log.is_before_mark(key) => key,
            Some((sql, _)) => {
                let key = self.add(log, &sql, true);
                self.portals.insert(name.to_vec(), Portal { sql, key });
                key
            }
            None => self.add(log, UNKNOWN, true),
        }
    }

    fn close(&mut self, body: &[u8]) {
        match body.split_first() {
            Some((b'S', name)) => drop(self.prepared.remove(short(cut(name).0))),
            Some((b'P', name)) => drop(self.portals.remove(short(cut(name).0))),
            _ => {}
        }
    }

    /// Reads a message of Postgres.
    pub(super) fn postgres(&mut self, frame: &Frame<'_>, log: &mut Log) -> Option<News> {
        while self.pending.front() == Some(&Pending::CopyEnd) {
            self.pending.pop_front();
        }
        let first = self.pending.front().copied();
        match (frame.kind, first) {
            (b'C', Some(Pending::Query(key))) => {
                log.completed(key, head(cut(frame.head).0, TAG));
            }
            (b'C', Some(Pending::Execute(key))) => {
                log.completed(key, head(cut(frame.head).0, TAG));
                self.answered();
            }
            (b'1', Some(Pending::Parse(_)))
            | (b'2', Some(Pending::Bind(_)))
            | (b'3', Some(Pending::Close))
            | (b'T' | b'n', Some(Pending::Describe))
            | (b'I' | b's', Some(Pending::Execute(_))) => self.answered(),
            (b'G', Some(_)) => self.copy_begins(),
            (b'E', _) if !self.ready => return Some(News::Refused(state(frame.head)?)),
            (b'E', _) => self.failed(first, state(frame.head), log),
            (b'Z', _) if !self.ready => {
                self.ready = true;
                return Some(News::Accepted);
            }
            (b'Z', _) => self.cycle_ends(frame.head),
            (b'K', _) => {
                let pid = frame.head.first_chunk::<4>()?;
                return Some(News::Pid(i32::from_be_bytes(*pid)));
            }
            (b'S', _) => {
                let (key, rest) = cut(frame.head);
                let name = head(cut(rest).0, NAME);
                return (key == b"application_name").then_some(News::ApplicationName(name));
            }
            _ => {}
        }
        None
    }

    /// The first pending message has its answer.
    fn answered(&mut self) {
        let answered = self.pending.pop_front();
        self.last = answered.and_then(Pending::key).or(self.last);
    }

    /// A Sync sent together with a COPY from the client gets no answer.
    fn copy_begins(&mut self) {
        let end = self.pending.iter().position(|pending| *pending == Pending::CopyEnd);
        self.copies = end.is_none();
        let end = end.unwrap_or(self.pending.len());
        let mut at = 0;
        self.pending.retain(|pending| {
            at += 1;
            at > end || *pending != Pending::Sync
        });
    }

    fn failed(&mut self, first: Option<Pending>, state: Option<String>, log: &mut Log) {
        self.copies = false;
        if let (Some(key), Some(state)) = (first.and_then(Pending::key).or(self.last), state)
            && first.is_some()
        {
            log.failed(key, state);
        }
        match first {
            None | Some(Pending::Query(_) | Pending::Function(_)) => return,
            Some(_) => {}
        }
        while self.pending.front().is_some_and(|pending| *pending != Pending::Sync) {
            self.answered();
        }
        self.skips = self.pending.is_empty();
    }

    fn cycle_ends(&mut self, head: &[u8]) {
        while let Some(pending) = self.pending.front().copied() {
            self.answered();
            if pending.ends_cycle() {
                break;
            }
        }
        self.copies = false;
        if head.first() == Some(&b'I') {
            self.portals.clear();
        }
    }
}

/// A text up to its zero byte, and what follows it.
fn cut(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

fn short(name: &[u8]) -> &[u8] {
    &name[..name.len().min(NAME)]
}

/// The SQLSTATE of an error, if it is one.
fn state(mut fields: &[u8]) -> Option<String> {
    while let Some((kind, rest)) = fields.split_first() {
        let (value, next) = cut(rest);
        if *kind == b'C' {
            let fits = value.len() == 5 && value.iter().all(u8::is_ascii_alphanumeric);
            return fits.then(|| String::from_utf8_lossy(value).into_owned());
        }
        if *kind == 0 {
            return None;
        }
        fields = next;
    }
    None
}

#[cfg(test)]
mod tests;
