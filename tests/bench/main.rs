//! Where the time and the memory of a run go, beside what the server costs without a harness.
//!
//! `just bench`. It measures and judges nothing: no limit fails here, for a busy machine is no fault.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

mod database;
mod floor;
mod harness;

use std::{fmt::Display, path::Path, process::Command, time::Duration};

use harness::Run;

/// How often everything is measured.
const TIMES: usize = 5;
/// The program under measurement.
const PROGRAM: &str = env!("CARGO_BIN_EXE_sealmark-under-test");
const FIXTURE: &str = env!("CARGO_BIN_EXE_fixture-server");
const PACKAGES: [&str; 2] = ["@modelcontextprotocol/server-filesystem@2.0.1", "zod@3.25.76"];
const ENTRY: &str = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";

fn main() -> std::process::ExitCode {
    if let Some(code) = sealmark::world::shim::dispatch() {
        return code;
    }
    // `cargo bench` passes `--bench` and filters; there is nothing to choose here.
    println!("load {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
    println!("{TIMES} times each: median (least to most)\n");
    match installed("bench-server", &PACKAGES, ENTRY) {
        Ok(entry) => whole_runs(&entry),
        Err(why) => println!("no runs of server-filesystem 2.0.1: {why}"),
    }
    shim();
    memory();
    database::measured();
    std::process::ExitCode::SUCCESS
}

/// A published server's program, installed beside those of the tests.
fn installed(folder: &str, packages: &[&str], entry: &str) -> Result<String, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(folder);
    let entry = folder.join(entry);
    if !entry.exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
        npm.arg("--prefix").arg(&folder).args(packages);
        let ended = npm.status().map_err(|error| format!("npm: {error}"))?;
        if !ended.success() {
            return Err(format!("npm: {ended}"));
        }
    }
    Ok(entry.display().to_string())
}

fn whole_runs(entry: &str) {
    println!("server-filesystem 2.0.1, packs core and fs");
    let allowed = tempfile::tempdir().unwrap();
    let alone = ["node", entry, &allowed.path().display().to_string()].map(str::to_owned);
    let floors: Vec<Duration> = (0..TIMES).map(|_| floor::listed(&alone)).collect();
    let runs: Vec<Run> = (0..TIMES)
        .map(|_| harness::run(&["node".into(), entry.into(), "${sandbox}".into()]))
        .collect();
    let timing = |read: fn(&sealmark::report::Timings) -> u64| {
        runs.iter().map(|run| read(&run.timings)).collect::<Vec<_>>()
    };
    let floors: Vec<u64> = floors.iter().map(|floor| millis(*floor)).collect();
    let walls: Vec<u64> = runs.iter().map(|run| millis(run.wall)).collect();
    let answers = timing(|timings| timings.answers_ms);
    // Pair by pair: what a run took beside a start of the server and its answers.
    let own = (0..TIMES).map(|n| signed(walls[n]) - signed(floors[n]) - signed(answers[n]));
    row("floor: start, initialize, tools/list", floors.iter().copied(), "ms");
    row("run, wall", walls.iter().copied(), "ms");
    row("  start: first spawn to last list", timing(|timings| timings.server_start_ms), "ms");
    row("  targets made", timing(|timings| timings.targets_ms), "ms");
    row("  probes: first control to last reply", timing(|timings| timings.probes_ms), "ms");
    row("  the server's answers, longest lane", answers.iter().copied(), "ms");
    row("wall - floor - answers", own, "ms");
    row("peak memory of sealmark", runs.iter().map(|run| run.peak), "KiB");
    println!();
}

/// What starting through the supervisor adds to a server that starts at once.
fn shim() {
    println!("fixture server, start to tools/list");
    let command = [FIXTURE.to_owned(), "/".to_owned()];
    let alone: Vec<u64> = (0..TIMES).map(|_| micros(floor::listed(&command))).collect();
    let supervised: Vec<u64> =
        (0..TIMES).map(|_| micros(harness::listed_under_supervisor(&command))).collect();
    let added = (0..TIMES).map(|n| signed(supervised[n]) - signed(alone[n]));
    row("alone", alone.iter().copied(), "us");
    row("under the supervisor", supervised.iter().copied(), "us");
    row("difference", added, "us");
    println!();
}

fn memory() {
    println!("peak memory of sealmark over the fixture server");
    for flaw in [None, Some("answers-100mb")] {
        let mut command = vec![FIXTURE.to_owned()];
        command.extend(flaw.into_iter().flat_map(|flaw| ["--flaw".to_owned(), flaw.to_owned()]));
        command.push("${sandbox}".to_owned());
        let runs: Vec<Run> = (0..TIMES).map(|_| harness::run(&command)).collect();
        row(flaw.unwrap_or("sound"), runs.iter().map(|run| run.peak), "KiB");
        row("  run, wall", runs.iter().map(|run| millis(run.wall)), "ms");
    }
}

/// One line: median, least and most.
fn row<N: Copy + Ord + Display>(what: &str, figures: impl IntoIterator<Item = N>, unit: &str) {
    let mut figures: Vec<N> = figures.into_iter().collect();
    figures.sort_unstable();
    if let [least, .., most] = figures.as_slice() {
        let median = figures[figures.len() / 2];
        println!("  {what:<40}{median:>9} {unit:<4} ({least} to {most})");
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn signed(figure: u64) -> i64 {
    i64::try_from(figure).unwrap_or(i64::MAX)
}
