//! A cluster of the run's own: a copy of the template, and the server on it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use tokio_postgres::Client;

use super::{
    Backend, DATABASE, connect, files,
    find::Programs,
    place::{Place, Program, reachable},
    template,
};
use crate::world::{Exit, Run};

/// The superuser of a cluster of ours.
pub const SUPERUSER: &str = "sm_root";

/// How long a server may take until it lets anybody in. Measured at 30 ms.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two attempts to get in.
const ATTEMPT: Duration = Duration::from_millis(2);
/// How long the server may take for an immediate end, before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// Settings of a database that is thrown away. Nothing need outlast a power failure; nothing runs
/// beside what is asked, because a change of a table that nobody asked for would be taken for a
/// server's; answers do not depend on timing; memory is shared through files in the data
/// directory, which go with it.
const SETTINGS: &[&str] = &[
    "listen_addresses=",
    "port=5432",
    "unix_socket_permissions=0700",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "min_wal_size=2MB",
    "shared_buffers=16MB",
    "huge_pages=off",
    "dynamic_shared_memory_type=mmap",
    "temp_file_limit=1GB",
    "max_connections=200",
    "max_prepared_transactions=16",
    "max_logical_replication_workers=0",
    "max_parallel_workers_per_gather=0",
    "autovacuum=off",
    "synchronize_seqscans=off",
    "jit=off",
    "ssl=off",
    "logging_collector=off",
    "log_checkpoints=off",
    "timezone=UTC",
    "log_timezone=UTC",
];

/// A server that runs on a place's data directory.
pub struct Server {
    program: Program,
}

impl Server {
    /// Starts it, and returns when a superuser's session in `database` was opened. `parting` is
    /// the signal that ends it: SIGINT in an orderly way, SIGQUIT at once.
    pub async fn start(
        place: &Place,
        programs: &Programs,
        database: &str,
        parting: Signal,
    ) -> Result<(Self, Client), String> {
        let mut arguments: Vec<OsString> = vec!["-D".into(), place.data().into()];
        let mut sockets = OsString::from("unix_socket_directories=");
        sockets.push(place.sockets());
        for setting in SETTINGS.iter().map(OsString::from).chain([sockets]) {
            arguments.extend(["-c".into(), setting]);
        }
        let postgres = programs.bin.join("postgres");
        let program = place.start(&postgres, arguments, Some(parting)).await?;
        let server = Self { program };
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let error = match server.connect(place, database).await {
                Ok(client) => return Ok((server, client)),
                Err(error) => error,
            };
            if let Some(exit) = server.program.try_exit() {
                // What it said is read by another task.
                tokio::time::sleep(Duration::from_millis(20)).await;
                let words = server.program.last_words();
                return Err(format!("the server ended with {exit}: {words}"));
            }
            if Instant::now() > deadline {
                let said = template::said(&error);
                return Err(format!("the server let nobody in for {START_LIMIT:?}: {said}"));
            }
            tokio::time::sleep(ATTEMPT).await;
        }
    }

    /// Opens a superuser's session.
    pub async fn connect(
        &self,
        place: &Place,
        database: &str,
    ) -> Result<Client, tokio_postgres::Error> {
        connect(&Backend::Unix(place.socket()).config(SUPERUSER, None, database)).await
    }

    /// Ends it by its parting signal; how it ended.
    pub async fn stop(self, limit: Duration) -> Option<Exit> {
        self.program.end(limit).await
    }
}

/// The run's cluster. Dropping it ends the server; its files go with the run.
pub struct Cluster {
    server: Server,
    place: Place,
}

impl Cluster {
    /// Copies the template, or builds it first, and starts the server.
    pub async fn start(
        run: &Run,
        programs: &Programs,
        cache: Option<&Path>,
    ) -> Result<Self, String> {
        let out_of_reach = is_root() && !reachable(&programs.bin.join("postgres"));
        // Programs are not executed from memory, where that is mostly forbidden.
        let place = Place::make(run, !out_of_reach)?;
        let programs =
            &if out_of_reach { within_reach(programs, &place).await? } else { programs.clone() };
        let mut began = None;
        if let Some(cache) = cache {
            began = match template::copy(cache, programs, &place).await {
                Ok(false) => None,
                Ok(true) => begin(&place, programs).await.ok(),
                Err(_) => None,
            };
            if began.is_none() && place.data().exists() {
                template::discard(cache, programs, &place);
                fs::remove_dir_all(place.data()).map_err(|error| error.to_string())?;
            }
        }
        let server = match began {
            Some(server) => server,
            None => {
                template::build(cache, programs, &place).await?;
                begin(&place, programs).await?
            }
        };
        Ok(Self { server, place })
    }

    /// The file of the server's socket.
    pub fn socket(&self) -> PathBuf {
        self.place.socket()
    }

    /// Ends the server at once and removes its files.
    pub async fn close(self) -> Vec<String> {
        let Self { server, place } = self;
        server.stop(STOP_LIMIT).await;
        let removed = tokio::task::spawn_blocking(move || {
            for folder in [place.data(), place.sockets()] {
                let _ = fs::remove_dir_all(folder);
            }
            drop(place);
        });
        let _ = removed.await;
        Vec::new()
    }
}

async fn begin(place: &Place, programs: &Programs) -> Result<Server, String> {
    let (server, _) = Server::start(place, programs, DATABASE, Signal::SIGQUIT).await?;
    Ok(server)
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The programs where the cluster's owner can run them: those of root's own cache are brought into
/// the run's folder.
async fn within_reach(programs: &Programs, place: &Place) -> Result<Programs, String> {
    let postgres = programs.bin.join("postgres");
    let unreachable = || {
        format!("{} may not be run by another user, and root may not run it", postgres.display())
    };
    let tree = programs.tree.clone().ok_or_else(unreachable)?;
    let inside = programs.bin.strip_prefix(&tree).map_err(|_| unreachable())?.to_owned();
    let to = place.root().join("programs");
    fs::create_dir(&to).map_err(|error| error.to_string())?;
    let bin = to.join(inside);
    let linked = tokio::task::spawn_blocking(move || files::link_tree(&tree, &to)).await;
    match linked {
        Ok(Ok(())) => Ok(Programs { bin, ..programs.clone() }),
        Ok(Err(error)) => Err(format!("the programs could not be copied: {error}")),
        Err(error) => Err(error.to_string()),
    }
}
