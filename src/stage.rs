//! The only door of an adaptive check to the world.

use std::{pin::Pin, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    check::{LaneKind, Spec},
    evidence::Evidence,
    surface::{Placement, Surface},
};

/// A boxed future that may be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The lane can go on no further: interrupted, or its server cannot be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;

/// What to send.
#[derive(Clone, Debug)]
pub enum Ask {
    /// `tools/call` with these params, which need not be legal.
    Call {
        /// The tool's name as it will stand in evidence.
        tool: String,
        /// The whole `params` value; `Null` leaves `params` out.
        params: Value,
    },
    /// Another request.
    Request {
        /// The method.
        method: String,
        /// The params; `Null` leaves them out.
        params: Value,
    },
    /// A line of bytes as it is, without an answer that belongs to it. A ping behind it tells
    /// whether the server still answers.
    Line(Vec<u8>),
}

impl Ask {
    /// A call of a tool with these arguments.
    pub fn call(tool: &str, arguments: Value) -> Self {
        let params = serde_json::json!({ "name": tool, "arguments": arguments });
        Self::Call { tool: tool.into(), params }
    }
}

/// What a question is called in evidence.
#[derive(Clone, Debug, Default)]
pub struct Label {
    /// The probe's id.
    pub probe: String,
    /// Whether it is a core probe.
    pub core: bool,
    /// The weakness it belongs to.
    pub family: Option<String>,
    /// Whether it is a control.
    pub control: bool,
    /// Whether the arguments are valid by the declared schema.
    pub valid: bool,
    /// Whether a secret of the environment is what is asked about.
    pub environment: bool,
    /// The input as shown in reports, placeholders unexpanded.
    pub sent: String,
    /// How long a living server may take, where not as long as for any call.
    pub patience: Option<Duration>,
    /// A FIFO the server may hang on: watched while waiting, and freed 250 ms after the server was
    /// seen to read it.
    pub fifo: Option<String>,
}

/// How the server was after the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// It replied.
    Replied,
    /// It lives and left this request without a reply.
    Silent,
    /// It lives and answers nothing for 5 s.
    Mute,
    /// It ended; how.
    Died(String),
}

/// An answer, with the line of evidence prepared: reading, facts, excerpt, default outcome.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The prepared line. Give it an outcome where the default does not say it, then `record` it.
    pub line: Evidence,
    /// How the server was.
    pub life: Life,
    /// Whether the reply was a JSON-RPC error or had `isError: true`.
    pub declined: bool,
    /// The code of a JSON-RPC error.
    pub code: Option<i64>,
    /// The result, when it was kept whole.
    pub result: Option<Value>,
    /// Whether the server asked for a client capability meanwhile.
    pub tainted: bool,
    /// Whether it left a transaction open that may still write.
    pub pending: bool,
}

/// What an adaptive check may do. The machine implements it for a lane; tests implement a fake.
pub trait Stage: Send {
    /// The declaration of the check that is on stage.
    fn spec(&self) -> &'static Spec;

    /// What this lane's server shows.
    fn surface(&self) -> Arc<Surface>;

    /// What the main lane's server shows, or this one's where there is no other.
    fn main_surface(&self) -> Arc<Surface>;

    /// The tools as placed, with their controls' results on this lane.
    fn placements(&self) -> Arc<Vec<Placement>>;

    /// Replaces placeholders of probes (`${sandbox}`, `${token}`, ...) by this lane's values.
    fn expand(&self, text: &str) -> String;

    /// Sends one question and waits for the answer, a silence or a death.
    fn ask<'a>(&'a mut self, label: Label, ask: Ask) -> BoxFuture<'a, Result<Answer, Stop>>;

    /// Reads the tool list again on the same connection.
    fn list_again<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Surface>, Stop>>;

    /// The lane.
    fn lane(&self) -> LaneKind;

    /// The time limit of statements and commands (methodology 11).
    fn time_limit(&self) -> Duration;

    /// How many statements of the server its database still runs, looked at until there are none,
    /// for at most 2 s (methodology 11). `None` when there is no database.
    fn running<'a>(&'a mut self) -> BoxFuture<'a, Option<u64>>;

    /// Ends the instance, whatever its database still runs for it, and starts a fresh one on the same targets.
    fn fresh<'a>(&'a mut self) -> BoxFuture<'a, Result<(), Stop>>;

    /// Keeps a line of evidence for this check.
    fn record(&mut self, line: Evidence);
}
