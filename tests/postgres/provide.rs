//! Clusters of a run's own.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::Command,
};

use nix::unistd::{User, geteuid};
use sealmark::{
    target::postgres::{Backend, DATABASE, Role},
    world::Run,
};

use crate::{PROGRAM, Told, program, provided, run, untested};

#[tokio::test]
async fn a_seeded_cluster_lets_the_roles_in_and_leaves_nothing() {
    let (run, parent) = run();
    let Some(postgres) = provided(&run).await else { return };
    for role in Role::ALL {
        let session = postgres.session(role).await.unwrap();
        let sql = "SELECT current_user::text, (SELECT count(*) FROM orders)";
        let row = session.query_one(sql, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), role.user());
        assert_eq!(row.get::<_, i64>(1), if role == Role::Tenant { 1250 } else { 5000 });
    }
    let superuser = postgres.superuser().await.unwrap();
    for sentinel in postgres.sentinels() {
        let sql = format!(
            "SELECT count(*) FROM (SELECT c::text AS t FROM customers c UNION ALL \
             SELECT o::text FROM orders o UNION ALL SELECT n::text FROM tenants n) AS a \
             WHERE t LIKE '%{}%'",
            sentinel.token
        );
        let count: i64 = superuser.query_one(&sql, &[]).await.unwrap().get(0);
        assert_eq!(count, 1, "{}", sentinel.object);
    }
    let shown = format!("{postgres:?}");
    assert!(!shown.contains(postgres.password(Role::Admin)), "{shown}");
    assert_eq!(postgres.close().await, Vec::<String>::new());
    assert_eq!(postgres.close().await, Vec::<String>::new());
    drop(postgres);
    run.close().unwrap();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_password_is_asked_for_and_only_the_seed_can_be_entered() {
    let (run, _parent) = run();
    let Some(postgres) = provided(&run).await else { return };
    let (quoted, password) = postgres.quoted();
    let enter = |user: &str, password: &str, database: &str| {
        let config = postgres.backend().config(user, Some(password.as_bytes()), database);
        async move { sealmark::target::postgres::connect(&config).await.is_ok() }
    };
    assert!(enter(quoted, password, DATABASE).await);
    assert!(!enter(quoted, "wrong", DATABASE).await);
    assert!(!enter("sm_admin", "", DATABASE).await);
    assert!(!enter("sm_admin", postgres.password(Role::Admin), "template1").await);
    assert!(!enter("sm_admin", postgres.password(Role::Tenant), DATABASE).await);
}

#[tokio::test]
async fn two_clusters_at_once_do_not_meet() {
    let ((one, _keep), (other, _keep_too)) = (run(), run());
    let (first, second) = tokio::join!(provided(&one), provided(&other));
    let (Some(first), Some(second)) = (first, second) else { return };
    first.superuser().await.unwrap().batch_execute("DELETE FROM probe_t").await.unwrap();
    first.close().await;
    let session = second.session(Role::Admin).await.unwrap();
    let count: i64 = session.query_one("SELECT count(*) FROM probe_t", &[]).await.unwrap().get(0);
    assert_eq!(count, 5);
    assert_ne!(first.password(Role::Admin), second.password(Role::Admin));
    assert_ne!(first.backend(), second.backend());
}

#[tokio::test]
async fn a_dropped_cluster_leaves_nothing() {
    let (run, parent) = run();
    let Some(postgres) = provided(&run).await else { return };
    let session = postgres.superuser().await.unwrap();
    drop((postgres, session));
    run.close().unwrap();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_folder_with_too_long_a_path_is_replaced_by_a_short_one() {
    let parent = tempfile::tempdir().unwrap();
    let long = parent.path().join("a".repeat(90));
    fs::create_dir(&long).unwrap();
    let run = Run::create_in(&long).unwrap().supervised_by(Path::new(PROGRAM));
    let Some(postgres) = provided(&run).await else { return };
    let Backend::Unix(socket) = postgres.backend().clone() else { panic!("no socket") };
    let root = socket.ancestors().nth(3).unwrap().to_owned();
    assert!(root.is_dir() && !socket.starts_with(&long), "{}", socket.display());
    postgres.close().await;
    assert!(!root.exists());
}

#[tokio::test]
async fn a_run_in_the_usual_place_leaves_nothing_of_its_cluster_elsewhere() {
    let run = Run::create().unwrap().supervised_by(Path::new(PROGRAM));
    let Some(postgres) = provided(&run).await else { return };
    let Backend::Unix(socket) = postgres.backend().clone() else { panic!("no socket") };
    let root = socket.ancestors().nth(3).unwrap().to_owned();
    assert!(root.join("pg/data/PG_VERSION").is_file(), "{}", root.display());
    postgres.close().await;
    assert!(!root.join("pg/data").exists() && (root == run.root() || !root.exists()));
    run.close().unwrap();
    assert!(!root.exists());
}

#[tokio::test]
async fn only_root_of_the_run_can_be_passed_and_nothing_read() {
    let (run, _parent) = run();
    let other = run.lane("main").unwrap();
    let Some(_postgres) = provided(&run).await else { return };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(run.root()) & 0o066, 0);
    assert_eq!(mode(other.root()), 0o700);
    for private in ["data", "s"] {
        assert_eq!(mode(&run.root().join("pg").join(private)), 0o700, "{private}");
    }
}

#[test]
fn another_user_than_root_is_served_too() {
    let Ok(Some(nobody)) = User::from_name("nobody") else { return untested("no user nobody") };
    if !geteuid().is_root() {
        return untested("not root: every other test here was made as another user");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The other user may not enter the folder this was built in.
    let copy = folder.path().join("program");
    fs::copy(PROGRAM, &copy).unwrap();
    let (cache, parent) = (folder.path().join("cache"), folder.path().join("runs"));
    for own in [&cache, &parent] {
        fs::create_dir(own).unwrap();
        chown(own, Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
    }
    let (uid, gid) = (nobody.uid.to_string(), nobody.gid.to_string());
    let mut command = Command::new(PROGRAM);
    command.args(["__as", &uid, &gid]).arg(&copy).arg("__postgres").arg(&parent);
    command.args(["leave", "stay"]).env("XDG_CACHE_HOME", &cache);
    let Some(told) = Told::by(&mut command) else { return };
    assert_eq!(told.counts, ["5000", "5000", "1250"]);
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    assert!(fs::read_dir(cache.join("sealmark")).unwrap().count() >= 1);
}

#[test]
fn a_template_in_a_private_cache_is_used_and_rebuilt_when_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    // As root's own cache is: the other user, whom the server runs as, may not enter it.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let provide = || {
        let mut command = program(folder.path(), "leave");
        let told = Told::by(command.env("XDG_CACHE_HOME", folder.path()))?;
        assert_eq!(told.counts, ["5000", "5000", "1250"]);
        assert!(!told.root.exists());
        Some(told)
    };
    if provide().is_none() {
        return;
    }
    let cache = folder.path().join("sealmark");
    let template = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    let control = template.join("global/pg_control");
    let (whole, made) = (fs::metadata(&control).unwrap(), fs::metadata(&template).unwrap().ino());
    provide();
    assert_eq!(fs::metadata(&template).unwrap().ino(), made);
    fs::write(&control, "broken").unwrap();
    provide();
    assert_eq!(fs::metadata(&control).unwrap().len(), whole.len());
    assert_ne!(fs::metadata(&template).unwrap().ino(), made);
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
}

#[test]
fn a_machine_without_postgres_is_told_why_and_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    for (fetch, word) in [("stay", "none may be fetched"), ("fetch", "not on PATH: npm")] {
        let mut command = Command::new(PROGRAM);
        command.arg("__postgres").arg(folder.path()).args(["leave", fetch]);
        command.env_clear().env("SEALMARK_PG_BIN", folder.path().join("nowhere"));
        command.env("PATH", folder.path()).env("XDG_CACHE_HOME", folder.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("nowhere, which lacks initdb") && said.contains(word), "{said}");
        assert!(said.lines().nth(1).unwrap().contains("--pg URL"), "{said}");
    }
}
