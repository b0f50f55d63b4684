//! Exit codes and the words of errors, through the program itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read},
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealmark-under-test");
const SERVER: &str = env!("CARGO_BIN_EXE_fixture-server");

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(folder).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// The program's answer in an empty folder.
fn answer(arguments: &[&str]) -> Output {
    command(TempDir::new().unwrap().path(), arguments).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The one line of stderr that is an error for programs.
fn error_line(output: &Output) -> Value {
    let text = stderr(output);
    let line = text.lines().find(|line| line.starts_with("{\"error\"")).unwrap_or_default();
    serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {text}"))["error"]
        .clone()
}

#[test]
fn a_wrong_command_line_ends_with_2_an_error_and_help() {
    for (arguments, message, help) in [
        (&["run", "--pack", "sf", "--", "x"][..], "there is no pack `sf`", "did you mean `fs`?"),
        (
            &["run", "--pack", "sqlite", "--", "x"],
            "the pack `sqlite` is not in this version",
            "core",
        ),
        (&["run", "--only", "fs-path-excape", "--", "x"], "no check", "`fs-path-escape`"),
        (&["run", "--format", "txt", "--", "x"], "no format `txt`", "`text`"),
        (&["run", "--format", "sarif", "--", "x"], "is not in this version", "summary"),
        (&["run", "--fail-under", "b", "--", "x"], "no letter `b`", "`B`"),
        (&["run", "--profile", "fast", "--", "x"], "no profile `fast`", "standard, ci and deep"),
        (&["run", "--timeout", "soon", "--", "x"], "--timeout", "whole seconds"),
        (&["run", "-o", "report.json", "--", "x"], "no FORMAT=FILE", "json=report.json"),
        (&["run", "-o", "json=none/x", "--", "x"], "failed to write none/x", "directory"),
        (&["run", "--from", "mcp.json"], "the option --from is not in this version", "--help"),
        (&["run", "--sealed", "--", "x"], "the option --sealed is not in this version", "--help"),
        (&["run"], "there is no sealmark.yaml here", "sealmark run -- npx"),
        (&["run", "a.yaml", "--", "x"], "at once", "leave one out"),
        (&["run", "none.yaml"], "there is no such file", "name another"),
        (&["run", "--", "${sandbx}"], "unknown placeholder", "${sandbox}"),
        (&["run", "npx", "-y", "x"], "unexpected argument", "behind `--`"),
        (&["run", "--pakc", "fs"], "unexpected argument", "did you mean `--pack`?"),
        (&["explain", "fs-path-excape"], "no check", "`fs-path-escape`"),
        (&["explain", "fs-path-escape/hold"], "no rule of fs-path-escape", "`held`"),
        (&["list-checks", "--pack", "net"], "the pack `net` is not in this version", "fs"),
        (&["describe", "--format", "xml"], "no format `xml`", "json and yaml"),
        (&["schema", "cnofig"], "no schema `cnofig`", "did you mean `config`?"),
        (&["doctor"], "the command `doctor` is not in this version", "--help"),
        (&["scan", "http://127.0.0.1:1"], "the command `scan` is not in this version", "--help"),
        (&["rnu"], "no command `rnu`", "did you mean `run`?"),
    ] {
        let output = answer(arguments);
        let text = stderr(&output);
        assert_eq!(code(&output), 2, "{arguments:?}: {text}");
        assert!(text.starts_with("error: "), "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
        let last = text.trim_end().lines().last().unwrap_or_default();
        assert!(last.starts_with("help: ") && last.contains(help), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_error_of_the_configuration_shows_its_line() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("sealmark.yaml"), "server:\n  comand: node\n").unwrap();
    let output = command(folder.path(), &["run"]).output().unwrap();
    let text = stderr(&output);
    assert_eq!(code(&output), 2, "{text}");
    assert!(
        text.contains("--> sealmark.yaml:2:3") && text.contains("2 |   comand: node"),
        "{text}"
    );
    assert!(text.trim_end().lines().last().unwrap_or_default().starts_with("help: "), "{text}");

    let output = command(folder.path(), &["run", "--format", "json"]).output().unwrap();
    let error = error_line(&output);
    assert_eq!(error["kind"], "configuration");
    assert_eq!((&error["file"], &error["line"]), (&"sealmark.yaml".into(), &2.into()));
    assert_eq!((&error["column"], &error["exitCode"]), (&3.into(), &2.into()));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
}

#[test]
fn an_output_that_cannot_be_written_is_found_before_anything_runs() {
    let folder = TempDir::new().unwrap();
    let arguments = ["run", "-o", "text=kept", "-o", "json=none/x", "--", "touch", "ran"];
    let output = command(folder.path(), &arguments).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing ran, nothing is left");
}

#[test]
fn questions_about_the_program_are_answered_with_0() {
    for (arguments, word) in [
        (&["--version"][..], "(methodology "),
        (&["-h"], "Usage: sealmark"),
        (&["run", "--help"], "A bound on the whole run"),
        (&["list-checks"], "fs-path-escape"),
        (&["list-checks", "--pack", "fs", "--format", "json"], "\"id\": \"fs-path-escape\""),
        (&["explain", "fs-path-escape"], "Decided in packs/fs/fs_path_escape.yaml"),
        (&["explain", "fs-path-escape/control-failed"], "inconclusive"),
        (&["describe"], "\"methodology\""),
        (&["describe", "--format", "yaml"], "methodology: "),
        (&["schema", "config"], "\"$schema\""),
        (&["schema", "report"], "\"packs\""),
    ] {
        let output = answer(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).contains(word), "{arguments:?}: {}", stdout(&output));
    }
}

#[test]
fn what_is_for_programs_is_json() {
    for arguments in [
        &["describe"][..],
        &["schema", "config"],
        &["schema", "report"],
        &["list-checks", "--format", "json"],
    ] {
        let text = stdout(&answer(arguments));
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{arguments:?}");
    }
}

#[test]
fn without_arguments_the_help_is_shown_and_the_code_is_2() {
    let output = answer(&[]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("Usage: sealmark"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_went_away_is_no_panic() {
    let mut child = command(Path::new("."), &["describe"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text}");
    assert!(text.is_empty(), "{text}");
}

#[test]
fn a_panic_says_what_to_report_and_ends_with_70() {
    let output = answer(&["__panic"]);
    let text = stderr(&output);
    assert_eq!(code(&output), 70, "{text}");
    assert!(text.contains("internal error: planted at ") && text.contains("report these lines"));
}

#[test]
fn a_server_that_does_not_start_ends_with_3_and_says_why() {
    let arguments = ["run", "--", SERVER, "--flaw", "exits-at-once", "${sandbox}"];
    let output = answer(&arguments);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stdout(&output).contains("missing API key"), "{}", stdout(&output));

    let arguments = ["run", "--format", "json", "--", "no-such-program-of-sealmark"];
    let output = answer(&arguments);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert_eq!(error_line(&output)["kind"], "not-started");
}

#[test]
fn the_gate_decides_between_0_and_1() {
    let folder = TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        let output = command(folder.path(), arguments).output().unwrap();
        (code(&output), stderr(&output))
    };
    let sound = ["run", "-q", "--pack", "fs", "-o", "json=r.json", "--", SERVER, "${sandbox}"];
    let (code, text) = run(&sound);
    assert_eq!(code, 0, "{text}");
    let report: Value =
        serde_json::from_slice(&fs::read(folder.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(report["gate"]["met"], true);

    let broken = ["--", SERVER, "--flaw", "no-path-check", "${sandbox}"];
    let (code, text) = run(&[&["run", "-q", "--pack", "fs"][..], &broken].concat());
    assert_eq!(code, 1, "{text}");
}

#[test]
fn a_run_without_anything_to_grade_ends_with_4() {
    let output = answer(&["run", "-q", "--pack", "fs", "--", SERVER, "."]);
    assert_eq!(code(&output), 4, "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn a_time_that_is_over_is_an_interruption() {
    let arguments = ["run", "--timeout", "1", "--", SERVER, "--pace", "400", "${sandbox}"];
    let output = answer(&arguments);
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(stderr(&output).contains("the 1 s of --timeout are over"), "{}", stderr(&output));
    assert!(!output.stdout.is_empty(), "what was finished is reported");
}

/// Waits until the first lane starts, when signals are caught, and keeps what comes on stderr.
fn started(child: &mut Child) -> JoinHandle<String> {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("starting")));
    std::thread::spawn(move || lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_first_signal_ends_the_server_and_the_report_is_still_written() {
    let folder = TempDir::new().unwrap();
    let arguments = ["run", "--", SERVER, "--pace", "400", "${sandbox}"];
    let mut child = command(folder.path(), &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = started(&mut child);
    std::thread::sleep(Duration::from_millis(500));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let began = Instant::now();
    let output = child.wait_with_output().unwrap();
    let said = said.join().unwrap();
    assert_eq!(code(&output), 130, "{said}");
    assert!(said.contains("interrupted: ending the server"), "{said}");
    assert!(!output.stdout.is_empty(), "what was finished is reported");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn the_second_signal_ends_the_program_at_once() {
    let folder = TempDir::new().unwrap();
    let arguments = ["run", "--", SERVER, "--flaw", "ignores-eof-and-term", "${sandbox}"];
    let mut child = command(folder.path(), &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _said = started(&mut child);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(300));
        kill(pid, Signal::SIGTERM).unwrap();
    }
    let began = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // In order it would wait 5 s for the end of input, and 3 s more for SIGTERM.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}
