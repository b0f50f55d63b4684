//! A Postgres as somebody else has it, with a superuser whose password a server under test may be
//! given: what a server that logs in above its role needs.

use std::{fs, path::Path};

use sealmark::{
    target::postgres::{Postgres, Wish},
    world::Run,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::made::{BOSS, made_theirs, url};

/// The server; it ends when this is dropped.
pub(crate) struct Theirs {
    /// The URL of the superuser.
    pub(crate) url: String,
    _runtime: Runtime,
    _postgres: Postgres,
    _run: Run,
    _parent: TempDir,
}

impl Theirs {
    /// Starts one, from the programs and the template that the runs use too.
    pub(crate) fn begin(program: &str) -> Self {
        let parent = tempfile::tempdir().unwrap();
        // As root the database runs as another user, who has to get in.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        fs::set_permissions(parent.path(), open).unwrap();
        let run = Run::create_in(parent.path()).unwrap().supervised_by(Path::new(program));
        let runtime = Runtime::new().unwrap();
        let (postgres, url) = runtime.block_on(async {
            let wish = Wish { given: None, fetch: false };
            let postgres = Postgres::provide(&run, &wish).await.unwrap();
            let (folder, _admin) = made_theirs(&postgres).await;
            let url = url(&folder, BOSS);
            (postgres, url)
        });
        Self { url, _runtime: runtime, _postgres: postgres, _run: run, _parent: parent }
    }
}
