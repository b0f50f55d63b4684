//! A raw MCP client for one server over stdio, revisions 2024-11-05 to 2025-11-25, that repairs
//! nothing, loses no byte unseen, and sends only what it is asked to.
//!
//! The client knows its transport as a queue of outgoing lines (`wire`) and a feed of incoming
//! bytes (`intake`). Streamable HTTP is a second pair of these; the revision 2026-07-28, which has
//! neither `initialize` nor `ping`, is a second handshake and a second sign of life.

mod ask;
mod client;
mod handshake;
mod intake;
mod lines;
mod list;
mod message;
mod reply;
mod rows;
mod shared;
mod skim;
mod stderr;
mod wire;

#[cfg(test)]
mod fake;

use std::{fmt, sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::canary::Canaries;

pub use ask::{Asked, Patience};
pub use client::{Client, Counts};
pub use handshake::{Handshake, HandshakeError};
pub use list::{ListError, Listing};
pub use reply::RpcReply;

/// The id a raw line may carry to have its reply recognised, as in `"id":"sm-raw"`.
pub const RAW_ID: &str = "sm-raw";

/// The revisions spoken, the newest first.
pub const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The three streams of a server.
pub struct Io {
    /// What the server reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it answers on.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it logs on.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Io")
    }
}

/// How a client is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is looked for in everything the server lets out.
    pub canaries: Arc<Canaries>,
    /// The lane, as noise is labelled.
    pub lane: String,
    /// `clientInfo.name`.
    pub client_name: String,
    /// `clientInfo.version`.
    pub client_version: String,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds of a connection (methodology 11); the defaults are those of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A line up to this is kept whole and parsed: 1 MiB.
    pub whole: usize,
    /// A line up to this is counted: 256 MiB. The connection is given up at a longer one.
    pub counted: u64,
    /// The head that is kept of a longer line: 64 KiB.
    pub head: usize,
    /// The tail that is kept of a longer line: 4 KiB.
    pub tail: usize,
    /// How much of stderr is kept: the last 64 KiB.
    pub stderr: usize,
    /// For how long a reply that keeps arriving is waited for: 120 s.
    pub arriving: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            whole: 1 << 20,
            counted: 256 << 20,
            head: 64 << 10,
            tail: 4 << 10,
            stderr: 64 << 10,
            arriving: Duration::from_secs(120),
        }
    }
}

/// The text, cut at a character boundary to at most `most` bytes.
fn cap(mut text: String, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}
