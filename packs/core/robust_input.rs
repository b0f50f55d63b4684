//! Malformed and hostile input: does the server answer, and does it live on?

use serde_json::{Map, Value, json};

use super::arguments::{self, Callable, MAX_TOOLS};
use crate::{
    check::{Make, Probe},
    evidence::{Collected, Evidence, Observer, Reply, What, Why},
    stage::{Answer, Ask, BoxFuture, Label, Life, Stage, Stop},
    surface::Tool,
    verdict::Ruling,
};

rules! {
    /// The server ended on an input, and again on a fresh instance.
    DiedOnInput => Fail,
    /// The server stopped answering anything after an input, and again on a fresh instance.
    FellSilentForGood => Fail,
    /// A call of a tool that does not exist was answered like a call that was carried out.
    UnknownToolAnswered => Fail,
    /// A call of a tool that does not exist was declined in words, in a result that is no error.
    UnknownToolNotAnError => Part,
    /// The server ended or stopped answering once and not again on a fresh instance.
    NotReproduced => Inconclusive,
    /// No valid call was answered, so errors to everything else mean nothing.
    NoValidCallAnswered => Inconclusive,
    /// The tool list was not answered after the probes, so it is not known that the server is well.
    ListLostAfterwards => Inconclusive,
    /// The server lived through every input and answered the tool list afterwards.
    LivedOn => Pass,
    /// No probe was conclusive.
    NothingConclusive => Inconclusive,
}

const UNKNOWN: &str = "unknown-tool";
const VALID: &str = "valid-call";
const LIST: &str = "list-afterwards";
/// A name no server gives to a tool.
const NO_SUCH_TOOL: &str = "sm_no_such_tool";
/// After so many failures seen twice nothing more is to be learnt.
const ENOUGH: usize = 3;
/// After so many lost instances the run would only cost time.
const MOST_LOSSES: usize = 6;
/// How many text arguments of a tool are probed.
const MAX_TEXTS: usize = 3;

pub(super) fn collect<'a>(stage: &'a mut dyn Stage) -> BoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let mut run = Run { stage, reproduced: 0, lost: 0 };
        run.tools().await?;
        run.server().await?;
        run.list_afterwards().await
    })
}

struct Run<'a> {
    stage: &'a mut dyn Stage,
    reproduced: usize,
    lost: usize,
}

impl Run<'_> {
    fn is_over(&self) -> bool {
        self.reproduced >= ENOUGH || self.lost >= MOST_LOSSES
    }

    /// Asks, and asks again on a fresh instance when the server was lost.
    async fn ask(&mut self, probe: &Probe, sent: &Value, valid: bool, ask: Ask) -> Asked {
        let label = Label {
            probe: probe.id.clone(),
            core: probe.core,
            family: probe.family.clone(),
            control: false,
            valid,
            sent: super::shown(&sent.to_string()),
            ..Label::default()
        };
        let mut answer = self.stage.ask(label.clone(), ask.clone()).await?;
        if is_lost(&answer.life) {
            self.lost += 1;
            self.stage.fresh().await?;
            let again = self.stage.ask(label, ask).await?;
            if is_lost(&again.life) {
                (self.lost, self.reproduced) = (self.lost + 1, self.reproduced + 1);
                answer.line = answer.line.breached(Observer::Process);
                answer.line.caveats.push("seen again on a fresh instance".into());
            } else {
                answer.line = answer.line.none(Why::NotReproduced);
                answer.line.caveats.push("not seen again on a fresh instance".into());
            }
        } else if answer.tainted {
            answer.line = answer.line.none(Why::Tainted);
        }
        Ok(answer)
    }

    async fn probe(&mut self, probe: &Probe, sent: &Value, ask: Ask) -> Result<(), Stop> {
        let answer = self.ask(probe, sent, false, ask).await?;
        self.stage.record(answer.line);
        Ok(())
    }

    async fn tools(&mut self) -> Result<(), Stop> {
        let surface = self.stage.surface();
        for tool in surface.tools.iter().take(MAX_TOOLS) {
            let callable = arguments::callable(self.stage, tool);
            let control = self.control(tool, &callable, VALID).await?;
            self.malformed(tool, &callable).await?;
            self.texts(tool, &callable, control).await?;
        }
        Ok(())
    }

    /// A valid call; `None` when there is none to make.
    async fn control(
        &mut self,
        tool: &Tool,
        callable: &Callable,
        id: &str,
    ) -> Result<Option<bool>, Stop> {
        let Some(arguments) = callable.control.clone() else { return Ok(None) };
        if self.is_over() {
            return Ok(None);
        }
        let arguments = Value::Object(arguments);
        let label = Label {
            probe: id.into(),
            family: Some(VALID.into()),
            control: true,
            valid: true,
            sent: super::shown(&arguments.to_string()),
            ..Label::default()
        };
        let answer = self.stage.ask(label, Ask::call(&tool.name, arguments)).await?;
        let good = answer.line.reply == Reply::Answered && !answer.declined && !answer.tainted;
        self.stage.record(super::control_line(answer.line, good));
        Ok(Some(good))
    }

    /// Input the schema or the protocol forbids.
    async fn malformed(&mut self, tool: &Tool, callable: &Callable) -> Result<(), Stop> {
        let empty_is_wrong = arguments::empty_is_forbidden(tool);
        for probe in self.probes(false) {
            if self.is_over() {
                return Ok(());
            }
            let given = probe.value.clone().unwrap_or(Value::Null);
            let params = match family(probe) {
                "missing-required" if empty_is_wrong => given,
                "arguments" if empty_is_wrong || callable.is_safe() => given,
                "arguments-word" => given,
                "wrong-type" => match arguments::all_wrong(tool) {
                    Some(wrong) => json!({ "arguments": wrong }),
                    None => continue,
                },
                "number" => {
                    let number = given.as_f64().unwrap_or_default();
                    let names = tool.properties().map(|all| all.keys().cloned());
                    let mut names = names.into_iter().flatten();
                    match names.find(|name| arguments::forbids_number(tool, name, number)) {
                        Some(name) => {
                            let mut all = callable.beside.clone().unwrap_or_default();
                            all.insert(name, given);
                            json!({ "arguments": all })
                        }
                        None => continue,
                    }
                }
                _ => continue,
            };
            let mut params = params.as_object().cloned().unwrap_or_default();
            let sent = Value::Object(params.clone());
            params.insert("name".into(), Value::from(tool.name.clone()));
            let ask = Ask::Call { tool: tool.name.clone(), params: Value::Object(params) };
            self.probe(probe, &sent, ask).await?;
        }
        Ok(())
    }

    /// Hostile text in each text argument, and hostile argument names, in calls that are valid.
    async fn texts(
        &mut self,
        tool: &Tool,
        callable: &Callable,
        control: Option<bool>,
    ) -> Result<(), Stop> {
        let Some(beside) = &callable.beside else { return Ok(()) };
        let mut waiting = Vec::new();
        for probe in self.probes(false) {
            let calls = match family(probe) {
                "text" => self.text_calls(tool, callable, beside, probe),
                "member-names" if callable.control.is_some() => {
                    let mut all = beside.clone();
                    let given = probe.value.as_ref().and_then(Value::as_object);
                    all.extend(given.cloned().unwrap_or_default());
                    vec![all]
                }
                _ => continue,
            };
            for arguments in calls {
                if self.is_over() {
                    break;
                }
                let arguments = Value::Object(arguments);
                let valid = family(probe) == "text";
                let ask = Ask::call(&tool.name, arguments.clone());
                let answer = self.ask(probe, &arguments, valid, ask).await?;
                if answer.line.is_held() {
                    waiting.push(answer.line);
                } else {
                    self.stage.record(answer.line);
                }
            }
        }
        // What held counts only between two good controls.
        let after = match waiting.is_empty() {
            true => None,
            false => self.control(tool, callable, "valid-call-again").await?,
        };
        let good = control != Some(false) && after != Some(false);
        for line in waiting {
            self.stage.record(if good { line } else { line.none(Why::ControlLost) });
        }
        Ok(())
    }

    fn text_calls(
        &self,
        tool: &Tool,
        callable: &Callable,
        beside: &Map<String, Value>,
        probe: &Probe,
    ) -> Vec<Map<String, Value>> {
        let given = probe.value.as_ref().and_then(Value::as_str);
        let text = match (&probe.make, given) {
            (Some(Make::Long(length)), _) => "a".repeat(*length),
            (_, Some(text)) => self.stage.expand(text),
            _ => return Vec::new(),
        };
        let mut calls: Vec<Map<String, Value>> = Vec::new();
        for name in callable.texts.iter().take(MAX_TEXTS) {
            let mut all = beside.clone();
            for open in tool.required() {
                all.entry(open).or_insert_with(|| Value::from(text.clone()));
            }
            all.insert(name.clone(), Value::from(text.clone()));
            if !calls.contains(&all) {
                calls.push(all);
            }
        }
        calls
    }

    /// What is asked once: unknown tools, malformed params, messages and lines.
    async fn server(&mut self) -> Result<(), Stop> {
        for probe in self.probes(true) {
            if self.is_over() {
                return Ok(());
            }
            let given = probe.value.clone().unwrap_or(Value::Null);
            match family(probe) {
                UNKNOWN => self.unknown_tool(probe, given).await?,
                "params" => {
                    let params = match &probe.make {
                        Some(Make::Long(length)) => {
                            json!({ "name": "a".repeat(*length), "arguments": {} })
                        }
                        _ => given,
                    };
                    let ask = Ask::Call { tool: NO_SUCH_TOOL.into(), params: params.clone() };
                    self.probe(probe, &params, ask).await?;
                }
                "request" => {
                    let method = given.get("method").and_then(Value::as_str).unwrap_or_default();
                    let params = given.get("params").cloned().unwrap_or(Value::Null);
                    let ask = Ask::Request { method: method.into(), params };
                    self.probe(probe, &given, ask).await?;
                }
                "json" | "unparsable" => {
                    let line = self.json_line(probe);
                    let sent = Value::from(super::shown(&line));
                    self.probe(probe, &sent, Ask::Line(line.into_bytes())).await?;
                }
                _ => self.framing(probe).await?,
            }
        }
        Ok(())
    }

    async fn unknown_tool(&mut self, probe: &Probe, params: Value) -> Result<(), Stop> {
        let ask = Ask::Call { tool: NO_SUCH_TOOL.into(), params: params.clone() };
        let answer = self.ask(probe, &params, false, ask).await?;
        let told = answer.life == Life::Replied && !answer.tainted && !answer.declined;
        self.stage.record(if told { answer.line.breached(Observer::Reply) } else { answer.line });
        Ok(())
    }

    /// A call whose arguments hold this JSON text. It goes to a tool that may get valid calls, in
    /// the place of a text, or to a tool that does not exist.
    fn json_line(&self, probe: &Probe) -> String {
        let text = match (&probe.make, &probe.raw) {
            (Some(Make::Nest(depth)), _) => "[".repeat(*depth) + &"]".repeat(*depth),
            (Some(Make::Digits(digits)), _) => "9".repeat(*digits),
            (_, raw) => raw.clone().unwrap_or_default(),
        };
        let surface = self.stage.surface();
        let target = surface.tools.iter().take(MAX_TOOLS).find_map(|tool| {
            let callable = arguments::callable(self.stage, tool);
            let name = callable.texts.first()?.clone();
            let mut beside = callable.control?;
            beside.remove(&name);
            Some((tool.name.clone(), name, beside))
        });
        let (tool, name, beside) =
            target.unwrap_or_else(|| (NO_SUCH_TOOL.into(), "sm_text".into(), Map::new()));
        let (tool, name) = (Value::from(tool), Value::from(name));
        let others: String = beside
            .iter()
            .map(|(key, value)| format!("{}:{value},", Value::from(key.as_str())))
            .collect();
        // Many parsers refuse the text before an id is read; then no answer is to be waited for.
        let id = if family(probe) == "unparsable" { "sm-line" } else { "sm-raw" };
        format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":{tool},"arguments":{{{others}{name}:{text}}}}}}}"#
        )
    }

    async fn framing(&mut self, probe: &Probe) -> Result<(), Stop> {
        let raw = probe.raw.as_deref().unwrap_or_default();
        let bytes = raw.chars().filter_map(|c| u8::try_from(u32::from(c)).ok()).collect();
        let answer = self.ask(probe, &Value::from(raw), false, Ask::Line(bytes)).await?;
        let line = answer.line;
        // No reply is due, so a server that answers the ping behind it did what was asked.
        let lives = !is_lost(&answer.life) && !answer.tainted;
        self.stage.record(if lives { line.held(Observer::Process) } else { line });
        Ok(())
    }

    async fn list_afterwards(&mut self) -> Result<(), Stop> {
        let label = Label {
            probe: LIST.into(),
            family: Some(LIST.into()),
            control: true,
            sent: "tools/list".into(),
            ..Label::default()
        };
        let ask = Ask::Request { method: "tools/list".into(), params: json!({}) };
        let answer = self.stage.ask(label, ask).await?;
        // A server without tools may decline this method: that, too, is an answer.
        let good = answer.life == Life::Replied;
        self.stage.record(super::control_line(answer.line, good));
        Ok(())
    }

    fn probes(&self, once: bool) -> impl Iterator<Item = &'static Probe> + use<> {
        self.stage.spec().probes.iter().filter(move |probe| probe.once == once)
    }
}

type Asked = Result<Answer, Stop>;

fn family(probe: &Probe) -> &str {
    probe.family.as_deref().unwrap_or_default()
}

fn is_lost(life: &Life) -> bool {
    matches!(life, Life::Mute | Life::Died(_))
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let lost = |is: fn(&What) -> bool| -> Vec<&Evidence> {
        let seen = |line: &&Evidence| line.facts.iter().any(|fact| is(&fact.what));
        collected.breached().filter(seen).collect()
    };
    let died = lost(|what| matches!(what, What::Died(_)));
    if !died.is_empty() {
        return Rule::DiedOnInput.because(died);
    }
    let mute = lost(|what| *what == What::Mute);
    if !mute.is_empty() {
        return Rule::FellSilentForGood.because(mute);
    }
    let (answered, told): (Vec<_>, Vec<_>) =
        collected.breached().partition(|line| line.reply == Reply::Answered);
    if !answered.is_empty() {
        return Rule::UnknownToolAnswered.because(answered);
    }
    if !told.is_empty() {
        return Rule::UnknownToolNotAnError.because(told);
    }
    let once: Vec<_> =
        collected.probes().iter().filter(|line| line.why == Some(Why::NotReproduced)).collect();
    if !once.is_empty() {
        return Rule::NotReproduced.because(once);
    }
    let controls = |family: &str| -> Vec<&Evidence> {
        let named = |line: &&Evidence| line.family.as_deref() == Some(family);
        collected.controls.iter().filter(named).collect()
    };
    let held: Vec<_> = collected.held().collect();
    if held.is_empty() {
        return Rule::NothingConclusive.because(collected.probes());
    }
    let valid = controls(VALID);
    if !valid.is_empty() && !valid.iter().any(|line| line.is_held()) {
        return Rule::NoValidCallAnswered.because(valid);
    }
    let list = controls(LIST);
    if !list.iter().any(|line| line.is_held()) {
        return Rule::ListLostAfterwards.because(list);
    }
    Rule::LivedOn.because(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        surface::Surface,
        testing::{
            Canned, FakeStage, collected, confirmed_read, control, probe, reading_tool, surface,
            tool,
        },
        verdict::Verdict,
    };

    const ID: &str = "robust-input";

    fn reader() -> Tool {
        let schema = json!({"type": "object", "required": ["path"], "properties":
            {"path": {"type": "string"}, "head": {"type": "integer", "minimum": 1, "maximum": 9}}});
        tool("cat", schema)
    }

    fn dropper() -> Tool {
        let schema = json!({"type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}}});
        tool("drop", schema)
    }

    fn sound(label: &Label) -> Canned {
        match label.valid {
            true => Canned::answered(),
            false => Canned::rejected(),
        }
    }

    fn play(
        surface: Surface,
        mut script: impl FnMut(&Label, &Ask) -> Option<Canned> + Send + 'static,
    ) -> FakeStage {
        let answers = move |label: &Label, ask: &Ask| {
            script(label, ask).unwrap_or_else(|| match label.control {
                true => Canned::answered(),
                false => sound(label),
            })
        };
        FakeStage::new(ID, surface, answers).placed([confirmed_read("cat")]).play(ID)
    }

    fn on(id: &'static str, canned: Canned) -> impl FnMut(&Label, &Ask) -> Option<Canned> {
        move |label, _| (label.probe == id).then(|| canned.clone())
    }

    #[test]
    fn a_sound_server_lives_on() {
        let stage = play(surface([reader(), dropper()]), |_, _| None);
        assert_eq!(stage.ruled(ID), ("lived-on".into(), Verdict::Pass));
        assert_eq!(stage.fresh, 0);
        let declared = stage.spec_probes();
        let missing: Vec<_> = declared.into_iter().filter(|id| stage.of(id).is_empty()).collect();
        assert!(missing.is_empty(), "never sent: {missing:?}");
    }

    #[test]
    fn a_tool_that_promises_nothing_gets_only_what_its_schema_forbids() {
        let open = tool("wipe", json!({"type": "object"}));
        let stage = play(surface([dropper(), open]), |_, _| None);
        let valid = |(label, arguments): &(&Label, &Value)| {
            label.valid || arguments.get("name").is_some_and(Value::is_string)
        };
        assert!(!stage.calls("drop").iter().any(valid));
        let sent: Vec<_> = stage.calls("wipe").into_iter().map(|(_, sent)| sent.clone()).collect();
        assert_eq!(sent, [json!("x")]);
    }

    #[test]
    fn only_the_first_tools_are_judged() {
        let many = (0..30).map(|n| tool(&format!("t{n}"), json!({"type": "object"})));
        let stage = play(surface(many), |_, _| None);
        assert!(!stage.calls("t24").is_empty() && stage.calls("t25").is_empty());
    }

    #[test]
    fn a_death_seen_twice_fails() {
        let stage = play(surface([reader()]), on("not-json", Canned::died()));
        assert_eq!(stage.ruled(ID), ("died-on-input".into(), Verdict::Fail));
        assert_eq!(stage.fresh, 1);
    }

    #[test]
    fn a_mute_server_fails() {
        let stage = play(surface([reader()]), on("arguments-word", Canned::mute()));
        assert_eq!(stage.ruled(ID), ("fell-silent-for-good".into(), Verdict::Fail));
    }

    #[test]
    fn a_death_seen_once_leaves_the_question_open() {
        let mut deaths = 0;
        let stage = play(surface([reader()]), move |label, _| {
            (label.probe == "nul" && deaths == 0).then(|| {
                deaths += 1;
                Canned::died()
            })
        });
        assert_eq!(stage.ruled(ID), ("not-reproduced".into(), Verdict::Inconclusive));
        assert_eq!(stage.of("nul")[0].why, Some(Why::NotReproduced));
        assert!(!stage.of("nul")[0].caveats.is_empty());
    }

    #[test]
    fn a_server_that_dies_of_everything_is_left_alone_soon() {
        let stage = play(surface([reader(), dropper()]), |_, _| Some(Canned::died()));
        assert_eq!(stage.ruled(ID).0, "died-on-input");
        assert!(stage.asked.len() < 12, "{} questions", stage.asked.len());
    }

    #[test]
    fn an_unknown_tool_must_be_an_error() {
        let stage = play(surface([reader()]), on(UNKNOWN, Canned::answered()));
        assert_eq!(stage.ruled(ID), ("unknown-tool-answered".into(), Verdict::Fail));
        let stage = play(surface([reader()]), on(UNKNOWN, Canned::failed_as_success()));
        assert_eq!(stage.ruled(ID), ("unknown-tool-not-an-error".into(), Verdict::Part));
    }

    #[test]
    fn silence_is_no_evidence_except_where_no_reply_is_due() {
        let stage = play(surface([reader()]), |label, _| (!label.control).then(Canned::silent));
        assert_eq!(stage.of("lone-surrogate")[0].why, Some(Why::Silent));
        assert_eq!(stage.of(UNKNOWN)[0].why, Some(Why::Silent));
        assert!(stage.of("not-json")[0].is_held());
    }

    #[test]
    fn errors_to_valid_calls_leave_the_question_open() {
        let failed = |label: &Label, _: &Ask| (label.probe != LIST).then(Canned::failed);
        let stage = play(surface([reader()]), failed);
        assert_eq!(stage.ruled(ID), ("no-valid-call-answered".into(), Verdict::Inconclusive));
        assert_eq!(stage.of("nul")[0].why, Some(Why::ControlLost));
    }

    #[test]
    fn a_list_lost_afterwards_leaves_the_question_open() {
        let stage = play(surface([reader()]), on(LIST, Canned::silent()));
        assert_eq!(stage.ruled(ID), ("list-lost-afterwards".into(), Verdict::Inconclusive));
    }

    #[test]
    fn a_call_that_needed_a_client_capability_is_no_evidence() {
        let tainted = Canned::answered().tainted();
        let stage = play(surface([reader()]), on(UNKNOWN, tainted));
        assert_eq!(stage.of(UNKNOWN)[0].why, Some(Why::Tainted));
    }

    #[test]
    fn nothing_conclusive_is_never_a_pass() {
        let lines = [probe(UNKNOWN).none(Why::Silent), control(LIST).held(Observer::Process)];
        let ruling = decide(&collected(lines));
        assert_eq!(ruling.rule.id(), "nothing-conclusive");
    }

    #[test]
    fn raw_lines_are_sent_byte_by_byte() {
        let stage = play(surface([reader()]), |_, _| None);
        let line = |id: &str| {
            let found = stage.asked.iter().find(|(label, _)| label.probe == id);
            match found {
                Some((_, Ask::Line(bytes))) => bytes.clone(),
                other => panic!("{id} is no line: {other:?}"),
            }
        };
        assert!(line("byte-order-mark").starts_with(b"\xEF\xBB\xBF{"));
        assert!(std::str::from_utf8(&line("invalid-utf8")).is_err());
        assert!(line("carriage-return").ends_with(b"}\r"));
        let nested = String::from_utf8(line("nesting-1000")).expect("brackets are UTF-8");
        assert!(nested.contains(r#""name":"cat","arguments":{"path":[[["#), "{nested:.120}");
        assert!(String::from_utf8(line("lone-surrogate")).is_ok_and(|l| l.contains(r#""\ud800""#)));
    }

    #[test]
    fn a_reader_without_a_known_value_is_still_probed_with_text() {
        let schema = json!({"type": "object", "required": ["q"],
            "properties": {"q": {"type": "string"}}});
        let stage = play(surface([reading_tool("find", schema)]), |_, _| None);
        assert_eq!(stage.of("long-text").len(), 1);
        assert!(stage.of(VALID).is_empty());
        assert_eq!(stage.ruled(ID).0, "lived-on");
    }
}
