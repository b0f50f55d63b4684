//! A server that is named by its URL.

use std::path::PathBuf;

use sealmark::{
    target::postgres::{DATABASE, Postgres, ProvideError, Role, Wish},
    world::Run,
};
use tempfile::TempDir;
use tokio_postgres::Client;

use crate::{
    Told,
    made::{SECRET, made_theirs, url},
    program, provided, run,
};

/// A server as somebody else has it: with a superuser, another role, and no database of ours.
struct Theirs {
    folder: PathBuf,
    admin: Client,
    _postgres: Postgres,
    _run: Run,
    parent: TempDir,
}

const PLAIN: &str = "plain";

impl Theirs {
    async fn begin() -> Option<Self> {
        let (run, parent) = run();
        let postgres = provided(&run).await?;
        let (folder, admin) = made_theirs(&postgres).await;
        let plain = format!("CREATE ROLE {PLAIN} LOGIN PASSWORD '{SECRET}'");
        admin.batch_execute(&plain).await.unwrap();
        Some(Self { folder, admin, _postgres: postgres, _run: run, parent })
    }

    fn url(&self, user: &str) -> String {
        url(&self.folder, user)
    }

    async fn provide(&self, user: &str) -> (Run, Result<Postgres, ProvideError>) {
        let run = Run::create_in(self.parent.path()).unwrap();
        let wish = Wish { given: Some(self.url(user)), fetch: true };
        assert!(!format!("{wish:?}").contains(SECRET));
        let provided = Postgres::provide(&run, &wish).await;
        (run, provided)
    }

    async fn refused(&self, user: &str) -> (String, String) {
        match self.provide(user).await.1 {
            Err(ProvideError::Usage(why, help)) => {
                assert!(!why.contains(SECRET) && !help.contains(SECRET), "{why} {help}");
                (why, help)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn count(&self, sql: &str) -> i64 {
        self.admin.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn traces(&self) -> i64 {
        let databases = "SELECT count(*) FROM pg_database WHERE datname LIKE 'sealmark%'";
        let roles =
            "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'sm\\_%' AND rolname <> 'sm_root'";
        self.count(databases).await + self.count(roles).await
    }
}

#[tokio::test]
async fn the_seed_is_made_in_a_named_server_and_removed_again() {
    let Some(theirs) = Theirs::begin().await else { return };
    let (_run, given) = theirs.provide("boss").await;
    let given = given.unwrap();
    assert_eq!(given.origin(), "given");
    let admin = given.session(Role::Admin).await.unwrap();
    let sql = "SELECT count(*) FROM orders";
    assert_eq!(admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 5000);

    // Meanwhile no second run gets in, and the first is not disturbed.
    let (why, help) = theirs.refused("boss").await;
    assert!(why.contains("another run") && help.contains("wait"), "{why} {help}");
    let prepared = "BEGIN; INSERT INTO probe_t (v) VALUES ('x'); PREPARE TRANSACTION 'left'";
    admin.batch_execute(prepared).await.unwrap();
    assert_eq!(given.close().await, Vec::<String>::new());
    assert_eq!(theirs.traces().await, 0);
    assert!(given.session(Role::Admin).await.is_err());

    // Dropping it does the same.
    let (_run, given) = theirs.provide("boss").await;
    drop(given.unwrap());
    assert_eq!(theirs.traces().await, 0);
}

#[tokio::test]
async fn what_a_killed_run_left_in_a_named_server_is_removed_by_the_next() {
    let Some(theirs) = Theirs::begin().await else { return };
    let mut command = program(theirs.parent.path(), "hold");
    let (mut harness, told) = Told::holding(command.arg(theirs.url("boss"))).unwrap();
    assert_eq!(told.origin, "given");
    harness.kill().unwrap();
    harness.wait().unwrap();
    assert_ne!(theirs.traces().await, 0);
    let locked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    while theirs.count(locked).await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let (_run, given) = theirs.provide("boss").await;
    given.unwrap().close().await;
    assert_eq!(theirs.traces().await, 0);
}

#[tokio::test]
async fn a_role_that_is_no_superuser_is_named() {
    let Some(theirs) = Theirs::begin().await else { return };
    let (why, _) = theirs.refused(PLAIN).await;
    assert!(why.contains("`plain` is no superuser"), "{why}");
    let (why, _) = theirs.refused("absent").await;
    assert!(why.contains("`absent` did not get in"), "{why}");
    assert_eq!(theirs.traces().await, 0);
}

#[tokio::test]
async fn what_is_not_of_our_making_is_kept() {
    let Some(theirs) = Theirs::begin().await else { return };
    theirs.admin.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await.unwrap();
    let (why, help) = theirs.refused("boss").await;
    assert!(why.contains(DATABASE) && help.contains("drop"), "{why} {help}");
    assert_eq!(theirs.traces().await, 1);
    let rename = format!("ALTER DATABASE {DATABASE} RENAME TO other");
    theirs.admin.batch_execute(&rename).await.unwrap();
    theirs.admin.batch_execute("CREATE ROLE sm_tenant").await.unwrap();
    let (why, _) = theirs.refused("boss").await;
    assert!(why.contains("role sm_tenant"), "{why}");
    assert_eq!(theirs.traces().await, 1);
}
