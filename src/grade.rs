//! Points, letter, cap and provisional mark of a pack: one pure function of (severity, verdict).
//! Checks cannot see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{check::Severity, letter::Letter, verdict::Verdict};

/// One verdict on its way to the grade.
#[derive(Clone, Debug)]
pub struct Graded {
    /// The check.
    pub id: String,
    /// What it weighs in this run.
    pub severity: Severity,
    /// What it came to.
    pub verdict: Verdict,
}

/// The grade of one pack (methodology 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Grade {
    /// The letter, after the cap.
    pub letter: Letter,
    /// The letter before the cap.
    pub raw_letter: Letter,
    /// Whether a critical fail lowered it to D.
    pub capped: bool,
    /// The critical checks that failed.
    pub cap_reasons: Vec<String>,
    /// Whether a critical check is inconclusive.
    pub provisional: bool,
    /// Twice the points, so that they stay whole.
    pub half_points: u32,
    /// Checks that were scored.
    pub scored: u32,
    /// Checks that are not advisory.
    pub non_advisory: u32,
    /// Non-advisory checks that were not scored.
    pub excluded: Vec<String>,
}

impl Grade {
    /// The percentage, floored, so that 89.7 prints as 89 and B.
    pub fn percentage(&self) -> u32 {
        self.half_points * 50 / self.scored.max(1)
    }

    /// The points as published: whole or with one half.
    pub fn points(&self) -> f64 {
        f64::from(self.half_points) / 2.0
    }

    /// Whether the grade meets a gate. A provisional A does not meet A; a provisional B meets B.
    pub fn meets(&self, gate: Letter) -> bool {
        self.letter >= gate && !(self.provisional && gate == Letter::A)
    }

    /// The letter with its marks: `B`, `A*`, `D (capped)`.
    pub fn shown(&self) -> String {
        let star = if self.provisional { "*" } else { "" };
        let capped = if self.capped { " (capped)" } else { "" };
        format!("{}{star}{capped}", self.letter)
    }
}

/// The grade, or `None` when nothing was scored: a letter is never invented.
pub fn grade(checks: &[Graded]) -> Option<Grade> {
    let counted: Vec<&Graded> =
        checks.iter().filter(|check| check.severity != Severity::Advisory).collect();
    let points: Vec<u32> = counted.iter().filter_map(|c| c.verdict.half_points()).collect();
    let scored = u32::try_from(points.len()).unwrap_or(u32::MAX);
    if scored == 0 {
        return None;
    }
    let half_points: u32 = points.iter().sum();
    let raw_letter = letter(half_points, scored);
    let critical = |verdict: Verdict| {
        let of = move |c: &&&Graded| c.severity == Severity::Critical && c.verdict == verdict;
        counted.iter().filter(of).map(|c| c.id.clone()).collect::<Vec<_>>()
    };
    let cap_reasons = critical(Verdict::Fail);
    let capped = !cap_reasons.is_empty() && raw_letter > Letter::D;
    Some(Grade {
        letter: if capped { Letter::D } else { raw_letter },
        raw_letter,
        capped,
        cap_reasons: if capped { cap_reasons } else { Vec::new() },
        provisional: !critical(Verdict::Inconclusive).is_empty(),
        half_points,
        scored,
        non_advisory: u32::try_from(counted.len()).unwrap_or(u32::MAX),
        excluded: counted
            .iter()
            .filter(|c| c.verdict.half_points().is_none())
            .map(|c| c.id.clone())
            .collect(),
    })
}

/// The raw letter: A from 90 %, B from 75 %, C from 60 %, D from 45 %, exact on half points.
fn letter(half_points: u32, scored: u32) -> Letter {
    let at_least =
        |percent: u32| u64::from(half_points) * 50 >= u64::from(percent) * u64::from(scored);
    match () {
        () if at_least(90) => Letter::A,
        () if at_least(75) => Letter::B,
        () if at_least(60) => Letter::C,
        () if at_least(45) => Letter::D,
        () => Letter::F,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(severity: Severity, verdict: Verdict) -> Graded {
        Graded { id: "c".into(), severity, verdict }
    }

    fn verdicts() -> impl Strategy<Value = Verdict> {
        prop::sample::select(vec![
            Verdict::Pass,
            Verdict::Part,
            Verdict::Fail,
            Verdict::Inconclusive,
            Verdict::Na,
        ])
    }

    fn checks() -> impl Strategy<Value = Vec<Graded>> {
        let severities =
            prop::sample::select(vec![Severity::Critical, Severity::Scored, Severity::Advisory]);
        prop::collection::vec((severities, verdicts()).prop_map(|(s, v)| check(s, v)), 0..12)
    }

    #[test]
    fn the_bands_are_exact_at_their_edges() {
        // 89.7 % prints 89 and B: 26 of 29 half points.
        assert_eq!((letter(18, 10), letter(17, 10)), (Letter::A, Letter::B));
        assert_eq!(
            (letter(15, 10), letter(12, 10), letter(9, 10)),
            (Letter::B, Letter::C, Letter::D)
        );
        assert_eq!(letter(8, 10), Letter::F);
        assert_eq!(letter(3, 2), Letter::B);
    }

    #[test]
    fn the_published_examples_come_out() {
        use Severity::{Critical, Scored};
        use Verdict::{Fail, Inconclusive, Part, Pass};
        let b = grade(&[
            check(Critical, Pass),
            check(Critical, Pass),
            check(Scored, Pass),
            check(Scored, Fail),
            check(Scored, Inconclusive),
        ])
        .unwrap();
        assert_eq!((b.shown().as_str(), b.percentage(), b.excluded.len()), ("B", 75, 1));
        let d = grade(&[
            check(Critical, Fail),
            check(Scored, Pass),
            check(Scored, Pass),
            check(Scored, Pass),
        ])
        .unwrap();
        assert_eq!((d.shown().as_str(), d.raw_letter), ("D (capped)", Letter::B));
        let star = grade(&[check(Critical, Inconclusive), check(Scored, Pass)]).unwrap();
        assert_eq!(star.shown(), "A*");
        assert!(!star.meets(Letter::A) && star.meets(Letter::B));
        // A part on a critical check does not cap.
        assert!(!grade(&[check(Critical, Part), check(Scored, Pass)]).unwrap().capped);
        assert_eq!(grade(&[check(Scored, Inconclusive), check(Severity::Advisory, Pass)]), None);
    }

    proptest! {
        #[test]
        fn a_better_verdict_never_lowers_the_letter(list in checks(), at in 0usize..12) {
            if let Some(i) = (!list.is_empty()).then(|| at % list.len()) {
                let mut letters = Vec::new();
                for verdict in [Verdict::Fail, Verdict::Part, Verdict::Pass] {
                    let mut list = list.clone();
                    list[i].verdict = verdict;
                    letters.push(grade(&list).map(|g| g.letter));
                }
                prop_assert!(letters.windows(2).all(|w| w[1] >= w[0]));
            }
        }

        #[test]
        fn order_never_matters(list in checks()) {
            let mut turned = list.clone();
            turned.reverse();
            prop_assert_eq!(grade(&list).map(|g| g.shown()), grade(&turned).map(|g| g.shown()));
        }

        #[test]
        fn advisory_verdicts_never_matter(list in checks(), verdict in verdicts()) {
            let mut more = list.clone();
            more.push(check(Severity::Advisory, verdict));
            prop_assert_eq!(grade(&list), grade(&more));
        }

        #[test]
        fn the_cap_never_raises(list in checks()) {
            if let Some(grade) = grade(&list) {
                prop_assert!(grade.letter <= grade.raw_letter);
            }
        }
    }
}
