//! The default of the two pure steps, and the rules the runner itself settles.

use crate::{
    check::Spec,
    evidence::{Fact, Observer, Outcome, Reading, What, Why},
};

/// The default outcome of a probe. A fact by one of the check's observers that the check calls
/// unsafe is a breach; else a reading listed in `held_by` holds; else there is no evidence.
pub fn weigh(
    spec: &Spec,
    reading: Option<&Reading>,
    facts: &[Fact],
) -> (Outcome, Option<Why>, Vec<Observer>) {
    let seen: Vec<Observer> =
        facts.iter().filter(|fact| is_breach(spec, fact)).map(|fact| fact.by).collect();
    if !seen.is_empty() {
        return (Outcome::Breached, None, seen);
    }
    let silent = facts.iter().any(|fact| fact.what == What::Silent);
    let gone = facts.iter().any(|fact| matches!(fact.what, What::Died(_) | What::Mute));
    match reading {
        _ if gone => (Outcome::None, Some(Why::Lost), Vec::new()),
        _ if silent => (Outcome::None, Some(Why::Silent), Vec::new()),
        Some(reading) if spec.held_by.contains(&reading.reply) => {
            let by = spec.observers.first().copied().unwrap_or(Observer::Reply);
            (Outcome::Held, None, vec![by])
        }
        Some(reading) if reading.reply == crate::evidence::Reply::RejectedBySchema => {
            (Outcome::None, Some(Why::SchemaRejected), Vec::new())
        }
        _ => (Outcome::None, Some(Why::NothingSeen), Vec::new()),
    }
}

/// Whether a check calls this fact unsafe.
pub fn is_breach(spec: &Spec, fact: &Fact) -> bool {
    if !spec.observers.contains(&fact.by) {
        return false;
    }
    match &fact.what {
        What::Canary { object, inside, .. } if spec.canaries.is_empty() => {
            !inside && !object.starts_with("env ")
        }
        What::Canary { object, .. } => spec.canaries.iter().any(|named| named == object),
        What::Changed { inside, .. } => !inside,
        What::Died(_) | What::Mute => true,
        What::Silent
        | What::Alive(_)
        | What::Orphan(_)
        | What::Text { .. }
        | What::Figure { .. } => false,
    }
}

/// The decision most checks share.
pub(crate) mod standard {
    use std::collections::BTreeSet;

    use crate::{
        evidence::{Collected, Evidence},
        verdict::Ruling,
    };

    rules! {
        /// A core probe was breached.
        CoreBreached => Fail,
        /// Indirect probes of two or more families were breached.
        FamiliesBreached => Fail,
        /// Indirect probes of exactly one family were breached.
        IndirectBreached => Part,
        /// An operation the server offers had no good control, so a pass would be a guess.
        OperationUnconfirmed => Inconclusive,
        /// No probe was breached, and at least one was conclusive.
        Held => Pass,
        /// No probe was conclusive.
        NothingConclusive => Inconclusive,
    }

    pub(crate) fn decide(collected: &Collected) -> Ruling {
        let core: Vec<&Evidence> = collected.breached().filter(|line| line.core).collect();
        if !core.is_empty() {
            return Rule::CoreBreached.because(core);
        }
        let indirect: Vec<&Evidence> = collected.breached().collect();
        let families: BTreeSet<&str> =
            indirect.iter().map(|line| line.family.as_deref().unwrap_or(&line.probe)).collect();
        match families.len() {
            0 => {}
            1 => return Rule::IndirectBreached.because(indirect),
            _ => return Rule::FamiliesBreached.because(indirect),
        }
        let held: Vec<&Evidence> = collected.held().collect();
        if held.is_empty() {
            return Rule::NothingConclusive.because(collected.probes());
        }
        let unconfirmed = unconfirmed(&collected.controls);
        if !unconfirmed.is_empty() {
            return Rule::OperationUnconfirmed.because(unconfirmed);
        }
        Rule::Held.because(held)
    }

    /// Controls of operations that never worked for any tool.
    fn unconfirmed(controls: &[Evidence]) -> Vec<&Evidence> {
        let good: BTreeSet<_> =
            controls.iter().filter(|line| line.is_held()).map(|line| &line.family).collect();
        controls.iter().filter(|line| !line.is_held() && !good.contains(&line.family)).collect()
    }
}

/// What the runner settles before a check decides (methodology 3).
pub mod runner {
    rules! {
        pub enum;
        /// The pack does not apply to this server or configuration.
        PackNotApplicable => Na,
        /// No tool of the server does what this check asks about.
        NoToolOfThisKind => Na,
        /// The check belongs to the deep profile.
        DeepOnly => Na,
        /// The configuration switched the check off.
        SwitchedOff => Na,
        /// No instance of the server could be started and initialised.
        ServerDidNotStart => Inconclusive,
        /// The server ended or stopped answering, and could not be started again.
        ServerStoppedAnswering => Inconclusive,
        /// No control of this check worked, so nothing it saw means anything.
        ControlFailed => Inconclusive,
        /// The run was interrupted before the check was finished.
        Interrupted => Inconclusive,
        /// Nothing was collected for this check.
        NothingCollected => Inconclusive,
    }
}
