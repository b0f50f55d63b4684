//! What the seeded database takes: until it is ready, and in a whole run of pack db.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{PROGRAM, TIMES, harness, installed, millis, row};

const PACKAGES: [&str; 1] = ["@modelcontextprotocol/server-postgres@0.6.2"];
const ENTRY: &str = "node_modules/@modelcontextprotocol/server-postgres/dist/index.js";

/// Prints both, where a Postgres is to be had.
pub(crate) fn measured() {
    let cache = tempfile::tempdir().unwrap();
    println!("seeded database, until three roles are in");
    let Some(cold) = ready(cache.path()) else {
        println!("  none is installed\n");
        return;
    };
    let warm: Vec<u64> = (0..TIMES).filter_map(|_| ready(cache.path())).collect();
    println!("  {:<40}{cold:>9} ms", "cold: the template is made");
    row("warm: the template is there", warm, "ms");
    println!();
    match installed("bench-postgres", &PACKAGES, ENTRY) {
        Ok(entry) => whole_run(&entry),
        Err(why) => println!("no run of server-postgres 0.6.2: {why}"),
    }
}

/// Milliseconds until a database was ready, with this cache.
fn ready(cache: &Path) -> Option<u64> {
    let parent = tempfile::tempdir().unwrap();
    // As root the database runs as another user, who has to get in.
    std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let output = Command::new(PROGRAM)
        .arg("__postgres")
        .arg(parent.path())
        .args(["leave", "stay"])
        .env("XDG_CACHE_HOME", cache)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().last()?.parse().ok()
}

fn whole_run(entry: &str) {
    println!("server-postgres 0.6.2, pack db (it limits no time, so 32 s are waited for)");
    let file = tempfile::tempdir().unwrap();
    let config: PathBuf = file.path().join("sealmark.yaml");
    let server = serde_json::json!({ "command": "node", "args": [entry, "${pg.url}"] });
    std::fs::write(&config, format!("server: {server}\npacks: [db]\n")).unwrap();
    // The first of them learns what each statement does with the seed.
    let runs: Vec<harness::Run> = (0..3).map(|_| harness::run_file(&config)).collect();
    println!("  {:<40}{:>9} ms", "first run, wall", millis(runs[0].wall));
    let rest = || runs[1..].iter();
    row("run, wall", rest().map(|run| millis(run.wall)), "ms");
    row("  the server's answers, longest lane", rest().map(|run| run.timings.answers_ms), "ms");
    let own = rest().map(|run| millis(run.wall).saturating_sub(run.timings.answers_ms));
    row("  wall - answers", own, "ms");
    row("peak memory of sealmark", rest().map(|run| run.peak), "KiB");
    println!();
}
