//! sealmark grades MCP servers by what it sees them do.

#[macro_use]
pub mod verdict;
pub mod check;
pub mod evidence;
pub mod hygiene;
pub mod journal;
pub mod judges;
pub mod registry;
pub mod stage;
pub mod surface;
#[cfg(test)]
pub mod testing;

// The methodology stands beside the machine, not inside it: whatever can change a letter is found
// under packs/.
#[path = "../packs/mod.rs"]
pub(crate) mod packs;
