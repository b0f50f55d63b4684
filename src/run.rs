//! The only conductor: lanes are opened, worked and closed, then everything is decided. It knows
//! the order and no check by name.

mod decide;
mod gate;
mod record;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use thiserror::Error;
use tokio::sync::{Semaphore, watch};

use crate::{
    check::LaneKind,
    config::{Config, Placeholder, Warning},
    discover::Override,
    event::{Event, Events},
    lane::{Lane, LaneRecord, PLANTED, Shared},
    plan::{LanePlan, Plan, plan},
    report::Report,
    target::postgres::{Postgres, ProvideError, Unavailable, Wish},
    world,
};

/// What to run.
pub struct Request {
    /// The configuration.
    pub config: Config,
    /// Checks of a partial run; empty for all.
    pub only: Vec<String>,
    /// What was to be warned of when the configuration was read.
    pub warnings: Vec<Warning>,
}

/// Why nothing could be run at all.
#[derive(Debug, Error)]
pub enum RunError {
    /// The run's folders could not be made.
    #[error("failed to prepare the run: {0}")]
    World(#[from] world::RunError),
    /// Something the user gave cannot be used.
    #[error("{why}")]
    Usage {
        /// What is wrong with it.
        why: String,
        /// What to do.
        help: String,
    },
    /// The system gives no random numbers.
    #[error("failed to draw random numbers: {0}")]
    Random(getrandom::Error),
}

/// How far a lane came.
struct Worked {
    record: LaneRecord,
    /// When its last question was answered.
    asked: Instant,
}

/// Runs everything and reports. Whatever goes wrong with the server is in the report.
///
/// # Errors
/// When the harness itself cannot prepare the run.
pub async fn run(
    request: Request,
    events: Events,
    interrupt: watch::Receiver<bool>,
) -> Result<Report, RunError> {
    let began = Instant::now();
    let started_at = jiff::Timestamp::now();
    let mut plan = plan(&request.config, &request.only);
    let mut shared = prepare(&request.config, &plan, events, interrupt)?;
    let no_database = had(&request.config, &mut plan, &mut shared).await?;
    let shared = Arc::new(shared);
    let prepared = began.elapsed();
    let mut lanes = work_all(&shared, &plan).await;
    if let Some(why) = shared.wrong.get() {
        return Err(RunError::Usage {
            why: why.clone(),
            help: "name tools and arguments in `tools` and `sql_tools` as the server lists them"
                .into(),
        });
    }
    let journal = decide::journal(&mut lanes, &shared);
    let timings = record::timings(&lanes, began, prepared);
    let interrupted = *shared.interrupt.borrow();
    let decided = decide::decide(&plan, &lanes, journal, &shared, interrupted);
    let report = record::report(record::Parts {
        request: &request,
        no_database,
        plan: &plan,
        shared: &shared,
        lanes: &lanes,
        decided,
        timings,
        started_at,
        interrupted,
    });
    Ok(finish(report, shared, began).await)
}

/// Removes the run's folders and closes the record.
async fn finish(mut report: Report, shared: Arc<Shared>, began: Instant) -> Report {
    // Lanes are gone, so nobody else holds the folders.
    let removed = match Arc::try_unwrap(shared) {
        Ok(mut shared) => {
            if let Some(database) = shared.database.take() {
                let left = database.close().await;
                report.cleanup.left.extend(left.iter().map(|left| crate::text::safe(left, 200)));
            }
            tokio::task::spawn_blocking(move || shared.run.close()).await.is_ok_and(|closed| {
                match closed {
                    Ok(()) => true,
                    Err(error) => {
                        report.cleanup.left.push(crate::text::safe(&error.to_string(), 200));
                        false
                    }
                }
            })
        }
        Err(_) => false,
    };
    report.cleanup.removed = removed && report.cleanup.left.is_empty();
    report.run.duration_ms = millis(began.elapsed());
    report
}

fn prepare(
    config: &Config,
    plan: &Plan,
    events: Events,
    interrupt: watch::Receiver<bool>,
) -> Result<Shared, RunError> {
    let mut names: Vec<String> = vec![format!("{PLANTED}A"), format!("{PLANTED}B")];
    for placeholder in config.placeholders() {
        if let Placeholder::Canary(name) = placeholder {
            names.push(name);
        }
    }
    let mut secrets = BTreeMap::new();
    for name in names {
        secrets.insert(name, token()?);
    }
    let mut overrides = config
        .tools
        .iter()
        .map(|(tool, set)| {
            let class = set.class.map(|class| class.as_str().to_owned());
            (tool.clone(), Override { class, arguments: set.arguments.clone(), statement: None })
        })
        .collect::<BTreeMap<_, _>>();
    for sql in &config.sql_tools {
        overrides.entry(sql.tool.clone()).or_default().statement = Some(sql.argument.clone());
    }
    Ok(Shared {
        run: world::Run::create()?,
        secrets,
        env: config.env_values(),
        overrides,
        sandbox: plan.sandbox,
        asks_for_ends: plan.reads_journal(),
        database: None,
        events,
        interrupt,
        main_surface: watch::Sender::new(None),
        wrong: OnceLock::new(),
        starts: Semaphore::new(std::thread::available_parallelism().map_or(2, |n| n.get())),
        config: Arc::new(config.clone()),
    })
}

/// Has a database made when the configuration uses one. Without it the plan loses what needs it,
/// and its placeholders stay empty: why, in words for the report.
async fn had(
    config: &Config,
    plan: &mut Plan,
    shared: &mut Shared,
) -> Result<Option<String>, RunError> {
    if !plan.database {
        return Ok(None);
    }
    let given = config.pg.as_ref().map(|url| url.0.clone());
    if given.is_none() && !config.embedded {
        let help = "leave it out, or name a server you control with --pg URL";
        return Ok(Some(without(plan, "--no-embedded was given", help)));
    }
    let wish = Wish { given, fetch: true };
    let mut interrupt = shared.interrupt.clone();
    let tell = |what: &str| shared.events.tell(Event::Note { what: what.to_owned() });
    let provided = tokio::select! {
        provided = Postgres::provide_telling(&shared.run, &wish, tell) => provided,
        _ = interrupt.wait_for(|stop| *stop) => {
            plan.without_database("interrupted");
            return Ok(None);
        }
    };
    match provided {
        Ok(database) => {
            shared.database = Some(Arc::new(database));
            Ok(None)
        }
        Err(ProvideError::Usage(why, help)) => Err(RunError::Usage { why, help }),
        Err(ProvideError::Unavailable(Unavailable { why, help })) => {
            Ok(Some(without(plan, &why, &help)))
        }
    }
}

/// Takes what needs a database out of the plan; the caveat of the report.
fn without(plan: &mut Plan, why: &str, help: &str) -> String {
    plan.without_database(&format!("no Postgres was had: {why}; {help}"));
    format!("no Postgres was had: {why}; placeholders of the database stand for nothing")
}

/// A canary token: `sm-` and 16 hexadecimal digits.
fn token() -> Result<String, RunError> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(RunError::Random)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sm-{hex}"))
}

/// Works every lane, beside each other where the configuration lets them.
async fn work_all(shared: &Arc<Shared>, plan: &Plan) -> Vec<Worked> {
    // A lane mostly waits for its server, so lanes may outnumber cores; what they share by
    // accident (a fixed store, a launcher that installs its package) lets only one start.
    let at_once = if plan.parallel { plan.lanes.len().max(1) } else { 1 };
    let permits = Arc::new(Semaphore::new(at_once));
    let launcher = shared.config.server.is_launcher();
    let mut tasks = Vec::new();
    for lane in &plan.lanes {
        // In order, so that the main lane is never kept waiting by one that waits for it.
        let permit = Arc::clone(&permits).acquire_owned().await;
        let (shared, lane) = (Arc::clone(shared), lane.clone());
        tasks.push(tokio::spawn(async move {
            let _permit = permit;
            if launcher && lane.kind != LaneKind::Main {
                wait_for_main(&shared).await;
            }
            work(shared, &lane).await
        }));
    }
    let mut worked = Vec::new();
    for (task, lane) in tasks.into_iter().zip(&plan.lanes) {
        worked.push(task.await.unwrap_or_else(|panic| {
            let mut record = LaneRecord::empty(lane.kind);
            record.caveats.push(format!("lane {}: {panic}", lane.kind.name()));
            Worked { record, asked: Instant::now() }
        }));
    }
    worked
}

/// Waits until the main lane's server listed itself, or never will.
async fn wait_for_main(shared: &Shared) {
    let mut main = shared.main_surface.subscribe();
    let mut interrupt = shared.interrupt.clone();
    tokio::select! {
        _ = main.wait_for(Option::is_some) => {}
        _ = interrupt.wait_for(|stop| *stop) => {}
    }
}

async fn work(shared: Arc<Shared>, plan: &LanePlan) -> Worked {
    let main = plan.kind == LaneKind::Main;
    let opened = Lane::open(Arc::clone(&shared), plan).await;
    if main {
        // Others that wait for the main lane go on, whether it came up or not.
        shared.main_surface.send_if_modified(|main| {
            let open = main.is_none();
            if open {
                *main = Some(None);
            }
            open
        });
    }
    match opened {
        // That a server cannot read an encoded password is not what its checks ask.
        Err((why, mut record)) if plan.kind == LaneKind::Quoted => {
            let why = why.lines().next().unwrap_or_default();
            record.caveats.push(format!(
                "with a database password that must be encoded in a URL the server did not start: \
                 {why}"
            ));
            record.instance.started = false;
            Worked { record, asked: Instant::now() }
        }
        Err((why, mut record)) => {
            record.instance.trouble = Some(why);
            record.instance.started = false;
            Worked { record, asked: Instant::now() }
        }
        Ok(mut lane) => {
            // Checks may compare what this lane's server shows with what the main one's does.
            wait_for_main(&shared).await;
            // A lane that had to stop has said so in its record.
            let _ = lane.work(plan).await;
            let asked = Instant::now();
            Worked { record: lane.close().await, asked }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
