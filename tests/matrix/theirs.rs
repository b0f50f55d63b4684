//! A Postgres as somebody else has it, with a superuser whose password a server under test may be
//! given: what a server that logs in above its role needs.

use std::{fs, path::Path};

use sealmark::{
    target::postgres::{Backend, Postgres, Wish, connect},
    world::Run,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The superuser, and its password.
pub(crate) const BOSS: &str = "boss";
pub(crate) const SECRET: &str = "geheim-4711";

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
            let url = made_theirs(&postgres).await;
            (postgres, url)
        });
        Self { url, _runtime: runtime, _postgres: postgres, _run: run, _parent: parent }
    }
}

/// Takes the seed out of a cluster of ours, and lets a superuser in by password.
async fn made_theirs(postgres: &Postgres) -> String {
    let Backend::Unix(socket) = postgres.backend() else { panic!("no socket") };
    let folder = socket.parent().unwrap();
    let admin = connect(&postgres.backend().config("sm_root", None, "template1")).await.unwrap();
    for sql in [
        "DROP DATABASE sealmark_seed WITH (FORCE)",
        "DROP ROLE sm_owner, sm_admin, sm_analyst, sm_quoted, sm_tenant",
        "CREATE DATABASE template0",
        "CREATE DATABASE postgres TEMPLATE template0",
        &format!("CREATE ROLE {BOSS} SUPERUSER LOGIN PASSWORD '{SECRET}'"),
    ] {
        admin.batch_execute(sql).await.unwrap();
    }
    let hba = folder.with_file_name("data").join("pg_hba.conf");
    fs::write(hba, "local all sm_root trust\nlocal all all scram-sha-256\n").unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let folder = folder.display().to_string().replace('/', "%2F");
    format!("postgres://{BOSS}:{SECRET}@{folder}/postgres")
}
