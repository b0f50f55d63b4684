//! The open world: where the processes of servers under test live, are watched and are ended.
//!
//! Every server is a child of a supervisor, which is this program run again under a hidden
//! subcommand, so that nothing survives even when the harness itself is killed.

pub mod env;
pub mod launch;
pub mod process;
mod protocol;
pub mod run;
pub mod shim;
mod tree;

pub use launch::{Launch, StartError};
pub use process::{Ending, Exit, Graces, Process, Step};
pub use run::{Lane, Run, RunError};
