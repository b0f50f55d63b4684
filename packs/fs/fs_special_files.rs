//! Does reading a special file end or hang the server?

use crate::{
    check::{Make, Probe},
    evidence::{Collected, Evidence, Fact, Observer, What, Why},
    stage::{Answer, Ask, BoxFuture, Label, Life, Stage, Stop},
    surface::Placement,
    verdict::Ruling,
};

/// The name of the figure that the stage gives for a FIFO it had to free.
const FIFO_HELD: &str = "fifo-held";

rules! {
    /// Reading a special file ended the server or left it answering nothing, twice.
    EndedBySpecialFile => Fail,
    /// A read of a special file got no answer in time, while the server lived.
    HungOnSpecialFile => Part,
    /// The server ended or stopped answering once and not again on a fresh instance.
    NotReproduced => Inconclusive,
    /// Every read of a special file was answered.
    EveryReadAnswered => Pass,
    /// No read of a special file was conclusive.
    NothingConclusive => Inconclusive,
}

pub(super) fn collect(stage: &mut dyn Stage) -> BoxFuture<'_, Result<(), Stop>> {
    Box::pin(async move {
        let spec = stage.spec();
        let placements = stage.placements();
        let readers = placements
            .iter()
            .filter(|placed| placed.is_confirmed() && spec.tools.contains(&placed.operation));
        // One object after the other over all tools, so that the costly one is last for each.
        let readers: Vec<&Placement> = readers.collect();
        for probe in &spec.probes {
            let Some((sent, path)) = input(probe, stage) else { continue };
            for placed in &readers {
                ask(stage, probe, placed, &sent, &path).await?;
            }
        }
        Ok(())
    })
}

/// The input as shown and as sent.
fn input(probe: &Probe, stage: &dyn Stage) -> Option<(String, String)> {
    match (&probe.path, &probe.make) {
        (Some(path), _) => Some((path.clone(), stage.expand(path))),
        (_, Some(Make::Long(n))) => {
            let path = format!("{}/{}", stage.expand("${sandbox}"), "a".repeat(*n));
            Some((format!("${{sandbox}}/ and {n} letters"), path))
        }
        _ => None,
    }
}

async fn ask(
    stage: &mut dyn Stage,
    probe: &Probe,
    placed: &Placement,
    sent: &str,
    path: &str,
) -> Result<(), Stop> {
    let label = Label {
        probe: probe.id.clone(),
        valid: true,
        sent: sent.to_owned(),
        fifo: (probe.id == "fifo").then(|| path.to_owned()),
        ..Label::default()
    };
    let arguments = placed.arguments(&[("path", path)]);
    let question = Ask::call(&placed.tool, arguments);
    let mut line = weighed(stage.ask(label.clone(), question.clone()).await?);
    if ended(&line) {
        stage.fresh().await?;
        let again = weighed(stage.ask(label, question).await?);
        if ended(&again) {
            stage.fresh().await?;
        } else {
            line.caveats.push("a fresh instance did not end on the same read".into());
            line = line.none(Why::NotReproduced);
            if hung(&again) {
                let works_on = is_silent(&again);
                stage.record(again);
                if works_on {
                    stage.fresh().await?;
                }
            }
        }
    } else if is_silent(&line) {
        // A read that goes on keeps a worker, or eats memory, until its process ends. One that was
        // answered once the FIFO was freed is over.
        stage.fresh().await?;
    }
    stage.record(line);
    Ok(())
}

/// The line with how the server was as a fact, and the outcome that follows.
fn weighed(answer: Answer) -> Evidence {
    let mut line = answer.line;
    let life = match answer.life {
        Life::Replied => None,
        Life::Silent => Some(What::Silent),
        Life::Mute => Some(What::Mute),
        Life::Died(how) => Some(What::Died(how)),
    };
    if let Some(what) = life
        && !line.facts.iter().any(|fact| fact.what == what)
    {
        line.facts.push(Fact::now(Observer::Process, what));
    }
    match () {
        () if ended(&line) => line.breached(Observer::Process),
        () if answer.tainted => line.none(Why::Tainted),
        () if hung(&line) => line.breached(Observer::Process),
        () => line.held(Observer::Process),
    }
}

/// Whether the server ended or answers nothing any more.
fn ended(line: &Evidence) -> bool {
    line.facts
        .iter()
        .any(|fact| matches!(fact.what, What::Died(_) | What::Mute | What::Alive(false)))
}

/// Whether the read hung: no answer, or none before the harness freed the FIFO.
fn hung(line: &Evidence) -> bool {
    let held = |what: &What| matches!(what, What::Figure { name, .. } if name == FIFO_HELD);
    is_silent(line) || line.facts.iter().any(|fact| held(&fact.what))
}

fn is_silent(line: &Evidence) -> bool {
    line.facts.iter().any(|fact| fact.what == What::Silent)
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let dead: Vec<&Evidence> = collected.breached().filter(|line| ended(line)).collect();
    if !dead.is_empty() {
        return Rule::EndedBySpecialFile.because(dead);
    }
    let hung: Vec<&Evidence> = collected.breached().collect();
    if !hung.is_empty() {
        return Rule::HungOnSpecialFile.because(hung);
    }
    let once: Vec<&Evidence> =
        collected.probes().iter().filter(|line| line.why == Some(Why::NotReproduced)).collect();
    if !once.is_empty() {
        return Rule::NotReproduced.because(once);
    }
    let held: Vec<&Evidence> = collected.held().collect();
    if held.is_empty() {
        return Rule::NothingConclusive.because(collected.probes());
    }
    Rule::EveryReadAnswered.because(held)
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Arc, time::Duration};

    use serde_json::{Map, json};

    use super::*;
    use crate::{
        check::{LaneKind, Spec},
        evidence::{Kind, Outcome},
        surface::{Confirmed, Slot, Step, Surface},
        verdict::Verdict,
    };

    /// A stage that answers from a list and then replies for ever.
    struct Fake {
        lives: VecDeque<(Life, Vec<Fact>)>,
        asked: Vec<(Label, serde_json::Value)>,
        fresh: usize,
        recorded: Vec<Evidence>,
        placements: Arc<Vec<Placement>>,
    }

    impl Fake {
        fn new(lives: impl IntoIterator<Item = (Life, Vec<Fact>)>) -> Self {
            let placed = |operation: &str, confirmed| Placement {
                tool: format!("{operation}_it"),
                class: "read".into(),
                operation: operation.into(),
                base: "${sandbox}/".into(),
                because: String::new(),
                slots: vec![Slot { role: "path".into(), way: vec![Step::Key("path".into())] }],
                filled: Map::new(),
                confirmed,
                read_only_hint: None,
            };
            Self {
                lives: lives.into_iter().collect(),
                asked: Vec::new(),
                fresh: 0,
                recorded: Vec::new(),
                placements: Arc::new(vec![
                    placed("read", Confirmed::Good),
                    placed("stat", Confirmed::Good),
                    placed("multi-read", Confirmed::Failed("no".into())),
                ]),
            }
        }

        fn run(mut self) -> Self {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            assert_eq!(runtime.block_on(collect(&mut self)), Ok(()));
            self
        }

        fn ruling(&self) -> (String, Verdict) {
            let ruling = decide(&Collected::new(self.recorded.clone()).unwrap());
            (ruling.rule.id(), ruling.rule.verdict())
        }
    }

    impl Stage for Fake {
        fn spec(&self) -> &'static Spec {
            &crate::registry::check("fs-special-files").unwrap().spec
        }
        fn surface(&self) -> Arc<Surface> {
            Arc::default()
        }
        fn main_surface(&self) -> Arc<Surface> {
            Arc::default()
        }
        fn placements(&self) -> Arc<Vec<Placement>> {
            Arc::clone(&self.placements)
        }
        fn expand(&self, text: &str) -> String {
            text.replace("${sandbox}", "/docs")
        }
        fn ask<'a>(&'a mut self, label: Label, ask: Ask) -> BoxFuture<'a, Result<Answer, Stop>> {
            Box::pin(async move {
                let Ask::Call { params, .. } = ask else { return Err(Stop) };
                let mut line = Evidence::new(Kind::Probe, label.probe.clone());
                self.asked.push((label, params));
                let (life, facts) = self.lives.pop_front().unwrap_or((Life::Replied, Vec::new()));
                line.facts = facts;
                Ok(Answer {
                    line,
                    life,
                    declined: true,
                    code: None,
                    result: None,
                    tainted: false,
                    pending: false,
                })
            })
        }
        fn list_again<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Surface>, Stop>> {
            Box::pin(async { Ok(None) })
        }
        fn lane(&self) -> LaneKind {
            LaneKind::Hostile
        }

        fn time_limit(&self) -> Duration {
            Duration::from_secs(32)
        }

        fn running<'a>(&'a mut self) -> BoxFuture<'a, Option<u64>> {
            Box::pin(async { None })
        }

        fn fresh<'a>(&'a mut self) -> BoxFuture<'a, Result<(), Stop>> {
            self.fresh += 1;
            Box::pin(async { Ok(()) })
        }
        fn record(&mut self, line: Evidence) {
            self.recorded.push(line);
        }
    }

    fn replied() -> (Life, Vec<Fact>) {
        (Life::Replied, Vec::new())
    }

    fn died() -> (Life, Vec<Fact>) {
        (Life::Died("signal 9".into()), Vec::new())
    }

    #[test]
    fn a_server_that_answers_everything_passes_and_is_never_started_again() {
        let fake = Fake::new([]).run();
        assert_eq!(fake.ruling(), ("every-read-answered".into(), Verdict::Pass));
        assert_eq!(fake.fresh, 0);
        let ids: Vec<_> = fake.asked.iter().map(|(label, _)| label.probe.as_str()).collect();
        assert_eq!(ids, ["long-name", "link-loop", "socket", "fifo", "endless-device"]);
        let fifos: Vec<_> = fake.asked.iter().filter_map(|(label, _)| label.fifo.clone()).collect();
        assert_eq!(fifos, ["/docs/q/p"]);
        assert!(fake.asked.iter().all(|(label, _)| label.sent.len() < 300));
        let long = fake.asked[0].1["arguments"]["path"].as_str().unwrap();
        assert_eq!(long.len(), "/docs/".len() + 4096);
        assert_eq!(
            fake.asked[1].1,
            json!({"name": "read_it", "arguments": {"path": "/docs/q/l_loop"}})
        );
    }

    #[test]
    fn a_death_that_comes_again_on_a_fresh_instance_fails() {
        let fake = Fake::new([replied(), died(), died()]).run();
        assert_eq!(fake.ruling(), ("ended-by-special-file".into(), Verdict::Fail));
        assert_eq!(fake.fresh, 2);
        assert_eq!(fake.asked.len(), 6);
    }

    #[test]
    fn a_mute_server_counts_as_dead() {
        let mute = || (Life::Mute, Vec::new());
        let fake = Fake::new([mute(), mute()]).run();
        assert_eq!(fake.ruling().1, Verdict::Fail);
        let alive = vec![Fact::now(Observer::Process, What::Alive(false))];
        let fake = Fake::new([(Life::Replied, alive.clone()), (Life::Replied, alive)]).run();
        assert_eq!(fake.ruling().1, Verdict::Fail);
    }

    #[test]
    fn a_death_seen_once_is_neither_a_fail_nor_a_pass() {
        let fake = Fake::new([died(), replied()]).run();
        assert_eq!(fake.ruling(), ("not-reproduced".into(), Verdict::Inconclusive));
        let line = &fake.recorded[0];
        assert_eq!((line.outcome, line.why), (Outcome::None, Some(Why::NotReproduced)));
        assert_eq!(line.caveats.len(), 1);
    }

    #[test]
    fn silence_is_part_and_its_process_is_ended() {
        let silent = (Life::Silent, Vec::new());
        let fake = Fake::new([replied(), replied(), replied(), silent]).run();
        assert_eq!(fake.ruling(), ("hung-on-special-file".into(), Verdict::Part));
        assert_eq!(fake.fresh, 1);
        assert!(fake.recorded[3].is_breached());
    }

    #[test]
    fn an_answer_that_came_only_after_the_fifo_was_freed_is_part() {
        let held = Fact::now(Observer::Process, What::Figure { name: FIFO_HELD.into(), n: 251 });
        let fake = Fake::new([replied(), replied(), replied(), (Life::Replied, vec![held])]).run();
        assert_eq!(fake.ruling().1, Verdict::Part);
        assert_eq!(fake.fresh, 0, "nothing is left at work");
    }

    #[test]
    fn a_death_that_becomes_a_silence_is_part() {
        let fake = Fake::new([died(), (Life::Silent, Vec::new())]).run();
        assert_eq!(fake.ruling().1, Verdict::Part);
        assert_eq!(fake.fresh, 2);
    }

    #[test]
    fn lines_that_say_nothing_never_pass() {
        let line = Evidence::new(Kind::Probe, "fifo").none(Why::Tainted);
        let ruling = decide(&Collected::new(vec![line]).unwrap());
        assert_eq!(ruling.rule.id(), "nothing-conclusive");
        assert_eq!(ruling.rule.verdict(), Verdict::Inconclusive);
    }
}
