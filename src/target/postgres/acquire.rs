//! Fetches the programs of a Postgres server.

use std::path::Path;

use super::find::Programs;
use crate::world::Run;

/// The programs in the cache.
pub async fn cached(_cache: Option<&Path>) -> Option<Programs> {
    None
}

/// Fetches the programs into the cache.
pub async fn fetch(
    _run: &Run,
    _cache: Option<&Path>,
    _tell: &impl Fn(&str),
    _notes: &mut Vec<String>,
) -> Result<Programs, String> {
    Err("there is no such build".into())
}
