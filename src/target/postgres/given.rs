//! A server that the user named with `--pg`.

use super::{Backend, ProvideError};

/// What helps when the named server cannot be used.
pub const HELP: &str = "give --pg postgres://SUPERUSER:PASSWORD@HOST:PORT/DATABASE";

/// The named server with our database in it.
pub struct Given {
    /// Where it listens.
    pub backend: Backend,
    /// Its version.
    pub version: String,
    /// The superuser.
    pub user: String,
    /// The superuser's password.
    pub password: Option<Vec<u8>>,
}

impl Given {
    /// Opens it.
    pub async fn open(_url: &str) -> Result<Self, ProvideError> {
        Err(ProvideError::Usage("not yet".into(), HELP.into()))
    }

    /// Removes what is ours.
    pub async fn close(self) -> Vec<String> {
        Vec::new()
    }
}
