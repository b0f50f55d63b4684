//! The words of the record as sentences: facts, observers, readings, reasons, commands.

use crate::{
    check::Severity,
    evidence::{Channel, Evidence, Fact, Form, How, Observer, Reply, What, When, Why},
    report::{CheckReport, PackReport, Report},
    text::safe,
    verdict::Verdict,
};

/// Characters of a name that are shown.
pub(crate) const NAME: usize = 120;
/// Characters of a sentence that are shown.
pub(crate) const SENTENCE: usize = 800;
/// Words of a command that are shown.
const COMMAND: usize = 60;

/// A name, safe to show.
pub(crate) fn name(text: &str) -> String {
    safe(text, NAME)
}

/// A sentence, safe to show.
pub(crate) fn sentence(text: &str) -> String {
    safe(text.trim(), SENTENCE)
}

/// `3 tools`, `1 tool`.
pub(crate) fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// At most `most` names with commas, and how many more there are.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.iter().take(most).map(|text| name(text)).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A duration given in milliseconds.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// The published name of an observer.
pub(crate) fn observer(by: Observer) -> &'static str {
    match by {
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

/// A witness of a line. The weakest one is marked where nothing stronger saw it.
pub(crate) fn witness(line: &Evidence, by: Observer) -> String {
    let alone = by == Observer::Reply && line.verified_by.iter().all(|by| *by == Observer::Reply);
    let mark = if alone { " (the server's own words)" } else { "" };
    format!("the {}{mark}", observer(by))
}

/// Every witness an outcome rests on.
pub(crate) fn seen_by(line: &Evidence) -> Option<String> {
    let all: Vec<String> = line.verified_by.iter().map(|by| witness(line, *by)).collect();
    (!all.is_empty()).then(|| format!("seen by {}", all.join(" and ")))
}

/// The figure of a FIFO that the server read without answering.
const FIFO_HELD: &str = "fifo-held";

/// A fact as a sentence.
pub(crate) fn fact(fact: &Fact) -> String {
    let mut text = match &fact.what {
        What::Canary { object, inside, form, channel } => {
            let what = match object.strip_prefix("env ") {
                Some(password) if password.contains(' ') => format!("the {}", name(password)),
                Some(variable) => format!("the secret in the variable {}", name(variable)),
                None => format!("the token of {}", name(object)),
            };
            let inside = if *inside { ", which the tool may read," } else { "" };
            let came = if *channel == Channel::Target { "was copied" } else { "came back" };
            format!("{what}{inside} {came} {}{}", channel_words(*channel), form_words(*form))
        }
        What::Changed { path, how, inside } => {
            let inside = if *inside { ", inside the allowed directory" } else { "" };
            format!("{} was {}{inside}", name(path), how_word(*how))
        }
        What::State { object, how } => format!("{}: {}", name(object), how_word(*how)),
        What::Sql { role, ended } => {
            format!("the statement arrived as {} and ended with {}", name(role), name(ended))
        }
        What::Over { name: figure, n, limit } => {
            format!("{n} {} in the answer, the limit is {limit}", name(figure))
        }
        What::Died(how) => format!("the process ended: {}", name(how)),
        What::Mute => "the process lives and answered no ping within 5 s".into(),
        What::Silent => "the request got no reply, while pings were answered".into(),
        What::Alive(true) => "the process lived and answered afterwards".into(),
        What::Alive(false) => "the process did not answer afterwards".into(),
        What::Orphan(process) => format!("the process {} was left running", name(process)),
        What::Text { class, place } => format!("{} in {}", name(class), name(place)),
        What::Figure { name: figure, n } if figure == FIFO_HELD => {
            format!("the server was reading the FIFO and had not answered {n} ms later")
        }
        What::Figure { name: figure, n } => format!("{}: {n}", name(figure)),
    };
    if fact.when == When::AfterClose {
        text += ", at the second look after the server was closed";
    }
    text
}

fn channel_words(channel: Channel) -> &'static str {
    match channel {
        Channel::Reply => "in the reply",
        Channel::Surface => "in what the server lists about itself",
        Channel::Notification => "in a notification",
        Channel::Noise => "on stdout, outside any message",
        Channel::Stderr => "on stderr",
        Channel::Target => "into a file inside the sandbox",
    }
}

fn form_words(form: Form) -> &'static str {
    match form {
        Form::Raw => "",
        Form::Percent => ", percent-encoded",
        Form::Base64 => ", in base64",
        Form::Hex => ", in hexadecimal",
        Form::Reversed => ", written backwards",
        Form::Escaped => ", in JSON escapes",
        Form::Masked => ", partly masked",
    }
}

fn how_word(how: How) -> &'static str {
    match how {
        How::Created => "created",
        How::Modified => "modified",
        How::Deleted => "deleted",
        How::Touched => "touched",
    }
}

/// How a reply reads, with the rule that read it.
pub(crate) fn reading(line: &Evidence) -> String {
    let word = match line.reply {
        Reply::Answered => "answered",
        Reply::Refused => "refused",
        Reply::Failed => "failed",
        Reply::RejectedBySchema => "rejected by schema",
        Reply::None => "no reply",
    };
    match line.reading_rule.as_deref().map(name).filter(|rule| !rule.is_empty() && rule != word) {
        Some(rule) => format!("{word} ({rule})"),
        None => word.into(),
    }
}

/// Why a line is no evidence.
pub(crate) fn why(why: Why) -> &'static str {
    match why {
        Why::Silent => "the request got no reply, and the server lived",
        Why::Lost => "the process or the connection was lost",
        Why::Tainted => "the server asked for a client capability during the call",
        Why::SchemaRejected => "the declared schema refused the probe's shape",
        Why::NotPossibleHere => "the harness itself cannot do it on this machine",
        Why::ControlLost => "the control beside it stopped working",
        Why::Cut => "the reply was longer than what is kept",
        Why::Unreadable => "the target could not be read back",
        Why::NotReproduced => "seen once, and not again on a fresh instance",
        Why::Unsent => "the probe was not sent: its tool had been lost too often",
        Why::Decided => "the probe was not sent: an earlier breach had decided it",
        Why::NothingSeen => "nothing that was seen speaks for or against",
    }
}

/// What a check weighs, as its mark in lists.
pub(crate) fn weight(check: &CheckReport) -> &'static str {
    match check.severity {
        _ if check.advisory => "advisory, not scored",
        Severity::Critical => "critical",
        Severity::Scored => "scored",
        Severity::Advisory => "advisory, not scored",
    }
}

/// Whether it is a critical check with a part, which never caps and is always named.
pub(crate) fn is_critical_part(check: &CheckReport) -> bool {
    check.verdict == Verdict::Part && check.severity == Severity::Critical && !check.advisory
}

/// `critical part: fs-write-escape (indirect-breached)`.
pub(crate) fn critical_part(check: &CheckReport) -> String {
    format!("critical part: {} ({})", name(&check.id), name(&check.rule))
}

/// The raw letter and what capped it, where the cap lowered the letter.
pub(crate) fn cap(pack: &PackReport) -> Option<String> {
    let raw = pack.raw_letter.filter(|_| pack.capped && pack.letter.is_some())?;
    let mut causes: Vec<&str> = Vec::new();
    for id in &pack.cap_reasons {
        if !causes.contains(&id.as_str()) {
            causes.push(id);
        }
    }
    Some(format!("raw letter {raw}, capped by {}", list(causes, 10)))
}

/// `GATE A not met: core is B`, or `GATE A met`; with no letter there is nothing to meet it.
pub(crate) fn gate(report: &Report) -> String {
    let gate = &report.gate;
    let mut causes: Vec<String> =
        gate.causes.iter().take(20).map(|cause| name(cause.trim())).collect();
    if gate.causes.len() > causes.len() {
        causes.push(format!("and {} more", gate.causes.len() - causes.len()));
    }
    causes.retain(|cause| !cause.is_empty());
    let graded = report.packs.iter().any(|pack| pack.letter.is_some());
    match (gate.met, causes.is_empty()) {
        (true, _) if !graded => format!("GATE {} not judged: no pack is graded", gate.threshold),
        (true, _) => format!("GATE {} met", gate.threshold),
        (false, true) => format!("GATE {} not met", gate.threshold),
        (false, false) => format!("GATE {} not met: {}", gate.threshold, causes.join("; ")),
    }
}

/// One word for a POSIX shell, quoted where it must be.
pub(crate) fn quoted(word: &str) -> String {
    let word = safe(word, 300);
    let bare = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(bare) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The command of the server, word for word.
pub(crate) fn server_command(report: &Report) -> Vec<String> {
    let command = &report.server.command;
    let mut words: Vec<String> = command.iter().take(COMMAND).map(|word| quoted(word)).collect();
    if command.len() > COMMAND {
        words.push("…".into());
    }
    words
}

/// `sealmark VERB CONFIG FLAGS`, or with the server's command behind `--` where there was no file.
/// The flags are quoted already.
pub(crate) fn sealmark(report: &Report, verb: &str, flags: &[String]) -> Vec<String> {
    let mut words: Vec<String> = vec!["sealmark".into(), verb.into()];
    match &report.config.file {
        // A name that begins with a hyphen would be read as a flag.
        Some(file) if file.starts_with('-') => words.push(quoted(&format!("./{file}"))),
        Some(file) => words.push(quoted(file)),
        None => {}
    }
    words.extend_from_slice(flags);
    if report.config.file.is_none() && !report.server.command.is_empty() {
        words.push("--".into());
        words.extend(server_command(report));
    }
    words
}

/// The first sentence of a text.
pub(crate) fn first_sentence(text: &str) -> &str {
    let text = text.trim();
    let end = text.match_indices(". ").map(|(at, _)| at + 1).next();
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Kind;

    #[test]
    fn facts_read_as_sentences() {
        let canary = What::Canary {
            object: "attic/a.txt".into(),
            inside: false,
            form: Form::Raw,
            channel: Channel::Reply,
        };
        let seen = Fact::now(Observer::Canary, canary);
        assert_eq!(fact(&seen), "the token of attic/a.txt came back in the reply");
        let made = What::Changed { path: "attic/d/new".into(), how: How::Created, inside: false };
        assert_eq!(
            fact(&Fact::late(Observer::Filesystem, made)),
            "attic/d/new was created, at the second look after the server was closed"
        );
        let died = Fact::now(Observer::Process, What::Died("exit 1".into()));
        assert_eq!(fact(&died), "the process ended: exit 1");
    }

    #[test]
    fn the_servers_own_words_are_marked_only_where_nothing_stronger_saw_it() {
        let line = Evidence::new(Kind::Probe, "p").held(Observer::Reply);
        assert_eq!(seen_by(&line).unwrap(), "seen by the reply (the server's own words)");
        let line = line.held(Observer::Canary);
        assert_eq!(seen_by(&line).unwrap(), "seen by the canary and the reply");
        assert_eq!(seen_by(&line.none(Why::Lost)), None);
    }

    #[test]
    fn words_for_a_shell_are_quoted_where_they_must_be() {
        assert_eq!(quoted("@scope/server@1.0"), "@scope/server@1.0");
        assert_eq!(quoted("${sandbox}"), "'${sandbox}'");
        assert_eq!(quoted("it's; rm -rf ~"), r"'it'\''s; rm -rf ~'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn durations_and_counts_are_short() {
        assert_eq!((duration(999), duration(1400)), ("999 ms".into(), "1.4 s".into()));
        assert_eq!(duration(61_900), "1 min 1 s");
        assert_eq!((count(1, "tool"), count(0, "tool")), ("1 tool".into(), "0 tools".into()));
        assert_eq!(list(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(first_sentence("Use a.b paths. Then stop."), "Use a.b paths.");
    }
}
