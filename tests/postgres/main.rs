//! The seed database in real servers. Where no Postgres is installed these tests say so loudly and
//! pass.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod provide;

use std::path::Path;

use sealmark::{
    target::postgres::{Postgres, ProvideError, Wish},
    world::Run,
};
use tempfile::TempDir;

/// The program that supervises what the tests start.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_sealmark-under-test");

/// A run of its own below a directory of its own.
pub fn run() -> (Run, TempDir) {
    let parent = tempfile::tempdir().unwrap();
    // Another user's server has to get in.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(parent.path(), open).unwrap();
    let run = Run::create_in(parent.path()).unwrap().supervised_by(Path::new(PROGRAM));
    (run, parent)
}

/// The seed database in a cluster of an installed Postgres; `None`, loudly, without one.
#[expect(clippy::print_stderr, reason = "a test that was not made has to be seen")]
pub async fn provided(run: &Run) -> Option<Postgres> {
    match Postgres::provide(run, &Wish { given: None, embedded: false }).await {
        Ok(postgres) => Some(postgres),
        Err(ProvideError::Unavailable(reason)) if reason.why.contains("none is installed") => {
            eprintln!("NOT TESTED, because no Postgres was had: {}", reason.why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}
