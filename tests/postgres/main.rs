//! The seed database in real servers. Where no Postgres is installed these tests say so loudly and
//! pass.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod given;
mod killed;
#[path = "../support/theirs.rs"]
mod made;
mod provide;
mod seeded;
mod state;
mod tap;
#[path = "../support/within.rs"]
mod within;

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use sealmark::{
    target::postgres::{Postgres, ProvideError, Wish},
    world::Run,
};
use tempfile::TempDir;

/// The program that supervises what the tests start.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_sealmark-under-test");

/// What is said when none is installed.
const NONE: &str = "none is installed";

/// A folder that another user's server may pass.
pub fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    folder
}

/// A run of its own below a folder of its own.
pub fn run() -> (Run, TempDir) {
    let parent = open_folder();
    let run = Run::create_in(parent.path()).unwrap().supervised_by(Path::new(PROGRAM));
    (run, parent)
}

/// The seed database in a cluster of an installed Postgres; `None`, loudly, without one.
pub async fn provided(run: &Run) -> Option<Postgres> {
    match Postgres::provide(run, &Wish { given: None, fetch: false }).await {
        Ok(postgres) => Some(postgres),
        Err(ProvideError::Unavailable(reason)) if reason.why.starts_with(NONE) => {
            untested(&reason.why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Says that a test was not made.
#[expect(clippy::print_stderr, reason = "a test that was not made has to be seen")]
pub fn untested(why: &str) {
    eprintln!("NOT TESTED: {why}");
}

/// The program that provides a seed database to a run below `parent`, then holds or leaves it.
pub fn program(parent: &Path, then: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("__postgres").arg(parent).args([then, "stay"]);
    command
}

/// What that program tells.
pub struct Told {
    /// The run's root.
    pub root: PathBuf,
    /// Where the server came from.
    pub origin: String,
    /// Rows of `orders` as admin, analyst and tenant see them.
    pub counts: Vec<String>,
}

impl Told {
    /// Runs it to its end.
    pub fn by(command: &mut Command) -> Option<Self> {
        let (mut child, told) = Self::holding(command)?;
        assert!(child.wait().unwrap().success());
        Some(told)
    }

    /// Starts it, and returns when it has told.
    pub fn holding(command: &mut Command) -> Option<(Child, Self)> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if let [root, origin, _, counts @ .., _] = words.as_slice() {
            let (root, origin) = (root.into(), origin.clone());
            return Some((child, Self { root, origin, counts: counts.to_vec() }));
        }
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        assert!(said.starts_with(NONE), "{said}");
        untested(&said);
        None
    }
}
