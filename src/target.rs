//! What the harness owns and a server is let loose on.

mod layout;
pub mod postgres;
mod sandbox;
mod snapshot;
#[cfg(test)]
mod tests;

pub use sandbox::{CanaryObject, PLACEHOLDERS, Reset, Sandbox};

/// Why a target could not be built or brought back.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The system refused an operation on an object of the layout, named by its path in the box.
    #[error("make `{object}` of the sandbox: {source}")]
    Object {
        /// The path in the box.
        object: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system gave no random bytes.
    #[error("draw random bytes: {0}")]
    Random(String),
}

impl TargetError {
    fn object(object: &str) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Object { object: object.escape_debug().to_string(), source }
    }
}
