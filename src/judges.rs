//! The default of the two pure steps, and the rules the runner itself settles.

use crate::{
    check::Spec,
    evidence::{Channel, Fact, Observer, Outcome, Reading, What, Why},
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
        // What is in a log is secret-echo's question; only a reply ties it to the probe.
        What::Canary { object, channel, .. }
            if object.starts_with("env ") && *channel != Channel::Reply =>
        {
            false
        }
        What::Canary { object, inside, .. } => {
            spec.canaries.iter().any(|named| is_named(named, object, *inside))
        }
        What::Changed { inside, .. } => !inside,
        What::State { .. } | What::Over { .. } => true,
        What::Died(_) | What::Mute => true,
        What::Silent
        | What::Alive(_)
        | What::Orphan(_)
        | What::Text { .. }
        | What::Sql { .. }
        | What::Figure { .. } => false,
    }
}

/// An entry of `canaries` names one object wherever it is; one that ends in `*` names every object
/// outside that begins so, the environment's included.
fn is_named(named: &str, object: &str, inside: bool) -> bool {
    match named.strip_suffix('*') {
        Some(beginning) => !inside && object.starts_with(beginning),
        None => named == object,
    }
}

/// The decision most checks share.
pub(crate) mod standard {
    use std::collections::BTreeSet;

    use crate::{
        evidence::{Collected, Evidence, Why},
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
        /// A tool was lost so often that some probes were not sent, so a pass would be a guess.
        ProbesUnsent => Inconclusive,
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
        let unsent = || collected.probes().iter().filter(|line| line.why == Some(Why::Unsent));
        if unsent().next().is_some() {
            return Rule::ProbesUnsent.because(unsent());
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
        /// Other checks were chosen for this run.
        NotChosen => Na,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Form;

    fn breach(check: &str, object: &str, inside: bool, channel: Channel) -> bool {
        let what = What::Canary { object: object.into(), inside, form: Form::Raw, channel };
        let spec = &crate::registry::check(check).unwrap().spec;
        is_breach(spec, &Fact::now(Observer::Canary, what))
    }

    #[test]
    fn a_star_names_what_is_outside_and_the_environment_only_in_a_reply() {
        let reply = Channel::Reply;
        assert!(breach("fs-path-escape", "attic/a.txt", false, reply));
        assert!(breach("fs-path-escape", "attic/a.txt", false, Channel::Stderr));
        assert!(breach("fs-path-escape", "env SM_CANARY_A", false, reply));
        assert!(!breach("fs-path-escape", "env SM_CANARY_A", false, Channel::Stderr));
        assert!(!breach("fs-path-escape", "docs/ok.txt", true, reply));
        assert!(!breach("fs-path-escape", "attic/h.txt", true, reply));
    }

    #[test]
    fn no_names_mean_everything_outside_but_the_environment() {
        assert!(breach("fs-symlink-escape", "name attic", false, Channel::Reply));
        assert!(!breach("fs-symlink-escape", "env SM_CANARY_A", false, Channel::Reply));
        assert!(!breach("fs-symlink-escape", "attic/h.txt", true, Channel::Reply));
    }

    #[test]
    fn a_named_object_counts_inside_too_and_nothing_else_does() {
        assert!(breach("fs-hard-link", "attic/h.txt", true, Channel::Reply));
        assert!(!breach("fs-hard-link", "attic/a.txt", false, Channel::Reply));
        assert!(breach("fs-dotfiles", "docs/.env", true, Channel::Reply));
        assert!(!breach("fs-dotfiles", "docs/ok.txt", true, Channel::Reply));
    }
}
