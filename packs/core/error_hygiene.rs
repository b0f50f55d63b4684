//! Do error texts give the inside of the server away?

use std::collections::BTreeMap;

use crate::{
    evidence::{Collected, Evidence, Fact, Kind, Observer, Reply, What, Why},
    hygiene::{ErrorWeight, scan_error},
    journal::{Act, Journal},
    verdict::Ruling,
};

rules! {
    /// An error text holds a stack trace or a connection string with its password.
    TraceOrConnectionString => Fail,
    /// An error text names a path of the server's own code.
    OwnCodePath => Part,
    /// No error text gave away a trace, a connection string or a path of the server's own code.
    NothingGivenAway => Pass,
    /// No error text was seen.
    NoErrorSeen => Inconclusive,
}

const TRACE: &str = "trace";
const DSN: &str = "connection-string";
const PATH: &str = "own-code-path";

pub(super) fn collect(journal: &Journal) -> Vec<Evidence> {
    let own: Vec<&str> = journal.own_paths.iter().map(String::as_str).collect();
    let mut texts = 0;
    let mut found: BTreeMap<(&str, Option<&str>), Evidence> = BTreeMap::new();
    for act in journal.of("core").filter(|act| is_error(act)) {
        texts += 1;
        let sent: Vec<&str> = act.sent.iter().map(String::as_str).collect();
        for finding in scan_error(&act.text, &sent, &own) {
            let id = match finding.weight {
                ErrorWeight::Trace => TRACE,
                ErrorWeight::Dsn => DSN,
                ErrorWeight::CodePath => PATH,
                ErrorWeight::Note => continue,
            };
            let place = format!("{} {}", act.lane, act.seq);
            let what = What::Text { class: finding.class.into(), place };
            // The first of each kind stands for all that a tool said of it.
            found.entry((id, act.tool.as_deref())).or_insert_with(|| {
                let mut line = line(id);
                line.tool.clone_from(&act.tool);
                line.lane.clone_from(&act.lane);
                line.sent = Some(act.shown.clone());
                (line.seq, line.reply, line.excerpt) = (act.seq, act.reply, finding.shown);
                line.facts.push(Fact::now(Observer::Reply, what));
                line.breached(Observer::Reply)
            });
        }
    }
    let mut lines: Vec<Evidence> = Vec::new();
    for id in [TRACE, DSN, PATH] {
        if !found.keys().any(|(kind, _)| *kind == id) {
            let line = line(id);
            lines.push(match texts {
                0 => line.none(Why::NothingSeen),
                _ => line.held(Observer::Reply),
            });
        }
    }
    lines.extend(found.into_values());
    let what = What::Figure { name: "error texts".into(), n: texts };
    if let Some(first) = lines.first_mut() {
        first.facts.push(Fact::now(Observer::Reply, what));
    }
    lines
}

fn is_error(act: &Act) -> bool {
    let failed = matches!(act.reply, Reply::Refused | Reply::Failed | Reply::RejectedBySchema);
    (act.declined || failed) && !act.text.trim().is_empty()
}

fn line(id: &str) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, id);
    line.core = id != PATH;
    line.family = Some(id.into());
    line
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let (worse, paths): (Vec<_>, Vec<_>) = collected.breached().partition(|line| line.core);
    if !worse.is_empty() {
        return Rule::TraceOrConnectionString.because(worse);
    }
    if !paths.is_empty() {
        return Rule::OwnCodePath.because(paths);
    }
    let held: Vec<_> = collected.held().collect();
    if held.is_empty() {
        return Rule::NoErrorSeen.because(collected.probes());
    }
    Rule::NothingGivenAway.because(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{act, declined, read_journal, ruled},
        verdict::Verdict,
    };

    const ID: &str = "error-hygiene";
    const TRACEBACK: &str = "Traceback (most recent call last):\n  File \"/opt/app/server.py\", \
        line 42, in call_tool\n    raise KeyError(name)\nKeyError: 'name'";

    fn error(text: &str) -> Act {
        declined(act("core", "robust-input", "query"), Reply::Failed, text)
    }

    fn verdict_on(acts: Vec<Act>) -> (String, Verdict) {
        let journal = Journal { acts, ..Journal::default() };
        ruled(ID, read_journal(ID, &journal))
    }

    #[test]
    fn a_plain_message_passes() {
        let plain = error("Input validation error: 'path' is a required property");
        assert_eq!(verdict_on(vec![plain]), ("nothing-given-away".into(), Verdict::Pass));
    }

    #[test]
    fn a_trace_or_a_connection_string_fails() {
        let fail = ("trace-or-connection-string".into(), Verdict::Fail);
        assert_eq!(verdict_on(vec![error("bad"), error(TRACEBACK)]), fail);
        let dsn = "cannot connect to postgres://app:hunter2hunter2@db.internal:5432/app";
        assert_eq!(verdict_on(vec![error(dsn)]), fail);
    }

    #[test]
    fn a_path_of_the_servers_code_is_a_lesser_weakness() {
        let path = "Cannot find module '/opt/app/node_modules/pg/lib/client.js'";
        assert_eq!(verdict_on(vec![error(path)]), ("own-code-path".into(), Verdict::Part));
    }

    #[test]
    fn replies_that_are_no_errors_are_not_read() {
        let shown = Act { text: TRACEBACK.into(), ..act("core", "robust-input", "read_log") };
        assert_eq!(verdict_on(vec![shown]), ("no-error-seen".into(), Verdict::Inconclusive));
        let elsewhere = declined(act("fs", "fs-path-escape", "read"), Reply::Failed, TRACEBACK);
        assert_eq!(verdict_on(vec![elsewhere]).1, Verdict::Inconclusive);
    }

    #[test]
    fn one_line_stands_for_each_kind_and_tool() {
        let acts = vec![error(TRACEBACK), error(TRACEBACK)];
        let lines = read_journal(ID, &Journal { acts, ..Journal::default() });
        let traces = lines.iter().filter(|line| line.probe == TRACE);
        assert_eq!(traces.map(|line| line.tool.as_deref()).collect::<Vec<_>>(), [Some("query")]);
    }
}
