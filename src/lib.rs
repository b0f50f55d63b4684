//! sealmark grades MCP servers by what it sees them do.

#[macro_use]
pub mod verdict;
pub mod canary;
pub mod check;
pub mod classes;
pub mod cli;
pub mod config;
pub mod discover;
pub mod docs;
pub mod error;
pub mod event;
pub mod evidence;
pub mod grade;
pub mod hygiene;
pub mod instance;
pub mod journal;
pub mod judges;
pub mod lane;
pub mod letter;
pub mod mcp;
pub mod plan;
pub mod refusal;
pub mod registry;
pub mod render;
pub mod report;
pub mod run;
pub mod stage;
pub mod standard;
pub mod surface;
pub mod target;
pub mod text;
pub mod world;

#[cfg(test)]
mod testing;

// The methodology stands beside the machine, not inside it: whatever can change a letter is found
// under packs/.
#[path = "../packs/mod.rs"]
pub(crate) mod packs;
