//! A Postgres as somebody else has it, made from a cluster of ours.

use std::{fs, path::PathBuf};

use sealmark::target::postgres::{Backend, Postgres, connect};
use tokio_postgres::Client;

/// A superuser, and the password of every role made here.
pub(crate) const BOSS: &str = "boss";
pub(crate) const SECRET: &str = "geheim-4711";

/// Takes the seed out of the cluster, gives it the usual databases, and lets a superuser in by
/// password. The folder of its socket, and a session that stays.
pub(crate) async fn made_theirs(postgres: &Postgres) -> (PathBuf, Client) {
    let Backend::Unix(socket) = postgres.backend() else { panic!("no socket") };
    let folder = socket.parent().unwrap().to_owned();
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
    (folder, admin)
}

/// The URL by which a user of the cluster gets in.
pub(crate) fn url(folder: &std::path::Path, user: &str) -> String {
    let folder = folder.display().to_string().replace('/', "%2F");
    format!("postgres://{user}:{SECRET}@{folder}/postgres")
}
