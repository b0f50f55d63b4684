//! Everything all lanes did, in order: what the journal checks read.

use crate::evidence::{Channel, Form, How, Reply};

/// Who asked for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A control of that pack.
    Control {
        /// The pack.
        pack: &'static str,
    },
    /// A probe of that check.
    Probe {
        /// The pack.
        pack: &'static str,
        /// The check.
        check: String,
        /// The probe.
        probe: String,
    },
    /// The harness itself: handshake, lists, liveness.
    Harness,
}

impl Origin {
    /// The pack on whose behalf the call was made.
    pub fn pack(&self) -> Option<&'static str> {
        match self {
            Self::Control { pack } | Self::Probe { pack, .. } => Some(pack),
            Self::Harness => None,
        }
    }

    /// Whether a control asked.
    pub fn is_control(&self) -> bool {
        matches!(self, Self::Control { .. })
    }
}

/// A canary that came out of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The object whose canary it is, such as `attic/a.txt` or `env SM_CANARY_A`.
    pub object: String,
    /// Its spelling.
    pub form: Form,
    /// Where it came out.
    pub channel: Channel,
}

/// A change below the watched directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path from the lane's directory.
    pub path: String,
    /// How it changed.
    pub how: How,
    /// Whether it lies in the directory the tool may write.
    pub inside: bool,
    /// Whether it is a canary object, or its path or content carries the token of a probe.
    pub token: bool,
}

/// One request and what was seen around it.
#[derive(Clone, Debug)]
pub struct Act {
    /// The lane.
    pub lane: String,
    /// The place in the lane's order.
    pub seq: u64,
    /// Who asked.
    pub origin: Origin,
    /// The tool called, if it was a call.
    pub tool: Option<String>,
    /// Whether the reply was a JSON-RPC error or had `isError: true`.
    pub declined: bool,
    /// How the reply reads.
    pub reply: Reply,
    /// The rule that read it.
    pub reading_rule: String,
    /// The text of the reply, its head and tail, at most 8 KiB.
    pub text: String,
    /// The question as reports show it.
    pub shown: String,
    /// The strings that were sent.
    pub sent: Vec<String>,
    /// Canaries seen while it ran.
    pub hits: Vec<Hit>,
    /// Changes seen after it.
    pub changes: Vec<Change>,
    /// Whether the call was valid by the declared schema, as far as the harness knows.
    pub valid: bool,
}

/// How one instance ended.
#[derive(Clone, Debug)]
pub struct Closing {
    /// The lane.
    pub lane: String,
    /// What ended it: `eof`, `term`, `kill`, or `died` when it ended by itself before.
    pub step: &'static str,
    /// Seconds from closing stdin to the exit.
    pub seconds: f64,
    /// Names of processes that outlived the server.
    pub outlived: Vec<String>,
    /// Whether nothing hostile was sent to this instance, so that its end is a fair question.
    pub fair: bool,
}

/// A line on stdout that is no JSON-RPC message.
#[derive(Clone, Debug)]
pub struct Noise {
    /// The lane.
    pub lane: String,
    /// The head of the line.
    pub line: String,
    /// Whether it is blank.
    pub blank: bool,
}

/// A session of the server in the database, as the tap and the state reader saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The lane.
    pub lane: String,
    /// The role the instance was given.
    pub given: String,
    /// The role it connected as.
    pub user: String,
    /// What it calls itself, last.
    pub application_name: String,
    /// Whether the role is a superuser.
    pub superuser: bool,
    /// Whether the role is exempt from row-level security.
    pub bypasses_rls: bool,
    /// Whether the role owns a table with row-level security.
    pub owns_rls: bool,
    /// Whether a statement of the server carried a comment that no probe sent.
    pub tagged: bool,
}

/// Everything all lanes did.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// Requests, ordered by lane and sequence.
    pub acts: Vec<Act>,
    /// Ends of instances.
    pub closings: Vec<Closing>,
    /// Stdout lines that are no messages; at most 100 are kept.
    pub noise: Vec<Noise>,
    /// How many such lines there were.
    pub noise_count: u64,
    /// Canaries seen outside of any request: at start, while listing, on stderr.
    pub hits: Vec<Hit>,
    /// How many messages in all were read.
    pub messages: u64,
    /// How many tools the server lists.
    pub tools: usize,
    /// Sessions of the server in the database.
    pub sessions: Vec<Session>,
    /// What own directories are called, so that an echo of them is no finding.
    pub own_paths: Vec<String>,
}

impl Journal {
    /// Acts of that pack, controls included.
    pub fn of(&self, pack: &str) -> impl Iterator<Item = &Act> {
        self.acts.iter().filter(move |act| act.origin.pack() == Some(pack))
    }
}
