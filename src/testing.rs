//! Builders for unit tests of checks: evidence, acts, surfaces, and a stage that answers from a
//! closure.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use serde_json::{Map, Value, json};

use crate::{
    check::{Check, Collect, LaneKind, Spec},
    evidence::{Collected, Evidence, Fact, Kind, Observer, Reading, Reply, What},
    journal::{Act, Journal, Origin, Session},
    judges, registry,
    stage::{Answer, Ask, BoxFuture, Label, Life, Stage, Stop},
    surface::{Confirmed, Placement, Slot, Step, Surface, Tool},
    verdict::Verdict,
};

/// A probe with no outcome yet.
pub(crate) fn probe(id: &str) -> Evidence {
    Evidence::new(Kind::Probe, id)
}

/// A control with no outcome yet.
pub(crate) fn control(id: &str) -> Evidence {
    Evidence::new(Kind::Control, id)
}

/// These lines as a check's collection.
pub(crate) fn collected(lines: impl IntoIterator<Item = Evidence>) -> Collected {
    Collected::new(lines.into_iter().collect()).expect("a test collects at least one probe")
}

/// The check of that id.
pub(crate) fn check(id: &str) -> &'static Check {
    registry::check(id).expect("the test names a registered check")
}

/// The rule and the verdict a check gives these lines.
pub(crate) fn ruled(id: &str, lines: impl IntoIterator<Item = Evidence>) -> (String, Verdict) {
    let ruling = (check(id).decide)(&collected(lines));
    (ruling.rule.id(), ruling.rule.verdict())
}

/// What a journal check collects from this journal.
pub(crate) fn read_journal(id: &str, journal: &Journal) -> Vec<Evidence> {
    match check(id).collect {
        Collect::Journal(read) => read(journal),
        _ => panic!("{id} is no journal check"),
    }
}

/// What a surface check collects from this surface.
pub(crate) fn read_surface(id: &str, surface: &Surface) -> Vec<Evidence> {
    match check(id).collect {
        Collect::Surface(read) => read(surface),
        _ => panic!("{id} is no surface check"),
    }
}

/// A tool of that name and input schema.
pub(crate) fn tool(name: &str, schema: Value) -> Tool {
    Tool { name: name.into(), raw: json!({ "name": name, "inputSchema": schema }) }
}

/// A tool that declares to change nothing.
pub(crate) fn reading_tool(name: &str, schema: Value) -> Tool {
    let mut tool = tool(name, schema);
    tool.raw["annotations"] = json!({ "readOnlyHint": true });
    tool
}

/// A surface of these tools.
pub(crate) fn surface(tools: impl IntoIterator<Item = Tool>) -> Surface {
    Surface { name: "sample".into(), tools: tools.into_iter().collect(), ..Surface::default() }
}

/// A placement of `read` whose control worked, with its path in the argument `path`.
pub(crate) fn confirmed_read(tool: &str) -> Placement {
    Placement {
        tool: tool.into(),
        class: "read".into(),
        operation: "read".into(),
        because: "argument path".into(),
        slots: vec![Slot { role: "path".into(), way: vec![Step::Key("path".into())] }],
        filled: Map::new(),
        base: "${sandbox}/".into(),
        confirmed: Confirmed::Good,
        read_only_hint: None,
    }
}

/// An act of a probe of that pack: answered, valid, no hits.
pub(crate) fn act(pack: &'static str, check: &str, tool: &str) -> Act {
    Act {
        lane: "main".into(),
        seq: 0,
        origin: Origin::Probe { pack, check: check.into(), probe: "p".into() },
        tool: Some(tool.into()),
        declined: false,
        reply: Reply::Answered,
        reading_rule: String::new(),
        text: String::new(),
        shown: String::new(),
        sent: Vec::new(),
        hits: Vec::new(),
        changes: Vec::new(),
        valid: true,
    }
}

/// A session of the tenant's instance, as the role it was given, with a name.
pub(crate) fn db_session() -> Session {
    Session {
        lane: "tenant".into(),
        given: "sm_tenant".into(),
        user: "sm_tenant".into(),
        application_name: "sample".into(),
        superuser: false,
        bypasses_rls: false,
        owns_rls: false,
        tagged: false,
    }
}

/// The same act, declined with this text.
pub(crate) fn declined(act: Act, reply: Reply, text: &str) -> Act {
    Act { declined: true, reply, text: text.into(), ..act }
}

/// An answer as a test scripts it.
#[derive(Clone, Debug)]
pub(crate) struct Canned {
    reply: Reply,
    declined: bool,
    life: Life,
    code: Option<i64>,
    facts: Vec<Fact>,
    tainted: bool,
}

impl Canned {
    fn of(reply: Reply, declined: bool, life: Life) -> Self {
        Self { reply, declined, life, code: None, facts: Vec::new(), tainted: false }
    }

    /// The call was carried out.
    pub(crate) fn answered() -> Self {
        Self::of(Reply::Answered, false, Life::Replied)
    }

    /// An `isError` result that reads as a failure.
    pub(crate) fn failed() -> Self {
        Self::of(Reply::Failed, true, Life::Replied)
    }

    /// A text that says it failed, without `isError`.
    pub(crate) fn failed_as_success() -> Self {
        Self::of(Reply::Failed, false, Life::Replied)
    }

    /// The declared schema refused it.
    pub(crate) fn rejected() -> Self {
        Self::of(Reply::RejectedBySchema, true, Life::Replied)
    }

    /// No reply to this request, a ping is answered.
    pub(crate) fn silent() -> Self {
        Self::of(Reply::None, false, Life::Silent)
    }

    /// No reply to anything.
    pub(crate) fn mute() -> Self {
        Self::of(Reply::None, false, Life::Mute)
    }

    /// The process ended.
    pub(crate) fn died() -> Self {
        Self::of(Reply::None, false, Life::Died("exit 1".into()))
    }

    /// With something an observer saw.
    pub(crate) fn seen(mut self, by: Observer, what: What) -> Self {
        self.facts.push(Fact::now(by, what));
        self
    }

    /// During the call the server asked for a client capability.
    pub(crate) fn tainted(mut self) -> Self {
        self.tainted = true;
        self
    }
}

type Script = Box<dyn FnMut(&Label, &Ask) -> Canned + Send>;

/// A stage that answers from a closure and keeps what was asked and recorded.
pub(crate) struct FakeStage {
    spec: &'static Spec,
    surface: Arc<Surface>,
    main: Arc<Surface>,
    placements: Arc<Vec<Placement>>,
    script: Script,
    /// What `list_again` gives, one after the other; empty gives the surface.
    pub(crate) lists: VecDeque<Option<Surface>>,
    /// Everything asked.
    pub(crate) asked: Vec<(Label, Ask)>,
    /// Every line kept.
    pub(crate) lines: Vec<Evidence>,
    /// How often a fresh instance was asked for.
    pub(crate) fresh: usize,
}

impl FakeStage {
    /// A stage for that check, over this surface, answering by this closure.
    pub(crate) fn new(
        check_id: &str,
        surface: Surface,
        script: impl FnMut(&Label, &Ask) -> Canned + Send + 'static,
    ) -> Self {
        let surface = Arc::new(surface);
        Self {
            spec: &check(check_id).spec,
            main: Arc::clone(&surface),
            surface,
            placements: Arc::default(),
            script: Box::new(script),
            lists: VecDeque::new(),
            asked: Vec::new(),
            lines: Vec::new(),
            fresh: 0,
        }
    }

    /// With these placements.
    pub(crate) fn placed(mut self, placements: impl IntoIterator<Item = Placement>) -> Self {
        self.placements = Arc::new(placements.into_iter().collect());
        self
    }

    /// With another surface on the main lane.
    pub(crate) fn beside(mut self, main: Surface) -> Self {
        self.main = Arc::new(main);
        self
    }

    /// With these later lists.
    pub(crate) fn listing(mut self, lists: impl IntoIterator<Item = Option<Surface>>) -> Self {
        self.lists = lists.into_iter().collect();
        self
    }

    /// Plays the script of that check to its end.
    pub(crate) fn play(mut self, id: &str) -> Self {
        let Collect::Script(script) = check(id).collect else { panic!("{id} is no script") };
        // The fake never waits, so one poll is the whole script.
        let polled = script(&mut self).as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(Ok(())));
        self
    }

    /// The rule and the verdict the check gives what was recorded.
    pub(crate) fn ruled(&self, id: &str) -> (String, Verdict) {
        ruled(id, self.lines.clone())
    }

    /// The ids of the probes the check declares.
    pub(crate) fn spec_probes(&self) -> Vec<&'static str> {
        self.spec.probes.iter().map(|probe| probe.id.as_str()).collect()
    }

    /// The recorded lines of that probe.
    pub(crate) fn of(&self, probe: &str) -> Vec<&Evidence> {
        self.lines.iter().filter(|line| line.probe == probe).collect()
    }

    /// The arguments of every call of that tool, with their labels.
    pub(crate) fn calls(&self, name: &str) -> Vec<(&Label, &Value)> {
        let calls = self.asked.iter().filter_map(|(label, ask)| match ask {
            Ask::Call { tool, params } if tool == name => {
                Some((label, params.get("arguments").unwrap_or(&Value::Null)))
            }
            _ => None,
        });
        calls.collect()
    }

    fn answer(&mut self, label: &Label, ask: &Ask) -> Answer {
        let canned = (self.script)(label, ask);
        let kind = if label.control { Kind::Control } else { Kind::Probe };
        let mut line = Evidence::new(kind, &label.probe);
        line.core = label.core;
        line.family.clone_from(&label.family);
        line.sent = Some(label.sent.clone());
        line.seq = self.asked.len() as u64;
        line.reply = canned.reply;
        line.facts = canned.facts;
        if let Ask::Call { tool, .. } = ask {
            line.tool = Some(tool.clone());
        }
        line.facts.push(Fact::now(
            Observer::Process,
            match &canned.life {
                Life::Replied => What::Alive(true),
                Life::Silent => What::Silent,
                Life::Mute => What::Mute,
                Life::Died(how) => What::Died(how.clone()),
            },
        ));
        let reading = (canned.reply != Reply::None)
            .then(|| Reading { reply: canned.reply, rule: "scripted".into() });
        let (outcome, why, by) = judges::weigh(self.spec, reading.as_ref(), &line.facts);
        line.reading_rule = reading.map(|reading| reading.rule);
        (line.outcome, line.why) = (outcome, why);
        line.verified_by.extend(by);
        Answer {
            line,
            life: canned.life,
            declined: canned.declined,
            code: canned.code,
            result: None,
            tainted: canned.tainted,
            pending: false,
        }
    }
}

impl Stage for FakeStage {
    fn spec(&self) -> &'static Spec {
        self.spec
    }

    fn surface(&self) -> Arc<Surface> {
        Arc::clone(&self.surface)
    }

    fn main_surface(&self) -> Arc<Surface> {
        Arc::clone(&self.main)
    }

    fn placements(&self) -> Arc<Vec<Placement>> {
        Arc::clone(&self.placements)
    }

    fn expand(&self, text: &str) -> String {
        text.replace("${sandbox}", "/lane/docs").replace("${attic}", "/lane/attic")
    }

    fn ask<'a>(&'a mut self, label: Label, ask: Ask) -> BoxFuture<'a, Result<Answer, Stop>> {
        let answer = self.answer(&label, &ask);
        self.asked.push((label, ask));
        Box::pin(async move { Ok(answer) })
    }

    fn list_again<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Surface>, Stop>> {
        let same = || Some(Surface::clone(&self.surface));
        let next = self.lists.pop_front().unwrap_or_else(same);
        Box::pin(async move { Ok(next) })
    }

    fn lane(&self) -> LaneKind {
        self.spec.lane
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
        self.lines.push(line);
    }
}
