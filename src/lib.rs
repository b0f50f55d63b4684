//! sealmark grades MCP servers by what it sees them do.

pub mod config;
pub mod evidence;
pub mod letter;
