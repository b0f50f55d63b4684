//! The private folders of a run, and the removal of what dead runs left behind.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::tree;

/// The variable that carries the run's id in the environment of everything a run starts.
pub const RUN_VARIABLE: &str = "SEALMARK_RUN";
/// The variable that tells the processes of one start from those of another start of the run.
pub const START_VARIABLE: &str = "SEALMARK_START";
/// The variable that holds the number of the signal a process is to get before it is killed.
pub const PARTING_VARIABLE: &str = "SEALMARK_PARTING";

/// Every root's name begins so; the run's id follows.
const PREFIX: &str = "sealmark-";
/// While this file is locked, its run lives. The kernel drops the lock with the process.
const OWNER: &str = "owner";
/// Length of a run's id in hexadecimal digits.
const ID_DIGITS: usize = 16;
/// Dead runs whose root one sweep removes.
const SWEEP_ROOTS: usize = 64;
/// How long one sweep begins further removals.
const SWEEP_TIME: Duration = Duration::from_secs(5);
/// Age from which a root without its owner file is no longer one that is just being made.
const UNOWNED_AGE: Duration = Duration::from_secs(600);
/// How long the end of a run waits for its supervisors to finish.
const SETTLE: Duration = Duration::from_secs(2);
/// Folders whose permissions one removal repairs.
const REPAIR_LIMIT: usize = 100_000;

/// Why a run's private folders are not there.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No folder or file could be made: no space, no permission, no such directory.
    #[error("use {} for the run's private files: {source}", path.display())]
    Folder {
        /// The directory concerned.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The system's temporary directory cannot be used.
    #[error("use the temporary directory `{}` (TMPDIR) for the run's private files: {source}",
        path.display())]
    Temporary {
        /// The directory as the environment names it.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A lane's name is no file name of at most 32 lower-case letters, digits and hyphens.
    #[error("name a lane {name:?}: lower-case letters, digits and hyphens are allowed, 32 at most")]
    LaneName {
        /// The refused name.
        name: String,
    },
    /// The system gave no random bytes for the run's id.
    #[error("draw the run's random id: {0}")]
    Random(#[from] getrandom::Error),
}

/// A run's private root directory. Dropping it ends what is left of the run's processes and
/// removes the root.
#[derive(Debug)]
pub struct Run {
    id: Arc<str>,
    root: PathBuf,
    starts: Arc<AtomicU32>,
    supervisor: Option<Arc<Path>>,
    /// Holds the lock that says this run lives.
    _owner: File,
    swept: Sweep,
}

/// What a sweep found of dead runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Roots that were removed.
    pub roots: usize,
    /// Roots of dead runs that could not be removed.
    pub kept: usize,
    /// Processes of dead runs that were ended.
    pub processes: usize,
}

impl Run {
    /// Sweeps what dead runs left and makes a new root below the system's temporary directory.
    pub fn create() -> Result<Self, RunError> {
        Self::create_in_temporary(std::env::temp_dir())
    }

    fn create_in_temporary(path: PathBuf) -> Result<Self, RunError> {
        Self::create_in(&path).map_err(|error| match error {
            RunError::Folder { source, .. } => RunError::Temporary { path, source },
            other => other,
        })
    }

    /// Like [`Run::create`], below another directory, which must exist.
    pub fn create_in(parent: &Path) -> Result<Self, RunError> {
        let fail = |source| RunError::Folder { path: parent.to_owned(), source };
        let parent = fs::canonicalize(parent).map_err(fail)?;
        let swept = sweep(&parent);

        let mut bytes = [0; ID_DIGITS / 2];
        getrandom::fill(&mut bytes)?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        // The root gets its name only when it is locked, so no sweeper takes it for a dead one.
        let unready = parent.join(format!(".{PREFIX}{id}"));
        let root = parent.join(format!("{PREFIX}{id}"));
        let owner = make_folder(&unready)
            .and_then(|()| lock_owner(&unready))
            .and_then(|owner| fs::rename(&unready, &root).map(|()| owner))
            .map_err(|error| {
                let _ = remove_tree(&unready);
                fail(error)
            })?;
        Ok(Self {
            id: id.into(),
            root,
            starts: Arc::default(),
            supervisor: None,
            _owner: owner,
            swept,
        })
    }

    /// Has everything in the lanes made from here on supervised by another program than the
    /// running one. It calls [`super::shim::dispatch`] first.
    pub fn supervised_by(mut self, program: &Path) -> Self {
        self.supervisor = Some(program.into());
        self
    }

    /// The program that supervises, when it is not the running one.
    pub fn supervisor(&self) -> Option<&Path> {
        self.supervisor.as_deref()
    }

    /// The run's id: 16 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The root directory, with symbolic links resolved. Only its owner may enter it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the sweep before this run found.
    pub fn swept(&self) -> Sweep {
        self.swept
    }

    /// Makes the folders of a lane, or finds those made before under the same name.
    pub fn lane(&self, name: &str) -> Result<Lane, RunError> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(allowed) {
            return Err(RunError::LaneName { name: name.to_owned() });
        }
        let lane = Lane {
            run: Arc::clone(&self.id),
            name: name.into(),
            root: self.root.join(name),
            starts: Arc::clone(&self.starts),
            supervisor: self.supervisor.clone(),
        };
        for folder in lane.folders() {
            make_folder(&folder).map_err(|source| RunError::Folder { path: folder, source })?;
        }
        Ok(lane)
    }

    /// Ends what is left of the run and removes its root, like dropping it, but tells the outcome.
    pub fn close(self) -> Result<(), RunError> {
        self.clear().map_err(|source| RunError::Folder { path: self.root.clone(), source })
    }

    fn clear(&self) -> io::Result<()> {
        if !self.root.exists() {
            return Ok(());
        }
        let marks = [format!("{RUN_VARIABLE}={}", self.id)];
        // Supervisors that were just told to end their tree need a moment.
        let deadline = Instant::now() + SETTLE;
        while !tree::marked(&marks).is_empty() && Instant::now() < deadline {
            thread::sleep(tree::LOOK);
        }
        tree::end_all(|| tree::marked(&marks));
        loop {
            match remove_root(&self.root) {
                Err(_) if Instant::now() < deadline => thread::sleep(tree::LOOK),
                outcome => return outcome,
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // What cannot be removed now is left to the next run's sweep.
        let _ = self.clear();
    }
}

/// The folders of one lane of a run. A server is started in a lane.
#[derive(Clone, Debug)]
pub struct Lane {
    run: Arc<str>,
    name: Arc<str>,
    root: PathBuf,
    starts: Arc<AtomicU32>,
    supervisor: Option<Arc<Path>>,
}

impl Lane {
    /// The id of the run the lane belongs to.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The program that supervises what is started here, when it is not the running one.
    pub fn supervisor(&self) -> Option<&Path> {
        self.supervisor.as_deref()
    }

    /// The lane's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lane's directory, which holds all others.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The sandbox, made empty: what the server is told to work on.
    pub fn sandbox(&self) -> PathBuf {
        self.root.join("box")
    }

    /// The server's HOME.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The server's TMPDIR.
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// One of the server's XDG base directories: `config`, `cache`, `data`, `state` or `run`.
    pub fn xdg(&self, kind: &str) -> PathBuf {
        self.root.join("xdg").join(kind)
    }

    /// A new control directory and the mark of the start it is for.
    pub(crate) fn next_start(&self) -> io::Result<(PathBuf, String)> {
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        let control = self.root.join("control").join(number.to_string());
        make_folder(&control)?;
        Ok((control, format!("{}.{number}", self.name)))
    }

    fn folders(&self) -> Vec<PathBuf> {
        let mut all = vec![self.root.clone(), self.sandbox(), self.home(), self.tmp()];
        all.push(self.root.join("xdg"));
        all.extend(["config", "cache", "data", "state", "run"].map(|kind| self.xdg(kind)));
        all.push(self.root.join("control"));
        all
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_folder(path) => Ok(()),
        other => other,
    }
}

/// Whether `path` itself, and not what a symbolic link points at, is a directory.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn lock_owner(root: &Path) -> io::Result<File> {
    let mut owner =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(root.join(OWNER))?;
    // The content is for people, and shows early that there is no space.
    writeln!(owner, "A run of sealmark, process {}.", std::process::id())?;
    owner.try_lock().map_err(io::Error::from)?;
    Ok(owner)
}

/// Removes the roots of dead runs below `parent` and ends processes that carry such a run's id.
/// A root is only touched when it belongs to this user and no live process holds its lock.
pub fn sweep(parent: &Path) -> Sweep {
    let mut swept = Sweep::default();
    let deadline = Instant::now() + SWEEP_TIME;
    let Ok(folder) = fs::read_dir(parent) else { return swept };
    for entry in folder.flatten() {
        if swept.roots + swept.kept >= SWEEP_ROOTS || Instant::now() > deadline {
            break;
        }
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(run_id) else { continue };
        let root = entry.path();
        let Ok(metadata) = fs::symlink_metadata(&root) else { continue };
        if !metadata.is_dir() || metadata.uid() != nix::unistd::geteuid().as_raw() {
            continue;
        }
        // The lock is kept until the root is gone, so two sweepers do not meet in it.
        let Some(_lock) = lock_of_the_dead(&root, &metadata) else { continue };
        let marks = [format!("{RUN_VARIABLE}={id}")];
        swept.processes += tree::marked(&marks).len();
        tree::end_all(|| tree::marked(&marks));
        match remove_root(&root) {
            Ok(()) => swept.roots += 1,
            Err(_) => swept.kept += 1,
        }
    }
    swept
}

/// The run's id in the name of a root, also of one that was never finished.
fn run_id(name: &str) -> Option<&str> {
    let id = name.strip_prefix('.').unwrap_or(name).strip_prefix(PREFIX)?;
    let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (id.len() == ID_DIGITS && id.bytes().all(hexadecimal)).then_some(id)
}

/// `Some` when the run is dead: with its lock, if there is still a file to lock. A root gets its
/// name with its owner file in it, so an empty one is the last of a removal.
fn lock_of_the_dead(root: &Path, metadata: &Metadata) -> Option<Option<File>> {
    let unfinished = root.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
    let aged = || {
        let age = metadata.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        age.is_some_and(|age| age > UNOWNED_AGE)
    };
    let owner = root.join(OWNER);
    match fs::symlink_metadata(&owner) {
        Ok(file) if file.is_file() => {
            let file = File::open(&owner).ok()?;
            file.try_lock().ok()?;
            (!unfinished || aged()).then_some(Some(file))
        }
        _ => (aged() || !unfinished && is_empty(root)).then_some(None),
    }
}

/// What a supervisor does when the harness is gone: removes the lane, and the root with the
/// last lane.
pub(crate) fn remove_lane(lane: &Path) {
    let _ = remove_tree(lane);
    let Some(root) = lane.parent() else { return };
    let Ok(mut rest) = fs::read_dir(root) else { return };
    if rest.all(|entry| entry.is_ok_and(|entry| entry.file_name() == OWNER)) {
        let _ = fs::remove_file(root.join(OWNER));
        let _ = fs::remove_dir(root);
    }
}

/// Removes a root with its owner file last: while anything else is left, the next sweep can tell
/// by the lock that the run is dead. The first error is told when all was tried.
fn remove_root(root: &Path) -> io::Result<()> {
    remove_root_by(root, remove_entry)
}

fn remove_root_by(root: &Path, remove: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    // One that its owner locked cannot be listed.
    let _ = fs::set_permissions(root, fs::Permissions::from_mode(0o700));
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let mut outcome = Ok(());
    for entry in entries {
        let entry = entry?;
        if entry.file_name() != OWNER {
            outcome = outcome.and(remove(&entry.path()));
        }
    }
    outcome.and_then(|()| remove_tree(root))
}

fn remove_entry(path: &Path) -> io::Result<()> {
    if is_folder(path) {
        return remove_tree(path);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes a directory and everything below it; nothing there is success. Symbolic links are
/// not followed. Folders that their owner locked are opened first.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tries += 1;
                if tries == 5 {
                    return Err(error);
                }
                open_folders(path);
                thread::sleep(tree::LOOK);
            }
            _ => return Ok(()),
        }
    }
}

fn open_folders(path: &Path) {
    let mut waiting = vec![path.to_owned()];
    let mut seen = 0;
    while let Some(folder) = waiting.pop() {
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen < REPAIR_LIMIT && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_making_are_roots() {
        assert_eq!(run_id("sealmark-0123456789abcdef"), Some("0123456789abcdef"));
        assert_eq!(run_id(".sealmark-0123456789abcdef"), Some("0123456789abcdef"));
        for other in ["sealmark-", "sealmark-notes", "sealmark-0123456789ABCDEF", "x"] {
            assert_eq!(run_id(other), None, "{other}");
        }
    }

    #[test]
    fn a_lane_is_private_and_goes_with_its_run() {
        let parent = tempfile::tempdir().unwrap();
        let run = Run::create_in(parent.path()).unwrap();
        let lane = run.lane("main").unwrap();
        for folder in lane.folders().iter().chain([&run.root]) {
            let mode = fs::symlink_metadata(folder).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
        }
        fs::write(run.lane("main").unwrap().home().join("kept"), "").unwrap();
        assert!(lane.home().join("kept").exists());
        run.close().unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_lane_name_cannot_leave_the_root() {
        let parent = tempfile::tempdir().unwrap();
        let run = Run::create_in(parent.path()).unwrap();
        for name in ["", "..", "a/b", "Main", &"a".repeat(33)] {
            assert!(matches!(run.lane(name), Err(RunError::LaneName { .. })), "{name}");
        }
    }

    #[test]
    fn a_place_that_cannot_be_used_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Run::create_in(&file).unwrap_err().to_string();
        assert!(error.contains(file.to_str().unwrap()), "{error}");
    }

    #[test]
    fn a_temporary_directory_that_cannot_be_used_is_named_with_its_variable() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [PathBuf::new(), parent.path().join("none"), file] {
            let error = Run::create_in_temporary(path.clone()).unwrap_err().to_string();
            let named = format!("the temporary directory `{}` (TMPDIR)", path.display());
            assert!(error.contains(&named), "{error}");
        }
    }

    #[test]
    fn a_removal_that_is_cut_short_leaves_the_owner_file() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("sealmark-0123456789abcdef");
        for folder in ["main", "other", "zz"] {
            fs::create_dir_all(root.join(folder).join("home")).unwrap();
        }
        drop(lock_owner(&root).unwrap());
        std::os::unix::fs::symlink("/", root.join("link")).unwrap();
        let cut = remove_root_by(&root, |path| {
            assert!(root.join(OWNER).exists() && !path.ends_with(OWNER));
            if path.ends_with("other") {
                Err(io::ErrorKind::Other.into())
            } else {
                remove_entry(path)
            }
        });
        assert!(cut.is_err());
        let mut left: Vec<_> =
            fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["other", OWNER]);
        // The next sweep need not wait for such a root to age.
        assert_eq!(sweep(parent.path()), Sweep { roots: 1, ..Sweep::default() });
        assert!(!root.exists());
    }

    #[test]
    fn an_empty_root_is_swept_at_once_unless_it_is_just_being_made() {
        let parent = tempfile::tempdir().unwrap();
        let emptied = parent.path().join("sealmark-0123456789abcdef");
        let unready = parent.path().join(".sealmark-0123456789abcdef");
        fs::create_dir(&emptied).unwrap();
        fs::create_dir(&unready).unwrap();
        assert_eq!(sweep(parent.path()), Sweep { roots: 1, ..Sweep::default() });
        assert!(!emptied.exists() && unready.exists());
    }

    #[test]
    fn a_locked_folder_is_removed_and_a_link_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let outside = parent.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "").unwrap();
        let root = parent.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("a/link")).unwrap();
        fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&root).unwrap();
        assert!(!root.exists() && outside.join("kept").exists());
    }
}
