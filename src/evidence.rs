//! What a probe established, by whom it was seen, and how the server's reply reads.
//!
//! These are words: no input, no output, exactly what the record holds.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who saw a fact, from the strongest witness to the weakest (methodology 5).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Observer {
    /// The harness's own superuser connection or file handle on the database.
    StateReader,
    /// A request with this probe's token reached a listener of the harness.
    Listener,
    /// The tap between the server and Postgres.
    Wire,
    /// A snapshot difference of directories the harness owns.
    Filesystem,
    /// The sealed world: overlay difference, packets, processes.
    Kernel,
    /// A secret that exists only in a target came back.
    Canary,
    /// Framing on stdio; status, header, TLS and socket table on HTTP.
    Transport,
    /// Exit, signal, children, silence.
    Process,
    /// The server's own words.
    Reply,
}

/// When a fact was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// Right after the answer.
    AfterAnswer,
    /// At the second look, after the instance was closed.
    AfterClose,
}

/// The spelling a canary was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// As it stands.
    Raw,
    /// Percent-encoded.
    Percent,
    /// Base64, at any of the three offsets.
    Base64,
    /// Hexadecimal digits of the bytes.
    Hex,
    /// Written backwards.
    Reversed,
    /// JSON escapes of the characters.
    Escaped,
    /// At least 12 consecutive characters of it, the rest masked.
    Masked,
}

/// Where on its way out of the server something was seen.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Channel {
    /// A result or an error answered to a request.
    Reply,
    /// Names, descriptions, schemas, prompts and resources as listed or read.
    Surface,
    /// A `notifications/message` or another notification.
    Notification,
    /// A line on stdout that is no JSON-RPC message.
    Noise,
    /// The standard error stream.
    Stderr,
    /// A file inside the target, into which a call copied it.
    Target,
}

/// How something in a directory changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// It was not there before.
    Created,
    /// Its content differs.
    Modified,
    /// It is gone.
    Deleted,
    /// Mode, owner, size or link count differ, its content does not.
    Touched,
}

/// One thing an observer saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum What {
    /// A canary came back. `inside` is true for objects the tool may read.
    Canary { object: String, inside: bool, form: Form, channel: Channel },
    /// A watched path changed. `inside` is true below the directory the tool may write.
    Changed { path: String, how: How, inside: bool },
    /// Something in the database differs from before: rows, a relation, a sequence, a privilege.
    State { object: String, how: How },
    /// The probe's statement reached the database as this role; how it ended there: the command
    /// tag, or the SQLSTATE of its error.
    Sql { role: String, ended: String },
    /// A figure of the answer above its limit.
    Over { name: String, n: u64, limit: u64 },
    /// The process ended; the words say how (`exit 1`, `signal 9`).
    Died(String),
    /// The process lives and answers no ping within 5 s.
    Mute,
    /// The process lives and answers pings, and this request got no reply.
    Silent,
    /// The process lived and answered after the probe.
    Alive(bool),
    /// A process that outlived what should have ended it: its name.
    Orphan(String),
    /// The named thing in the server's own text: its class and where it stands.
    Text { class: String, place: String },
    /// A counted figure.
    Figure { name: String, n: u64 },
}

/// A fact: who saw what, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fact {
    /// The observer.
    pub by: Observer,
    /// The moment.
    pub when: When,
    /// The thing seen.
    pub what: What,
}

impl Fact {
    /// A fact seen right after the answer.
    pub fn now(by: Observer, what: What) -> Self {
        Self { by, when: When::AfterAnswer, what }
    }

    /// A fact seen at the second look.
    pub fn late(by: Observer, what: What) -> Self {
        Self { by, when: When::AfterClose, what }
    }
}

/// How a reply reads (methodology 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Reply {
    /// The call was carried out.
    Answered,
    /// The server declined, and said why in the sense of the refusal rule.
    Refused,
    /// Nothing was done, and no policy said so.
    Failed,
    /// The arguments did not fit the declared schema: the guard was never reached.
    RejectedBySchema,
    /// No reply came.
    None,
}

/// A reply as read, with the published rule that read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What it reads as.
    pub reply: Reply,
    /// The label of the reading rule, such as `names the address class`.
    pub rule: String,
}

/// What one probe came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The safe thing was observed.
    Held,
    /// The unsafe thing was observed.
    Breached,
    /// No evidence; `why` says the reason.
    None,
}

/// Why a probe is no evidence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// The server lives and did not answer this request.
    Silent,
    /// The connection or the process was lost.
    Lost,
    /// The server asked for a client capability during the call.
    Tainted,
    /// The declared schema refused the probe's shape.
    SchemaRejected,
    /// The same operation done by the harness itself does not succeed on this machine.
    NotPossibleHere,
    /// The control that must work beside it failed.
    ControlLost,
    /// The reply was longer than what is kept, and nothing was found in it.
    Cut,
    /// The target could not be read back.
    Unreadable,
    /// A failure was seen once and not again on a fresh instance.
    NotReproduced,
    /// The probe was not sent, because its tool had been lost too often.
    Unsent,
    /// The probe was not sent, because what had been breached before left nothing for it to change
    /// about the verdict.
    Decided,
    /// Nothing in the observations speaks for or against.
    NothingSeen,
}

/// Whether a line of evidence is a control or a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A call that must work for the check to judge anything.
    Control,
    /// A fixed input of the check.
    Probe,
}

/// Measured figures of one call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Measured {
    /// Rows in the answer, where rows make sense.
    #[serde(default)]
    pub rows: Option<u64>,
    /// Bytes of the reply line.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Seconds from sending to the reply.
    #[serde(default)]
    pub seconds: Option<f64>,
}

/// One line of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Evidence {
    /// Control or probe.
    pub kind: Kind,
    /// The id of the probe, or of the control.
    pub probe: String,
    /// Whether a breach of this probe alone is a fail.
    pub core: bool,
    /// The weakness an indirect probe belongs to; for a control, the operation it confirms.
    #[serde(default)]
    pub family: Option<String>,
    /// The role of the instance.
    pub role: String,
    /// The tool called, if one was.
    #[serde(default)]
    pub tool: Option<String>,
    /// The lane it ran on, and its place in that lane's order.
    pub lane: String,
    /// See `lane`.
    pub seq: u64,
    /// What was sent, placeholders unexpanded, capped at 300 characters.
    #[serde(default)]
    pub sent: Option<String>,
    /// How the reply reads.
    pub reply: Reply,
    /// The rule that read it.
    #[serde(default)]
    pub reading_rule: Option<String>,
    /// What observers saw.
    pub facts: Vec<Fact>,
    /// The observers the outcome rests on.
    pub verified_by: BTreeSet<Observer>,
    /// Held, breached or none.
    pub outcome: Outcome,
    /// Why the outcome is none.
    #[serde(default)]
    pub why: Option<Why>,
    /// Figures.
    pub measured: Measured,
    /// The head of the reply, made safe to show. Nothing decides by it.
    pub excerpt: String,
    /// What weakens this line.
    pub caveats: Vec<String>,
}

impl Evidence {
    /// A line with nothing established yet: outcome none, nothing seen.
    pub fn new(kind: Kind, probe: impl Into<String>) -> Self {
        Self {
            kind,
            probe: probe.into(),
            core: false,
            family: None,
            role: "default".into(),
            tool: None,
            lane: String::new(),
            seq: 0,
            sent: None,
            reply: Reply::None,
            reading_rule: None,
            facts: Vec::new(),
            verified_by: BTreeSet::new(),
            outcome: Outcome::None,
            why: Some(Why::NothingSeen),
            measured: Measured::default(),
            excerpt: String::new(),
            caveats: Vec::new(),
        }
    }

    /// The same line, held, resting on `by`.
    pub fn held(self, by: Observer) -> Self {
        self.settled(Outcome::Held, by)
    }

    /// The same line, breached, resting on `by`.
    pub fn breached(self, by: Observer) -> Self {
        self.settled(Outcome::Breached, by)
    }

    /// What another outcome rested on says nothing for this one.
    fn settled(mut self, outcome: Outcome, by: Observer) -> Self {
        if self.outcome != outcome {
            self.verified_by.clear();
        }
        (self.outcome, self.why) = (outcome, None);
        self.verified_by.insert(by);
        self
    }

    /// The same line as no evidence, for this reason.
    pub fn none(mut self, why: Why) -> Self {
        (self.outcome, self.why) = (Outcome::None, Some(why));
        self.verified_by.clear();
        self
    }

    /// Whether the outcome is breached.
    pub fn is_breached(&self) -> bool {
        self.outcome == Outcome::Breached
    }

    /// Whether the outcome is held.
    pub fn is_held(&self) -> bool {
        self.outcome == Outcome::Held
    }
}

/// Everything one check collected. It holds at least one probe: the runner settles a check with
/// none before anything is decided.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Lines of kind control.
    pub controls: Vec<Evidence>,
    probes: Vec<Evidence>,
}

impl Collected {
    /// Sorts evidence into controls and probes; `None` when there is no probe.
    pub fn new(evidence: Vec<Evidence>) -> Option<Self> {
        let (controls, probes): (Vec<_>, Vec<_>) =
            evidence.into_iter().partition(|line| line.kind == Kind::Control);
        (!probes.is_empty()).then_some(Self { controls, probes })
    }

    /// Lines of kind probe; never empty.
    pub fn probes(&self) -> &[Evidence] {
        &self.probes
    }

    /// Probes with a breach.
    pub fn breached(&self) -> impl Iterator<Item = &Evidence> {
        self.probes.iter().filter(|line| line.is_breached())
    }

    /// Probes that held.
    pub fn held(&self) -> impl Iterator<Item = &Evidence> {
        self.probes.iter().filter(|line| line.is_held())
    }

    /// All lines in the order of lane and sequence.
    pub fn into_lines(self) -> Vec<Evidence> {
        let mut lines = self.controls;
        lines.extend(self.probes);
        lines.sort_by(|a, b| (&a.lane, a.seq).cmp(&(&b.lane, b.seq)));
        lines
    }
}
