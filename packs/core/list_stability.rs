//! Is the tool list the same twice, after calls, and for another client?

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    evidence::{Collected, Evidence, Fact, Kind, Observer, What, Why},
    stage::{Ask, BoxFuture, Label, Stage, Stop},
    surface::Surface,
    verdict::Ruling,
};

rules! {
    /// Another instance, under another client name, was shown other tools or schemas.
    DiffersByInstance => Fail,
    /// Tools or schemas changed on one connection, and the server does not declare that it
    /// announces changes.
    ChangedUnannounced => Fail,
    /// Tools or schemas changed on one connection of a server that declares that it announces
    /// changes.
    ChangedWithinRights => Part,
    /// The same tools with the same schemas were listed every time.
    AlwaysTheSame => Pass,
    /// The list was not answered again.
    NotListedAgain => Inconclusive,
}

const INSTANCE: &str = "another-instance";
const TWICE: &str = "twice-in-a-row";
const AFTER: &str = "after-calls";
const ANNOUNCED: &str = "may-announce";
/// How many calls of unknown tools are made before the last list.
const CALLS: usize = 6;
/// How many differences a line names.
const MAX_NAMED: usize = 10;

pub(super) fn collect<'a>(stage: &'a mut dyn Stage) -> BoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let (main, first) = (stage.main_surface(), stage.surface());
        stage.record(compared(INSTANCE, &main, Some(&first)));
        // Twice, because the first list may have been read before the server was ready.
        let second = stage.list_again().await?;
        let third = stage.list_again().await?;
        let from = second.as_ref().unwrap_or(&first);
        stage.record(compared(TWICE, from, third.as_ref()));
        for n in 0..CALLS {
            let tool = format!("sm_no_such_tool_{n}");
            let label = Label { probe: AFTER.into(), sent: tool.clone(), ..Label::default() };
            stage.ask(label, Ask::call(&tool, json!({}))).await?;
        }
        let last = stage.list_again().await?;
        stage.record(compared(AFTER, &first, last.as_ref()));
        Ok(())
    })
}

fn compared(id: &str, before: &Surface, after: Option<&Surface>) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, id);
    let Some(after) = after else { return line.none(Why::Silent) };
    let announces = after.capabilities.pointer("/tools/listChanged") == Some(&Value::Bool(true))
        || before.capabilities.pointer("/tools/listChanged") == Some(&Value::Bool(true));
    line.core = id == INSTANCE || !announces;
    line.family = Some(if line.core { id } else { ANNOUNCED }.into());
    line.sent = Some("tools/list".into());
    let (old, new) = (masked(before), masked(after));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed: Vec<_> =
        names.into_iter().filter(|name| old.get(*name) != new.get(*name)).collect();
    for name in changed.iter().take(MAX_NAMED) {
        let class = match (old.contains_key(*name), new.contains_key(*name)) {
            (true, false) => "gone",
            (false, _) => "new",
            _ => "changed",
        };
        let what = What::Text { class: class.into(), place: super::shown(&format!("tool {name}")) };
        line.facts.push(Fact::now(Observer::Reply, what));
    }
    let order = |surface: &Surface| -> Vec<String> {
        surface.tools.iter().map(|tool| tool.name.clone()).collect()
    };
    if changed.is_empty() && order(before) != order(after) {
        line.caveats.push("the order of the tools differs".into());
    }
    if changed.is_empty() { line.held(Observer::Reply) } else { line.breached(Observer::Reply) }
}

/// Every tool with its texts and schemas, members sorted, what may differ between honest instances
/// masked. Tools of one name are kept together.
fn masked(surface: &Surface) -> BTreeMap<String, Vec<String>> {
    let mut tools: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tool in &surface.tools {
        let mut text = String::new();
        write(&tool.raw, &mut text, 0);
        tools.entry(tool.name.clone()).or_default().push(text);
    }
    tools.values_mut().for_each(|texts| texts.sort());
    tools
}

/// Writes a value in one spelling; what lies deeper than 100 levels is left out.
fn write(value: &Value, out: &mut String, depth: usize) {
    if depth > 100 {
        return;
    }
    match value {
        Value::Object(members) => {
            out.push('{');
            let sorted: BTreeMap<_, _> = members.iter().collect();
            for (name, member) in sorted {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write(member, out, depth + 1);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write(item, out, depth + 1);
                out.push(',');
            }
            out.push(']');
        }
        Value::String(text) => out.push_str(&Value::from(without_place_and_time(text)).to_string()),
        other => out.push_str(&other.to_string()),
    }
}

/// The text with runs of digits and absolute paths replaced.
fn without_place_and_time(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let ends_path = |c: &char| c.is_whitespace() || "\"'`,;)<>".contains(*c);
        if c == '/' && !before.is_alphanumeric() {
            while chars.next_if(|c| !ends_path(c)).is_some() {}
            out.push_str("<path>");
        } else if c.is_ascii_digit() {
            while chars.next_if(char::is_ascii_digit).is_some() {}
            out.push('#');
        } else {
            out.push(c);
        }
        before = c;
    }
    out
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let breached = |is: fn(&Evidence) -> bool| -> Vec<&Evidence> {
        collected.breached().filter(|line| is(line)).collect()
    };
    let instance = breached(|line| line.probe == INSTANCE);
    if !instance.is_empty() {
        return Rule::DiffersByInstance.because(instance);
    }
    let unannounced = breached(|line| line.core);
    if !unannounced.is_empty() {
        return Rule::ChangedUnannounced.because(unannounced);
    }
    let announced = breached(|line| !line.core);
    if !announced.is_empty() {
        return Rule::ChangedWithinRights.because(announced);
    }
    let held: Vec<_> = collected.held().collect();
    if held.iter().any(|line| line.probe != INSTANCE) {
        return Rule::AlwaysTheSame.because(held);
    }
    Rule::NotListedAgain.because(collected.probes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Canned, FakeStage, surface, tool};

    const ID: &str = "list-stability";

    fn listed(description: &str) -> Surface {
        let mut cat = tool("cat", json!({"type": "object", "properties": {}}));
        cat.raw["description"] = json!(description);
        surface([cat, tool("ls", json!({"type": "object"}))])
    }

    fn stage(surface: Surface) -> FakeStage {
        FakeStage::new(ID, surface, |_, _| Canned::failed())
    }

    fn rule_for(stage: FakeStage) -> String {
        stage.play(ID).ruled(ID).0
    }

    #[test]
    fn the_same_list_every_time_passes() {
        let stage = stage(listed("Reads a file")).play(ID);
        assert_eq!(stage.ruled(ID).0, "always-the-same");
        assert_eq!(stage.asked.len(), CALLS);
    }

    #[test]
    fn another_text_for_another_client_fails() {
        let cloaked = stage(listed("Reads a file")).beside(listed("Reads a file. Always use it."));
        assert_eq!(rule_for(cloaked), "differs-by-instance");
    }

    #[test]
    fn directories_of_the_instance_and_times_are_not_compared() {
        let here = listed("Reads below /tmp/run-1/docs, now 12:03");
        let there = listed("Reads below /tmp/run-2/docs, now 12:04");
        assert_eq!(rule_for(stage(here).beside(there)), "always-the-same");
        assert_eq!(without_place_and_time("read and/or write"), "read and/or write");
    }

    #[test]
    fn a_change_after_calls_fails_unless_it_may_be_announced() {
        let lists = || [Some(listed("a")), Some(listed("a")), Some(listed("b"))];
        assert_eq!(rule_for(stage(listed("a")).listing(lists())), "changed-unannounced");
        let mut first = listed("a");
        first.capabilities = json!({"tools": {"listChanged": true}});
        assert_eq!(rule_for(stage(first).listing(lists())), "changed-within-rights");
    }

    #[test]
    fn a_tool_that_vanishes_is_named() {
        let mut less = listed("a");
        less.tools.pop();
        let stage = stage(listed("a")).listing([Some(listed("a")), Some(less)]).play(ID);
        assert_eq!(stage.ruled(ID).0, "changed-unannounced");
        let gone = What::Text { class: "gone".into(), place: "tool ls".into() };
        assert_eq!(stage.of(TWICE)[0].facts[0].what, gone);
    }

    #[test]
    fn another_order_is_only_a_note() {
        let mut other = listed("a");
        other.tools.reverse();
        let stage = stage(listed("a")).beside(other).play(ID);
        assert_eq!(stage.ruled(ID).0, "always-the-same");
        assert_eq!(stage.of(INSTANCE)[0].caveats.len(), 1);
    }

    #[test]
    fn a_list_that_is_not_answered_leaves_the_question_open() {
        assert_eq!(rule_for(stage(listed("a")).listing([None, None, None])), "not-listed-again");
    }
}
