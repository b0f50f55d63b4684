//! The gate: whether every graded pack meets the letter, and which known failures are accepted.

use crate::{
    config::{Config, Profile},
    grade::Grade,
    letter::Letter,
    report::{Gate, PackReport, PackStatus},
    verdict::Verdict,
};

/// The gate over the packs (methodology 10).
pub(super) fn gate(config: &Config, packs: &[PackReport], today: jiff::civil::Date) -> Gate {
    let threshold = config.fail_under;
    let mut causes = Vec::new();
    let mut accepted = Vec::new();
    for entry in &config.accept {
        let check = packs.iter().flat_map(|pack| &pack.checks).find(|c| c.id == entry.check);
        let Some(check) = check else { continue };
        let unsound = matches!(check.verdict, Verdict::Fail | Verdict::Part);
        let same_rule = entry.rule.as_ref().is_none_or(|rule| *rule == check.rule);
        if today > entry.until {
            causes.push(format!("the acceptance of {} ended on {}", entry.check, entry.until));
        } else if !unsound || !same_rule {
            causes.push(format!("the acceptance of {} fits nothing in this run", entry.check));
        } else {
            accepted.push(format!("{} until {}: {}", entry.check, entry.until, entry.reason));
        }
    }
    for pack in packs {
        match grade_of(pack) {
            Some(grade) if !grade.meets(threshold) && !forgiven(config, pack, threshold) => {
                causes.push(format!("{} is {}", pack.id, grade.shown()));
            }
            None if config.profile == Profile::Ci && pack.status == PackStatus::Inconclusive => {
                causes.push(format!("{} is inconclusive", pack.id));
            }
            _ => {}
        }
    }
    Gate { threshold, met: causes.is_empty(), causes, accepted }
}

fn grade_of(pack: &PackReport) -> Option<Grade> {
    Some(Grade {
        letter: pack.letter?,
        raw_letter: pack.raw_letter?,
        capped: pack.capped,
        cap_reasons: pack.cap_reasons.clone(),
        provisional: pack.provisional,
        half_points: 0,
        scored: pack.scored,
        non_advisory: pack.non_advisory,
        excluded: Vec::new(),
    })
}

/// Whether the pack would meet the gate had its accepted failures passed. Letters do not move.
fn forgiven(config: &Config, pack: &PackReport, threshold: Letter) -> bool {
    let accepted = |check: &crate::report::CheckReport| {
        config.accept.iter().any(|entry| {
            entry.check == check.id && entry.rule.as_ref().is_none_or(|rule| *rule == check.rule)
        })
    };
    if !pack.checks.iter().any(accepted) {
        return false;
    }
    let graded: Vec<crate::grade::Graded> = pack
        .checks
        .iter()
        .map(|check| crate::grade::Graded {
            id: check.id.clone(),
            severity: check.severity,
            verdict: if accepted(check) { Verdict::Pass } else { check.verdict },
        })
        .collect();
    crate::grade::grade(&graded).is_some_and(|grade| grade.meets(threshold))
}
