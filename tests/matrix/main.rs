//! Every check of every pack, proved both ways: real servers, each wrong in one way, run whole, and
//! what was decided compared with what is written in the tables beside this file.
//!
//! `UPDATE=1 cargo test --test matrix` rewrites the tables. `KEEP=DIRECTORY` keeps every record
//! there. `ONLY=FLAW,FLAW` makes those runs alone, to look into one of them: then other tests fail.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod books;
mod lines;
#[path = "../support/theirs.rs"]
mod made;
mod runs;
mod shapes;
mod theirs;

use std::{collections::BTreeSet, fmt::Write as _};

use sealmark::{check::Check, evidence::Collected, registry, verdict::Verdict};

use crate::runs::{Run, all, run, sound};

#[test]
fn every_check_decides_as_its_table_says() {
    let mut wrong = String::new();
    for check in registry::checks() {
        books::compare(&format!("{}.snap", check.id()), &lines::table(check), &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong}\nUPDATE=1 cargo test --test matrix rewrites the tables");
}

#[test]
fn every_check_passes_fails_and_is_left_open_by_some_server() {
    let mut missing = Vec::new();
    for check in registry::checks() {
        let id = check.id();
        let some = |wanted: &[Verdict]| {
            all().iter().filter_map(|run| run.check(&id)).any(|c| wanted.contains(&c.verdict))
        };
        for (wanted, word) in [
            (&[Verdict::Pass][..], "pass"),
            (&[Verdict::Fail, Verdict::Part], "fail or part"),
            (&[Verdict::Inconclusive], "inconclusive"),
        ] {
            if !some(wanted) {
                missing.push(format!("{id} has no {word}"));
            }
        }
        // Where a control stands beside the probes, it can be broken while the server runs.
        let controls = sound(check).check(&id).unwrap().evidence.iter();
        let mut controls = controls.filter(|line| line.kind == sealmark::evidence::Kind::Control);
        let broken = |run: &Run| {
            run.started() && run.check(&id).is_some_and(|c| c.verdict == Verdict::Inconclusive)
        };
        if controls.next().is_some() && !all().iter().any(broken) {
            missing.push(format!("{id} is never left open by a broken control"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_rule_is_reached_or_it_is_said_why_not() {
    let mut reached = BTreeSet::new();
    for run in all() {
        for check in run.checks() {
            let own = registry::check(&check.id).unwrap().rules.iter();
            let own = own.map(|rule| rule.id()).any(|id| id == check.rule);
            let place = if own { &check.id } else { "runner" };
            reached.insert(format!("{place}/{}", check.rule));
        }
    }
    let of = |place: &str, rules: &'static [sealmark::verdict::RuleDef]| -> Vec<String> {
        rules.iter().map(|rule| format!("{place}/{}", rule.id())).collect()
    };
    let mut rules: Vec<String> =
        registry::checks().flat_map(|check: &Check| of(&check.id(), check.rules)).collect();
    rules.extend(of("runner", registry::runner_rules()));
    let excused = books::unreached();
    let mut wrong = String::new();
    for rule in &rules {
        match (reached.contains(rule), excused.contains_key(rule)) {
            (false, false) => writeln!(wrong, "no run reaches {rule}"),
            (true, true) => writeln!(wrong, "{rule} is reached, and unreached.txt says it is not"),
            _ => Ok(()),
        }
        .unwrap();
    }
    for rule in excused.keys().filter(|rule| !rules.contains(rule)) {
        writeln!(wrong, "unreached.txt names {rule}, and there is no such rule").unwrap();
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_record_decides_the_same_again() {
    let mut decided = 0;
    for run in all() {
        for check in run.checks() {
            let known = registry::check(&check.id).unwrap();
            if registry::runner_rules().iter().any(|rule| rule.id() == check.rule) {
                continue;
            }
            let collected = Collected::new(check.evidence.clone()).unwrap();
            let ruling = (known.decide)(&collected);
            let again = (ruling.rule.id(), ruling.rule.verdict(), ruling.because);
            let first = (check.rule.clone(), check.verdict, check.probes.clone());
            assert_eq!(again, first, "{} of {}", check.id, run.name);
            decided += 1;
        }
    }
    assert!(decided > 500, "{decided}");
}

#[test]
fn nothing_of_a_run_is_left_and_no_secret_is_in_its_record() {
    let secret = regex::Regex::new(
        "(?i)sm-([a-z]+-)?[0-9a-f]{16}|sm_(admin|analyst|tenant|quoted):[a-z0-9%]{8}",
    )
    .unwrap();
    for run in all() {
        assert_eq!(run.left, Vec::<String>::new(), "{}", run.name);
        let report = run.report();
        assert!(report.cleanup.removed, "{}: {:?}", run.name, report.cleanup);
        let found = secret.find(&run.json).map(|found| {
            let from = run.json.floor_char_boundary(found.start().saturating_sub(400));
            run.json[from..found.end()].to_owned()
        });
        assert_eq!(found, None, "{}", run.name);
    }
}

#[test]
fn a_sound_server_gets_an_a_in_every_pack() {
    let of_sql = run("sql-sound").report().packs.iter();
    let of_files = run("sound").report().packs.iter().filter(|pack| pack.id != "db");
    for pack in of_files.chain(of_sql) {
        assert_eq!(pack.letter, Some(sealmark::letter::Letter::A), "{}", pack.id);
        assert!(!pack.provisional && !pack.capped && pack.excluded.is_empty(), "{}", pack.id);
    }
}
