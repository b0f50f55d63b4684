//! The objects of the sandbox: read from `seeds/sandbox.yaml`, given this run's tokens, made and
//! looked at one by one.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
    path::Path,
    sync::LazyLock,
};

use nix::sys::resource::{Resource, getrlimit};
use serde::Deserialize;

use super::TargetError;

/// `seeds/sandbox.yaml`, read on first use.
pub(super) static SEED: LazyLock<Seed> = LazyLock::new(|| {
    crate::check::built_in("seeds/sandbox", include_str!("../../seeds/sandbox.yaml"))
});

/// The declaration of the layout.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seed {
    /// The version of the layout; the record names it.
    pub(super) version: String,
    /// The directory the server may use.
    pub(super) sandbox: String,
    /// The server's working directory.
    pub(super) cwd: String,
    /// Where the configuration may send output.
    pub(super) out: String,
    /// A word that stands on the token's line of every text.
    pub(super) search_word: String,
    /// Words that stand once in every text, on another line than the token.
    pub(super) edit_text: String,
    text: String,
    objects: Vec<Declared>,
}

/// One line of the declaration: exactly one of the first ten keys.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Declared {
    dir: Option<String>,
    file: Option<String>,
    named: Option<String>,
    sized: Option<String>,
    link: Option<String>,
    late: Option<String>,
    hard: Option<String>,
    fifo: Option<String>,
    socket: Option<String>,
    absent: Option<String>,
    /// Where a link points; the first name of a hard link.
    to: String,
    /// Only where names are case-sensitive.
    case: bool,
    /// Only on Linux.
    linux: bool,
    /// Only on the lane that asks for special files.
    special: bool,
    /// A hard link inside shares its content, so that reading it is no escape by a path.
    shared: bool,
}

/// What an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Dir,
    Text(String),
    Sized(u64),
    Link(String),
    Hard(String),
    Fifo,
    Socket,
    Absent,
}

/// One object with this run's values.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// The path in the box.
    pub(super) path: String,
    /// What it is.
    pub(super) kind: Kind,
    /// What comes back only from the object itself, where it has such a thing.
    pub(super) token: Option<String>,
    /// Whether its name is the token.
    pub(super) named: bool,
    /// Whether it is made only after the server started.
    pub(super) late: bool,
    /// Whether its content can be read inside the sandbox too.
    pub(super) shared: bool,
}

/// The objects for one lane, directories before what is in them.
pub(super) fn objects(
    box_dir: &Path,
    case_sensitive: bool,
    special: bool,
) -> Result<Vec<Object>, TargetError> {
    let mut objects = Vec::new();
    for declared in &SEED.objects {
        let wanted = (special || !declared.special)
            && (case_sensitive || !declared.case)
            && (cfg!(target_os = "linux") || !declared.linux);
        if wanted && let Some(object) = object(declared, box_dir)? {
            objects.push(object);
        }
    }
    Ok(objects)
}

fn object(declared: &Declared, box_dir: &Path) -> Result<Option<Object>, TargetError> {
    let mut token = None;
    let mut late = false;
    let target = || declared.to.replace("${box}", &box_dir.to_string_lossy());
    let (path, kind) = if let Some(path) = &declared.dir {
        (path.clone(), Kind::Dir)
    } else if let Some(path) = &declared.file {
        let fresh = fresh_token()?;
        let text = SEED.text.replace("${token}", &fresh);
        token = Some(fresh);
        (path.clone(), Kind::Text(text))
    } else if let Some(dir) = &declared.named {
        let fresh = fresh_token()?;
        let parent = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let path = format!("{parent}{}-{fresh}.txt", SEED.search_word);
        let text = SEED.text.replace("${token}", &fresh);
        token = Some(fresh);
        (path, Kind::Text(text))
    } else if let Some(path) = &declared.sized {
        let size = fresh_size()?;
        token = Some(size.to_string());
        (path.clone(), Kind::Sized(size))
    } else if let Some(path) = &declared.link {
        (path.clone(), Kind::Link(target()))
    } else if let Some(path) = &declared.late {
        late = true;
        (path.clone(), Kind::Link(target()))
    } else if let Some(path) = &declared.hard {
        (path.clone(), Kind::Hard(declared.to.clone()))
    } else if let Some(path) = &declared.fifo {
        (path.clone(), Kind::Fifo)
    } else if let Some(path) = &declared.socket {
        (path.clone(), Kind::Socket)
    } else if let Some(path) = &declared.absent {
        (path.clone(), Kind::Absent)
    } else {
        return Ok(None);
    };
    Ok(Some(Object {
        path,
        kind,
        token,
        named: declared.named.is_some(),
        late,
        shared: declared.shared,
    }))
}

/// `sm-` and 16 hexadecimal digits.
fn fresh_token() -> Result<String, TargetError> {
    Ok(format!("sm-{:016x}", random()?))
}

/// A random size of thirteen digits. The first is 2 to 9, so that no clock in milliseconds before
/// the year 2033 shows one; all are below the 16 TiB an ext4 file may have.
fn fresh_size() -> Result<u64, TargetError> {
    Ok(2_000_000_000_000 + random()? % 8_000_000_000_000)
}

fn random() -> Result<u64, TargetError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| TargetError::Random(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

impl Object {
    /// Makes the object where nothing is. `false`: this file system cannot hold it, which only a
    /// sized file may answer.
    pub(super) fn make(&self, box_dir: &Path) -> Result<bool, TargetError> {
        let at = box_dir.join(&self.path);
        let made = match &self.kind {
            Kind::Dir => fs::create_dir(&at).and_then(|()| mode(&at, 0o755)),
            Kind::Text(text) => create(&at).and_then(|mut file| {
                io::Write::write_all(&mut file, text.as_bytes())?;
                mode(&at, 0o644)
            }),
            Kind::Sized(size) => {
                let done =
                    may_grow_to(*size) && create(&at).and_then(|file| file.set_len(*size)).is_ok();
                if !done {
                    let _ = fs::remove_file(&at);
                }
                return Ok(done);
            }
            Kind::Link(target) => symlink(target, &at),
            Kind::Hard(first) => fs::hard_link(box_dir.join(first), &at),
            Kind::Fifo => nix::unistd::mkfifo(&at, nix::sys::stat::Mode::from_bits_truncate(0o644))
                .map_err(io::Error::from),
            Kind::Socket => socket(&at),
            Kind::Absent => Ok(()),
        };
        made.map_err(TargetError::object(&self.path))?;
        Ok(true)
    }

    /// Whether the object stands as declared. Metadata first; a text is read only when asked to.
    pub(super) fn stands(&self, box_dir: &Path, read: bool) -> bool {
        let at = box_dir.join(&self.path);
        let Ok(meta) = fs::symlink_metadata(&at) else {
            return self.kind == Kind::Absent;
        };
        let kind = meta.file_type();
        match &self.kind {
            Kind::Dir => kind.is_dir() && meta.mode() & 0o7777 == 0o755,
            Kind::Text(text) => {
                kind.is_file()
                    && meta.mode() & 0o7777 == 0o644
                    && meta.len() == text.len() as u64
                    && (!read || fs::read(&at).is_ok_and(|bytes| bytes == text.as_bytes()))
            }
            Kind::Sized(size) => kind.is_file() && meta.len() == *size,
            Kind::Link(target) => fs::read_link(&at).is_ok_and(|to| to == Path::new(target)),
            Kind::Hard(first) => fs::symlink_metadata(box_dir.join(first))
                .is_ok_and(|other| (other.ino(), other.dev()) == (meta.ino(), meta.dev())),
            Kind::Fifo => std::os::unix::fs::FileTypeExt::is_fifo(&kind),
            Kind::Socket => std::os::unix::fs::FileTypeExt::is_socket(&kind),
            Kind::Absent => false,
        }
    }

    /// Whether the object is below the sandbox.
    pub(super) fn is_inside(&self) -> bool {
        self.path.strip_prefix(SEED.sandbox.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

fn mode(at: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(at, fs::Permissions::from_mode(mode))
}

fn create(at: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(at)
}

/// Growing a file beyond RLIMIT_FSIZE ends the process with SIGXFSZ, so the limit is asked first.
fn may_grow_to(size: u64) -> bool {
    getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(soft, _)| soft >= size)
}

/// A node, where the system makes one: a bound address is limited to 107 bytes.
#[cfg(target_os = "linux")]
fn socket(at: &Path) -> io::Result<()> {
    use nix::sys::stat::{Mode, SFlag, mknod};
    mknod(at, SFlag::S_IFSOCK, Mode::from_bits_truncate(0o644), 0).map_err(io::Error::from)
}

#[cfg(not(target_os = "linux"))]
fn socket(at: &Path) -> io::Result<()> {
    std::os::unix::net::UnixListener::bind(at).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_object_is_exactly_one_thing() {
        for declared in &SEED.objects {
            let keys = [
                &declared.dir,
                &declared.file,
                &declared.named,
                &declared.sized,
                &declared.link,
                &declared.late,
                &declared.hard,
                &declared.fifo,
                &declared.socket,
                &declared.absent,
            ];
            assert_eq!(keys.iter().filter(|key| key.is_some()).count(), 1, "{declared:?}");
        }
    }

    #[test]
    fn the_search_word_stands_on_the_line_of_the_token_and_the_edit_text_on_another() {
        let line = SEED.text.lines().find(|line| line.contains("${token}")).unwrap();
        assert!(line.contains(&SEED.search_word));
        assert!(!line.contains(&SEED.edit_text));
        assert_eq!(SEED.text.matches(&SEED.edit_text).count(), 1);
        assert_eq!(SEED.text.matches(&SEED.search_word).count(), 1);
        assert_eq!(SEED.version, "0.1");
    }

    #[test]
    fn sizes_have_thirteen_digits_and_no_clock_shows_them() {
        for _ in 0..50 {
            let size = fresh_size().unwrap().to_string();
            assert_eq!(size.len(), 13);
            assert!(!size.starts_with('1'));
        }
    }
}
