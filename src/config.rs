//! The user's configuration: the server under test and what is asked of it, read from a file or
//! from a command line, with errors that name the place and what to write instead.

mod error;
mod file;
mod limits;
mod placeholder;
mod read;
pub mod secrets;
mod shown;
#[cfg(test)]
mod tests;
mod warn;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::error::{ConfigError, ErrorKind, Place};
pub use self::file::json_schema;
pub use self::limits::{Limits, MAX_SECONDS, Row};
pub use self::placeholder::{
    ExpandError, Fault, Pg, PgValues, Placeholder, Resolve, Values, encoded, expand, expand_value,
};
pub use self::read::{MAX_FILE, from_command, load, parse};
pub use self::shown::{CANARY, Shown};
pub use self::warn::Warning;
use crate::letter::Letter;

/// What the registry knows, as far as a configuration may name it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// Packs of this version.
    pub packs: &'a [&'a str],
    /// Packs that are planned.
    pub later_packs: &'a [&'a str],
    /// Checks: id, whether it is a candidate, and its severity.
    pub checks: &'a [(&'a str, bool, &'a str)],
}

/// How much is asked, and how strict the gate is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// The published profile.
    #[default]
    Standard,
    /// The same, and an inconclusive pack fails the gate.
    Ci,
    /// Longer probes; the run is CUSTOM.
    Deep,
}

impl Profile {
    /// The word in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Ci => "ci",
            Self::Deep => "deep",
        }
    }
}

/// Where the server runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// A plain process group.
    #[default]
    Open,
    /// Namespaces of its own; not in this version.
    Sealed,
}

/// The era of the protocol that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// What the server speaks.
    #[default]
    Auto,
    /// With a handshake; forcing it is not in this version.
    Legacy,
    /// Without one; forcing it is not in this version.
    Modern,
}

/// How a check counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It counts, and a fail caps the letter.
    Critical,
    /// It counts.
    Scored,
    /// It is shown and does not count.
    Advisory,
}

impl Severity {
    /// The word in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Scored => "scored",
            Self::Advisory => "advisory",
        }
    }
}

/// What a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Runs a statement of SQL it is given.
    Sql,
    /// Fetches a URL it is given.
    Fetch,
    /// Reads a file.
    Read,
    /// Changes a file.
    Write,
    /// Lists a directory.
    List,
    /// Reads a repository.
    GitRead,
    /// Changes a repository.
    GitWrite,
    /// Runs a command.
    Exec,
    /// None of these: it is left alone by the packs that ask about them.
    Other,
}

impl Class {
    /// The word in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sql => "sql",
            Self::Fetch => "fetch",
            Self::Read => "read",
            Self::Write => "write",
            Self::List => "list",
            Self::GitRead => "git-read",
            Self::GitWrite => "git-write",
            Self::Exec => "exec",
            Self::Other => "other",
        }
    }
}

/// What the file says about a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOverride {
    /// Its class, in place of the one found out.
    pub class: Option<Class>,
    /// Values for other required arguments; texts in them may hold placeholders (`expand_value`).
    pub arguments: serde_json::Map<String, serde_json::Value>,
}

/// A tool that runs SQL, as the file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlTool {
    /// The tool.
    pub tool: String,
    /// The argument that takes the statement.
    pub argument: String,
}

/// The address of a database with a password in it, which `Debug` leaves out.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(pub String);

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl")
    }
}

/// What the file says about a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOverride {
    /// Whether it runs.
    pub enabled: Option<bool>,
    /// How it counts.
    pub severity: Option<Severity>,
}

/// A known failure that does not fail the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The id of the check; it exists.
    pub check: String,
    /// The rule, or any.
    pub rule: Option<String>,
    /// Why.
    pub reason: String,
    /// The last day it holds on.
    pub until: jiff::civil::Date,
    /// The line of the entry, for messages about an expired or stale one.
    pub line: u32,
}

/// A stdio server, as written: placeholders unexpanded. `Debug` gives what a report shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// The program; never empty.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables of its environment, in the order of the file.
    pub env: Vec<(String, String)>,
    /// Its working directory; without one it is given its own.
    pub cwd: Option<String>,
    /// Files for `${files}`: a relative path without `..`, and the content.
    pub files: Vec<(String, String)>,
}

/// Where a run departs from the standard profile, which makes it CUSTOM (methodology 9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Departure {
    /// The key, such as `checks.shutdown.enabled`.
    pub key: String,
    /// The value of the run.
    pub value: String,
    /// The standard value.
    pub standard: String,
}

/// A configuration that was checked: every name in it exists, every text is a sound template, and
/// every `${env:NAME}` had a value when it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The server under test.
    pub server: Server,
    /// The packs chosen, or all that apply.
    pub packs: Option<Vec<String>>,
    /// Tools by name.
    pub tools: BTreeMap<String, ToolOverride>,
    /// The tools that run SQL; empty when they are to be found.
    pub sql_tools: Vec<SqlTool>,
    /// A Postgres of the user's, in which the seed database is made; from the command line alone.
    pub pg: Option<DatabaseUrl>,
    /// Whether a Postgres may be started, and fetched where none is installed.
    pub embedded: bool,
    /// Checks by id.
    pub checks: BTreeMap<String, CheckOverride>,
    /// The profile.
    pub profile: Profile,
    /// The world; always open in this version.
    pub world: World,
    /// The gate.
    pub fail_under: Letter,
    /// Known failures.
    pub accept: Vec<Accept>,
    /// Limits and times.
    pub limits: Limits,
    /// The file, as it was named; `None` for a command line.
    pub file: Option<PathBuf>,
    /// The folder relative paths start from: that of the file, or the current directory.
    pub folder: PathBuf,
    /// The line of the first key of `server`, 1 for a command line.
    pub server_line: u32,
}

/// A server ready to be started on one lane. `Debug` shows no value.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program: a name to look up in PATH, or an absolute path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables.
    pub env: Vec<(String, String)>,
    /// Its working directory, absolute, if the configuration sets one.
    pub cwd: Option<PathBuf>,
    /// Files to write to `${files}` before the start.
    pub files: Vec<(String, String)>,
}

impl Server {
    /// Every text that may hold placeholders.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.command.as_str())
            .chain(self.args.iter().map(String::as_str))
            .chain(self.env.iter().map(|(_, value)| value.as_str()))
            .chain(self.cwd.as_deref())
            .chain(self.files.iter().map(|(_, content)| content.as_str()))
    }

    /// The section as reports show it. The home directory is that of the environment.
    pub fn shown(&self) -> Shown {
        let home = std::env::var("HOME").or_else(|_| std::env::var("USERPROFILE")).ok();
        shown::server(self, home.as_deref())
    }

    /// Whether the command fetches its program before it starts it (npx, uvx, docker, …).
    pub fn is_launcher(&self) -> bool {
        warn::launcher(&self.command).is_some()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(f)
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("args", &self.args.len())
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Config {
    /// The placeholders used anywhere, so that a plan knows what a lane needs.
    pub fn placeholders(&self) -> BTreeSet<Placeholder> {
        let mut found = BTreeSet::new();
        let mut collect = |text: &str| {
            for piece in placeholder::pieces(text).unwrap_or_default() {
                if let placeholder::Piece::Hole { placeholder, .. } = piece {
                    found.insert(placeholder);
                }
            }
        };
        self.server.texts().for_each(&mut collect);
        for tool in self.tools.values() {
            tool.arguments.values().for_each(|value| read::texts_of(value, &mut collect));
        }
        found
    }

    /// The values of every `${env:NAME}` used, from this process's environment.
    pub fn env_values(&self) -> BTreeMap<String, String> {
        self.placeholders()
            .into_iter()
            .filter_map(|placeholder| match placeholder {
                Placeholder::Env(name) => std::env::var(&name).ok().map(|value| (name, value)),
                _ => None,
            })
            .collect()
    }

    /// The server with every placeholder expanded and its paths made absolute: a command with a
    /// separator and `cwd` start from the configuration's folder, and so does an argument that
    /// names a program file there while `cwd` is unset.
    pub fn launch(&self, values: &impl Resolve) -> Result<Launch, ExpandError> {
        let server = &self.server;
        let pairs = |pairs: &[(String, String)]| {
            pairs
                .iter()
                .map(|(name, value)| Ok((name.clone(), expand(value, values)?)))
                .collect::<Result<Vec<_>, ExpandError>>()
        };
        let command = expand(&server.command, values)?;
        let has_separator = command.contains('/') || (cfg!(windows) && command.contains('\\'));
        let args = server.args.iter().map(|arg| {
            let arg = expand(arg, values)?;
            let path = Path::new(&arg);
            let beside = server.cwd.is_none()
                && path.is_relative()
                && warn::is_program_file(path)
                && self.folder.join(path).is_file();
            Ok(if beside { self.beside(&arg) } else { arg })
        });
        Ok(Launch {
            args: args.collect::<Result<_, ExpandError>>()?,
            command: if has_separator { self.beside(&command) } else { command },
            env: pairs(&server.env)?,
            cwd: match &server.cwd {
                Some(cwd) => Some(self.folder.join(expand(cwd, values)?)),
                None => None,
            },
            files: pairs(&server.files)?,
        })
    }

    fn beside(&self, path: &str) -> String {
        // A folder that is no UTF-8 cannot be joined to a text; the path then stays relative.
        self.folder.join(path).to_str().map_or_else(|| path.to_owned(), str::to_owned)
    }

    /// How long the server may take to answer initialize.
    pub fn start_limit(&self) -> Duration {
        if self.server.is_launcher() { self.limits.start_launcher } else { self.limits.start }
    }

    /// What makes the run CUSTOM; empty for a STANDARD one.
    pub fn departures(&self, known: &Known<'_>) -> Vec<Departure> {
        let mut found = Vec::new();
        let mut add = |key: String, value: &str, standard: &str| {
            found.push(Departure { key, value: value.to_owned(), standard: standard.to_owned() });
        };
        if self.profile == Profile::Deep {
            add("profile".to_owned(), "deep", "standard");
        }
        for (id, check) in &self.checks {
            let Some((_, candidate, severity)) = known.checks.iter().find(|(name, ..)| name == id)
            else {
                continue;
            };
            // A candidate counts as advisory whatever its severity will be.
            let standard = if *candidate { Severity::Advisory.as_str() } else { severity };
            if check.enabled == Some(false) {
                add(format!("checks.{id}.enabled"), "false", "true");
            }
            if let Some(severity) = check.severity.map(Severity::as_str).filter(|s| *s != standard)
            {
                add(format!("checks.{id}.severity"), severity, standard);
            }
        }
        for row in self.limits.rows() {
            let deep = self.profile == Profile::Deep
                && row.key == "limits.probe_string"
                && self.limits.probe_string == Limits::DEEP_PROBE_STRING;
            if row.value != row.standard && !deep {
                add(row.key.to_owned(), &row.value.to_string(), &row.standard.to_string());
            }
        }
        found
    }
}
