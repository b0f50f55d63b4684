//! The sandbox of one lane: built, watched, brought back.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};

use super::{
    TargetError,
    layout::{self, Kind, Object, SEED},
    snapshot::{Entry, Snapshot, Words, text_of},
};
use crate::{evidence::How, journal::Change};

/// The names `Sandbox::expand` knows.
pub const PLACEHOLDERS: [&str; 8] =
    ["sandbox", "sandbox.name", "sandbox.out", "attic", "box", "cwd", "home", "token"];

/// Tokens of earlier probes that are still recognised in what appears late.
const TOKENS_KEPT: usize = 256;
/// Pictures taken by one reset. Each sees 10,000 entries.
const ROUNDS: usize = 50;
/// Bytes of a file that `Sandbox::carries` searches.
const SEARCHED: u64 = 1 << 20;
/// The beginning of the names that controls write.
const CONTROL_NAME: &[u8] = b"c-";

/// Something that comes back only from the object that holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct CanaryObject {
    /// The path in the box, such as `attic/a.txt`; for a random name `name` and the directory
    /// (`name attic`), for a random size `size` and the path (`size loft/roll`).
    pub object: String,
    /// What to look for: `sm-` and 16 hexadecimal digits, or a size of 13 digits.
    pub token: String,
    /// Whether a tool may show it. True too for the file that has a second name inside.
    pub inside: bool,
}

impl std::fmt::Debug for CanaryObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CanaryObject")
            .field("object", &self.object)
            .field("inside", &self.inside)
            .finish_non_exhaustive()
    }
}

/// What a reset found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The sandbox directory itself was gone or another one, and was made again.
    pub rebuilt: bool,
    /// Something was brought back or removed.
    pub changed: bool,
}

/// The directories of one lane. They are left in place when it is dropped: the lane's directory
/// belongs to the world.
pub struct Sandbox {
    lane: PathBuf,
    box_dir: PathBuf,
    docs: PathBuf,
    cwd: PathBuf,
    out: PathBuf,
    home: PathBuf,
    objects: Vec<Object>,
    /// The paths of the objects from the lane's directory, in their order.
    paths: Vec<OsString>,
    known: HashSet<OsString>,
    roots: Vec<String>,
    docs_file: (u64, u64),
    late_made: bool,
    last: Snapshot,
    /// Canaries from outside, then tokens of probes, the newest last.
    words: Vec<String>,
    own_words: usize,
    brought_in: Vec<String>,
    swept: u64,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("docs", &self.docs).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Makes `box/` below the lane's directory, where `home/` and `tmp/` are already, and takes
    /// the first picture of the three. `special` adds the FIFO, the socket and the links that
    /// hang a careless reader, in a subdirectory of their own.
    ///
    /// # Errors
    /// When the system refuses an object of the layout or gives no random bytes.
    pub fn build(lane_dir: &Path, special: bool) -> Result<Self, TargetError> {
        let lane = lane_dir.canonicalize().map_err(TargetError::object(""))?;
        let box_dir = lane.join("box");
        fs::create_dir_all(&box_dir).map_err(TargetError::object(""))?;
        let case_sensitive = is_case_sensitive(&box_dir).map_err(TargetError::object(""))?;
        let mut objects = layout::objects(&box_dir, case_sensitive, special)?;
        let mut kept = Vec::with_capacity(objects.len());
        for object in objects.drain(..) {
            if object.late || object.make(&box_dir)? {
                kept.push(object);
            }
        }
        let paths: Vec<OsString> = kept.iter().map(|object| below_lane(&object.path)).collect();
        let mut sandbox = Self {
            docs: box_dir.join(&SEED.sandbox),
            cwd: box_dir.join(&SEED.cwd),
            out: box_dir.join(&SEED.out),
            home: lane.join("home"),
            known: paths.iter().cloned().collect(),
            paths,
            objects: kept,
            roots: ["box", "home", "tmp"].map(String::from).to_vec(),
            docs_file: (0, 0),
            late_made: false,
            last: Snapshot::default(),
            words: Vec::new(),
            own_words: 0,
            brought_in: Vec::new(),
            swept: 0,
            lane,
            box_dir,
        };
        sandbox.words = sandbox
            .canaries()
            .into_iter()
            .filter(|canary| !canary.inside)
            .map(|canary| canary.token)
            .collect();
        sandbox.own_words = sandbox.words.len();
        sandbox.docs_file = file_of(&sandbox.docs).unwrap_or_default();
        sandbox.last = sandbox.picture();
        Ok(sandbox)
    }

    /// The directory the server may use.
    pub fn docs(&self) -> &Path {
        &self.docs
    }

    /// The server's working directory, a sibling of the sandbox.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// A directory beside the sandbox for what the configuration sends elsewhere.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// The version of the layout.
    pub fn version() -> &'static str {
        &SEED.version
    }

    /// A word that stands in every text, on the line of its token, and in every random name.
    pub fn search_word() -> &'static str {
        &SEED.search_word
    }

    /// Words that stand once in every text, on another line than the token.
    pub fn edit_text() -> &'static str {
        &SEED.edit_text
    }

    /// Everything whose appearance tells which object was read.
    pub fn canaries(&self) -> Vec<CanaryObject> {
        let canary = |object: &Object| {
            let name = match &object.kind {
                Kind::Sized(_) => format!("size {}", object.path),
                _ if object.named => {
                    let parent = object.path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    format!("name {parent}")
                }
                _ => object.path.clone(),
            };
            let inside = object.is_inside() || object.shared;
            Some(CanaryObject { object: name, token: object.token.clone()?, inside })
        };
        self.objects.iter().filter_map(canary).collect()
    }

    /// Replaces `${name}` by this lane's values and `$${` by `${`.
    ///
    /// # Errors
    /// The name of a placeholder that is not one of `PLACEHOLDERS`.
    pub fn expand(&self, text: &str, token: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            if let Some(literal) = before.strip_suffix('$') {
                out.push_str(literal);
                out.push_str("${");
                rest = &from[2..];
                continue;
            }
            out.push_str(before);
            let (name, behind) = from[2..].split_once('}').ok_or(&from[2..])?;
            match name {
                "sandbox" => out.push_str(&self.docs.to_string_lossy()),
                "sandbox.name" => out.push_str(&SEED.sandbox),
                "sandbox.out" => out.push_str(&self.out.to_string_lossy()),
                "attic" => out.push_str(&self.box_dir.join("attic").to_string_lossy()),
                "box" => out.push_str(&self.box_dir.to_string_lossy()),
                "cwd" => out.push_str(&self.cwd.to_string_lossy()),
                "home" => out.push_str(&self.home.to_string_lossy()),
                "token" => out.push_str(token),
                unknown => return Err(unknown.to_owned()),
            }
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Makes the links that are to appear after the server started.
    ///
    /// # Errors
    /// When the system refuses one.
    pub fn after_start(&mut self) -> Result<(), TargetError> {
        self.late_made = true;
        for (object, path) in self.objects.iter().zip(&self.paths).filter(|(o, _)| o.late) {
            if !object.stands(&self.box_dir, false) {
                object.make(&self.box_dir)?;
            }
            self.last.add(&self.lane, path.clone(), &mut Words::new(&[]));
        }
        Ok(())
    }

    /// What changed below the watched directories since the last look, in order of paths. A
    /// change has `token` when it is of an object of the layout, or when one of `tokens` stands in
    /// its path, its content or its target. Where a server keeps files of its own (HOME, TMPDIR,
    /// its working directory, the output directory) a log of requests holds tokens too, so there
    /// the content counts only when it is the token, as a probe writes it, and nothing else.
    pub fn look(&mut self, tokens: &[&str]) -> Vec<Change> {
        self.remember(tokens);
        let now = self.picture();
        let differences = now.changes(&self.last, &self.lane);
        let mut brought_in = Vec::new();
        let mut changes = Vec::with_capacity(differences.len());
        for (path, how) in differences {
            let entry = now.entries.get(&path).or_else(|| self.last.entries.get(&path));
            let inside = self.is_inside(&path, how);
            if let Some(entry) = entry.filter(|_| inside && how != How::Deleted) {
                brought_in.extend(self.foreign(entry));
            }
            let whole = is_servers_own(path.as_bytes());
            let holds = |entry: &Entry, token: &str| match whole {
                true => entry.is_only(token),
                false => entry.found.iter().any(|word| word == token),
            };
            let carries = |token: &str| {
                contains(path.as_bytes(), token.as_bytes())
                    || entry.is_some_and(|entry| holds(entry, token))
            };
            let token = self.known.contains(&path)
                || tokens.iter().any(|token| is_word(token) && carries(token));
            changes.push(Change { path: path.to_string_lossy().into_owned(), how, inside, token });
        }
        brought_in.sort_unstable();
        brought_in.dedup();
        self.brought_in = brought_in;
        self.last = now;
        changes
    }

    /// Whether what now stands at the path of a change carries a token, by the rule of
    /// [`Sandbox::look`], but for the objects of the layout. The first MiB of a file is searched.
    pub fn carries(&self, change_path: &str, token: &str) -> bool {
        if !is_word(token) {
            return false;
        }
        if contains(change_path.as_bytes(), token.as_bytes()) {
            return true;
        }
        let text = text_of(&self.lane.join(change_path), SEARCHED);
        text.is_some_and(|text| match is_servers_own(change_path.as_bytes()) {
            true => text.trim_ascii() == token.as_bytes(),
            false => contains(&text, token.as_bytes()),
        })
    }

    /// Objects from outside whose text was found inside at the last look: a copy was made.
    pub fn brought_in(&self) -> &[String] {
        &self.brought_in
    }

    /// Why the last look did not see everything, if it did not.
    pub fn caveat(&self) -> Option<&'static str> {
        self.last.cut.then_some(
            "the watched directories held more than 10,000 entries or 32 levels; the rest was not seen",
        )
    }

    /// Brings the layout back: objects that changed or vanished, additions outside, additions
    /// inside with a control's name. Inside and where a server keeps files of its own, additions
    /// go whose path carries a probe's token or whose content is one; all others stay.
    ///
    /// # Errors
    /// When the system refuses to make or to remove an object.
    pub fn reset(&mut self) -> Result<Reset, TargetError> {
        let rebuilt = file_of(&self.docs) != Some(self.docs_file);
        let mut changed = false;
        let ready = if now_a_directory(&self.box_dir) {
            open(&self.box_dir, 0o755)
        } else {
            fs::create_dir(&self.box_dir)
        };
        ready.map_err(TargetError::object(""))?;
        if rebuilt {
            self.discard(&below_lane(&SEED.sandbox))?;
        }
        for _ in 0..ROUNDS {
            let now = self.picture();
            let repaired = self.repair(&now)?;
            let removed = self.remove_additions(&now)?;
            if !repaired && !removed {
                break;
            }
            changed = true;
        }
        if changed || rebuilt {
            self.docs_file = file_of(&self.docs).unwrap_or_default();
            self.last = self.picture();
        }
        Ok(Reset { rebuilt, changed: changed || rebuilt })
    }

    /// Whether the sandbox is the directory that was made, and its text can be read.
    pub fn intact(&self) -> bool {
        file_of(&self.docs) == Some(self.docs_file)
            && self.readable(&self.docs.join("ok.txt").to_string_lossy())
    }

    /// Whether the harness itself can read what the kernel finds at `path`, as seen from the
    /// server's working directory: a regular file is opened, a directory listed, nothing else
    /// touched.
    pub fn readable(&self, path: &str) -> bool {
        let path = match path.strip_prefix("/proc/self/cwd/") {
            Some(rest) => self.cwd.join(rest),
            None => self.cwd.join(path),
        };
        let Ok(meta) = fs::metadata(&path) else { return false };
        if meta.is_dir() {
            return fs::read_dir(&path).is_ok();
        }
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        meta.is_file()
            && fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(&path).is_ok()
    }

    fn picture(&self) -> Snapshot {
        let mut words = Words::new(&self.words);
        Snapshot::take(&self.lane, &self.roots, &self.paths, &self.last, &mut words)
    }

    fn remember(&mut self, tokens: &[&str]) {
        for token in tokens.iter().filter(|token| is_word(token)) {
            if !self.words.iter().any(|word| word == token) {
                self.words.push((*token).to_owned());
            }
        }
        if self.words.len() > self.own_words + TOKENS_KEPT {
            let excess = self.words.len() - TOKENS_KEPT;
            self.words.drain(self.own_words..excess);
        }
    }

    /// The sandbox itself may be touched; that it goes away is a change outside.
    fn is_inside(&self, path: &OsStr, how: How) -> bool {
        let rest = path.as_bytes().strip_prefix(b"box/").unwrap_or_default();
        match rest.strip_prefix(SEED.sandbox.as_bytes()) {
            Some([]) => how == How::Touched,
            Some([b'/', ..]) => true,
            _ => false,
        }
    }

    /// The objects outside whose tokens this entry holds.
    fn foreign(&self, entry: &Entry) -> Vec<String> {
        let own = &self.words[..self.own_words];
        let foreign: Vec<&String> = entry.found.iter().filter(|word| own.contains(word)).collect();
        if foreign.is_empty() {
            return Vec::new();
        }
        let canaries = self.canaries().into_iter();
        canaries.filter(|canary| foreign.contains(&&canary.token)).map(|c| c.object).collect()
    }

    /// Makes what does not stand as declared. Directories come first in the layout, so a closed
    /// one is open again before its content is looked at.
    fn repair(&mut self, now: &Snapshot) -> Result<bool, TargetError> {
        let mut repaired = false;
        for i in 0..self.objects.len() {
            let (object, path) = (&self.objects[i], &self.paths[i]);
            if object.late && !self.late_made {
                continue;
            }
            let hashed = now.entries.get(path).and_then(Entry::hash);
            let read = match &object.kind {
                Kind::Text(text) => hashed != Some(Sha256::digest(text).into()),
                _ => false,
            };
            if object.stands(&self.box_dir, read) {
                continue;
            }
            repaired = true;
            let (object, path) = (object.clone(), path.clone());
            if object.kind == Kind::Dir && now_a_directory(&self.lane.join(&path)) {
                open(&self.lane.join(&path), 0o755).map_err(TargetError::object(&object.path))?;
                continue;
            }
            self.discard(&path)?;
            object.make(&self.box_dir)?;
        }
        Ok(repaired)
    }

    fn remove_additions(&mut self, now: &Snapshot) -> Result<bool, TargetError> {
        let mut removed = false;
        for (path, entry) in &now.entries {
            if self.known.contains(path) || !self.is_ours_to_remove(path, entry) {
                continue;
            }
            // Its directory may have gone just before.
            if fs::symlink_metadata(self.lane.join(path)).is_ok() {
                self.discard(path)?;
                removed = true;
            }
        }
        Ok(removed)
    }

    /// Additions outside go. In the sandbox and where a server keeps files of its own only what a
    /// probe or a control left goes: a database or an open log that holds a token is no such thing.
    fn is_ours_to_remove(&self, path: &OsStr, entry: &Entry) -> bool {
        let bytes = path.as_bytes();
        let inside = is_below(bytes, b"box/", &SEED.sandbox);
        if !inside && !is_servers_own(bytes) {
            return true;
        }
        let name = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let mut tokens = self.words[self.own_words..].iter();
        inside && name.starts_with(CONTROL_NAME)
            || tokens.any(|token| contains(bytes, token.as_bytes()) || entry.is_only(token))
    }

    /// Takes whatever is at the path out of the watched directories and deletes it.
    fn discard(&mut self, path: &OsStr) -> Result<(), TargetError> {
        let at = self.lane.join(path);
        if fs::symlink_metadata(&at).is_err() {
            return Ok(());
        }
        let heap = self.lane.join("swept");
        let failed = |source| TargetError::Object {
            object: path.to_string_lossy().escape_debug().to_string(),
            source,
        };
        if let Err(error) = fs::create_dir(&heap)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(failed(error));
        }
        sweep(&at, &heap, &mut self.swept).map_err(failed)
    }
}

/// Moves `at` into `heap` and deletes it there, each directory taken apart into the heap, so that
/// neither depth nor the length of a path matters, and no link is followed.
fn sweep(at: &Path, heap: &Path, count: &mut u64) -> io::Result<()> {
    let mut waiting = Vec::new();
    take_apart(at, heap, count, &mut waiting)?;
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir)? {
            take_apart(&entry?.path(), heap, count, &mut waiting)?;
        }
        fs::remove_dir(&dir)?;
    }
    Ok(())
}

fn take_apart(
    at: &Path,
    heap: &Path,
    count: &mut u64,
    waiting: &mut Vec<PathBuf>,
) -> io::Result<()> {
    if !now_a_directory(at) {
        return fs::remove_file(at);
    }
    // Moving a directory elsewhere rewrites its `..`, which needs its write permission.
    open(at, 0o700)?;
    *count += 1;
    let to = heap.join(count.to_string());
    fs::rename(at, &to)?;
    waiting.push(to);
    Ok(())
}

fn open(at: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(at, fs::Permissions::from_mode(mode))
}

fn now_a_directory(at: &Path) -> bool {
    fs::symlink_metadata(at).is_ok_and(|meta| meta.is_dir())
}

/// Device and inode of a directory that is no link.
fn file_of(at: &Path) -> Option<(u64, u64)> {
    let meta = fs::symlink_metadata(at).ok()?;
    meta.is_dir().then(|| (meta.dev(), meta.ino()))
}

fn below_lane(in_box: &str) -> OsString {
    OsString::from(format!("box/{in_box}"))
}

fn is_case_sensitive(dir: &Path) -> io::Result<bool> {
    let lower = dir.join("case");
    fs::create_dir(&lower)?;
    let same = fs::symlink_metadata(dir.join("CASE")).is_ok();
    fs::remove_dir(&lower)?;
    Ok(!same)
}

/// Whether a path from the lane's directory is where a server keeps files of its own.
fn is_servers_own(path: &[u8]) -> bool {
    is_below(path, b"", "home")
        || is_below(path, b"", "tmp")
        || is_below(path, b"box/", &SEED.cwd)
        || is_below(path, b"box/", &SEED.out)
}

fn is_below(path: &[u8], parent: &[u8], dir: &str) -> bool {
    let rest = path.strip_prefix(parent).and_then(|rest| rest.strip_prefix(dir.as_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"/"))
}

/// A shorter token would be found anywhere.
fn is_word(token: &str) -> bool {
    token.len() >= 6
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    !word.is_empty() && text.windows(word.len()).any(|window| window == word)
}
