//! Exit codes from hand-made reports, and what options change.

use std::ffi::OsString;

use clap::Parser;

use super::*;
use crate::cli::args::{Cli, Command};
use crate::report::{
    Badge, Cleanup, ConfigRef, Gate, Harness, InstanceInfo, PackReport, RunInfo, RunKind,
    ServerInfo, Targets, Timings,
};

fn args(argv: &[&str]) -> RunArgs {
    let argv = ["sealmark", "run"].iter().chain(argv).map(OsString::from);
    match Cli::try_parse_from(argv).unwrap().command {
        Command::Run(args) => *args,
        _ => panic!("run is read as run"),
    }
}

fn adjusted(argv: &[&str]) -> Result<Config, Error> {
    let (mut config, _) = from_command(&["server".to_owned()]).unwrap();
    adjust(&mut config, &args(argv)).map(|()| config)
}

fn report(started: &[bool], statuses: &[PackStatus], met: bool, completed: bool) -> Report {
    let instance = |&started: &bool| InstanceInfo {
        role: "default".into(),
        lane: "main".into(),
        started,
        restarts: 0,
        trouble: (!started).then(|| "exit 1\nmissing API key".into()),
    };
    let pack = |&status: &PackStatus| PackReport {
        id: "core".into(),
        title: String::new(),
        status,
        reason: None,
        letter: None,
        raw_letter: None,
        capped: false,
        cap_reasons: Vec::new(),
        provisional: false,
        points: 0.0,
        scored: 0,
        non_advisory: 0,
        percentage: 0,
        candidate: false,
        excluded: Vec::new(),
        checks: Vec::new(),
    };
    Report {
        schema_version: crate::report::SCHEMA_VERSION.into(),
        harness: Harness { name: "sealmark".into(), version: "0".into() },
        methodology: registry::METHODOLOGY.into(),
        config: ConfigRef { hash: String::new(), file: None, server_line: 1 },
        run: RunInfo {
            kind: RunKind::Standard,
            differences: Vec::new(),
            profile: "standard".into(),
            world: "open".into(),
            completed,
            started_at: String::new(),
            duration_ms: 0,
            timings: Timings::default(),
        },
        server: ServerInfo {
            instances: started.iter().map(instance).collect(),
            ..ServerInfo::default()
        },
        tools: Vec::new(),
        targets: Targets::default(),
        packs: statuses.iter().map(pack).collect(),
        not_covered: Vec::new(),
        caveats: Vec::new(),
        cleanup: Cleanup::default(),
        gate: Gate { threshold: Letter::A, met, causes: Vec::new(), accepted: Vec::new() },
        badge: Badge::default(),
    }
}

#[test]
fn every_end_of_a_run_has_its_code() {
    use PackStatus::{Graded, Inconclusive, Na};
    for (started, statuses, met, code) in [
        (&[true][..], &[Graded][..], true, error::MET),
        (&[true, false], &[Graded, Na], true, error::MET),
        (&[true], &[Graded], false, error::NOT_MET),
        (&[true], &[Na], true, error::NOTHING_GRADED),
        (&[true], &[Inconclusive], false, error::NOT_MET),
        (&[false, false], &[Inconclusive], false, error::NOT_STARTED),
        (&[], &[Na], true, error::NOTHING_GRADED),
    ] {
        let report = report(started, statuses, met, true);
        assert_eq!(exit_code(&report, None), code, "{started:?} {statuses:?} {met}");
    }
}

#[test]
fn an_interruption_outranks_the_rest_only_when_it_cut_the_run_short() {
    let by = Some(Interruption::Signal);
    let cut = report(&[false], &[PackStatus::Inconclusive], false, false);
    assert_eq!(exit_code(&cut, by), error::INTERRUPTED);
    assert_eq!(exit_code(&cut, None), error::NOT_STARTED);
    let whole = report(&[true], &[PackStatus::Graded], true, true);
    assert_eq!(exit_code(&whole, by), error::MET);
}

#[test]
fn a_server_that_did_not_start_says_why_in_one_line() {
    let report = report(&[false], &[], true, false);
    let error = as_error(&report, None).unwrap();
    assert_eq!(error.message(), "no instance of the server started: exit 1");
}

#[test]
fn packs_are_taken_once_and_only_names_its_own() {
    assert_eq!(adjusted(&["--pack", "fs, fs"]).unwrap().packs, Some(vec!["fs".to_owned()]));
    let only = adjusted(&["--only", "fs-path-escape"]).unwrap();
    assert_eq!(only.packs, Some(vec!["fs".to_owned()]));
    assert_eq!(adjusted(&[]).unwrap().packs, None);
    let other = registry::packs().iter().map(|pack| pack.id).find(|id| *id != "fs");
    if let Some(other) = other {
        let error = adjusted(&["--pack", other, "--only", "fs-path-escape"]).unwrap_err();
        assert!(error.message().contains("belongs to pack `fs`"), "{error}");
    }
}

#[test]
fn the_deep_profile_brings_its_longer_probes_and_leaving_it_takes_them_back() {
    let deep = adjusted(&["--profile", "deep"]).unwrap();
    assert_eq!(deep.limits.probe_string, Limits::DEEP_PROBE_STRING);
    let mut config = deep;
    adjust(&mut config, &args(&["--profile", "ci"])).unwrap();
    assert_eq!(config.limits, Limits::default());
}

#[test]
fn wrong_values_are_answered_with_what_there_is() {
    for (argv, help) in [
        (["--pack", "sf"], "did you mean `fs`?"),
        (["--pack", "sqlite"], "the packs of this version are"),
        (["--profile", "deeep"], "did you mean `deep`?"),
        (["--fail-under", "a"], "did you mean `A`?"),
        (["--fail-under", "excellent"], "the letters are A, B, C, D, F"),
        (["--only", "fs-path-excape"], "did you mean `fs-path-escape`?"),
    ] {
        let error = adjusted(&argv).unwrap_err();
        assert!(error.help().contains(help), "{argv:?}: {error}");
        assert_eq!(error.exit_code(), error::USAGE);
    }
}

#[test]
fn a_file_and_a_command_exclude_each_other() {
    let error = configuration(&args(&["a.yaml", "--", "server"])).unwrap_err();
    assert!(error.help().contains("sealmark run CONFIG"), "{error}");
}
