//! One running server: started in a world, spoken to by a client, ended whole.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    canary::Canaries,
    config::{Config, Values},
    mcp::{Client, HandshakeError, Io, Limits, Options},
    text,
    world::{self, Ending, Graces, Process},
};

/// Protocol revisions offered, newest first. The next one is offered to a fresh process when a
/// server refuses the one before.
const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2024-11-05"];

/// All that is needed to start an instance on a lane.
#[derive(Clone)]
pub struct Setup {
    /// The configuration.
    pub config: Arc<Config>,
    /// The lane's folders.
    pub lane: world::Lane,
    /// The working directory when the configuration names none.
    pub cwd: PathBuf,
    /// What stands for each placeholder.
    pub values: Values,
    /// Variables the harness plants itself.
    pub planted: Vec<(String, String)>,
    /// What the client looks for in everything the server writes.
    pub canaries: Arc<Canaries>,
    /// The client name the server is told.
    pub client: &'static str,
}

/// An instance that started and initialised.
pub struct Instance {
    /// The session.
    pub client: Client,
    process: Process,
}

impl Instance {
    /// Starts the server and initialises a session.
    ///
    /// # Errors
    /// In words for the user, with the tail of the server's standard error.
    pub async fn start(setup: Setup) -> Result<Self, String> {
        let mut refused = String::new();
        for revision in REVISIONS {
            match Self::start_with(&setup, revision).await {
                Err(Failure::Refused(why)) => refused = why,
                Err(Failure::Final(why)) => return Err(why),
                Ok(instance) => return Ok(instance),
            }
        }
        Err(refused)
    }

    async fn start_with(setup: &Setup, revision: &str) -> Result<Self, Failure> {
        let limit = setup.config.start_limit();
        let mut process = spawn(setup).await.map_err(Failure::Final)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (process.stdin(), process.stdout(), process.stderr())
        else {
            return Err(Failure::Final("the server's streams are gone".into()));
        };
        let io = Io { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr: Box::new(stderr) };
        let options = Options {
            canaries: Arc::clone(&setup.canaries),
            lane: setup.lane.name().to_owned(),
            client_name: setup.client.into(),
            client_version: env!("CARGO_PKG_VERSION").into(),
            limits: Limits::default(),
        };
        let mut client = Client::open(io, options);
        match client.initialize(revision, limit).await {
            Ok(_) => Ok(Self { client, process }),
            Err(error) => {
                let exit = match &error {
                    HandshakeError::Closed => {
                        let waited = tokio::time::timeout(Duration::from_secs(1), process.exited());
                        waited.await.ok().map(|exit| exit.to_string())
                    }
                    _ => None,
                };
                let why = words(&error, limit, exit.as_deref());
                let refused = matches!(error, HandshakeError::Refused { .. });
                client.close_stdin();
                process.end(hasty()).await;
                client.stderr_ended(Duration::from_millis(500)).await;
                let tail = tail(&client);
                let why = if tail.is_empty() {
                    format!("{why}; it wrote nothing to its standard error")
                } else {
                    format!("{why}\n{tail}")
                };
                Err(if refused { Failure::Refused(why) } else { Failure::Final(why) })
            }
        }
    }

    /// How the process ended, when it has: waits up to a second for the exit behind a closed
    /// stream.
    pub async fn exit_words(&mut self) -> String {
        match tokio::time::timeout(Duration::from_secs(1), self.process.exited()).await {
            Ok(exit) => exit.to_string(),
            Err(_) => "closed its output and runs on".into(),
        }
    }

    /// Whether the process ended by itself.
    pub fn has_exited(&self) -> bool {
        self.process.try_exited().is_some()
    }

    /// Closes stdin and ends the whole tree. The client stays readable for what came last.
    pub async fn end(mut self, graces: Graces) -> (Ending, Client) {
        self.client.close_stdin();
        let ending = self.process.end(graces).await;
        self.client.stderr_ended(Duration::from_millis(200)).await;
        (ending, self.client)
    }
}

/// Why a start failed: whether another revision may help.
enum Failure {
    Refused(String),
    Final(String),
}

async fn spawn(setup: &Setup) -> Result<Process, String> {
    let launch = setup.config.launch(&setup.values).map_err(|error| error.to_string())?;
    let folder = PathBuf::from(&setup.values.files);
    for (name, content) in &launch.files {
        // The name was checked to stay below the folder when the configuration was read.
        let file = folder.join(name);
        let parent = file.parent().unwrap_or(&folder);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&file, content))
            .map_err(|error| format!("failed to write the file {name} of server.files: {error}"))?;
    }
    let arguments: Vec<OsString> = launch.args.iter().map(OsString::from).collect();
    let launcher = world::env::launcher(launch.command.as_ref(), &arguments);
    let own = setup.planted.iter().chain(&launch.env);
    let configured: Vec<(OsString, OsString)> =
        own.map(|(name, value)| (name.into(), value.into())).collect();
    let start = world::Launch {
        program: launch.command.into(),
        args: arguments,
        env: world::env::build(&setup.lane, launcher, world::env::Stage::Serve, &configured),
        cwd: launch.cwd.unwrap_or_else(|| setup.cwd.clone()),
        lane: setup.lane.clone(),
        supervisor: None,
        parting: None,
    };
    start.start().await.map_err(|error| error.to_string())
}

/// Short graces for an instance that is of no more use.
pub fn hasty() -> Graces {
    Graces { eof: Duration::from_millis(20), term: Duration::from_millis(400), ..Graces::default() }
}

/// The end of what the server wrote to its standard error: at most ten lines, each safe to show.
pub fn tail(client: &Client) -> String {
    let all = client.stderr_tail();
    let lines: Vec<&str> = all.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(10)..];
    last.iter().map(|line| text::safe(line, 200)).collect::<Vec<_>>().join("\n")
}

fn words(error: &HandshakeError, limit: Duration, exit: Option<&str>) -> String {
    match (error, exit) {
        (HandshakeError::Closed, Some(exit)) => {
            format!("the server ended before it answered initialize ({exit})")
        }
        (HandshakeError::Silent, _) => {
            format!("the server did not answer initialize within {} s", limit.as_secs())
        }
        (other, _) => format!("failed to {other}"),
    }
}
