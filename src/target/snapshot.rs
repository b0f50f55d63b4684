//! A picture of directories, and the difference of two: metadata first, content only where the
//! metadata moved, links never followed.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::{self, Metadata},
    io::Read,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use aho_corasick::AhoCorasick;
use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};

use crate::evidence::How;

/// Entries of one picture; what lies beyond is not seen, and the picture says so.
pub(super) const MOST_ENTRIES: usize = 10_000;
/// Directories below a root.
const MOST_DEPTH: usize = 32;
/// Bytes of one file that are hashed and searched.
const MOST_CONTENT: u64 = 16 << 20;
/// Bytes hashed for one picture.
const MOST_HASHED: u64 = 64 << 20;
/// A file changed this short before a picture may change again without a new time: the clock of
/// file systems ticks every 1 to 10 ms.
const TICK_NS: i128 = 20_000_000;

/// What of an entry tells that it may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    file: (u64, u64),
    links: u64,
    size: u64,
    modified: i128,
    status: i128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dir,
    File,
    Link,
    Other,
}

impl Stat {
    fn of(meta: &Metadata) -> Self {
        let kind = meta.file_type();
        let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Self {
            kind: match kind {
                _ if kind.is_dir() => Kind::Dir,
                _ if kind.is_file() => Kind::File,
                _ if kind.is_symlink() => Kind::Link,
                _ => Kind::Other,
            },
            mode: meta.mode() & 0o7777,
            owner: (meta.uid(), meta.gid()),
            file: (meta.dev(), meta.ino()),
            links: meta.nlink(),
            size: meta.size(),
            modified: ns(meta.mtime(), meta.mtime_nsec()),
            status: ns(meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// One entry of a picture.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    stat: Stat,
    /// The hash of a file's content, or of a link's target.
    hash: Option<[u8; 32]>,
    /// The words searched for that stand in the content or the target.
    pub(super) found: Vec<String>,
    /// The one of them that is the whole content or target, but for white space around it.
    sole: Option<String>,
}

impl Entry {
    /// Whether the trimmed content or target is this word, which was searched for.
    pub(super) fn is_only(&self, word: &str) -> bool {
        self.sole.as_deref() == Some(word)
    }

    /// The hash of the content, where it was read.
    pub(super) fn hash(&self) -> Option<[u8; 32]> {
        self.hash
    }
}

/// The words searched for in new content; the automaton is built when one is met.
pub(super) struct Words<'a> {
    words: &'a [String],
    built: Option<AhoCorasick>,
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [String]) -> Self {
        Self { words, built: None }
    }

    fn find(&mut self, content: &[u8]) -> Vec<String> {
        if self.built.is_none() {
            self.built = AhoCorasick::new(self.words).ok();
        }
        let mut found: Vec<String> = Vec::new();
        for hit in self.built.iter().flat_map(|built| built.find_overlapping_iter(content)) {
            if let Some(word) = self.words.get(hit.pattern().as_usize())
                && !found.contains(word)
            {
                found.push(word.clone());
            }
        }
        found
    }
}

/// A picture of some directories of a lane. Keys are paths from the lane's directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) entries: BTreeMap<OsString, Entry>,
    taken: i128,
    /// Whether something was left out: too many entries, or too deep.
    pub(super) cut: bool,
}

impl Snapshot {
    /// Takes a picture of `roots` below `lane`, in that order. Hashes are carried over from
    /// `before` where the metadata stands still. Paths in `always` are seen even when it is cut.
    pub(super) fn take(
        lane: &Path,
        roots: &[String],
        always: &[OsString],
        before: &Self,
        words: &mut Words<'_>,
    ) -> Self {
        let mut walk = Walk { lane, before, words, hashed: 0, into: Self::default() };
        walk.into.taken = now();
        for root in roots {
            walk.directory(OsStr::new(root), 0);
        }
        if walk.into.cut {
            for path in always {
                walk.entry(path.clone());
            }
        }
        walk.into
    }

    /// Sees one more path, as when the harness itself made it.
    pub(super) fn add(&mut self, lane: &Path, path: OsString, words: &mut Words<'_>) {
        let before = Self { taken: self.taken, ..Self::default() };
        let into = std::mem::take(self);
        let mut walk = Walk { lane, before: &before, words, hashed: 0, into };
        walk.entry(path);
        *self = walk.into;
    }

    /// What differs from `before`, in order of paths.
    pub(super) fn changes(&self, before: &Self, lane: &Path) -> Vec<(OsString, How)> {
        let mut changes = Vec::new();
        for (path, new) in &self.entries {
            match before.entries.get(path) {
                Some(old) => changes.extend(difference(old, new).map(|how| (path.clone(), how))),
                // A cut picture left out what may have been there for long.
                None if before.cut && new.stat.status < before.taken - TICK_NS => {}
                None => changes.push((path.clone(), How::Created)),
            }
        }
        for path in before.entries.keys().filter(|path| !self.entries.contains_key(*path)) {
            if !self.cut || fs::symlink_metadata(lane.join(path)).is_err() {
                changes.push((path.clone(), How::Deleted));
            }
        }
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        changes
    }
}

fn difference(old: &Entry, new: &Entry) -> Option<How> {
    let (was, is) = (&old.stat, &new.stat);
    if was.kind != is.kind {
        return Some(How::Modified);
    }
    let owned = was.mode != is.mode || was.owner != is.owner;
    let replaced = was.file != is.file;
    match is.kind {
        Kind::Link => (old.hash != new.hash).then_some(How::Modified),
        Kind::Dir | Kind::Other if replaced => Some(How::Modified),
        Kind::Dir | Kind::Other => owned.then_some(How::Touched),
        Kind::File => {
            let moved = replaced || was.modified != is.modified || was.size != is.size;
            match (old.hash, new.hash) {
                (Some(a), Some(b)) if a != b => Some(How::Modified),
                (Some(_), Some(_)) => (owned || moved || is.links > was.links)
                    // That a second name went away leaves the file as it was.
                    .then_some(How::Touched),
                _ if moved => Some(How::Modified),
                _ => (owned || is.links > was.links).then_some(How::Touched),
            }
        }
    }
}

struct Walk<'a, 'w> {
    lane: &'a Path,
    before: &'a Snapshot,
    words: &'a mut Words<'w>,
    hashed: u64,
    into: Snapshot,
}

impl Walk<'_, '_> {
    fn directory(&mut self, path: &OsStr, depth: usize) {
        let Ok(list) = fs::read_dir(self.lane.join(path)) else { return };
        let room = MOST_ENTRIES.saturating_sub(self.into.entries.len());
        let mut names: Vec<OsString> =
            list.flatten().take(room + 1).map(|entry| entry.file_name()).collect();
        if names.len() > room {
            self.into.cut = true;
            names.truncate(room);
        }
        names.sort_unstable();
        for name in names {
            if self.into.entries.len() >= MOST_ENTRIES {
                self.into.cut = true;
                return;
            }
            let mut child = OsString::with_capacity(path.len() + 1 + name.len());
            child.push(path);
            child.push("/");
            child.push(name);
            if self.entry(child.clone()) {
                if depth + 1 >= MOST_DEPTH {
                    self.into.cut = true;
                } else {
                    self.directory(&child, depth + 1);
                }
            }
        }
    }

    /// Sees one path; whether it is a directory.
    fn entry(&mut self, path: OsString) -> bool {
        let at = self.lane.join(&path);
        let Ok(meta) = fs::symlink_metadata(&at) else { return false };
        let stat = Stat::of(&meta);
        let old = self.before.entries.get(&path);
        // Within a tick of the last picture a file may change again without a new time.
        let settled = stat.modified.max(stat.status) + TICK_NS < self.before.taken;
        let entry = match old {
            Some(old) if old.stat == stat && settled => Entry { stat, ..old.clone() },
            _ => self.read(&at, stat, old),
        };
        self.into.entries.insert(path, entry);
        stat.kind == Kind::Dir
    }

    fn read(&mut self, at: &Path, stat: Stat, old: Option<&Entry>) -> Entry {
        let content = match stat.kind {
            Kind::Link => target(at),
            Kind::File if stat.size <= MOST_CONTENT && self.hashed < MOST_HASHED => {
                content(at, MOST_CONTENT)
            }
            _ => None,
        };
        let Some(content) = content else {
            return Entry { stat, hash: None, found: Vec::new(), sole: None };
        };
        self.hashed += content.len() as u64;
        let hash: [u8; 32] = Sha256::digest(&content).into();
        let found = match old {
            Some(old) if old.hash == Some(hash) => old.found.clone(),
            _ => self.words.find(&content),
        };
        let whole = content.trim_ascii();
        let sole = found.iter().find(|word| word.as_bytes() == whole).cloned();
        Entry { stat, hash: Some(hash), found, sole }
    }
}

/// The first `limit` bytes of a regular file, or the target of a link.
pub(super) fn text_of(at: &Path, limit: u64) -> Option<Vec<u8>> {
    target(at).or_else(|| content(at, limit))
}

fn target(at: &Path) -> Option<Vec<u8>> {
    fs::read_link(at).ok().map(|to| to.as_os_str().as_bytes().to_vec())
}

/// The content of a regular file, read without blocking and without following a link that took
/// its place meanwhile.
fn content(at: &Path, limit: u64) -> Option<Vec<u8>> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(at).ok()?;
    let kind = file.metadata().ok()?.file_type();
    if kind.is_fifo() || !kind.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn now() -> i128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(i128::MAX))
}
