//! Finds the programs of a Postgres server on this machine.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use nix::unistd::{AccessFlags, access};
use tokio::process::Command;

use super::{ProvideError, acquire};
use crate::world::Run;

/// The variable that names a folder with `initdb` and `postgres`.
pub const VARIABLE: &str = "SEALMARK_PG_BIN";
/// The oldest version that serves: methodology 8, the seed runs on 13 to 18.
const OLDEST: u32 = 13;
/// How long a program may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// Folders that are tried of one pattern.
const PATTERN_LIMIT: usize = 32;

/// Where distributions put the programs: a folder, the beginning of the name of a folder in it,
/// and the rest of the path. What stands behind the beginning is a version; the newest comes
/// first.
const USUAL: &[(&str, &str, &str)] = &[
    ("usr/lib/postgresql", "", "bin"),
    ("usr", "pgsql-", "bin"),
    ("usr/libexec", "postgresql", ""),
    ("usr/lib", "postgresql", "bin"),
    ("usr/local", "pgsql", "bin"),
    ("opt/homebrew/opt", "postgresql", "bin"),
    ("usr/local/opt", "postgresql", "bin"),
    ("home/linuxbrew/.linuxbrew/opt", "postgresql", "bin"),
    ("Applications/Postgres.app/Contents/Versions", "", "bin"),
    ("opt/local/lib", "postgresql", "bin"),
];

/// A version of Postgres.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The number before the first dot.
    pub major: u32,
    /// As the server says it, such as `15.18` or `18beta1`.
    pub text: String,
}

impl Version {
    /// Reads what `postgres --version` or `SHOW server_version` says.
    pub fn parse(text: &str) -> Option<Self> {
        let word =
            text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        let allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '.';
        let text: String = word.chars().take_while(allowed).take(32).collect();
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        Some(Self { major: digits.parse().ok()?, text })
    }

    /// Whether the seed runs on it.
    pub fn serves(&self) -> bool {
        self.major >= OLDEST
    }
}

/// The programs of a server.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The folder of `initdb` and `postgres`.
    pub bin: PathBuf,
    /// Their version.
    pub version: Version,
    /// `installed`, `cached` or `acquired`.
    pub origin: &'static str,
    /// The whole tree they need, when it is one of the cache.
    pub tree: Option<PathBuf>,
}

/// Finds the programs, installed or cached, or fetches them when that is allowed.
pub async fn programs(
    run: &Run,
    may_fetch: bool,
    cache: Option<&Path>,
    tell: &impl Fn(&str),
    notes: &mut Vec<String>,
) -> Result<Programs, ProvideError> {
    let get = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(found) = installed(&get, Path::new("/"), notes).await {
        return Ok(found);
    }
    if let Some(found) = acquire::cached(cache) {
        return Ok(found);
    }
    let mut why = String::from("none is installed");
    if !notes.is_empty() {
        why = format!("{why} that serves: {}", notes.join("; "));
    }
    let unavailable =
        |more: String| ProvideError::unavailable(format!("{why}, and {more}"), help_to_install());
    if !may_fetch {
        return Err(unavailable("none may be fetched".into()));
    }
    acquire::fetch(run, cache, tell, notes)
        .await
        .map_err(|reason| unavailable(format!("none could be fetched: {reason}")))
}

fn help_to_install() -> String {
    let command = if cfg!(target_os = "macos") {
        "brew install postgresql"
    } else if Path::new("/usr/bin/apt-get").exists() {
        "apt-get install postgresql"
    } else if Path::new("/usr/bin/dnf").exists() {
        "dnf install postgresql-server"
    } else if Path::new("/sbin/apk").exists() {
        "apk add postgresql"
    } else {
        "install PostgreSQL 13 or newer"
    };
    format!("{command}, or --pg URL of one you control, or {VARIABLE}=FOLDER of its programs")
}

/// The installed programs that come first, below `root` where places are fixed. Says in `notes`
/// what was passed over.
pub async fn installed(
    get: &impl Fn(&str) -> Option<OsString>,
    root: &Path,
    notes: &mut Vec<String>,
) -> Option<Programs> {
    if let Some(folder) = get(VARIABLE).map(PathBuf::from) {
        // Another one in its place would not be what was asked for.
        let Some(bin) = real_folder(&folder) else {
            let shown = folder.display();
            notes.push(format!("{VARIABLE} names {shown}, which lacks initdb or postgres"));
            return None;
        };
        return usable(bin, notes).await;
    }
    let path: Vec<PathBuf> = std::env::split_paths(&get("PATH").unwrap_or_default())
        .filter(|folder| folder.is_absolute())
        .collect();
    let mut tried: Vec<PathBuf> = Vec::new();
    for folder in path.iter().filter_map(|folder| real_folder(folder)) {
        if !tried.contains(&folder) {
            tried.push(folder.clone());
            if let Some(found) = usable(folder, notes).await {
                return Some(found);
            }
        }
    }
    let mut further = Vec::new();
    for config in path.iter().map(|folder| folder.join("pg_config")).filter(|path| executable(path))
    {
        let bin = said(&config, "--bindir").await;
        further.extend(bin.and_then(|bin| real_folder(Path::new(bin.trim()))));
    }
    further.extend(USUAL.iter().flat_map(|pattern| of_pattern(root, pattern)));
    for folder in further {
        if !tried.contains(&folder) {
            tried.push(folder.clone());
            if let Some(found) = usable(folder, notes).await {
                return Some(found);
            }
        }
    }
    None
}

/// The folders of one pattern that hold the programs, the newest version first.
fn of_pattern(root: &Path, (parent, start, rest): &(&str, &str, &str)) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root.join(parent)) else { return Vec::new() };
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.strip_prefix(start)?;
            let folder = real_folder(&entry.path().join(rest))?;
            Some((numbers(version)?, folder))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, folder)| folder).take(PATTERN_LIMIT).collect()
}

/// The numbers of a version in a folder's name: `15`, `9.6`, `@17`, nothing, `latest`.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let text = text.strip_prefix(['@', '-']).unwrap_or(text);
    if text.is_empty() || text == "latest" {
        return Some(vec![0]);
    }
    text.split('.').map(|part| part.parse().ok()).collect()
}

/// The folder that holds both programs, behind symbolic links, or `None`.
fn real_folder(folder: &Path) -> Option<PathBuf> {
    let holds =
        |folder: &Path| ["initdb", "postgres"].iter().all(|name| executable(&folder.join(name)));
    if !holds(folder) {
        return None;
    }
    let real = fs::canonicalize(folder.join("postgres")).ok()?;
    let beside = real.parent().filter(|real| holds(real));
    Some(beside.map_or_else(|| folder.to_owned(), Path::to_owned))
}

/// Whether a file can be executed.
pub fn executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|of| of.is_file()) && access(path, AccessFlags::X_OK).is_ok()
}

/// The programs of a folder, when their version serves.
async fn usable(bin: PathBuf, notes: &mut Vec<String>) -> Option<Programs> {
    let postgres = bin.join("postgres");
    let Some(version) = said(&postgres, "--version").await.and_then(|text| Version::parse(&text))
    else {
        notes.push(format!("{} does not say its version", postgres.display()));
        return None;
    };
    if !version.serves() {
        let (text, shown) = (&version.text, bin.display());
        notes.push(format!("Postgres {text} in {shown} is older than {OLDEST}"));
        return None;
    }
    Some(Programs { bin, version, origin: "installed", tree: None })
}

/// The first kilobyte a program says when asked one thing.
pub async fn said(program: &Path, argument: &str) -> Option<String> {
    let asked = Command::new(program)
        .arg(argument)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(VERSION_LIMIT, asked).await.ok()?.ok()?;
    let start = output.stdout.get(..output.stdout.len().min(1024))?;
    output.status.success().then(|| String::from_utf8_lossy(start).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn programs_in(folder: &Path, version: &str) {
        fs::create_dir_all(folder).unwrap();
        for name in ["initdb", "postgres"] {
            let path = folder.join(name);
            fs::write(&path, format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version} (X)'\n"))
                .unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    async fn find(root: &Path, set: &[(&str, &Path)]) -> (Option<PathBuf>, Vec<String>) {
        let mut notes = Vec::new();
        let get = |name: &str| {
            set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.as_os_str().to_owned())
        };
        let found = installed(&get, root, &mut notes).await;
        (found.map(|found| found.bin), notes)
    }

    #[test]
    fn versions_are_read_as_servers_say_them() {
        let read = |text| Version::parse(text).map(|version| (version.major, version.text));
        let debian = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)";
        assert_eq!(read(debian), Some((15, "15.18".into())));
        assert_eq!(read("18beta1"), Some((18, "18beta1".into())));
        assert_eq!(read("postgres"), None);
    }

    #[tokio::test]
    async fn the_newest_of_a_pattern_wins_and_an_old_one_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        programs_in(&root.join("usr/lib/postgresql/9.6/bin"), "9.6.24");
        let (none, notes) = find(&root, &[]).await;
        assert!(
            none.is_none() && notes[0].contains("9.6.24") && notes[0].contains("older than 13")
        );
        for (version, full) in [("9.6", "9.6.24"), ("14", "14.1"), ("16", "16.3")] {
            programs_in(&root.join("usr/lib/postgresql").join(version).join("bin"), full);
        }
        let (found, _) = find(&root, &[]).await;
        assert_eq!(found, Some(root.join("usr/lib/postgresql/16/bin")));
    }

    #[tokio::test]
    async fn the_variable_comes_before_path_and_links_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (real, links, other) = (root.join("real"), root.join("links"), root.join("other"));
        programs_in(&real, "15.1");
        programs_in(&other, "17.2");
        fs::create_dir(&links).unwrap();
        for name in ["initdb", "postgres"] {
            symlink(real.join(name), links.join(name)).unwrap();
        }
        assert_eq!(find(&root, &[("PATH", &links)]).await.0, Some(real.clone()));
        let set: &[(&str, &Path)] = &[(VARIABLE, &other), ("PATH", &links)];
        assert_eq!(find(&root, set).await.0, Some(other.clone()));
        let nowhere: &[(&str, &Path)] = &[(VARIABLE, &root), ("PATH", &links)];
        let (found, notes) = find(&root, nowhere).await;
        assert!(found.is_none() && notes[0].contains(VARIABLE), "{found:?} {notes:?}");
        fs::remove_file(links.join("initdb")).unwrap();
        assert_eq!(find(&root, &[("PATH", &links)]).await.0, None);
    }

    #[tokio::test]
    async fn what_pg_config_names_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        programs_in(&root.join("hidden"), "15.1");
        let config = root.join("pg_config");
        fs::write(&config, format!("#!/bin/sh\necho {}\n", root.join("hidden").display())).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(&root, &[("PATH", &root)]).await.0, Some(root.join("hidden")));
    }
}
