//! Did a secret planted in the environment come out?

use std::collections::BTreeSet;

use crate::{
    evidence::{Channel, Collected, Evidence, Fact, Kind, Observer, Reply, What, Why},
    journal::{Act, Hit, Journal},
    verdict::Ruling,
};

rules! {
    /// A planted secret came back in a result, an error, a list, a prompt or a resource.
    SecretInReply => Fail,
    /// A planted secret stood on standard error, in a notification or in a stray line on standard
    /// output, and in no reply.
    SecretInLogs => Part,
    /// No valid call was answered, so nothing was seen that could have held a secret: the figures
    /// say how many of how many tools answered.
    NoCallAnswered => Inconclusive,
    /// No planted secret came out while valid calls were answered: the figures say how many of how
    /// many tools answered.
    NoSecretSeen => Pass,
}

const CHANNELS: [(Channel, &str); 5] = [
    (Channel::Reply, "replies"),
    (Channel::Surface, "lists"),
    (Channel::Notification, "notifications"),
    (Channel::Noise, "stray-lines"),
    (Channel::Stderr, "stderr"),
];

pub(super) fn collect(journal: &Journal) -> Vec<Evidence> {
    let answered: BTreeSet<&str> = journal
        .of("core")
        .filter(|act| act.valid && act.reply == Reply::Answered && !act.declined)
        .filter_map(|act| act.tool.as_deref())
        .collect();
    let mut lines = Vec::new();
    for (channel, id) in CHANNELS {
        let seen = leaks(journal, channel);
        if seen.is_empty() {
            let line = line(id, channel);
            lines.push(match answered.is_empty() {
                true => line.none(Why::NothingSeen),
                false => line.held(Observer::Canary),
            });
        }
        for (act, hits) in seen {
            lines.push(leak(id, channel, act, &hits));
        }
    }
    let figure = |name: &str, n: usize| {
        Fact::now(Observer::Canary, What::Figure { name: name.into(), n: n as u64 })
    };
    if let Some(first) = lines.first_mut() {
        first.facts.push(figure("tools answered", answered.len()));
        first.facts.push(figure("tools", journal.tools));
        first.caveats.extend(elsewhere(journal));
    }
    lines
}

fn line(id: &str, channel: Channel) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, id);
    line.core = matches!(channel, Channel::Reply | Channel::Surface);
    line.family = Some(if line.core { "replies" } else { "logs" }.into());
    line
}

fn is_planted(hit: &Hit) -> bool {
    hit.object.starts_with("env ")
}

/// What came out on that channel: outside of calls, and for each tool in the first of core's own
/// calls that gave it away.
fn leaks(journal: &Journal, channel: Channel) -> Vec<(Option<&Act>, Vec<&Hit>)> {
    let on = |hit: &&Hit| is_planted(hit) && hit.channel == channel;
    let mut seen = Vec::new();
    let outside: Vec<_> = journal.hits.iter().filter(on).collect();
    if !outside.is_empty() {
        seen.push((None, outside));
    }
    let mut tools = BTreeSet::new();
    for act in journal.of("core") {
        let hits: Vec<_> = act.hits.iter().filter(on).collect();
        if !hits.is_empty() && tools.insert(act.tool.as_deref()) {
            seen.push((Some(act), hits));
        }
    }
    seen
}

fn leak(id: &str, channel: Channel, act: Option<&Act>, hits: &[&Hit]) -> Evidence {
    let mut line = line(id, channel);
    if let Some(act) = act {
        line.lane.clone_from(&act.lane);
        (line.seq, line.reply) = (act.seq, act.reply);
        line.tool.clone_from(&act.tool);
        line.sent = Some(act.shown.clone());
    }
    for hit in hits {
        let what = What::Canary {
            object: hit.object.clone(),
            inside: false,
            form: hit.form,
            channel: hit.channel,
        };
        let fact = Fact::now(Observer::Canary, what);
        if !line.facts.contains(&fact) {
            line.facts.push(fact);
        }
    }
    line.breached(Observer::Canary)
}

/// What came out in calls of other packs, once for each pack and object.
fn elsewhere(journal: &Journal) -> BTreeSet<String> {
    let others = journal.acts.iter().filter_map(|act| match act.origin.pack() {
        Some(pack) if pack != "core" => Some((pack, act)),
        _ => None,
    });
    let said = others.flat_map(|(pack, act)| {
        let planted = act.hits.iter().filter(|hit| is_planted(hit));
        planted.map(move |hit| format!("{} came out in a call of pack {pack}", hit.object))
    });
    said.collect()
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let (replies, logs): (Vec<_>, Vec<_>) = collected.breached().partition(|line| line.core);
    if !replies.is_empty() {
        return Rule::SecretInReply.because(replies);
    }
    if !logs.is_empty() {
        return Rule::SecretInLogs.because(logs);
    }
    let held: Vec<_> = collected.held().collect();
    if held.is_empty() {
        return Rule::NoCallAnswered.because(collected.probes());
    }
    Rule::NoSecretSeen.because(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::Form,
        testing::{act, declined, read_journal, ruled},
        verdict::Verdict,
    };

    const ID: &str = "secret-echo";

    fn hit(object: &str, channel: Channel) -> Hit {
        Hit { object: object.into(), form: Form::Raw, channel }
    }

    fn call(pack: &'static str, hits: Vec<Hit>) -> Act {
        Act { hits, ..act(pack, "robust-input", "get_config") }
    }

    fn journal(acts: Vec<Act>, hits: Vec<Hit>) -> Journal {
        Journal { acts, hits, tools: 3, ..Journal::default() }
    }

    fn verdict_on(journal: &Journal) -> (String, Verdict) {
        ruled(ID, read_journal(ID, journal))
    }

    #[test]
    fn answered_calls_without_a_secret_pass_and_say_how_many() {
        let journal = journal(vec![call("core", Vec::new())], Vec::new());
        assert_eq!(verdict_on(&journal), ("no-secret-seen".into(), Verdict::Pass));
        let lines = read_journal(ID, &journal);
        let figures: Vec<_> = lines[0].facts.iter().map(|fact| fact.what.clone()).collect();
        let figure = |name: &str, n| What::Figure { name: name.into(), n };
        assert_eq!(figures, [figure("tools answered", 1), figure("tools", 3)]);
    }

    #[test]
    fn a_secret_in_a_reply_or_a_list_fails() {
        let fail = ("secret-in-reply".into(), Verdict::Fail);
        let hits = vec![hit("env SM_CANARY_A", Channel::Reply)];
        let replied = journal(vec![call("core", hits)], Vec::new());
        assert_eq!(verdict_on(&replied), fail);
        assert_eq!(read_journal(ID, &replied)[0].tool.as_deref(), Some("get_config"));
        let listed = journal(Vec::new(), vec![hit("env SM_CANARY_B", Channel::Surface)]);
        assert_eq!(verdict_on(&listed), fail);
    }

    #[test]
    fn a_secret_in_the_log_is_a_lesser_weakness() {
        for channel in [Channel::Stderr, Channel::Notification, Channel::Noise] {
            let logged = journal(vec![call("core", Vec::new())], vec![hit("env A", channel)]);
            assert_eq!(verdict_on(&logged), ("secret-in-logs".into(), Verdict::Part));
        }
    }

    #[test]
    fn without_an_answered_valid_call_nothing_is_known() {
        let open = ("no-call-answered".into(), Verdict::Inconclusive);
        assert_eq!(verdict_on(&journal(Vec::new(), Vec::new())), open);
        let refused = declined(call("core", Vec::new()), Reply::Failed, "no");
        let invalid = Act { valid: false, ..call("core", Vec::new()) };
        let elsewhere = call("fs", Vec::new());
        assert_eq!(verdict_on(&journal(vec![refused, invalid, elsewhere], Vec::new())), open);
    }

    #[test]
    fn what_other_packs_saw_is_told_and_does_not_count() {
        let hits = vec![hit("env SM_CANARY_A", Channel::Reply)];
        let journal = journal(vec![call("core", Vec::new()), call("fs", hits)], Vec::new());
        assert_eq!(verdict_on(&journal).1, Verdict::Pass);
        let caveats = &read_journal(ID, &journal)[0].caveats;
        assert_eq!(caveats, &["env SM_CANARY_A came out in a call of pack fs"]);
    }

    #[test]
    fn canaries_of_files_are_no_matter_of_this_check() {
        let hits = vec![hit("attic/a.txt", Channel::Reply)];
        assert_eq!(verdict_on(&journal(vec![call("core", hits)], Vec::new())).1, Verdict::Pass);
    }
}
