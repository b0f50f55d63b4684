//! sealmark grades MCP servers by what it sees them do.

pub mod evidence;
pub mod hygiene;
