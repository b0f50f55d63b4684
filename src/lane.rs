//! One lane: a start of the server with targets of its own, and one request in flight.

mod ask;
mod close;
mod controls;
mod database;
mod drive;
mod stage;
mod statements;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use tokio::{
    sync::{Semaphore, watch},
    task::JoinHandle,
};

use crate::{
    canary::{Canaries, Canary, Kind},
    check::{Check, Collect, InstanceUse, LaneKind, Needs},
    config::{Config, Values, expand_value},
    discover::{self, Override, Skipped},
    event::{Event, Events},
    evidence::Evidence,
    instance::{Instance, Setup},
    journal::{Act, Closing, Hit, Noise, Session},
    plan::LanePlan,
    stage::Stop,
    surface::{Placement, Surface, Tool},
    target::{Sandbox, postgres::Postgres},
    world,
};

use database::Database;

pub use close::LaneRecord;

/// How often the server of one lane is started again before the lane gives up.
const MOST_RESTARTS: u32 = 24;
/// The same where statements ask for instances of their own.
const MOST_RESTARTS_OF_STATEMENTS: u32 = 48;

/// How many requests of one lane may stay without a reply before the lane gives up: each costs a
/// second or more.
const MOST_SILENCES: u32 = 60;

/// What all lanes of a run share.
pub struct Shared {
    /// The configuration.
    pub config: Arc<Config>,
    /// The run's folders.
    pub run: world::Run,
    /// Tokens of the canaries planted in the environment, by variable or placeholder name.
    pub secrets: BTreeMap<String, String>,
    /// Values of `${env:NAME}`.
    pub env: BTreeMap<String, String>,
    /// What the configuration says of tools.
    pub overrides: BTreeMap<String, Override>,
    /// Whether lanes build a sandbox.
    pub sandbox: bool,
    /// Whether a check of the run reads how instances end.
    pub asks_for_ends: bool,
    /// The database, when the configuration uses one and one was had.
    pub database: Option<Arc<Postgres>>,
    /// Where events go.
    pub events: Events,
    /// Turns true when the run is to stop.
    pub interrupt: watch::Receiver<bool>,
    /// What the main lane's server shows, once it does; `Err` when it never will.
    pub main_surface: watch::Sender<Option<Option<Arc<Surface>>>>,
    /// What the configuration says of tools that the server does not have.
    pub wrong: OnceLock<String>,
    /// How many servers may be starting at once.
    pub starts: Semaphore,
}

/// A start takes all of a core, so more of them at once than there are cores only delays the first;
/// but none waits longer than this for its turn, for a server may hang.
const MOST_WAITED: Duration = Duration::from_secs(1);

/// A lane at work.
pub struct Lane {
    shared: Arc<Shared>,
    kind: LaneKind,
    client: &'static str,
    dir: world::Lane,
    values: Values,
    planted: Vec<(String, String)>,
    cwd: PathBuf,
    sandbox: Option<Sandbox>,
    database: Option<Database>,
    canaries: Arc<Canaries>,
    inside: BTreeMap<String, bool>,
    instance: Option<Instance>,
    /// An instance on its way, in case the present one is lost to a silence.
    spare: Option<JoinHandle<Result<Instance, String>>>,
    /// Whether nothing hostile was sent to the present instance.
    fair: bool,
    restarts: u32,
    surface: Arc<Surface>,
    /// Tools that a later list showed for the first time, or differently.
    later: Vec<Tool>,
    /// When the server had listed itself.
    listed: Option<Instant>,
    placements: Arc<Vec<Placement>>,
    skipped: Vec<Skipped>,
    seq: u64,
    times: BTreeMap<String, Vec<f64>>,
    answering: Duration,
    /// The end of the standard error of the instance that was ended last.
    last_words: String,
    /// Requests of this lane that got no reply.
    silences: u32,
    /// Tokens of recent probes, and the line of evidence each belongs to.
    tokens: Vec<(String, LineRef)>,
    acts: Vec<Act>,
    closings: Vec<Closing>,
    noise: Vec<Noise>,
    noise_count: u64,
    messages: u64,
    hits: Vec<Hit>,
    sessions: Vec<Session>,
    evidence: BTreeMap<String, Vec<Evidence>>,
    /// The control that confirmed each tool.
    proofs: BTreeMap<String, controls::Proof>,
    /// The line of each tool's first control, good or not.
    first_controls: BTreeMap<String, Evidence>,
    spent: BTreeMap<String, Duration>,
    /// Checks that were asked whole.
    done: BTreeSet<String>,
    caveats: Vec<String>,
    left: Vec<String>,
}

/// Where a line of evidence stands: the check's id and the index among its lines.
type LineRef = (String, usize);

impl Lane {
    /// Builds the lane's targets, starts its server, lists it, places its tools and runs their
    /// controls.
    ///
    /// # Errors
    /// Why the server did not start, in words for the user, with what the lane holds by then.
    pub async fn open(shared: Arc<Shared>, plan: &LanePlan) -> Result<Self, (String, LaneRecord)> {
        let kind = plan.kind;
        shared.events.tell(Event::Starting { lane: kind.name() });
        let database = match &shared.database {
            Some(postgres) => Database::open(Arc::clone(postgres), kind).await.map(Some),
            None => Ok(None),
        };
        let built = database.and_then(|database| Self::build(shared, plan, database));
        let mut lane = match built {
            Ok(lane) => lane,
            Err(why) => return Err((why, LaneRecord::empty(kind))),
        };
        let began = Instant::now();
        match lane.first_start(plan).await {
            Ok(()) => {
                lane.shared.events.tell(Event::Ready {
                    lane: kind.name(),
                    tools: lane.surface.tools.len(),
                    ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                });
                Ok(lane)
            }
            Err(mut why) => {
                if let Some(trouble) = lane.database.as_ref().and_then(Database::trouble) {
                    why = format!("{why}\n{trouble}");
                }
                lane.shared.events.tell(Event::Lost { lane: kind.name(), why: why.clone() });
                Err((why, lane.close().await))
            }
        }
    }

    fn build(
        shared: Arc<Shared>,
        plan: &LanePlan,
        database: Option<Database>,
    ) -> Result<Self, String> {
        let kind = plan.kind;
        let dir = shared.run.lane(kind.name()).map_err(|error| error.to_string())?;
        let special = kind == LaneKind::Hostile;
        let sandbox = shared
            .sandbox
            .then(|| Sandbox::build(dir.root(), special))
            .transpose()
            .map_err(|error| error.to_string())?;
        let mut objects: Vec<Canary> = Vec::new();
        let mut inside = BTreeMap::new();
        for object in sandbox.iter().flat_map(Sandbox::canaries) {
            inside.insert(object.object.clone(), object.inside);
            objects.push(Canary { object: object.object, token: object.token, kind: Kind::Plain });
        }
        for (canary, own) in database.iter().flat_map(|database| database.canaries(kind)) {
            inside.insert(canary.object.clone(), own);
            objects.push(canary);
        }
        for (name, token) in &shared.secrets {
            objects.push(Canary {
                object: format!("env {name}"),
                token: token.clone(),
                kind: Kind::Secret,
            });
        }
        let cwd = sandbox.as_ref().map_or_else(|| dir.sandbox(), |s| s.cwd().to_owned());
        let path = |path: Option<&std::path::Path>| {
            path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let values = Values {
            sandbox: path(sandbox.as_ref().map(Sandbox::docs)),
            sandbox_out: path(sandbox.as_ref().map(Sandbox::out)),
            files: path(Some(&dir.root().join("files"))),
            role: database.as_ref().map_or("default", |d| d.role().name()).into(),
            pg: database.as_ref().map(Database::values).unwrap_or_default(),
            canaries: shared.secrets.clone(),
            env: shared.env.clone(),
        };
        let planted = shared
            .secrets
            .iter()
            .filter(|(name, _)| name.starts_with(PLANTED))
            .map(|(name, token)| (name.clone(), token.clone()))
            .collect();
        Ok(Self {
            kind,
            client: plan.client,
            canaries: Arc::new(Canaries::new(&objects).map_err(|error| error.to_string())?),
            shared,
            dir,
            values,
            planted,
            cwd,
            sandbox,
            database,
            inside,
            instance: None,
            spare: None,
            fair: true,
            restarts: 0,
            surface: Arc::default(),
            later: Vec::new(),
            listed: None,
            placements: Arc::default(),
            skipped: Vec::new(),
            seq: 0,
            times: BTreeMap::new(),
            answering: Duration::ZERO,
            last_words: String::new(),
            silences: 0,
            tokens: Vec::new(),
            acts: Vec::new(),
            closings: Vec::new(),
            noise: Vec::new(),
            noise_count: 0,
            messages: 0,
            hits: Vec::new(),
            sessions: Vec::new(),
            evidence: BTreeMap::new(),
            proofs: BTreeMap::new(),
            first_controls: BTreeMap::new(),
            spent: BTreeMap::new(),
            done: BTreeSet::new(),
            caveats: Vec::new(),
            left: Vec::new(),
        })
    }

    async fn first_start(&mut self, plan: &LanePlan) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let turn = tokio::time::timeout(MOST_WAITED, shared.starts.acquire()).await;
        let mut database = self.database.take();
        let (started, ()) = tokio::join!(self.start(), async {
            if let Some(database) = &mut database {
                database.replay(&plan.checks).await;
            }
        });
        self.database = database;
        started?;
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.after_start().map_err(|error| error.to_string())?;
        }
        let surface = self.list().await?;
        drop(turn);
        let wrong = discover::unknown_tools(&surface, &self.shared.overrides);
        if !wrong.is_empty() {
            let wrong = wrong.join("; ");
            return Err(self.shared.wrong.get_or_init(|| wrong).clone());
        }
        self.surface = Arc::new(surface);
        self.listed = Some(Instant::now());
        if self.kind == LaneKind::Main {
            self.shared.main_surface.send_replace(Some(Some(Arc::clone(&self.surface))));
        }
        let learnt = self.learn().await.unwrap_or_else(|Stop| Surface::clone(&self.surface));
        let (placements, skipped) = discover::place_all(&learnt, &self.overrides()?);
        self.placements = Arc::new(placements);
        self.skipped = skipped;
        // A stop here leaves tools untried; the checks then say so.
        let _ = self.run_controls().await;
        if self.kind == LaneKind::Quoted {
            let _ = self.provoke_errors().await;
        }
        Ok(())
    }

    /// What the configuration says of tools, with this lane's values in it.
    fn overrides(&self) -> Result<BTreeMap<String, Override>, String> {
        let expanded = self.shared.overrides.iter().map(|(tool, set)| {
            let mut set = set.clone();
            for value in set.arguments.values_mut() {
                *value = expand_value(value, &self.values).map_err(|error| error.to_string())?;
            }
            Ok((tool.clone(), set))
        });
        expanded.collect()
    }

    /// Starts the server, or starts it again.
    async fn start(&mut self) -> Result<(), String> {
        self.fair = true;
        let mut interrupt = self.shared.interrupt.clone();
        let spare = self.spare.take();
        let setup = self.setup();
        let starting = async move {
            match spare {
                Some(spare) => match spare.await {
                    Ok(Ok(instance)) if !instance.has_exited() => Ok(instance),
                    _ => Instance::start(setup).await,
                },
                None => Instance::start(setup).await,
            }
        };
        let instance = tokio::select! {
            instance = starting => instance?,
            _ = interrupt.wait_for(|stop| *stop) => return Err("the run was interrupted".into()),
        };
        self.instance = Some(instance);
        Ok(())
    }

    fn setup(&self) -> Setup {
        Setup {
            config: Arc::clone(&self.shared.config),
            lane: self.dir.clone(),
            cwd: self.cwd.clone(),
            values: self.values.clone(),
            planted: self.planted.clone(),
            canaries: Arc::clone(&self.canaries),
            client: self.client,
        }
    }

    async fn list(&mut self) -> Result<Surface, String> {
        let limit = self.shared.config.limits.list;
        let mut interrupt = self.shared.interrupt.clone();
        let Some(instance) = &mut self.instance else { return Err("the server is gone".into()) };
        let listed = tokio::select! {
            listed = instance.client.surface(limit) => {
                listed.map_err(|error| format!("failed to {error}"))
            }
            _ = interrupt.wait_for(|stop| *stop) => Err("the run was interrupted".into()),
        };
        self.hits.extend(instance.client.drain_hits());
        listed
    }

    /// Makes sure there is a live instance.
    pub(crate) async fn alive(&mut self) -> Result<(), Stop> {
        if self.stopped() {
            return Err(Stop);
        }
        if self.silences >= MOST_SILENCES {
            return Err(self.lost("the server left too many requests without a reply".into()));
        }
        if self.instance.is_some() {
            return Ok(());
        }
        if self.restarts >= self.most_restarts() {
            return Err(self.lost("the server ended again and again".into()));
        }
        self.restarts += 1;
        match self.start().await {
            Ok(()) => Ok(()),
            Err(why) => Err(self.lost(why)),
        }
    }

    fn most_restarts(&self) -> u32 {
        if self.kind.needs_database() { MOST_RESTARTS_OF_STATEMENTS } else { MOST_RESTARTS }
    }

    fn lost(&mut self, why: String) -> Stop {
        self.caveats.push(format!("lane {}: {why}", self.kind.name()));
        self.shared.events.tell(Event::Lost { lane: self.kind.name(), why });
        self.restarts = self.most_restarts();
        Stop
    }

    fn stopped(&self) -> bool {
        *self.shared.interrupt.borrow()
    }

    /// Whether a tool was listed before, just like this.
    fn knows(&self, tool: &Tool) -> bool {
        self.surface.tools.contains(tool) || self.later.contains(tool)
    }

    /// A token that no other probe of the run has.
    fn new_token(&self) -> String {
        let mut bytes = [0u8; 6];
        // Without randomness the sequence still keeps tokens of a lane apart.
        if getrandom::fill(&mut bytes).is_err() {
            bytes[..4].copy_from_slice(&u32::try_from(self.seq).unwrap_or(0).to_be_bytes());
        }
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("t{hex}")
    }

    /// A probe's text with this lane's values; a placeholder the target does not know stays, which
    /// a test over all probes excludes.
    fn expanded(&self, text: &str, token: &str) -> String {
        match &self.sandbox {
            Some(sandbox) => sandbox.expand(text, token).unwrap_or_else(|_| text.to_owned()),
            None => text.replace("${token}", token),
        }
    }

    /// Takes what the harness itself changed as the new state of the targets.
    fn look_away(&mut self) {
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.look(&[]);
        }
    }

    /// Brings the targets back after a question.
    fn tidy(&mut self) {
        let Some(sandbox) = &mut self.sandbox else { return };
        match sandbox.reset() {
            Ok(reset) if reset.rebuilt => {
                self.caveats.push("the sandbox was moved or removed, and built again".into());
            }
            Ok(_) => {}
            Err(error) => self.caveats.push(format!("failed to reset the sandbox: {error}")),
        }
    }

    /// The pack with that need.
    fn pack_needing(&self, need: impl Fn(Needs) -> bool) -> &'static str {
        let mut packs = crate::registry::packs().iter();
        packs.find(|pack| need(pack.needs)).map_or("core", |pack| pack.id)
    }

    /// Asks the checks of the plan, in their order, then what must come last.
    ///
    /// # Errors
    /// When the lane had to stop before it was done.
    pub async fn work(&mut self, plan: &LanePlan) -> Result<(), Stop> {
        for check in &plan.checks {
            let id = check.id();
            self.shared.events.tell(Event::Asking { lane: self.kind.name(), check: id.clone() });
            let began = Instant::now();
            let done = match check.collect {
                Collect::Calls => self.drive(check, InstanceUse::Shared).await,
                Collect::Script(script) => {
                    let mut stage = stage::OnStage::new(self, check);
                    script(&mut stage).await
                }
                Collect::Surface(_) | Collect::Journal(_) => Ok(()),
            };
            *self.spent.entry(id.clone()).or_default() += began.elapsed();
            done?;
            if !has_last(check) {
                self.done.insert(id);
            }
        }
        for check in plan.checks.iter().filter(|check| has_last(check)) {
            let began = Instant::now();
            let done = self.drive(check, InstanceUse::Last).await;
            *self.spent.entry(check.id()).or_default() += began.elapsed();
            done?;
            self.done.insert(check.id());
        }
        Ok(())
    }
}

/// How the variables the harness plants by itself begin.
pub const PLANTED: &str = "SM_CANARY_";

fn has_last(check: &Check) -> bool {
    matches!(check.collect, Collect::Calls)
        && check.spec.probes.iter().any(|probe| probe.instance == InstanceUse::Last)
}
