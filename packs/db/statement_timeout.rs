//! Does a statement that would run on and on end, in the reply and in the database?

use crate::{
    check::Probe,
    evidence::{Collected, Evidence, Fact, Kind, Observer, What, Why},
    stage::{Answer, Ask, BoxFuture, Label, Life, Stage, Stop},
    surface::Placement,
    verdict::Ruling,
};

/// The family of a statement that was answered and ran on.
const RUNS_ON: &str = "runs-on";

rules! {
    /// A statement got no answer within the limit, and the database was still running it.
    NoTimeLimit => Fail,
    /// Only a statement that was prepared by an earlier call got no answer within the limit.
    LimitCanBeLifted => Part,
    /// A statement was answered in time, and the database still ran it 2 s later.
    RunsOn => Part,
    /// A statement was not asked or told nothing, so a pass would be a guess.
    NotAllAsked => Inconclusive,
    /// Every statement was answered in time, and the database was idle 2 s later.
    Limited => Pass,
}

pub(super) fn collect(stage: &mut dyn Stage) -> BoxFuture<'_, Result<(), Stop>> {
    Box::pin(async move {
        let spec = stage.spec();
        let placements = stage.placements();
        let confirmed = placements
            .iter()
            .filter(|placed| placed.is_confirmed() && spec.tools.contains(&placed.operation));
        // One limit holds for every tool of a server, and each silence costs the whole limit.
        let Some(placed) = confirmed.into_iter().next() else { return Ok(()) };
        let mut breached = false;
        for probe in spec.probes_on(stage.lane()) {
            let line = match breached {
                true => unasked(stage, placed, probe),
                false => ask(stage, placed, probe).await?,
            };
            breached |= line.core && line.is_breached();
            stage.record(line);
        }
        Ok(())
    })
}

/// A statement that could tell no more: an earlier one of its lane has no limit.
fn unasked(stage: &dyn Stage, placed: &Placement, probe: &Probe) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, &probe.id).none(Why::Decided);
    line.family.clone_from(&probe.family);
    line.tool = Some(placed.tool.clone());
    line.lane = stage.lane().name().into();
    line
}

async fn ask(stage: &mut dyn Stage, placed: &Placement, probe: &Probe) -> Result<Evidence, Stop> {
    let statements: Vec<&String> = probe.sql.iter().chain(&probe.then).collect();
    let mut line = Evidence::new(Kind::Probe, &probe.id);
    for (n, sql) in statements.iter().enumerate() {
        let label = Label {
            probe: probe.id.clone(),
            core: probe.core,
            family: probe.family.clone(),
            valid: true,
            sent: format!("{} sql={sql}", placed.tool),
            patience: Some(stage.time_limit()),
            ..Label::default()
        };
        let arguments = placed.arguments(&[("sql", sql.as_str())]);
        let answer = stage.ask(label, Ask::call(&placed.tool, arguments)).await?;
        let life = answer.life.clone();
        let running = stage.running().await;
        line = weighed(answer, running);
        if life != Life::Replied || running.is_some_and(|n| n > 0) {
            stage.fresh().await?;
            break;
        }
        if n + 1 < statements.len() && !line.is_held() {
            break;
        }
    }
    Ok(line)
}

/// The line with what the database still ran, and the outcome that follows.
fn weighed(answer: Answer, running: Option<u64>) -> Evidence {
    let mut line = answer.line;
    let Some(n) = running else { return line.none(Why::Unreadable) };
    let figure = What::Figure { name: "statements still running".into(), n };
    line.facts.push(Fact::now(Observer::StateReader, figure));
    match answer.life {
        _ if answer.tainted => line.none(Why::Tainted),
        Life::Replied if n > 0 => {
            line.family = Some(RUNS_ON.into());
            line.breached(Observer::StateReader)
        }
        Life::Replied => line.held(Observer::StateReader),
        Life::Silent | Life::Mute if n > 0 => line.breached(Observer::StateReader),
        Life::Silent | Life::Mute => line.none(Why::Silent),
        Life::Died(_) => line.none(Why::Lost),
    }
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let runs_on = |line: &&Evidence| line.family.as_deref() == Some(RUNS_ON);
    let (ran_on, unlimited): (Vec<&Evidence>, Vec<&Evidence>) =
        collected.breached().partition(|line| runs_on(line));
    let (core, lifted): (Vec<&Evidence>, Vec<&Evidence>) =
        unlimited.into_iter().partition(|line| line.core);
    if !core.is_empty() {
        return Rule::NoTimeLimit.because(core);
    }
    if !ran_on.is_empty() {
        return Rule::RunsOn.because(ran_on);
    }
    if !lifted.is_empty() {
        return Rule::LimitCanBeLifted.because(lifted);
    }
    let told_nothing: Vec<&Evidence> =
        collected.probes().iter().filter(|line| line.core && !line.is_held()).collect();
    if !told_nothing.is_empty() || collected.held().next().is_none() {
        return Rule::NotAllAsked.because(told_nothing);
    }
    Rule::Limited.because(collected.held())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{probe, ruled};

    fn core(id: &str) -> Evidence {
        Evidence { core: true, ..probe(id) }
    }

    fn rule(lines: impl IntoIterator<Item = Evidence>) -> String {
        ruled("statement-timeout", lines).0
    }

    fn answer(life: Life) -> Answer {
        Answer {
            line: core("sleep"),
            life,
            declined: false,
            code: None,
            result: None,
            tainted: false,
            pending: false,
        }
    }

    #[test]
    fn the_database_decides_whether_a_silence_is_a_running_statement() {
        assert!(weighed(answer(Life::Silent), Some(1)).is_breached());
        assert_eq!(weighed(answer(Life::Silent), Some(0)).why, Some(Why::Silent));
        assert_eq!(weighed(answer(Life::Replied), None).why, Some(Why::Unreadable));
        assert!(weighed(answer(Life::Replied), Some(0)).is_held());
    }

    #[test]
    fn an_answer_while_the_statement_runs_on_is_a_part() {
        let on = weighed(answer(Life::Replied), Some(1));
        assert_eq!(rule([on, core("spin").held(Observer::StateReader)]), "runs-on");
    }

    #[test]
    fn one_statement_without_a_limit_is_enough() {
        let none = core("sleep").breached(Observer::StateReader);
        let held = core("spin").held(Observer::StateReader);
        assert_eq!(rule([none, held]), "no-time-limit");
    }

    #[test]
    fn a_limit_that_an_earlier_call_lifts_is_a_part() {
        let lifted = probe("lifted").breached(Observer::StateReader);
        assert_eq!(
            rule([core("sleep").held(Observer::StateReader), lifted]),
            "limit-can-be-lifted"
        );
    }

    #[test]
    fn a_core_statement_that_told_nothing_leaves_it_open() {
        let held = core("sleep").held(Observer::StateReader);
        assert_eq!(rule([held.clone(), core("spin").none(Why::Lost)]), "not-all-asked");
        assert_eq!(rule([held.clone(), held]), "limited");
    }
}
