//! Is each input schema sound, and is what it forbids refused?

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    arguments::{self, Callable, MAX_TOOLS},
    schema,
};
use crate::{
    check::Probe,
    evidence::{Collected, Evidence, Fact, Kind, Observer, Reply, What, Why},
    stage::{Ask, BoxFuture, Label, Life, Stage, Stop},
    surface::Tool,
    verdict::Ruling,
};

rules! {
    /// Two or more kinds of fault: schemas that do not compile, or kinds of forbidden input that
    /// were accepted.
    SeveralKindsAccepted => Fail,
    /// Exactly one kind of fault: schemas that do not compile, or one kind of forbidden input that
    /// was accepted.
    OneKindAccepted => Part,
    /// No valid call was answered, so errors to forbidden input mean nothing.
    NoValidCallAnswered => Inconclusive,
    /// Every schema compiles, and all forbidden input that was sent was refused.
    AllRefused => Pass,
    /// There was no forbidden input that could be sent and was answered.
    NothingTestable => Inconclusive,
}

const SCHEMA: &str = "schema";
const VALID: &str = "valid-call";
/// How many arguments of a tool are tried for one kind of violation.
const MAX_ARGUMENTS: usize = 4;

pub(super) fn collect<'a>(stage: &'a mut dyn Stage) -> BoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let surface = stage.surface();
        let mut lost = 0;
        for (place, tool) in surface.tools.iter().enumerate() {
            let faults = schema::faults(tool.input_schema());
            let sound = faults.is_empty();
            stage.record(static_line(tool, &faults));
            // What a schema forbids is not known when it does not compile.
            if sound && place < MAX_TOOLS && lost < MOST_LOST {
                behaviour(stage, tool, &mut lost).await?;
            }
        }
        Ok(())
    })
}

/// After so many lost instances no further call is made: robust-input asks about those.
const MOST_LOST: usize = 4;

fn static_line(tool: &Tool, faults: &[String]) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, SCHEMA);
    line.family = Some(SCHEMA.into());
    line.tool = Some(tool.name.clone());
    let fact = |fault: &String| {
        let what = What::Text { class: SCHEMA.into(), place: fault.clone() };
        Fact::now(Observer::Reply, what)
    };
    line.facts = faults.iter().map(fact).collect();
    if faults.is_empty() { line.held(Observer::Reply) } else { line.breached(Observer::Reply) }
}

async fn behaviour(stage: &mut dyn Stage, tool: &Tool, lost: &mut usize) -> Result<(), Stop> {
    let callable = arguments::callable(stage, tool);
    let probes = stage.spec().probes.iter();
    let planned: Vec<_> = probes
        .flat_map(|probe| violations(probe, tool, &callable).into_iter().map(move |v| (probe, v)))
        .collect();
    if planned.is_empty() {
        return Ok(());
    }
    let works = control(stage, tool, &callable).await?;
    for (probe, arguments) in planned {
        // Beside arguments that do not work either, a refusal says nothing.
        if needs_valid_rest(probe) && works != Some(true) {
            continue;
        }
        if *lost >= MOST_LOST {
            break;
        }
        let arguments = Value::Object(arguments);
        let label = Label {
            probe: probe.id.clone(),
            core: probe.core,
            family: probe.family.clone(),
            sent: super::shown(&arguments.to_string()),
            ..Label::default()
        };
        let answer = stage.ask(label, Ask::call(&tool.name, arguments)).await?;
        *lost += usize::from(matches!(answer.life, Life::Died(_) | Life::Mute));
        let line = answer.line;
        stage.record(if answer.tainted {
            line.none(Why::Tainted)
        } else if line.reply == Reply::None {
            line
        } else if line.reply == Reply::Answered && !answer.declined {
            line.breached(Observer::Reply)
        } else {
            line.held(Observer::Reply)
        });
    }
    Ok(())
}

/// A valid call, which must work for the refusals beside it to mean anything.
async fn control(
    stage: &mut dyn Stage,
    tool: &Tool,
    callable: &Callable,
) -> Result<Option<bool>, Stop> {
    let Some(arguments) = callable.control.clone() else { return Ok(None) };
    let arguments = Value::Object(arguments);
    let label = Label {
        probe: VALID.into(),
        family: Some(VALID.into()),
        control: true,
        valid: true,
        sent: super::shown(&arguments.to_string()),
        ..Label::default()
    };
    let answer = stage.ask(label, Ask::call(&tool.name, arguments)).await?;
    let good = answer.line.reply == Reply::Answered && !answer.declined && !answer.tainted;
    stage.record(super::control_line(answer.line, good));
    Ok(Some(good))
}

fn needs_valid_rest(probe: &Probe) -> bool {
    matches!(probe.family.as_deref(), Some("enum" | "bounds" | "extra-argument"))
}

/// The arguments of each violation of one kind.
fn violations(probe: &Probe, tool: &Tool, callable: &Callable) -> Vec<Map<String, Value>> {
    let names: Vec<&String> = tool.properties().map(|all| all.keys().collect()).unwrap_or_default();
    let base = callable.control.as_ref();
    let beside = |name: &str, value: Value| {
        let mut all = base?.clone();
        all.insert(name.to_owned(), value);
        Some(all)
    };
    let mut found: Vec<Map<String, Value>> = match probe.family.as_deref() {
        Some("missing-required") if arguments::empty_is_forbidden(tool) => vec![Map::new()],
        Some("wrong-type") => {
            let one = |name: &&String| beside(name, arguments::wrong_type(tool, name)?);
            let alone: Vec<_> = names.iter().filter_map(one).collect();
            // Without a valid rest every argument is wrong at once, so that nothing is carried out.
            if alone.is_empty() { arguments::all_wrong(tool).into_iter().collect() } else { alone }
        }
        Some("enum") => {
            let word = probe.value.clone().unwrap_or_default();
            let one = |name: &&String| {
                let listed = arguments::property(tool, name).get("enum")?.as_array()?;
                let texts = listed.iter().all(Value::is_string) && !listed.contains(&word);
                texts.then(|| beside(name, word.clone())).flatten()
            };
            names.iter().filter_map(one).collect()
        }
        Some("bounds") => {
            let all = names.iter().flat_map(|name| {
                let outside = arguments::out_of_bounds(arguments::property(tool, name));
                outside.into_iter().filter_map(|(_, value)| beside(name, value))
            });
            all.collect()
        }
        Some("extra-argument") => {
            let closed =
                tool.input_schema().get("additionalProperties") == Some(&Value::Bool(false));
            let extra = probe.value.as_ref().and_then(Value::as_object);
            let both = base.zip(extra).filter(|_| closed);
            let joined = both.map(|(base, extra)| {
                let mut all = base.clone();
                all.extend(extra.clone());
                all
            });
            joined.into_iter().collect()
        }
        _ => Vec::new(),
    };
    found.truncate(MAX_ARGUMENTS);
    found
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let breached: Vec<_> = collected.breached().collect();
    let families: BTreeSet<_> = breached.iter().map(|line| &line.family).collect();
    match families.len() {
        0 => {}
        1 => return Rule::OneKindAccepted.because(breached),
        _ => return Rule::SeveralKindsAccepted.because(breached),
    }
    let held: Vec<_> = collected.held().filter(|line| line.probe != SCHEMA).collect();
    if held.is_empty() {
        return Rule::NothingTestable.because(collected.probes());
    }
    let controls = &collected.controls;
    if !controls.is_empty() && !controls.iter().any(Evidence::is_held) {
        return Rule::NoValidCallAnswered.because(controls);
    }
    Rule::AllRefused.because(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        surface::Surface,
        testing::{Canned, FakeStage, confirmed_read, surface, tool},
        verdict::Verdict,
    };
    use serde_json::json;

    const ID: &str = "schema-enforced";

    fn reader() -> Tool {
        let schema = json!({"type": "object", "required": ["path"], "additionalProperties": false,
            "properties": {"path": {"type": "string", "maxLength": 500},
            "mode": {"type": "string", "enum": ["text", "raw"]},
            "head": {"type": "integer", "minimum": 1}}});
        tool("cat", schema)
    }

    fn play(
        surface: Surface,
        mut accepts: impl FnMut(&Label) -> Option<Canned> + Send + 'static,
    ) -> FakeStage {
        let script = move |label: &Label, _: &Ask| {
            accepts(label).unwrap_or_else(|| match label.control {
                true => Canned::answered(),
                false => Canned::rejected(),
            })
        };
        FakeStage::new(ID, surface, script).placed([confirmed_read("cat")]).play(ID)
    }

    fn accepting(ids: &'static [&'static str]) -> impl FnMut(&Label) -> Option<Canned> {
        move |label| ids.contains(&label.probe.as_str()).then(Canned::answered)
    }

    #[test]
    fn a_server_that_refuses_what_it_forbids_passes() {
        let stage = play(surface([reader()]), accepting(&[]));
        assert_eq!(stage.ruled(ID), ("all-refused".into(), Verdict::Pass));
        let missing: Vec<_> =
            stage.spec_probes().into_iter().filter(|id| stage.of(id).is_empty()).collect();
        assert!(missing.is_empty(), "never sent: {missing:?}");
    }

    #[test]
    fn every_violation_keeps_the_rest_valid() {
        let stage = play(surface([reader()]), accepting(&[]));
        let sent = |id: &str| -> Vec<Value> {
            let calls = stage.calls("cat").into_iter();
            calls.filter(|(label, _)| label.probe == id).map(|(_, sent)| sent.clone()).collect()
        };
        let path = "/lane/docs/ok.txt";
        assert_eq!(sent("outside-enum"), [json!({"path": path, "mode": "sm-not-listed"})]);
        assert_eq!(sent("extra-argument"), [json!({"path": path, "sm_extra": "1"})]);
        let bounds = sent("outside-bounds");
        assert_eq!(bounds[1], json!({"path": path, "head": 0}));
        assert_eq!(bounds[0]["path"].as_str().map(str::len), Some(501));
        assert_eq!(sent("wrong-type")[1], json!({"path": path, "mode": {"sm": "x"}}));
    }

    #[test]
    fn extra_arguments_alone_are_one_kind() {
        let stage = play(surface([reader()]), accepting(&["extra-argument"]));
        assert_eq!(stage.ruled(ID), ("one-kind-accepted".into(), Verdict::Part));
    }

    #[test]
    fn two_kinds_fail() {
        let stage = play(surface([reader()]), accepting(&["outside-enum", "wrong-type"]));
        assert_eq!(stage.ruled(ID), ("several-kinds-accepted".into(), Verdict::Fail));
    }

    #[test]
    fn a_schema_without_type_is_reported_and_not_probed() {
        let rotten = tool("old", json!({"$schema": "http://json-schema.org/draft-07/schema#"}));
        let stage = play(surface([rotten]), accepting(&[]));
        assert_eq!(stage.ruled(ID), ("one-kind-accepted".into(), Verdict::Part));
        assert!(stage.asked.is_empty());
    }

    #[test]
    fn a_tool_without_promises_gets_only_what_cannot_be_carried_out() {
        let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {"a": {"type": "string", "enum": ["x", "y"]}, "n": {"minimum": 3}}});
        let stage = play(surface([tool("drop", schema)]), accepting(&[]));
        let sent: Vec<_> = stage.calls("drop").into_iter().map(|(_, sent)| sent.clone()).collect();
        assert_eq!(sent, [json!({}), json!({"a": {"sm": "x"}})]);
    }

    #[test]
    fn a_server_without_arguments_leaves_the_question_open() {
        let stage = play(surface([tool("now", json!({"type": "object"}))]), accepting(&[]));
        assert_eq!(stage.ruled(ID), ("nothing-testable".into(), Verdict::Inconclusive));
    }

    #[test]
    fn silence_is_no_refusal() {
        let stage = play(surface([reader()]), |label| (!label.control).then(Canned::silent));
        assert_eq!(stage.ruled(ID), ("nothing-testable".into(), Verdict::Inconclusive));
    }

    #[test]
    fn a_refusal_in_words_alone_is_still_a_refusal() {
        let stage =
            play(surface([reader()]), |label| (!label.control).then(Canned::failed_as_success));
        assert_eq!(stage.ruled(ID).0, "all-refused");
    }

    #[test]
    fn a_server_that_refuses_everything_proves_nothing() {
        let stage = play(surface([reader()]), |_| Some(Canned::failed()));
        assert_eq!(stage.ruled(ID), ("no-valid-call-answered".into(), Verdict::Inconclusive));
        assert!(stage.of("outside-enum").is_empty());
    }
}
