//! What one run came to for one check, as a line of its table.

use std::collections::BTreeSet;

use sealmark::{
    check::Check,
    evidence::{Evidence, Outcome},
    report::CheckReport,
    verdict::Verdict,
};

use crate::runs::{Run, all, is_sql, sound};

/// Runs in which time decides which of the check's probes are seen.
const BY_CHANCE: [(&str, &str); 3] = [
    ("late-write", "fs-write-escape"),
    ("stops-reading", "robust-input"),
    ("stops-reading", "fs-special-files"),
];
/// So many probes are named in a line.
const NAMED: usize = 8;

/// The table of a check: the sound server, and every run whose line differs from its.
pub(crate) fn table(check: &Check) -> String {
    let id = check.id();
    let base = sound(check);
    let sound = line(base.check(&id).unwrap());
    let mut lines = vec![(base.name.clone(), sound.clone())];
    // Without a database its pack does not apply, which is no news of each flaw.
    let asked = |run: &&Run| check.pack != "db" || is_sql(&run.name);
    for run in all().iter().filter(asked).filter(|run| run.name != base.name) {
        // A run of one pack says nothing of another's checks.
        let Some(mut line) = run.check(&id).map(line) else { continue };
        if line[1] == "switched-off" && run.name != "switched-off" {
            continue;
        }
        if BY_CHANCE.contains(&(run.name.as_str(), id.as_str()))
            && let Some((_, observers)) = line[2].split_once(" /")
        {
            line[2] = format!("by chance /{observers}");
        }
        if line != sound {
            lines.push((run.name.clone(), line));
        }
    }
    let mut table = String::new();
    for (name, [verdict, rule, because]) in lines {
        let line = format!("{name:<33} {verdict:<13} {rule:<26} {because}");
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

fn line(check: &CheckReport) -> [String; 3] {
    [check.verdict.to_string(), check.rule.clone(), because(check)]
}

/// The probes that decided, and who saw what they decided by. Where everything held, only who saw
/// it; where nothing was conclusive, the reasons.
fn because(check: &CheckReport) -> String {
    let decided: Vec<&Evidence> =
        check.evidence.iter().filter(|line| check.probes.contains(&line.probe)).collect();
    let of = |outcome: Outcome| decided.iter().filter(move |line| line.outcome == outcome);
    let observers = |outcome: Outcome| -> BTreeSet<String> {
        of(outcome).flat_map(|line| &line.verified_by).map(word).collect()
    };
    let join =
        |words: &BTreeSet<String>| words.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    match check.verdict {
        Verdict::Pass => format!("/ {}", join(&observers(Outcome::Held))),
        Verdict::Fail | Verdict::Part => {
            format!("{} / {}", names(&check.probes), join(&observers(Outcome::Breached)))
        }
        Verdict::Inconclusive | Verdict::Na if check.probes.is_empty() => String::new(),
        Verdict::Inconclusive | Verdict::Na => {
            let whys: BTreeSet<String> =
                of(Outcome::None).filter_map(|line| line.why.as_ref()).map(word).collect();
            format!("{} / {}", names(&check.probes), join(&whys))
        }
    }
}

fn word(word: &impl serde::Serialize) -> String {
    serde_json::to_value(word).unwrap().as_str().unwrap_or_default().to_owned()
}

fn names(probes: &[String]) -> String {
    let named = probes.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(" ");
    match probes.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
