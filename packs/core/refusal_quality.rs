//! Can a client tell that it was refused, and why?

use std::collections::BTreeMap;

use crate::{
    evidence::{Collected, Evidence, Fact, Kind, Observer, Reply, What},
    journal::{Act, Journal},
    verdict::Ruling,
};

rules! {
    /// A refusal came as a result that is no error.
    RefusalNotAnError => Part,
    /// A call was declined with a text that gives no reason.
    NoReasonGiven => Part,
    /// Every refusal was an error and gave a reason.
    Explicit => Pass,
    /// No refusal was seen.
    NoRefusalSeen => Inconclusive,
}

const NOT_AN_ERROR: &str = "not-an-error";
const OPAQUE: &str = "no-reason";
const EXPLICIT: &str = "explicit";
/// A text shorter than this gives no reason.
const SHORTEST: usize = 25;
/// Wrappers of SDKs that hide the reason of an error; with a reason they go on after a colon.
const WRAPPERS: [&str; 3] =
    ["Error executing tool ", "Error calling tool ", "An error occurred invoking "];

pub(super) fn collect(journal: &Journal) -> Vec<Evidence> {
    let mut seen: BTreeMap<(&str, Option<&str>), (u64, &Act)> = BTreeMap::new();
    for act in &journal.acts {
        if let Some(class) = class(act) {
            let key = (class, act.tool.as_deref());
            seen.entry(key).or_insert((0, act)).0 += 1;
        }
    }
    if seen.is_empty() {
        return vec![Evidence::new(Kind::Probe, EXPLICIT)];
    }
    let line = |((class, _), (count, act)): ((&str, _), (u64, &Act))| {
        let mut line = Evidence::new(Kind::Probe, class);
        line.family = Some(class.into());
        line.tool.clone_from(&act.tool);
        line.lane.clone_from(&act.lane);
        line.sent = Some(act.shown.clone());
        (line.seq, line.reply) = (act.seq, act.reply);
        line.reading_rule = Some(act.reading_rule.clone());
        line.excerpt = super::shown(&act.text);
        let what = What::Figure { name: "replies".into(), n: count };
        line.facts.push(Fact::now(Observer::Reply, what));
        if class == EXPLICIT { line.held(Observer::Reply) } else { line.breached(Observer::Reply) }
    };
    seen.into_iter().map(line).collect()
}

/// What kind of refusal it is; `None` when it is none.
fn class(act: &Act) -> Option<&'static str> {
    let pack = act.origin.pack()?;
    match act.reply {
        Reply::Refused if !act.declined => Some(NOT_AN_ERROR),
        Reply::Refused => Some(EXPLICIT),
        // Errors to malformed input are no refusals, and core sends little else.
        Reply::Failed if act.declined && pack != "core" && !act.origin.is_control() => {
            Some(if is_opaque(&act.text) { OPAQUE } else { EXPLICIT })
        }
        _ => None,
    }
}

fn is_opaque(text: &str) -> bool {
    let text = text.trim();
    let bare = |wrapper: &&str| text.starts_with(*wrapper) && !text.contains(": ");
    text.chars().count() < SHORTEST || WRAPPERS.iter().any(bare)
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let of = |id: &str| -> Vec<&Evidence> {
        collected.breached().filter(|line| line.probe == id).collect()
    };
    let (hidden, opaque) = (of(NOT_AN_ERROR), of(OPAQUE));
    if !hidden.is_empty() {
        return Rule::RefusalNotAnError.because(hidden);
    }
    if !opaque.is_empty() {
        return Rule::NoReasonGiven.because(opaque);
    }
    let held: Vec<_> = collected.held().collect();
    if held.is_empty() {
        return Rule::NoRefusalSeen.because(collected.probes());
    }
    Rule::Explicit.because(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{act, declined, read_journal, ruled};

    const ID: &str = "refusal-quality";

    fn rule_for(acts: Vec<Act>) -> String {
        let journal = Journal { acts, ..Journal::default() };
        ruled(ID, read_journal(ID, &journal)).0
    }

    fn outside(reply: Reply, text: &str) -> Act {
        declined(act("fs", "fs-path-escape", "read_file"), reply, text)
    }

    #[test]
    fn an_error_with_a_reason_is_explicit() {
        let denied = outside(Reply::Refused, "Access denied - path outside the directories");
        assert_eq!(rule_for(vec![denied]), "explicit");
        let wrapped = "Error executing tool read_file: the path leaves the directory";
        assert_eq!(rule_for(vec![outside(Reply::Failed, wrapped)]), "explicit");
    }

    #[test]
    fn a_refusal_in_a_successful_result_is_told() {
        let silent = Act {
            reply: Reply::Refused,
            text: "Error: Only SELECT queries are allowed".into(),
            ..act("sqlite", "sqlite-mutating-sql", "read_query")
        };
        assert_eq!(rule_for(vec![silent]), "refusal-not-an-error");
    }

    #[test]
    fn a_text_without_a_reason_is_told() {
        for text in ["", "failed", "Error executing tool read_file_with_a_long_name"] {
            assert_eq!(rule_for(vec![outside(Reply::Failed, text)]), "no-reason-given", "{text}");
        }
    }

    #[test]
    fn without_a_refusal_nothing_is_known() {
        let malformed = declined(act("core", "robust-input", "t"), Reply::Failed, "bad");
        let rejected = outside(Reply::RejectedBySchema, "path: expected string");
        let answered = act("fs", "fs-path-escape", "read_file");
        assert_eq!(rule_for(vec![malformed, rejected, answered]), "no-refusal-seen");
    }
}
