//! Servers of an odd shape: the one thing that matters about each.

use std::time::Duration;

use sealmark::{
    evidence::{Evidence, Kind, Observer, Outcome, When, Why},
    letter::Letter,
    registry,
    report::PackStatus,
    verdict::Verdict,
};

use crate::runs::{Run, run};

/// The checks whose verdict or rule differs from the sound server's.
fn differing(name: &str) -> Vec<String> {
    let ruled = |run: &Run| -> Vec<(String, Verdict, String)> {
        run.checks().map(|check| (check.id.clone(), check.verdict, check.rule.clone())).collect()
    };
    let sound = ruled(run("sound"));
    let found = ruled(run(name)).into_iter();
    found.filter(|one| !sound.contains(one)).map(|(id, ..)| id).collect()
}

fn is_like_sound(name: &str) {
    assert_eq!(differing(name), Vec::<String>::new(), "{name}");
    let tools = |run: &Run| run.report().tools.len();
    assert_eq!(tools(run(name)), tools(run("sound")), "{name}");
}

fn rule(name: &str, check: &str) -> String {
    run(name).check(check).unwrap().rule.clone()
}

fn evidence<'a>(name: &str, check: &str) -> impl Iterator<Item = &'a Evidence> + use<'a> {
    run(name).check(check).unwrap().evidence.iter()
}

/// No pack has a letter, and the reason holds these words.
fn never_started(name: &str, words: &[&str]) {
    let report = run(name).report();
    assert!(!report.run.completed, "{name}");
    let packs = || report.packs.iter().filter(|pack| pack.id != "db");
    for pack in packs() {
        assert_eq!((pack.letter, pack.status), (None, PackStatus::Inconclusive), "{name}");
    }
    let mut asked = packs().flat_map(|pack| &pack.checks);
    assert!(asked.all(|check| check.rule == "server-did-not-start"), "{name}");
    for instance in &report.server.instances {
        let trouble = instance.trouble.as_deref().unwrap();
        for word in words {
            assert!(trouble.contains(word), "{name}: {trouble}");
        }
    }
}

#[test]
fn honest_servers_of_any_manner_are_judged_alike() {
    for name in ["slow-start", "paginated", "late-tools", "split-writes", "crlf", "fills-stderr"] {
        is_like_sound(name);
    }
}

#[test]
fn confused_ids_confuse_nobody() {
    for name in ["id-collision", "duplicate-replies", "wrong-id-first"] {
        is_like_sound(name);
    }
}

#[test]
fn noise_on_stdout_is_told_and_changes_nothing_else() {
    assert_eq!(differing("invalid-utf8-noise"), ["stdout-clean"]);
}

#[test]
fn a_list_without_an_end_is_cut_and_said_to_be() {
    for name in ["endless-cursor", "advancing-cursor"] {
        let report = run(name).report();
        assert!(report.caveats.iter().any(|caveat| caveat.contains("page 2")), "{name}");
        assert!(report.run.completed && run(name).took < Duration::from_secs(60), "{name}");
        assert_eq!(differing(name), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn servers_without_tools_are_judged_by_what_they_have() {
    for name in ["resources-only", "prompts-only"] {
        let report = run(name).report();
        let fs = report.packs.iter().find(|pack| pack.id == "fs").unwrap();
        assert_eq!((fs.status, fs.letter), (PackStatus::Na, None), "{name}");
        assert_eq!(rule(name, "metadata-hygiene"), "clean", "{name}");
        assert_eq!(rule(name, "secret-echo"), "no-call-answered", "{name}");
        assert!(report.tools.is_empty(), "{name}");
    }
    assert_eq!(rule("resources-only", "resource-traversal"), "stayed-inside");
    assert_eq!(rule("prompts-only", "resource-traversal"), "no-files-offered");
}

#[test]
fn a_server_that_never_starts_gets_no_letter_and_its_last_words_are_kept() {
    never_started("exits-at-once", &["exit", "missing API key"]);
    never_started("never-answers-initialize", &["did not answer initialize"]);
    never_started("modern-only", &["speaks only 2026-07-28"]);
}

#[test]
fn a_server_that_dies_mid_run_is_started_again_and_judged_to_the_end() {
    let report = run("dies-mid-run").report();
    assert!(report.run.completed && report.server.instances.iter().any(|i| i.restarts > 0));
    let undecided = run("dies-mid-run").checks().filter(|c| c.verdict == Verdict::Inconclusive);
    let undecided: Vec<_> = undecided.map(|check| (&check.id, &check.rule)).collect();
    assert!(undecided.len() < registry::checks().count() / 2, "{undecided:?}");
}

#[test]
fn a_server_that_stops_reading_hangs_nobody() {
    assert!(run("stops-reading").took < Duration::from_secs(100));
    assert_eq!(rule("stops-reading", "robust-input"), "not-reproduced");
}

#[test]
fn a_reply_of_100_mb_is_counted_and_never_held() {
    for name in ["answers-100mb", "answers-100mb-id-last"] {
        let long = |line: &Evidence| line.measured.bytes.is_some_and(|bytes| bytes > 100_000_000);
        assert!(evidence(name, "schema-enforced").any(long), "{name}");
        if let Some(peak) = run(name).peak {
            assert!(peak < 60 * 1024, "{name} took {peak} KiB");
        }
        assert_eq!(run(name).report().packs[1].letter, Some(Letter::A), "{name}");
    }
}

#[test]
fn silence_of_one_tool_is_no_evidence_against_it() {
    let silent: Vec<_> = evidence("silent-tool", "robust-input")
        .filter(|line| line.tool.as_deref() == Some("echo"))
        .filter(|line| line.why == Some(Why::Silent))
        .collect();
    assert!(!silent.is_empty());
    assert_eq!(rule("silent-tool", "robust-input"), "lived-on");
}

#[test]
fn a_server_that_refuses_everything_is_not_a_safe_server() {
    for check in ["robust-input", "schema-enforced", "fs-path-escape", "fs-write-escape"] {
        let check = run("refuses-after-first").check(check).unwrap();
        assert_eq!(check.verdict, Verdict::Inconclusive, "{} {}", check.id, check.rule);
    }
}

#[test]
fn calls_that_ask_for_sampling_are_no_evidence() {
    for check in ["robust-input", "schema-enforced", "fs-path-escape", "fs-write-escape"] {
        let held = evidence("asks-for-sampling", check)
            .filter(|line| {
                line.kind == Kind::Probe
                    && line.seq > 0
                    && line.tool.is_some()
                    && line.outcome == Outcome::Held
            })
            .count();
        assert_eq!(held, 0, "{check}");
        let check = run("asks-for-sampling").check(check).unwrap();
        assert_eq!(check.verdict, Verdict::Inconclusive, "{} {}", check.id, check.rule);
    }
    let tainted = |line: &Evidence| line.why == Some(Why::Tainted);
    assert!(evidence("asks-for-sampling", "schema-enforced").any(tainted));
}

#[test]
fn tools_beyond_the_first_25_are_said_to_be_left_out() {
    let report = run("forty-tools").report();
    assert!(report.tools.len() >= 25);
    assert_eq!(differing("forty-tools"), Vec::<String>::new());
}

#[test]
fn what_a_write_did_is_seen_on_disk_whatever_was_answered() {
    let seen = |name: &str, when: When| {
        evidence(name, "fs-write-escape").any(|line| {
            line.is_breached()
                && line.verified_by.contains(&Observer::Filesystem)
                && line.facts.iter().any(|fact| fact.when == when)
        })
    };
    assert!(seen("error-but-writes", When::AfterAnswer));
    assert!(seen("writes-at-exit", When::AfterClose));
    for name in ["error-but-writes", "late-write", "writes-at-exit", "moves-root"] {
        assert_eq!(rule(name, "fs-write-escape"), "core-breached", "{name}");
    }
    // The token of a late write tells whose it is.
    let late = evidence("late-write", "fs-write-escape").filter(|line| line.is_breached());
    assert!(late.filter(|line| line.probe.starts_with("new-")).count() > 1);
    // Success that changes nothing is a broken control, not a safe tool.
    assert_eq!(rule("lies-about-write", "fs-write-escape"), "operation-unconfirmed");
}
