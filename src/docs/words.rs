//! The words of a check's declaration as people read them: who may decide, how it collects, what a
//! probe sends.

use crate::{
    check::{Check, Collect, LaneKind, Make, Measures, Probe, Severity, Spec},
    evidence::{Observer, Reply},
    verdict::{RuleDef, Verdict},
};

/// The name of an observer in reports.
pub fn observer(observer: Observer) -> &'static str {
    match observer {
        Observer::StateReader => "state-reader",
        Observer::Listener => "listener",
        Observer::Wire => "wire",
        Observer::Filesystem => "filesystem",
        Observer::Kernel => "kernel",
        Observer::Canary => "canary",
        Observer::Transport => "transport",
        Observer::Process => "process",
        Observer::Reply => "reply",
    }
}

/// What an observer sees.
pub fn observer_sees(observer: Observer) -> &'static str {
    match observer {
        Observer::StateReader => "the database, read over the harness's own connection",
        Observer::Listener => "a request with the probe's token that reached the harness",
        Observer::Wire => "the statements between the server and its database",
        Observer::Filesystem => "a change in a directory the harness owns",
        Observer::Kernel => "files, packets and processes of a sealed world",
        Observer::Canary => "a secret that exists only in a target and came back",
        Observer::Transport => "the framing of standard output",
        Observer::Process => "the end of the process, its children, its silence",
        Observer::Reply => "the server's own words, the weakest witness",
    }
}

/// How a reply reads, as reports name it.
pub fn reply(reply: Reply) -> &'static str {
    match reply {
        Reply::Answered => "answered",
        Reply::Refused => "refused",
        Reply::Failed => "failed",
        Reply::RejectedBySchema => "rejected by schema",
        Reply::None => "no reply",
    }
}

/// How a check collects, as a sentence.
pub fn collects(collect: &Collect) -> &'static str {
    match collect {
        Collect::Calls => "Each probe below is sent to each tool it fits.",
        Collect::Surface(_) => "It reads what the server lists about itself.",
        Collect::Journal(_) => "It reads everything that all lanes did and saw.",
        Collect::Script(_) => "A script asks, each question depending on what was found before.",
    }
}

/// The first words of the scope line.
pub fn measures(measures: Measures) -> &'static str {
    match measures {
        Measures::ServerBehavior => "server-behavior",
        Measures::DatabaseControl => "database-control",
    }
}

/// The lane, as a phrase.
pub fn lane(lane: LaneKind) -> &'static str {
    match lane {
        LaneKind::Main => "main: ordinary calls",
        LaneKind::Second => "second: ordinary calls against targets, on an instance of its own",
        LaneKind::Hostile => "hostile: on an instance that malformed input may end",
        LaneKind::Writer => "writer: as the role that may change rows, the one lane that may",
        LaneKind::Analyst => "analyst: as the role that may not read one column",
        LaneKind::Tenant => "tenant: as the role that may see one tenant's rows",
        LaneKind::Bulk => "bulk: statements with large answers",
        LaneKind::Sleeper => "sleeper: a statement that waits, given up after its limit",
        LaneKind::Spinner => "spinner: a statement that computes, given up after its limit",
        LaneKind::Lifter => "lifter: a statement that waits, after one that lifts the limit",
        LaneKind::Quoted => "quoted: with a password that must be encoded in a URL",
    }
}

/// The severity with its candidate mark.
pub fn severity(spec: &Spec) -> String {
    let word = crate::standard::word(spec.severity);
    match (spec.candidate, spec.severity) {
        (true, _) => format!("{word} (candidate: shown, not scored)"),
        (false, Severity::Advisory) => format!("{word} (shown, not scored)"),
        (false, Severity::Critical) => {
            format!("{word} (a fail caps the letter at D)")
        }
        (false, Severity::Scored) => word.to_owned(),
    }
}

/// What a probe sends, placeholders unexpanded; `None` when the check makes it.
pub fn input(probe: &Probe) -> Option<String> {
    let pair = probe.path_pair.as_ref().map(|pair| format!("{} → {}", pair.from, pair.to));
    let value = probe.value.as_ref().map(ToString::to_string);
    let make = probe.make.as_ref().map(|make| match make {
        Make::Long(n) => format!("{n} × the letter a"),
        Make::Nest(n) => format!("{n} nested arrays"),
        Make::Digits(n) => format!("a number of {n} digits"),
    });
    let sql = probe.sql.as_ref().map(|sql| match &probe.then {
        Some(then) => format!("{sql} → {then}"),
        None => sql.clone(),
    });
    probe.path.clone().or(pair).or(sql).or(value).or(probe.raw.clone()).or(make)
}

/// An input in quotes when it is empty or begins or ends with white space.
pub fn quoted_ends(input: &str) -> String {
    if input.is_empty() || input.trim() != input {
        format!("\"{input}\"")
    } else {
        input.to_owned()
    }
}

/// Where a probe goes: its operations, those of its check, or the server.
pub fn operations<'a>(check: &'a Check, probe: &'a Probe) -> Vec<&'a str> {
    let own = if probe.tools.is_empty() { &check.spec.tools } else { &probe.tools };
    own.iter().map(String::as_str).collect()
}

/// The files a check is decided in, each once, the check's own first.
pub fn decided_in(check: &Check) -> Vec<String> {
    let mut files = vec![format!("packs/{}/{}.yaml", check.pack, check.stem)];
    for rule in check.rules {
        if !files.contains(&rule.file()) {
            files.push(rule.file());
        }
    }
    files
}

/// What a verdict means for a letter, as a sentence.
pub fn verdict_means(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "The safe thing was observed. It counts 1 point.",
        Verdict::Part => "A weakness beside the core of the question. It counts half a point.",
        Verdict::Fail => "The unsafe thing was observed. It counts 0 points.",
        Verdict::Inconclusive => "The harness could not tell. It is not scored.",
        Verdict::Na => "The question does not apply. It is not scored.",
    }
}

/// Whether a rule is the runner's, and so stands on every page.
pub fn is_runner_rule(rule: &RuleDef) -> bool {
    crate::registry::runner_rules().contains(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_record() {
        for check in crate::registry::checks() {
            for &seen_by in &check.spec.observers {
                assert_eq!(serde_json::to_value(seen_by).unwrap(), observer(seen_by));
            }
            assert_eq!(
                serde_json::to_value(check.spec.measures).unwrap(),
                measures(check.spec.measures)
            );
        }
    }

    #[test]
    fn a_probe_shows_what_it_sends() {
        let path = Probe { path: Some("../x".into()), ..Probe::default() };
        let long = Probe { make: Some(Make::Long(9)), ..Probe::default() };
        let value = Probe { value: Some(serde_json::json!({"a": 1})), ..Probe::default() };
        assert_eq!(
            [input(&path), input(&long), input(&value), input(&Probe::default())],
            [Some("../x"), Some("9 × the letter a"), Some("{\"a\":1}"), None]
                .map(|text| text.map(str::to_owned))
        );
    }
}
