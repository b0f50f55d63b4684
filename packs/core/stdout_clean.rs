//! Did anything but messages come out on standard output?

use crate::{
    evidence::{Collected, Evidence, Fact, Kind, Observer, What, Why},
    journal::Journal,
    verdict::Ruling,
};

rules! {
    /// A line that is no JSON-RPC message stood on standard output.
    OtherTextOnStdout => Fail,
    /// Blank lines stood between the messages on standard output, and nothing else did.
    BlankLinesOnStdout => Part,
    /// Every line on standard output was a JSON-RPC message.
    OnlyMessages => Pass,
    /// The server wrote no message, so nothing is known of its output.
    NoMessages => Inconclusive,
}

const TEXT: &str = "text";
const BLANK: &str = "blank-lines";

pub(super) fn collect(journal: &Journal) -> Vec<Evidence> {
    let other = journal.noise.iter().find(|noise| !noise.blank);
    let blank = journal.noise.iter().filter(|noise| noise.blank).count() as u64;
    // Only the first 100 lines are kept; those beyond count as the kind that was seen.
    let all_blank = other.is_none() && journal.noise_count > 0;
    let mut text = line(TEXT, true, journal.noise_count.saturating_sub(blank));
    if let Some(noise) = other {
        text.lane.clone_from(&noise.lane);
        text.excerpt = super::shown(&noise.line);
        text = text.breached(Observer::Transport);
    } else if all_blank || journal.messages > 0 {
        text = text.held(Observer::Transport);
    }
    let mut blanks = line(BLANK, false, blank);
    if blank > 0 || all_blank {
        blanks = blanks.breached(Observer::Transport);
    } else if journal.messages > 0 {
        blanks = blanks.held(Observer::Transport);
    } else {
        blanks = blanks.none(Why::NothingSeen);
    }
    vec![text, blanks]
}

fn line(id: &str, core: bool, count: u64) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, id);
    line.core = core;
    line.family = Some(id.into());
    line.facts.push(Fact::late(
        Observer::Transport,
        What::Figure { name: format!("{id} on stdout"), n: count },
    ));
    line
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let (text, blank): (Vec<_>, Vec<_>) = collected.breached().partition(|line| line.core);
    if !text.is_empty() {
        return Rule::OtherTextOnStdout.because(text);
    }
    if !blank.is_empty() {
        return Rule::BlankLinesOnStdout.because(blank);
    }
    let held: Vec<_> = collected.held().collect();
    if held.is_empty() {
        return Rule::NoMessages.because(collected.probes());
    }
    Rule::OnlyMessages.because(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        journal::Noise,
        testing::{read_journal, ruled},
        verdict::Verdict,
    };

    fn verdict_on(lines: &[&str], messages: u64) -> (String, Verdict) {
        let noise = lines.iter().map(|line| Noise {
            lane: "main".into(),
            line: (*line).into(),
            blank: line.trim().is_empty(),
        });
        let noise: Vec<_> = noise.collect();
        let noise_count = noise.len() as u64;
        let journal = Journal { noise, noise_count, messages, ..Journal::default() };
        ruled("stdout-clean", read_journal("stdout-clean", &journal))
    }

    #[test]
    fn messages_alone_pass() {
        assert_eq!(verdict_on(&[], 9), ("only-messages".into(), Verdict::Pass));
    }

    #[test]
    fn a_banner_fails_even_beside_blank_lines() {
        let fail = ("other-text-on-stdout".into(), Verdict::Fail);
        assert_eq!(verdict_on(&["", "Server running on stdio"], 9), fail);
        assert_eq!(verdict_on(&["\u{1b}[32mready\u{1b}[0m"], 9), fail);
    }

    #[test]
    fn blank_lines_alone_are_a_lesser_weakness() {
        assert_eq!(verdict_on(&["", "  "], 9), ("blank-lines-on-stdout".into(), Verdict::Part));
    }

    #[test]
    fn a_server_that_wrote_nothing_is_not_clean() {
        assert_eq!(verdict_on(&[], 0), ("no-messages".into(), Verdict::Inconclusive));
    }

    #[test]
    fn a_banner_in_the_excerpt_has_no_control_characters() {
        let noise = Noise { lane: "main".into(), line: "\u{1b}[2Jx".into(), blank: false };
        let journal = Journal { noise: vec![noise], noise_count: 1, ..Journal::default() };
        let lines = read_journal("stdout-clean", &journal);
        assert!(lines.iter().all(|line| !line.excerpt.chars().any(char::is_control)));
    }
}
