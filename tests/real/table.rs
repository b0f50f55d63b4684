//! `targets.yaml` as it is read.

use std::collections::BTreeMap;

use sealmark::{check::Check, letter::Letter, registry, verdict::Verdict};
use serde::Deserialize;

/// One published server in one configuration, and what must be decided about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    /// The name of the test and of the folder it is installed in.
    pub(crate) id: String,
    /// What is known about the server, and where from.
    pub(crate) why: String,
    /// Packages of npm, with versions.
    #[serde(default)]
    pub(crate) npm: Vec<String>,
    /// Packages of PyPI, with versions.
    #[serde(default)]
    pub(crate) pip: Vec<String>,
    /// A crate of this repository.
    #[serde(default)]
    pub(crate) cargo: Option<String>,
    /// The program, from the folder it is installed in. One that ends in `.js` is run by `node`.
    pub(crate) run: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Files written to `${files}`.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) packs: Vec<String>,
    /// The letters each pack may have; `-` is no letter.
    pub(crate) letters: BTreeMap<String, String>,
    /// The verdict of each check, with the rule where it matters: `part/one-kind-accepted`; two where
    /// it depends on the version of Postgres: `pass or part`. A check
    /// that is not named must be `pass` or `na`.
    #[serde(default)]
    pub(crate) verdicts: BTreeMap<String, String>,
    /// The verdict of every check that is not named, where that is not `pass` or `na`.
    #[serde(default)]
    pub(crate) others: Option<String>,
    /// Words that must stand in the troubles of its instances.
    #[serde(default)]
    pub(crate) trouble: Option<String>,
    /// The exit code, with the gate at A.
    pub(crate) exit: i32,
}

/// Stands between verdicts of which one is enough.
const OR: &str = " or ";

/// Every target, in the order of the file.
pub(crate) fn all() -> Vec<Target> {
    serde_saphyr::from_str(include_str!("targets.yaml")).unwrap()
}

impl Target {
    /// Words of the expectations that name nothing that exists.
    pub(crate) fn unknown(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (check, expected) in &self.verdicts {
            let Some(found) = registry::check(check) else {
                wrong.push(format!("{}: no check {check}", self.id));
                continue;
            };
            if !expected.split(OR).all(|expected| exists(found, expected)) {
                wrong.push(format!("{}: {check} has no rule {expected}", self.id));
            }
        }
        for (pack, letters) in &self.letters {
            let known = |one: char| one == '-' || one.to_string().parse::<Letter>().is_ok();
            if !self.packs.contains(pack) || !letters.chars().all(known) {
                wrong.push(format!("{}: letters {pack} {letters}", self.id));
            }
        }
        let carriers = [!self.npm.is_empty(), !self.pip.is_empty(), self.cargo.is_some()];
        if carriers.into_iter().filter(|given| *given).count() != 1 {
            wrong.push(format!("{}: not one of npm, pip and cargo", self.id));
        }
        wrong
    }

    /// What is expected of a check: a verdict, or a verdict and a rule.
    pub(crate) fn expected(&self, check: &str) -> Vec<&str> {
        match (self.verdicts.get(check), &self.others) {
            (Some(expected), _) | (None, Some(expected)) => expected.split(OR).collect(),
            (None, None) => vec!["pass", "na"],
        }
    }
}

/// Whether the check can decide so, by a rule of its own or one of the runner's.
fn exists(check: &Check, expected: &str) -> bool {
    let (verdict, rule) = split(expected);
    let verdicts =
        [Verdict::Pass, Verdict::Part, Verdict::Fail, Verdict::Inconclusive, Verdict::Na];
    let rule_fits =
        |id| registry::rule(check, id).is_some_and(|known| known.verdict().word() == verdict);
    verdicts.iter().any(|known| known.word() == verdict) && rule.is_none_or(rule_fits)
}

/// The verdict, and the rule if one is named.
pub(crate) fn split(expected: &str) -> (&str, Option<&str>) {
    match expected.split_once('/') {
        Some((verdict, rule)) => (verdict, Some(rule)),
        None => (expected, None),
    }
}
