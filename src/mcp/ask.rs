//! One question, and how the server was after it: silence is told from death by a ping.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{
    Client, RAW_ID, RpcReply,
    client::request,
    message::Message,
    shared::{End, Event, Purpose, line},
};
use crate::{
    journal::Hit,
    stage::{Ask, Life},
};

/// A ping's answer older than this says nothing of the present.
const FRESH: Duration = Duration::from_secs(2);
/// A line that has not grown for this long has stopped.
const STOPPED: Duration = Duration::from_secs(5);
/// JSON-RPC codes that ask for a client capability (revisions 2025-11-25 and 2026-07-28).
const NEEDS_CAPABILITY: [i64; 2] = [-32_042, -32_021];

/// For how long an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A living server without a reply by then is silent.
    pub silence: Duration,
    /// When the ping is sent behind the question.
    pub ping_after: Duration,
    /// A ping without an answer for this long means the server answers nothing.
    pub dead: Duration,
}

impl Patience {
    /// This patience for a reply, and the usual times for pings: 250 ms and 5 s (methodology 3).
    pub fn new(silence: Duration) -> Self {
        Self { silence, ping_after: Duration::from_millis(250), dead: Duration::from_secs(5) }
    }
}

/// What came of a question.
#[derive(Clone, Debug)]
pub struct Asked {
    /// How the server was.
    pub life: Life,
    /// The reply, when one came.
    pub reply: Option<RpcReply>,
    /// Seconds from sending to the reply, or to giving up.
    pub seconds: f64,
    /// Bytes of the reply's line; of an unfinished line, what came of it.
    pub bytes: u64,
    /// Rows of the seed's large table in the reply.
    pub rows: u64,
    /// Whether the server asked for a client capability meanwhile.
    pub tainted: bool,
    /// Canaries seen meanwhile.
    pub hits: Vec<Hit>,
    /// Why the connection was given up, as in `line over 256 MiB`.
    pub given_up: Option<String>,
}

/// How a question ended.
enum Fate {
    Replied(Box<Message>, Instant),
    Silent,
    Mute,
    End,
}

/// A reply to a raw line.
type Stray = Option<(Box<Message>, Instant)>;

/// A question on its way.
struct Waiting {
    /// The id of the request; a raw line has none.
    id: Option<i64>,
    /// Whether a reply can come at all.
    replies: bool,
    sent: Instant,
    /// The ping that is out, and when it was sent.
    ping: Option<(i64, Instant)>,
    /// When a ping was answered last.
    alive: Option<Instant>,
    /// What came back for a raw line. It ends no wait before the ping behind the line is answered:
    /// a server may answer and then end.
    stray: Stray,
}

impl Client {
    /// Sends one question and waits for its reply, a silence or a death. Nothing else is in flight
    /// meanwhile.
    pub async fn ask(&mut self, ask: &Ask, patience: Patience) -> Asked {
        self.skip_stale();
        self.set_aside();
        let sent = Instant::now();
        self.shared.state().tainted = false;
        let (fate, stray) = match self.end() {
            Some(_) => (Fate::End, None),
            None => self.carry(ask, patience, sent).await,
        };
        self.settle(fate, stray, sent, matches!(ask, Ask::Call { .. }))
    }

    /// The fate, and the reply to a raw line when the fate is not that reply.
    async fn carry(&mut self, ask: &Ask, patience: Patience, sent: Instant) -> (Fate, Stray) {
        let (bytes, id) = match ask {
            Ask::Call { params, .. } => self.prepare("tools/call", params),
            Ask::Request { method, params } => self.prepare(method, params),
            Ask::Line(bytes) => {
                self.shared.state().raw = true;
                ([bytes.as_slice(), b"\n"].concat(), None)
            }
        };
        // A raw line without the known id may be answered by an error; that it is not tells nothing.
        let replies = id.is_some() || holds_raw_id(&bytes);
        let mut waiting = Waiting { id, replies, sent, ping: None, alive: None, stray: None };
        let fate = if self.send(bytes, sent + patience.dead).await {
            if id.is_none() {
                waiting.ping = Some(self.ping(patience).await);
            }
            self.wait(&mut waiting, patience).await
        } else {
            self.wait_for_end(sent + patience.dead).await
        };
        let cancelled = {
            let mut state = self.shared.state();
            state.raw = false;
            for id in [waiting.id, waiting.ping.map(|(id, _)| id)].into_iter().flatten() {
                state.forget(id);
            }
            // `initialize` must not be cancelled (2025-11-25, basic/utilities/cancellation).
            let initialize = matches!(ask, Ask::Request { method, .. } if method == "initialize");
            waiting.id.filter(|_| matches!(fate, Fate::Silent) && !initialize)
        };
        if let Some(id) = cancelled {
            let cancel = json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": id, "reason": "no reply in time"}
            });
            self.send(line(&cancel), Instant::now() + patience.dead).await;
        }
        (fate, waiting.stray)
    }

    fn prepare(&self, method: &str, params: &Value) -> (Vec<u8>, Option<i64>) {
        let id = self.shared.state().next_id(Purpose::Ask);
        (line(&request(id, method, params)), Some(id))
    }

    async fn ping(&self, patience: Patience) -> (i64, Instant) {
        let (id, now) = (self.shared.state().next_id(Purpose::Ping), Instant::now());
        self.send(line(&request(id, "ping", &Value::Null)), now + patience.dead).await;
        (id, now)
    }

    /// The server does not read: either it is about to end, or it answers nothing any more.
    async fn wait_for_end(&mut self, deadline: Instant) -> Fate {
        loop {
            match timeout_at(deadline, self.events.recv()).await {
                Ok(Some(Event::End) | None) => return Fate::End,
                Ok(Some(_)) => {}
                Err(_) => return Fate::Mute,
            }
        }
    }

    async fn wait(&mut self, waiting: &mut Waiting, patience: Patience) -> Fate {
        let last = waiting.sent
            + self.options.limits.arriving.max(patience.silence + patience.dead + FRESH);
        loop {
            if waiting.ping.is_none()
                && let Some((message, at)) = waiting.stray.take()
            {
                return Fate::Replied(message, at);
            }
            let now = Instant::now();
            // A long reply keeps the answer to the ping behind it.
            let grown = self.shared.state().growing.map(|(grown, _)| grown);
            let arriving = grown.filter(|grown| now < *grown + STOPPED && now < last);
            let wake = match (waiting.ping, waiting.alive) {
                (Some((_, pinged)), _) => {
                    let dead = arriving.map_or(pinged, |grown| grown.max(pinged)) + patience.dead;
                    if now >= dead {
                        return Fate::Mute;
                    }
                    dead
                }
                (None, None) => {
                    let due = waiting.sent + patience.ping_after;
                    if now >= due {
                        waiting.ping = Some(self.ping(patience).await);
                        continue;
                    }
                    due
                }
                (None, Some(alive)) => {
                    let due = waiting.sent + patience.silence;
                    let due = arriving.map_or(due, |grown| due.max(grown + STOPPED));
                    if !waiting.replies || (now >= due && now < alive + FRESH) {
                        return Fate::Silent;
                    }
                    if now >= due {
                        waiting.ping = Some(self.ping(patience).await);
                        continue;
                    }
                    due
                }
            };
            match timeout_at(wake, self.events.recv()).await {
                Ok(Some(Event::Reply(id, message, at))) if Some(id) == waiting.id => {
                    return Fate::Replied(message, at);
                }
                Ok(Some(Event::Reply(id, _, at))) => {
                    if waiting.ping.is_some_and(|(ping, _)| ping == id) {
                        (waiting.ping, waiting.alive) = (None, Some(at));
                    }
                }
                Ok(Some(Event::Stray(message, at))) if waiting.id.is_none() => {
                    waiting.stray = Some((message, at));
                }
                Ok(Some(Event::Stray(..))) | Err(_) => {}
                Ok(Some(Event::End) | None) => return Fate::End,
            }
        }
    }

    fn settle(&self, fate: Fate, stray: Stray, sent: Instant, call: bool) -> Asked {
        let mut state = self.shared.state();
        let partial = state.growing.map_or(0, |(_, bytes)| bytes);
        let end = state.end;
        let mut asked = Asked {
            life: Life::Silent,
            reply: None,
            seconds: sent.elapsed().as_secs_f64(),
            bytes: partial,
            rows: 0,
            tainted: std::mem::take(&mut state.tainted),
            hits: std::mem::take(&mut state.hits),
            given_up: None,
        };
        let (fate, reply) = match fate {
            Fate::Replied(message, at) => {
                asked.life = Life::Replied;
                (Fate::Silent, Some((message, at)))
            }
            fate => (fate, stray),
        };
        if let Some((message, at)) = reply {
            asked.seconds = at.duration_since(sent).as_secs_f64();
            (asked.bytes, asked.rows) = (message.bytes, message.rows);
            let reply = RpcReply::read(*message, call);
            asked.tainted |= needs_capability(&reply);
            asked.reply = Some(reply);
        }
        match (fate, end) {
            (Fate::Replied(..) | Fate::Silent, _) => {}
            (Fate::Mute, _) => asked.life = Life::Mute,
            (Fate::End, Some(End::Overlong)) => {
                let mebibytes = self.options.limits.counted >> 20;
                asked.life = Life::Mute;
                asked.given_up = Some(format!("line over {mebibytes} MiB"));
            }
            (Fate::End, _) => asked.life = Life::Died("connection closed".into()),
        }
        asked
    }
}

/// Whether the reply asks for something only an interactive client could give: the call was not
/// carried out.
fn needs_capability(reply: &RpcReply) -> bool {
    let result = reply.result.as_ref();
    let kind = result.and_then(|result| result.get("resultType")?.as_str());
    let task = result.is_some_and(|r| r.get("content").is_none() && r.get("task").is_some());
    reply.code.is_some_and(|code| NEEDS_CAPABILITY.contains(&code))
        || kind == Some("input_required")
        || task
}

fn holds_raw_id(bytes: &[u8]) -> bool {
    let quoted = format!("\"{RAW_ID}\"");
    bytes.windows(quoted.len()).any(|window| window == quoted.as_bytes())
}

#[cfg(test)]
mod tests;
