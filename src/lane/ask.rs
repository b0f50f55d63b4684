//! One question: sent, waited for, read, looked at, weighed, and entered in the journal.

use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::{Duration, Instant},
};

use nix::fcntl::OFlag;
use tokio::task::JoinHandle;

use super::{Lane, LineRef, database};
use crate::{
    check::{Check, LaneKind, Needs, Spec},
    event::Event,
    evidence::{
        Channel, Evidence, Fact, Form, Kind, Measured, Observer, Outcome, Reading, Reply, What, Why,
    },
    instance::{Instance, Setup, hasty},
    journal::{Act, Change, Hit, Origin},
    judges,
    mcp::{Asked, Patience},
    refusal::{self, Subject},
    registry,
    stage::{Answer, Ask, Label, Life, Stop},
    target::postgres::{state::Changed, tap::Mark},
    text,
};

/// Characters of a reply kept in evidence.
const EXCERPT: usize = 240;
/// Bytes of a reply kept in the journal for checks of texts: its head, and as much of its tail.
const KEPT: usize = 4 * 1024;
/// How long a server may read a FIFO before it is freed (checks.md, fs-special-files).
const FIFO_GRACE: Duration = Duration::from_millis(250);
/// How often a FIFO is tried.
const FIFO_LOOK: Duration = Duration::from_millis(10);
/// A question unanswered for so long may be a silence.
const SUSPICIOUS: Duration = Duration::from_millis(400);
/// Changes of the database that one question is charged with by name.
const MOST_STATES: usize = 8;
/// How many tokens of earlier probes a late change is compared with.
const REMEMBERED: usize = 64;

/// On whose behalf a question is asked.
pub(super) struct Asker {
    pub(super) origin: Origin,
    pub(super) spec: Option<&'static Spec>,
    pub(super) subject: Subject,
    /// Strings the question carries, for the reading of the reply.
    pub(super) sent: Vec<String>,
    pub(super) token: String,
}

impl Asker {
    pub(super) fn probe(
        check: &'static Check,
        probe: &str,
        sent: Vec<String>,
        token: String,
    ) -> Self {
        let origin = Origin::Probe { pack: check.pack, check: check.id(), probe: probe.to_owned() };
        Self { origin, spec: Some(&check.spec), subject: subject(check.pack), sent, token }
    }

    pub(super) fn control(pack: &'static str, sent: Vec<String>, token: String) -> Self {
        Self { origin: Origin::Control { pack }, spec: None, subject: subject(pack), sent, token }
    }
}

/// What the targets of a pack are called in refusals.
fn subject(pack: &str) -> Subject {
    match registry::pack(pack).map(|pack| pack.needs) {
        Some(Needs::Sandbox(_)) => Subject::Fs,
        Some(Needs::Database(_)) => Subject::Db,
        _ => Subject::General,
    }
}

impl Lane {
    /// Asks one question and weighs what came of it.
    pub(super) async fn exchange(
        &mut self,
        asker: Asker,
        label: &Label,
        ask: &Ask,
    ) -> Result<Answer, Stop> {
        self.alive().await?;
        self.seq += 1;
        if matches!(ask, Ask::Line(_)) || self.kind == LaneKind::Hostile {
            self.fair = false;
        }
        let patience = match label.patience {
            // A server may run one statement at a time and answer no ping meanwhile.
            Some(silence) => {
                let dead = self.shared.config.limits.ping.max(silence);
                Patience { dead, ..Patience::new(silence) }
            }
            None => self.patience(ask, &asker),
        };
        let mark = self.database.as_ref().map(database::Database::mark);
        let may_hang = asker.spec.is_some_and(|spec| spec.observers.contains(&Observer::Process));
        let (mut asked, fifo) = self.wait(ask, label, patience, may_hang).await?;
        self.last_words.clear();
        self.shared.events.tell(Event::Answered { lane: self.kind.name() });
        let mut facts = self.life_facts(&mut asked).await;
        if let Some(ms) = fifo {
            facts.push(Fact::now(
                Observer::Process,
                What::Figure { name: "fifo-held".into(), n: ms },
            ));
        }
        self.note_time(ask, &asked);
        let asked_for = |hit: &&Hit| label.environment || !hit.object.starts_with("env ");
        facts.extend(asked.hits.iter().filter(asked_for).map(|hit| self.canary_fact(hit)));
        let changes = self.look(&asker.token);
        facts.extend(self.brought_in(asker.spec));
        let own = changes.iter().filter(|change| change.token);
        facts.extend(own.map(|change| Fact::now(Observer::Filesystem, self.changed(change))));
        let (pending, unread) = match mark {
            Some(mark) => self.look_at_database(mark, &asker, &mut facts).await,
            None => (false, false),
        };
        if self.kind == LaneKind::Bulk {
            facts.extend(self.over(&asked));
        }
        let reading = self.read(&asked, &asker, tool(ask));
        let mut line = self.line(&asker, label, ask, &asked, reading.as_ref(), facts);
        if unread && line.is_held() {
            line = line.none(Why::Unreadable);
        }
        self.enter(asker, label, ask, &asked, reading, changes);
        let reply = asked.reply;
        Ok(Answer {
            line,
            life: asked.life,
            declined: reply.as_ref().is_some_and(|reply| reply.declined),
            code: reply.as_ref().and_then(|reply| reply.code),
            result: reply.and_then(|reply| reply.result),
            tainted: asked.tainted,
            pending,
        })
    }

    /// What the database shows after a question: whether a transaction was left open that may still
    /// write, and whether its state could not be read. What differs after a control belongs to the
    /// statement before it.
    async fn look_at_database(
        &mut self,
        mark: Mark,
        asker: &Asker,
        facts: &mut Vec<Fact>,
    ) -> (bool, bool) {
        let Some(database) = &mut self.database else { return (false, false) };
        let control = asker.origin.is_control();
        let seen = database.seen(mark, &asker.sent, control).await;
        let unread = seen.unread.is_some();
        if let Some(why) = seen.unread {
            self.caveats.push(format!("failed to {why}"));
        }
        if asker.subject == Subject::Db {
            facts.extend(seen.facts);
        }
        if control || asker.spec.is_none_or(|spec| !spec.observers.contains(&Observer::StateReader))
        {
            self.late_state(&seen.changes);
        } else {
            let states = seen.changes.iter().map(|change| {
                let object = self.canaries.redact(&change.object);
                let what = What::State { object: text::safe(&object, 120), how: change.how };
                Fact::now(Observer::StateReader, what)
            });
            facts.extend(states.take(MOST_STATES));
        }
        (seen.pending, unread)
    }

    /// Enters changes of the database that came after their statement was answered.
    pub(super) fn late_state(&mut self, changes: &[Changed]) {
        let Some((check, at)) = self.database.as_ref().and_then(database::Database::last) else {
            return;
        };
        let Some(line) = self.evidence.get_mut(&check).and_then(|lines| lines.get_mut(at)) else {
            return;
        };
        for change in changes.iter().take(MOST_STATES) {
            let object = text::safe(&self.canaries.redact(&change.object), 120);
            let what = What::State { object, how: change.how };
            line.facts.push(Fact::late(Observer::StateReader, what));
            *line = line.clone().breached(Observer::StateReader);
        }
    }

    /// Figures of an answer that are above their limits.
    fn over(&self, asked: &Asked) -> Vec<Fact> {
        let limits = &self.shared.config.limits;
        [("rows", asked.rows, limits.rows), ("bytes", asked.bytes, limits.bytes)]
            .into_iter()
            .filter(|(_, n, limit)| n > limit)
            .map(|(name, n, limit)| {
                Fact::now(Observer::Transport, What::Over { name: name.into(), n, limit })
            })
            .collect()
    }

    /// How long to wait: a call that must work gets the whole call limit; a probe is silent when
    /// nothing came within the greater of the silence limit and twenty times the tool's median.
    fn patience(&self, ask: &Ask, asker: &Asker) -> Patience {
        let limits = &self.shared.config.limits;
        let usual =
            self.times.get(tool(ask).unwrap_or_default()).map_or(0.0, |times| median(times));
        let silence = limits.silence.max(Duration::from_secs_f64(usual * 20.0)).min(limits.call);
        let must_work = asker.origin.is_control() || matches!(ask, Ask::Request { .. });
        let silence = if must_work { limits.call } else { silence };
        Patience { dead: limits.ping, ..Patience::new(silence) }
    }

    /// Waits for the answer, while a FIFO the server may hang on is watched and freed.
    async fn wait(
        &mut self,
        ask: &Ask,
        label: &Label,
        patience: Patience,
        may_hang: bool,
    ) -> Result<(Asked, Option<u64>), Stop> {
        let mut interrupt = self.shared.interrupt.clone();
        let setup = (may_hang && self.spare.is_none()).then(|| self.setup());
        let spare = &mut self.spare;
        let Some(instance) = &mut self.instance else { return Err(Stop) };
        let mut held = None;
        let asking = instance.client.ask(ask, patience);
        let beside = async {
            tokio::join!(
                watch_fifo(label.fifo.as_deref().map(Path::new), &mut held),
                start_spare(setup, spare)
            )
        };
        let asked = tokio::select! {
            asked = asking => Some(asked),
            _ = beside => None,
            _ = interrupt.wait_for(|stop| *stop) => None,
        };
        if let Some(fifo) = &label.fifo {
            // Whatever still reads it sees the end of file now.
            drop(open_for_writing(Path::new(fifo)));
        }
        asked.map(|asked| (asked, held)).ok_or(Stop)
    }

    /// What the process shows after the question; an instance that is of no more use is ended.
    async fn life_facts(&mut self, asked: &mut Asked) -> Vec<Fact> {
        let process = |what| vec![Fact::now(Observer::Process, what)];
        match &asked.life {
            Life::Replied => process(What::Alive(true)),
            Life::Silent => {
                // What is still at work inside cannot be expected to end at once.
                self.fair = false;
                self.silences += 1;
                process(What::Silent)
            }
            Life::Mute => {
                self.silences += 1;
                self.drop_instance("kill").await;
                process(What::Mute)
            }
            Life::Died(_) => {
                let how = match &mut self.instance {
                    Some(instance) => instance.exit_words().await,
                    None => "closed its output".into(),
                };
                asked.life = Life::Died(how.clone());
                self.drop_instance("died").await;
                process(What::Died(how))
            }
        }
    }

    /// Ends the present instance, which died or is to be replaced.
    pub(super) async fn drop_instance(&mut self, step: &'static str) {
        let Some(instance) = self.instance.take() else { return };
        let began = Instant::now();
        let (ending, mut client) = instance.end(hasty()).await;
        self.last_words = crate::instance::tail(&client);
        self.take_in(&mut client);
        self.left.extend(ending.left);
        self.closings.push(crate::journal::Closing {
            lane: self.kind.name().into(),
            step,
            seconds: began.elapsed().as_secs_f64(),
            outlived: ending.outlived,
            fair: false,
        });
    }

    fn canary_fact(&self, hit: &Hit) -> Fact {
        let inside = self.inside.get(&hit.object).copied().unwrap_or(false);
        Fact::now(
            Observer::Canary,
            What::Canary {
                object: hit.object.clone(),
                inside,
                form: hit.form,
                channel: hit.channel,
            },
        )
    }

    /// Changes below the watched directories since the last look. One that carries the token of an
    /// earlier probe is entered there.
    fn look(&mut self, token: &str) -> Vec<Change> {
        let Some(sandbox) = &mut self.sandbox else { return Vec::new() };
        let changes = sandbox.look(&[token]);
        for change in changes.iter().filter(|change| !change.token && !change.inside) {
            if let Some(line) = self.owner(change, REMEMBERED) {
                self.late(&line, change);
            }
        }
        changes
    }

    /// The line of the latest of so many earlier probes whose token a change carries.
    pub(super) fn owner(&self, change: &Change, most: usize) -> Option<LineRef> {
        let sandbox = self.sandbox.as_ref()?;
        let mut recent = self.tokens.iter().rev().take(most);
        let (_, line) = recent.find(|(token, _)| sandbox.carries(&change.path, token))?;
        Some(line.clone())
    }

    /// Objects from outside whose text a call brought into the sandbox.
    fn brought_in(&self, spec: Option<&Spec>) -> Vec<Fact> {
        let watches = spec.is_some_and(|spec| spec.observers.contains(&Observer::Filesystem));
        let by = if watches { Observer::Filesystem } else { Observer::Canary };
        let objects = self.sandbox.iter().flat_map(|sandbox| sandbox.brought_in());
        objects
            .map(|object| {
                Fact::now(
                    by,
                    What::Canary {
                        object: object.clone(),
                        inside: false,
                        form: Form::Raw,
                        channel: Channel::Target,
                    },
                )
            })
            .collect()
    }

    /// Enters a change that came after its probe was answered.
    pub(super) fn late(&mut self, (check, at): &LineRef, change: &Change) {
        let fact = Fact::late(Observer::Filesystem, self.changed(change));
        let Some(line) = self.evidence.get_mut(check).and_then(|lines| lines.get_mut(*at)) else {
            return;
        };
        let unsafe_ =
            registry::check(check).is_some_and(|check| judges::is_breach(&check.spec, &fact));
        line.facts.push(fact);
        if unsafe_ {
            *line = line.clone().breached(Observer::Filesystem);
        }
    }

    fn read(&self, asked: &Asked, asker: &Asker, tool: Option<&str>) -> Option<Reading> {
        let reply = asked.reply.as_ref()?;
        let sent: Vec<&str> = asker.sent.iter().map(String::as_str).collect();
        let answer =
            refusal::Answer { declined: reply.declined, code: reply.code, text: &reply.text };
        let question =
            refusal::Asked { subject: asker.subject, tool: tool.unwrap_or_default(), sent: &sent };
        Some(refusal::read(&answer, &question))
    }

    fn line(
        &self,
        asker: &Asker,
        label: &Label,
        ask: &Ask,
        asked: &Asked,
        reading: Option<&Reading>,
        facts: Vec<Fact>,
    ) -> Evidence {
        let kind = if label.control { Kind::Control } else { Kind::Probe };
        let mut line = Evidence::new(kind, label.probe.clone());
        line.core = label.core;
        line.family = label.family.clone();
        line.tool = tool(ask).map(|name| text::safe(name, 128));
        line.lane = self.kind.name().into();
        line.seq = self.seq;
        line.sent = Some(text::safe(&label.sent, 300));
        line.reply = reading.map_or(Reply::None, |reading| reading.reply);
        line.reading_rule = reading.map(|reading| reading.rule.clone());
        line.role.clone_from(&self.values.role);
        let rows = (self.kind == LaneKind::Bulk).then_some(asked.rows);
        line.measured =
            Measured { rows, bytes: Some(asked.bytes), seconds: Some(round(asked.seconds)) };
        line.excerpt = asked
            .reply
            .as_ref()
            .map(|reply| self.shown(reply.malformed.as_deref().unwrap_or(&reply.text)))
            .unwrap_or_default();
        if asked.reply.as_ref().is_some_and(|reply| !reply.whole) {
            line.caveats.push("the reply was longer than what is kept".into());
        }
        if matches!(asked.life, Life::Died(_)) && !self.last_words.is_empty() {
            let words = self.last_words.replace('\n', " / ");
            line.caveats.push(format!("its standard error ended: {}", self.shown(&words)));
        }
        if let Some(spec) = asker.spec {
            let (outcome, why, by) = (judges::weigh)(spec, reading, &facts);
            line.outcome = outcome;
            line.why = why;
            line.verified_by.extend(by);
        }
        line.facts = facts;
        if asked.tainted && line.outcome != Outcome::Breached {
            line = line.none(Why::Tainted);
            line.caveats.push("the server asked for a client capability during the call".into());
        }
        line
    }

    /// The fact of a change.
    fn changed(&self, change: &Change) -> What {
        What::Changed { path: self.path(change), how: change.how, inside: change.inside }
    }

    /// The path of a change as it may be shown: some objects have a canary in their name.
    pub(super) fn path(&self, change: &Change) -> String {
        text::safe(&self.canaries.redact(&change.path), 200)
    }

    /// Text of the server as it may be shown: canaries and the lane's own paths replaced.
    pub(super) fn shown(&self, raw: &str) -> String {
        let end = raw.char_indices().nth(EXCERPT * 4).map_or(raw.len(), |(at, _)| at);
        let mut shown = self.canaries.redact(&raw[..end]);
        if !self.values.sandbox.is_empty() {
            shown = shown.replace(&self.values.sandbox, "${sandbox}");
        }
        for secret in [&self.values.pg.url, &self.values.pg.password] {
            if !secret.is_empty() {
                shown = shown.replace(secret.as_str(), "${pg.url}");
            }
        }
        if let Some(root) = self.dir.root().to_str() {
            shown = shown.replace(root, "${lane}");
        }
        if let Some(home) = std::env::var("HOME").ok().filter(|home| home.len() > 1) {
            shown = shown.replace(&home, "~");
        }
        text::safe(&shown, EXCERPT)
    }

    fn enter(
        &mut self,
        asker: Asker,
        label: &Label,
        ask: &Ask,
        asked: &Asked,
        reading: Option<Reading>,
        changes: Vec<Change>,
    ) {
        let reply = asked.reply.as_ref();
        self.acts.push(Act {
            lane: self.kind.name().into(),
            seq: self.seq,
            origin: asker.origin,
            tool: tool(ask).map(str::to_owned),
            declined: reply.is_some_and(|reply| reply.declined),
            reply: reading.as_ref().map_or(Reply::None, |reading| reading.reply),
            reading_rule: reading.map(|reading| reading.rule).unwrap_or_default(),
            text: reply.map(|reply| head_and_tail(&reply.text)).unwrap_or_default(),
            shown: text::safe(&label.sent, 300),
            sent: asker.sent,
            hits: asked.hits.clone(),
            changes,
            valid: label.valid || label.control,
        });
    }

    fn note_time(&mut self, ask: &Ask, asked: &Asked) {
        self.answering += Duration::from_secs_f64(asked.seconds.clamp(0.0, 3600.0));
        if asked.life == Life::Replied
            && let Some(tool) = tool(ask)
        {
            let times = self.times.entry(tool.to_owned()).or_default();
            if times.len() < 32 {
                times.push(asked.seconds);
            }
        }
    }

    /// Takes over what a client saw outside of requests.
    pub(super) fn take_in(&mut self, client: &mut crate::mcp::Client) {
        self.hits.extend(client.drain_hits());
        let counts = client.counts();
        self.messages += counts.messages;
        self.noise_count += counts.noise;
        for noise in client.noise() {
            if self.noise.len() < 100 {
                self.noise.push(noise);
            }
        }
    }
}

/// The tool a question goes to.
fn tool(ask: &Ask) -> Option<&str> {
    match ask {
        Ask::Call { tool, .. } => Some(tool),
        Ask::Request { .. } | Ask::Line(_) => None,
    }
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn round(seconds: f64) -> f64 {
    (seconds * 1e4).round() / 1e4
}

fn head_and_tail(text: &str) -> String {
    if text.len() <= 2 * KEPT {
        return text.to_owned();
    }
    let mut head = KEPT;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - KEPT;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n…\n{}", &text[..head], &text[tail..])
}

/// A writing end of the FIFO, when something reads it.
fn open_for_writing(fifo: &Path) -> Option<std::fs::File> {
    OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(fifo).ok()
}

/// Starts an instance beside a question that gets no answer, so that the next one need not wait
/// for a start if this one is lost. Never returns.
async fn start_spare(
    setup: Option<Setup>,
    spare: &mut Option<JoinHandle<Result<Instance, String>>>,
) {
    if let Some(setup) = setup {
        tokio::time::sleep(SUSPICIOUS).await;
        *spare = Some(tokio::spawn(Instance::start(setup)));
    }
    std::future::pending().await
}

/// Frees a server that reads the FIFO, 250 ms after it was seen to, and keeps doing so. `held`
/// gets the milliseconds it was held when it did not answer by then.
async fn watch_fifo(fifo: Option<&Path>, held: &mut Option<u64>) {
    let Some(fifo) = fifo else { return std::future::pending().await };
    loop {
        if let Some(end) = open_for_writing(fifo) {
            tokio::time::sleep(FIFO_GRACE).await;
            *held = Some(u64::try_from(FIFO_GRACE.as_millis()).unwrap_or(u64::MAX));
            drop(end);
        }
        tokio::time::sleep(FIFO_LOOK).await;
    }
}
