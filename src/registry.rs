//! The one list of packs and checks, in report order.

use crate::{
    check::{Check, Pack, Severity},
    verdict::RuleDef,
};

/// The version of the methodology that the built-in packs are.
pub const METHODOLOGY: &str = "0.3-draft";

/// Packs of the design that this version does not have yet.
pub const LATER_PACKS: [&str; 10] =
    ["net", "db", "sqlite", "git", "exec", "http", "effects", "scope", "sql-guard", "upstream"];

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
