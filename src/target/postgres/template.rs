//! The cached cluster that every run starts from a copy of: initialised and seeded once.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{sys::signal::Signal, unistd::geteuid};

use super::{
    DATABASE,
    cluster::{SUPERUSER, Server},
    files::{self, Unfinished},
    find::Programs,
    place::Place,
    seed,
};

/// How long initialising may take: half a second where the disk is not busy.
const INITDB_LIMIT: Duration = Duration::from_secs(120);
/// How long the orderly end of the template's server may take.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Changes when a template is to be built in another way from the same parts.
const LAYOUT: &str = "1";

/// Who may log in how: the superuser through the socket, whose folder only the harness and the
/// server enter, everybody else with a password and to the seed alone.
const HBA: &str = "local all sm_root trust\nlocal sealmark_seed all scram-sha-256\n";

/// Before the seed. Each database left out is three hundred files less to copy.
const BEFORE: [&str; 2] = ["DROP DATABASE postgres", "CREATE DATABASE sealmark_seed"];
/// After the seed, in its database.
const AFTER: [&str; 4] = [
    "UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'",
    "DROP DATABASE template0",
    "VACUUM (FREEZE)",
    "CHECKPOINT",
];

/// Where the template of these programs is in the cache.
fn path(cache: &Path, programs: &Programs, place: &Place) -> PathBuf {
    let mut made_of = vec![LAYOUT, HBA];
    made_of.extend(BEFORE);
    made_of.extend(AFTER);
    let owner = place.owner().map_or_else(|| geteuid().as_raw(), |owner| owner.uid);
    let (version, digest) = (&programs.version.text, seed::fingerprint(&made_of));
    cache.join(format!("postgres-{version}-{digest}-{owner}"))
}

/// Copies the cached template to the place's data directory; `false` when there is none.
pub async fn copy(cache: &Path, programs: &Programs, place: &Place) -> Result<bool, String> {
    let from = path(cache, programs, place);
    if !from.is_dir() {
        return Ok(false);
    }
    let (to, owner) = (place.data(), place.owner());
    place.folder(&to).map_err(|error| error.to_string())?;
    let copied = tokio::task::spawn_blocking(move || files::copy_tree(&from, &to, owner)).await;
    match copied {
        Ok(Ok(())) => Ok(true),
        Ok(Err(error)) => Err(format!("the template could not be copied: {error}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Takes a template that does not serve out of the cache.
pub fn discard(cache: &Path, programs: &Programs, place: &Place) {
    files::discard(&path(cache, programs, place));
}

/// Initialises and seeds a cluster in the place's data directory, and keeps a copy in the cache,
/// if there is one that can be written.
pub async fn build(cache: Option<&Path>, programs: &Programs, place: &Place) -> Result<(), String> {
    let data = place.data();
    place.folder(&data).map_err(|error| error.to_string())?;
    let words = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"];
    let mut arguments: Vec<_> = words.iter().map(Into::into).collect();
    arguments.extend(["--wal-segsize=1".into(), "-D".into(), data.clone().into()]);
    let initdb = place.start(&programs.bin.join("initdb"), arguments, None).await?;
    match initdb.exit(INITDB_LIMIT).await {
        (Some(exit), _) if exit.code == Some(0) => {}
        (Some(exit), words) => return Err(format!("initdb ended with {exit}: {words}")),
        (None, words) => return Err(format!("initdb took longer than {INITDB_LIMIT:?}: {words}")),
    }

    let (server, client) = Server::start(place, programs, "template1", Signal::SIGINT).await?;
    let fail =
        |error: tokio_postgres::Error| format!("the seed could not be made: {}", said(&error));
    for statement in BEFORE {
        client.batch_execute(statement).await.map_err(fail)?;
    }
    drop(client);
    let client = server.connect(place, DATABASE).await.map_err(fail)?;
    client.batch_execute(seed::SEED).await.map_err(fail)?;
    for statement in AFTER {
        client.batch_execute(statement).await.map_err(fail)?;
    }
    drop(client);
    let exit = server.stop(STOP_LIMIT).await;
    if exit.is_none_or(|exit| exit.code != Some(0)) {
        return Err("the server did not end in an orderly way after seeding".into());
    }
    drop_spare_segments(&data);
    let hba = data.join("pg_hba.conf");
    fs::write(&hba, HBA)
        .map_err(|error| format!("{} could not be written: {error}", hba.display()))?;

    if let Some(cache) = cache {
        let name = path(cache, programs, place);
        let cache = cache.to_owned();
        // Without a copy the next run builds its own; nothing is lost but time.
        let _ = tokio::task::spawn_blocking(move || {
            let new = Unfinished::begin(&cache)?;
            files::copy_tree(&data, new.path(), None)?;
            new.finish(&name)
        })
        .await;
    }
    Ok(())
}

/// Removes the segments of the log that a clean stop leaves for later use: less to copy. The first
/// holds the last checkpoint, which may reach into the second.
fn drop_spare_segments(data: &Path) {
    let Ok(entries) = fs::read_dir(data.join("pg_wal")) else { return };
    let segment = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.len() == 24 && name.iter().all(u8::is_ascii_hexdigit)
    };
    let mut segments: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(segment).collect();
    segments.sort();
    for spare in segments.iter().skip(2) {
        // One that stays only costs time.
        let _ = fs::remove_file(spare);
    }
}

/// What Postgres says of an error, else what the client says with its cause.
pub fn said(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(of_server), _) => of_server.message().to_owned(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
