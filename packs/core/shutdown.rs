//! What it took to end the server, and what was left behind.

use crate::{
    evidence::{Collected, Evidence, Fact, Kind, Observer, What, Why},
    journal::{Closing, Journal},
    verdict::Ruling,
};

rules! {
    /// A process the server had started was still running after the server had ended.
    OutlivedByProcesses => Fail,
    /// Every instance ended only when it was killed.
    EndedOnlyWhenKilled => Fail,
    /// One instance had to be killed and another did not, so the failure was not reproduced.
    KilledOnlyOnce => Inconclusive,
    /// An instance ignored the end of its input and ended when it was told to terminate.
    EndedWhenTerminated => Part,
    /// Every instance ended by itself when its input was closed, and nothing outlived it.
    EndedWithItsInput => Pass,
    /// No instance ended in a way that would answer the question.
    NoFairEnding => Inconclusive,
}

const CLOSED: &str = "stdin-closed";
const BEHIND: &str = "left-behind";
const KILL: &str = "kill";
const TERM: &str = "term";

pub(super) fn collect(journal: &Journal) -> Vec<Evidence> {
    let mut lines = Vec::new();
    for (seq, closing) in journal.closings.iter().enumerate() {
        if !closing.fair {
            continue;
        }
        lines.push(ended(closing, seq as u64));
        lines.push(left_behind(closing, seq as u64));
    }
    if lines.is_empty() {
        lines.push(Evidence::new(Kind::Probe, CLOSED));
    }
    lines
}

fn line(id: &str, closing: &Closing, seq: u64) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, id);
    line.lane.clone_from(&closing.lane);
    line.seq = seq;
    line
}

fn ended(closing: &Closing, seq: u64) -> Evidence {
    let mut line = line(CLOSED, closing, seq);
    line.measured.seconds = Some(closing.seconds);
    line.family = Some(closing.step.into());
    match closing.step {
        "eof" => line.held(Observer::Process),
        KILL => {
            line.core = true;
            line.breached(Observer::Process)
        }
        TERM => line.breached(Observer::Process),
        _ => line.none(Why::Lost),
    }
}

fn left_behind(closing: &Closing, seq: u64) -> Evidence {
    let mut line = line(BEHIND, closing, seq);
    line.core = true;
    line.family = Some(BEHIND.into());
    for name in &closing.outlived {
        let name = super::shown(name);
        line.facts.push(Fact::late(Observer::Process, What::Orphan(name)));
    }
    if closing.outlived.is_empty() {
        line.held(Observer::Process)
    } else {
        line.breached(Observer::Process)
    }
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let breached = |id: &str, family: &str| -> Vec<&Evidence> {
        let is = |line: &&Evidence| line.probe == id && line.family.as_deref() == Some(family);
        collected.breached().filter(is).collect()
    };
    let behind = breached(BEHIND, BEHIND);
    if !behind.is_empty() {
        return Rule::OutlivedByProcesses.because(behind);
    }
    let (killed, terminated) = (breached(CLOSED, KILL), breached(CLOSED, TERM));
    let held: Vec<_> = collected.held().filter(|line| line.probe == CLOSED).collect();
    if !killed.is_empty() {
        if held.is_empty() && terminated.is_empty() {
            return Rule::EndedOnlyWhenKilled.because(killed);
        }
        return Rule::KilledOnlyOnce.because(killed);
    }
    if !terminated.is_empty() {
        return Rule::EndedWhenTerminated.because(terminated);
    }
    if held.is_empty() {
        return Rule::NoFairEnding.because(collected.probes());
    }
    Rule::EndedWithItsInput.because(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read_journal, ruled};

    fn closing(step: &'static str) -> Closing {
        Closing { lane: "main".into(), step, seconds: 0.1, outlived: Vec::new(), fair: true }
    }

    fn rule_for(closings: &[Closing]) -> String {
        let journal = Journal { closings: closings.to_vec(), ..Journal::default() };
        ruled("shutdown", read_journal("shutdown", &journal)).0
    }

    #[test]
    fn a_server_that_stops_with_its_input_passes() {
        assert_eq!(rule_for(&[closing("eof"), closing("eof")]), "ended-with-its-input");
    }

    #[test]
    fn the_gentler_signal_is_a_lesser_weakness() {
        assert_eq!(rule_for(&[closing("eof"), closing("term")]), "ended-when-terminated");
    }

    #[test]
    fn a_kill_counts_when_every_instance_needed_it() {
        assert_eq!(rule_for(&[closing("kill"), closing("kill")]), "ended-only-when-killed");
        assert_eq!(rule_for(&[closing("kill"), closing("eof")]), "killed-only-once");
    }

    #[test]
    fn an_orphan_fails_however_the_server_ended() {
        let orphan = Closing { outlived: vec!["node".into()], ..closing("eof") };
        assert_eq!(rule_for(&[orphan]), "outlived-by-processes");
    }

    #[test]
    fn ends_after_hostile_input_do_not_count() {
        let unfair = Closing { fair: false, ..closing("kill") };
        assert_eq!(rule_for(&[unfair]), "no-fair-ending");
        assert_eq!(rule_for(&[closing("died")]), "no-fair-ending");
    }
}
