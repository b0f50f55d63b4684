//! A Postgres the harness owns.

use std::path::PathBuf;

pub mod reset;
pub mod state;
pub mod tap;

/// Where a Postgres listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String, u16),
}
