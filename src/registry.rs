//! The one list of packs and checks, in report order.

use crate::{
    check::{Check, Pack, Severity},
    verdict::RuleDef,
};

/// The version of the methodology that the built-in packs are.
pub const METHODOLOGY: &str = "0.3-draft";

/// Packs of the design that this version does not have yet.
pub const LATER_PACKS: [&str; 9] =
    ["net", "sqlite", "git", "exec", "http", "effects", "scope", "sql-guard", "upstream"];

/// Every pack, in report order.
pub fn packs() -> &'static [&'static Pack] {
    crate::packs::PACKS
}

/// The pack of that id.
pub fn pack(id: &str) -> Option<&'static Pack> {
    packs().iter().copied().find(|pack| pack.id == id)
}

/// Every check, in report order.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    packs().iter().flat_map(|pack| pack.checks)
}

/// The check of that id.
pub fn check(id: &str) -> Option<&'static Check> {
    checks().find(|check| check.id() == id)
}

/// The rules the runner settles before any check decides; they stand on every page.
pub fn runner_rules() -> &'static [RuleDef] {
    crate::judges::runner::RULES
}

/// A rule by its id: of the check, or of the runner.
pub fn rule(check: &Check, id: &str) -> Option<&'static RuleDef> {
    check.rules.iter().chain(runner_rules()).find(|rule| rule.id() == id)
}

/// Whether the check counts: neither advisory nor a candidate.
pub fn is_standard(check: &Check) -> bool {
    !check.spec.candidate && check.spec.severity != Severity::Advisory
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;
    use crate::{check::Collect, evidence::Outcome};

    #[test]
    fn every_declaration_reads_and_says_everything() {
        for check in checks() {
            let (id, spec) = (check.id(), &*check.spec);
            for (field, text) in [
                ("title", &spec.title),
                ("since", &spec.since),
                ("question", &spec.question),
                ("scope", &spec.scope),
                ("remediation", &spec.remediation),
                ("false_results.pass", &spec.false_results.pass),
                ("false_results.fail", &spec.false_results.fail),
            ] {
                assert!(!text.trim().is_empty(), "{id} has no {field}");
            }
            assert!(!spec.observers.is_empty(), "{id} has no observer");
            let mut probes = BTreeSet::new();
            for probe in &spec.probes {
                assert!(probes.insert(&probe.id), "{id} has {} twice", probe.id);
            }
        }
    }

    #[test]
    fn nothing_seen_never_holds() {
        for check in checks() {
            let (outcome, ..) = (check.weigh)(&check.spec, None, &[]);
            assert_ne!(outcome, Outcome::Held, "{}", check.id());
        }
    }

    #[test]
    fn ids_are_unique_over_all_packs() {
        let (mut packs_seen, mut checks_seen) = (BTreeSet::new(), BTreeSet::new());
        for pack in packs() {
            assert!(packs_seen.insert(pack.id), "pack {} twice", pack.id);
        }
        for check in checks() {
            assert!(checks_seen.insert(check.id()), "{} twice", check.id());
        }
    }

    #[test]
    fn rule_ids_are_unique_within_a_check_and_every_rule_says_something() {
        for check in checks() {
            let mut seen = BTreeSet::new();
            for rule in check.rules.iter().chain(runner_rules()) {
                assert!(seen.insert(rule.id()), "{} has {} twice", check.id(), rule.id());
                assert!(rule.text().ends_with('.'), "{} {}", check.id(), rule.id());
            }
        }
    }

    #[test]
    fn every_file_of_a_check_is_listed_in_its_pack() {
        let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs");
        let read = |path: &Path| std::fs::read_dir(path).expect("packs/ belongs to the project");
        for pack in read(&packs).filter_map(Result::ok).filter(|entry| entry.path().is_dir()) {
            for file in read(&pack.path()).filter_map(Result::ok) {
                let path = file.path();
                if path.extension().is_some_and(|extension| extension == "yaml") {
                    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
                    let pack = pack.file_name();
                    let listed = checks()
                        .any(|check| Some(check.stem) == stem.as_deref() && *check.pack == *pack);
                    assert!(listed, "{} is listed in no pack", path.display());
                }
            }
        }
    }

    #[test]
    fn a_script_that_can_pass_has_a_rule_for_no_evidence() {
        use crate::verdict::Verdict::{Inconclusive, Na, Pass};
        for check in checks().filter(|check| !matches!(check.collect, Collect::Calls)) {
            let gives =
                |verdicts: &[_]| check.rules.iter().any(|rule| verdicts.contains(&rule.verdict()));
            assert!(gives(&[Pass]) && gives(&[Inconclusive, Na]), "{}", check.id());
        }
    }
}
