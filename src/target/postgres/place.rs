//! Where a cluster of the run lives, who owns it, and how its programs are run there: under the
//! run's supervisor, as a user without rights when the harness is root's.

use std::{
    ffi::OsString,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::world::{
    Exit, Graces, Lane, Launch, Process, Run,
    unprivileged::{self, Owner},
};

/// The lane of a run that holds its cluster.
const LANE: &str = "pg";
/// The name of the server's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";
/// Bytes of a socket's path: the shortest limit there is, macOS's 104 with the final zero.
const SOCKET_LIMIT: usize = 103;
/// Where a cluster goes when the run's own folder has too long a path or may not be entered.
const SHORT_PARENT: &str = "/tmp";
/// Where a cluster goes when the run is in the system's temporary directory, which nobody chose: a
/// file system in memory, because making the 700 files of a cluster takes 50 ms there and up to
/// 800 ms on a disk that others write to.
const MEMORY: &str = "/dev/shm";
/// Bytes that have to be free there. A container's own has 64 MiB.
#[cfg(target_os = "linux")]
const MEMORY_FREE: u64 = 4 << 30;
/// Bytes kept of what a program says.
const TAIL: usize = 16 * 1024;

/// The folders of a cluster.
pub struct Place {
    lane: Lane,
    owner: Option<Owner>,
    /// A run of its own, swept like any, when the other's folder could not serve. Last, so that
    /// everything in it ended before.
    _own: Option<Run>,
}

impl Place {
    /// Makes the folders: in memory where that is allowed and there is enough, else in the run, else
    /// below [`SHORT_PARENT`]. Elsewhere than in the run they are a run of their own.
    pub fn make(run: &Run, in_memory: bool) -> Result<Self, String> {
        let owner = Owner::to_become()?;
        let serves = |run: &Run| {
            let length = run.root().join(LANE).join("s").join(SOCKET).as_os_str().len();
            length <= SOCKET_LIMIT && (owner.is_none() || may_enter(run.root().parent()))
        };
        let below = |parent: &str| {
            let own = Run::create_in(Path::new(parent)).map_err(|error| error.to_string())?;
            let own = match run.supervisor() {
                Some(program) => own.supervised_by(program),
                None => own,
            };
            Ok::<_, String>(Some(own).filter(serves))
        };
        let mut own = None;
        if in_memory && nobody_chose(run.root()) && has_memory() {
            own = below(MEMORY).ok().flatten();
        }
        if own.is_none() && !serves(run) {
            let none = "no folder has a short enough path and may be entered by another user";
            own = Some(below(SHORT_PARENT)?.ok_or(none)?);
        }
        let (lane, root) = {
            let run = own.as_ref().unwrap_or(run);
            (run.lane(LANE).map_err(|error| error.to_string())?, run.root().to_owned())
        };
        Self::prepare(lane, owner, own, &root)
    }

    fn prepare(
        lane: Lane,
        owner: Option<Owner>,
        own: Option<Run>,
        root: &Path,
    ) -> Result<Self, String> {
        let place = Self { lane, owner, _own: own };
        let fail =
            |error: std::io::Error| format!("the cluster's folder could not be made: {error}");
        if owner.is_some() {
            // The other user may pass, and sees no more than before.
            for folder in [root, place.lane.root()] {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o711)).map_err(fail)?;
            }
        }
        place.folder(&place.sockets()).map_err(fail)?;
        Ok(place)
    }

    /// Makes an empty folder that only the cluster's owner and root may enter.
    pub fn folder(&self, path: &Path) -> std::io::Result<()> {
        fs::create_dir(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        self.give(path)
    }

    /// Makes the cluster's owner the owner of a file.
    pub fn give(&self, path: &Path) -> std::io::Result<()> {
        match self.owner {
            Some(owner) => chown(path, Some(owner.uid), Some(owner.gid)),
            None => Ok(()),
        }
    }

    /// Whom the cluster belongs to, when not to this process's user.
    pub fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// The folder of everything.
    pub fn root(&self) -> &Path {
        self.lane.root()
    }

    /// The cluster's data directory.
    pub fn data(&self) -> PathBuf {
        self.lane.root().join("data")
    }

    /// The folder of the server's socket.
    pub fn sockets(&self) -> PathBuf {
        self.lane.root().join("s")
    }

    /// The server's socket.
    pub fn socket(&self) -> PathBuf {
        self.sockets().join(SOCKET)
    }

    /// Starts one of the programs as the cluster's owner. With a parting signal it is asked to end
    /// by that one.
    pub async fn start(
        &self,
        program: &Path,
        arguments: Vec<OsString>,
        parting: Option<Signal>,
    ) -> Result<Program, String> {
        let supervisor = self.lane.supervisor();
        let (program, args) = unprivileged::command(supervisor, self.owner, program, arguments)?;
        let env = [("LC_ALL", "C"), ("TZ", "UTC"), ("PATH", "/usr/bin:/bin")];
        let launch = Launch {
            program,
            args,
            env: env.map(|(name, value)| (name.into(), value.into())).into(),
            cwd: "/".into(),
            lane: self.lane.clone(),
            supervisor: None,
            parting,
        };
        Program::start(&launch).await
    }
}

/// Whether the root of a run is where runs are made unless somebody says otherwise.
fn nobody_chose(root: &Path) -> bool {
    let temporary = fs::canonicalize(std::env::temp_dir()).ok();
    std::env::var_os("TMPDIR").is_none() && temporary.as_deref() == root.parent()
}

#[cfg(target_os = "linux")]
fn has_memory() -> bool {
    nix::sys::statvfs::statvfs(MEMORY)
        .is_ok_and(|of| of.blocks_available().saturating_mul(of.fragment_size()) >= MEMORY_FREE)
}

#[cfg(not(target_os = "linux"))]
fn has_memory() -> bool {
    false
}

/// Whether every user may pass a folder and all above it.
fn may_enter(path: Option<&Path>) -> bool {
    path.is_some_and(|path| {
        path.ancestors().all(|folder| fs::metadata(folder).is_ok_and(|of| of.mode() & 1 == 1))
    })
}

/// Whether a file can be reached by a user without rights of its own.
pub fn reachable(path: &Path) -> bool {
    may_enter(path.parent())
        && fs::metadata(path).is_ok_and(|of| of.mode() & 0o5 == 0o5)
        && !path.as_os_str().as_bytes().contains(&0)
}

/// A program that runs, and the end of what it says on both streams.
pub struct Program {
    process: Process,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Program {
    /// Starts it.
    pub async fn start(launch: &Launch) -> Result<Self, String> {
        let mut process = launch.start().await.map_err(|error| format!("failed to {error}"))?;
        let said = Arc::new(Mutex::new(Vec::new()));
        if let Some(stdout) = process.stdout() {
            tokio::spawn(keep(stdout, Arc::clone(&said)));
        }
        if let Some(stderr) = process.stderr() {
            tokio::spawn(keep(stderr, Arc::clone(&said)));
        }
        drop(process.stdin());
        Ok(Self { process, said })
    }

    /// Waits for its exit; `None` when it did not exit in time, and was ended.
    pub async fn exit(mut self, limit: Duration) -> (Option<Exit>, String) {
        let exit = tokio::time::timeout(limit, self.process.exited()).await.ok();
        let said = Arc::clone(&self.said);
        let hasty = Graces { eof: Duration::ZERO, term: Duration::ZERO, ..Graces::default() };
        self.process.end(hasty).await;
        (exit, last_words(&said))
    }

    /// How it ended, when it has.
    pub fn try_exit(&self) -> Option<Exit> {
        self.process.try_exited()
    }

    /// Asks it to end by its parting signal and waits for that.
    pub async fn end(self, grace: Duration) -> Option<Exit> {
        let graces = Graces { eof: Duration::ZERO, term: grace, descendants: Duration::ZERO };
        self.process.end(graces).await.exit
    }

    /// The last line it said, as one that can be shown.
    pub fn last_words(&self) -> String {
        last_words(&self.said)
    }
}

async fn keep(mut stream: impl AsyncRead + Unpin, said: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&chunk[..count]);
        let over = said.len().saturating_sub(TAIL);
        said.drain(..over);
    }
}

/// The last line that tells of an error, or the last one.
fn last_words(said: &Mutex<Vec<u8>>) -> String {
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8_lossy(&said);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tells = |line: &&str| {
        ["FATAL", "PANIC", "rror:", "ERROR", "ERR!", "failed to"]
            .iter()
            .any(|word| line.contains(word))
    };
    let line =
        lines().rev().find(tells).or_else(|| lines().next_back()).unwrap_or("it said nothing");
    line.chars().filter(|character| !character.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_of_the_error_is_kept() {
        let said = |text: &str| last_words(&Mutex::new(text.as_bytes().to_vec()));
        assert_eq!(said("a\nx FATAL:  no\u{1b}[1m space\nLOG: bye\n"), "x FATAL:  no[1m space");
        assert_eq!(said("one\ntwo\n\n"), "two");
        assert_eq!(said(""), "it said nothing");
    }

    #[test]
    fn a_folder_below_a_private_one_may_not_be_entered() {
        let parent = tempfile::tempdir().unwrap();
        let inner = parent.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!may_enter(Some(&inner)) && may_enter(Some(Path::new("/usr"))));
    }
}
