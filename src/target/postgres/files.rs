//! The cache folder, and the copying of trees of files.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, chown},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, SystemTime},
};

use nix::unistd::{User, geteuid};

use crate::world::unprivileged::Owner;

/// Beginning of the name of a folder in the cache that is not finished.
const UNFINISHED: &str = ".new-";
/// Age from which an unfinished folder was left by a run that is dead.
const UNFINISHED_AGE: Duration = Duration::from_secs(3600);
/// Threads that copy: more gain nothing on the file systems measured.
const COPIERS: usize = 4;

/// The cache folder, made when it is not there: `sealmark` below `XDG_CACHE_HOME`, else below
/// `~/.cache`. `None` when it cannot be used or could be another user's doing, because programs
/// are run from it.
pub fn cache() -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| {
        // Under sudo, HOME may still be the other user's.
        let own = |home: &PathBuf| {
            fs::metadata(home).is_ok_and(|folder| folder.uid() == geteuid().as_raw())
        };
        let listed = || User::from_uid(geteuid()).ok().flatten().map(|user| user.dir);
        Some(set("HOME").filter(own).or_else(listed)?.join(".cache"))
    })?;
    let folder = base.join("sealmark");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    is_ours(&folder).then_some(folder)
}

/// Whether a folder is this user's, and nobody else may write to it.
fn is_ours(folder: &Path) -> bool {
    fs::symlink_metadata(folder)
        .is_ok_and(|of| of.is_dir() && of.uid() == geteuid().as_raw() && of.mode() & 0o022 == 0)
}

/// A folder of the cache that is being filled; removed unless it was finished.
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// Makes it, and removes those that dead runs left.
    pub fn begin(cache: &Path) -> io::Result<Self> {
        sweep(cache);
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = cache.join(format!("{UNFINISHED}{id}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Gives the folder its name. Whoever comes second under the same name has lost nothing: the
    /// other's folder is as good.
    pub fn finish(self, name: &Path) -> io::Result<()> {
        match fs::rename(&self.0, name) {
            Err(_) if name.is_dir() => Ok(()),
            other => other,
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sweep(cache: &Path) {
    let Ok(entries) = fs::read_dir(cache) else { return };
    for entry in entries.flatten() {
        let unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if unfinished && age.is_some_and(|age| age > UNFINISHED_AGE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Takes a folder out of the cache: under another name first, so that nobody finds half of it.
pub fn discard(folder: &Path) {
    let Some(cache) = folder.parent() else { return };
    if let Ok(away) = Unfinished::begin(cache) {
        let _ = fs::rename(folder, away.path().join("discarded"));
    }
}

/// Copies what is in the folder `from` into the folder `to`, which exists, and makes `owner` the
/// owner of all of it. There are files and folders only; anything else is an error.
pub fn copy_tree(from: &Path, to: &Path, owner: Option<Owner>) -> io::Result<()> {
    transfer(from, to, owner, |from, to| fs::copy(from, to).map(drop))
}

/// Like [`copy_tree`], with hard links where the file system makes them, for files that nobody
/// writes to.
pub fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    transfer(from, to, None, |from, to| {
        fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop))
    })
}

fn transfer(
    from: &Path,
    to: &Path,
    owner: Option<Owner>,
    carry: impl Fn(&Path, &Path) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let give = |path: &Path| match owner {
        Some(owner) => chown(path, Some(owner.uid), Some(owner.gid)),
        None => Ok(()),
    };
    let mut files = Vec::new();
    let mut folders = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = folders.pop() {
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
            if kind.is_dir() {
                fs::create_dir(&target)?;
                fs::set_permissions(&target, entry.metadata()?.permissions())?;
                give(&target)?;
                folders.push((entry.path(), target));
            } else if kind.is_file() {
                files.push((entry.path(), target));
            } else if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(entry.path())?, target)?;
            } else {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || -> io::Result<()> {
        while let Some((from, to)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            let carried = carry(from, to).and_then(|()| give(to));
            if carried.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            carried?;
        }
        Ok(())
    };
    let count = thread::available_parallelism().map_or(1, usize::from).min(COPIERS);
    thread::scope(|scope| {
        let others: Vec<_> = (1..count).map(|_| scope.spawn(work)).collect();
        others.into_iter().fold(work(), |outcome, other| {
            outcome.and(other.join().unwrap_or_else(|_| Err(io::Error::other("a copier died"))))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_copied_tree_has_the_same_files_and_modes() {
        let parent = tempfile::tempdir().unwrap();
        let (from, to) = (parent.path().join("from"), parent.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::create_dir(&to).unwrap();
        for number in 0..50 {
            fs::write(from.join(format!("a/b/{number}")), number.to_string()).unwrap();
        }
        fs::set_permissions(from.join("a/b/7"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o700)).unwrap();
        copy_tree(&from, &to, None).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/b/49")).unwrap(), "49");
        let mode = |path: &str| fs::metadata(to.join(path)).unwrap().mode() & 0o777;
        assert_eq!((mode("a/b/7"), mode("a")), (0o600, 0o700));
        assert!(copy_tree(&from, &to, None).is_err(), "what is there is not overwritten");
    }

    #[test]
    fn an_unfinished_folder_leaves_nothing_and_the_first_to_finish_wins() {
        let cache = tempfile::tempdir().unwrap();
        let name = cache.path().join("name");
        drop(Unfinished::begin(cache.path()).unwrap());
        for content in ["first", "second"] {
            let new = Unfinished::begin(cache.path()).unwrap();
            fs::write(new.path().join("file"), content).unwrap();
            new.finish(&name).unwrap();
        }
        assert_eq!(fs::read_to_string(name.join("file")).unwrap(), "first");
        discard(&name);
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_ours(folder.path()));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_ours(folder.path()));
    }
}
