//! The open world: where the processes of servers under test live, are watched and are ended.
//!
//! Every server is a child of a supervisor, which is this program run again under a hidden
//! subcommand, so that nothing survives even when the harness itself is killed.
//!
//! What this world cannot hold: a tree that in every generation forks into a new session and
//! exits, faster than the process table is read; and, once a server has killed its supervisor,
//! descendants that left its session and cleared their environment. Outside Linux it holds the
//! server's process group only.

pub mod env;
pub mod launch;
pub mod process;
mod protocol;
pub mod run;
pub mod shim;
mod tree;
pub mod unprivileged;

pub use launch::{Launch, StartError};
pub use process::{Ending, Exit, Graces, Process, Step};
pub use run::{Lane, Run, RunError};
