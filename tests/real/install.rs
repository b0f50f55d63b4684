//! Installs published servers, each in a folder of its own, once.

use std::{
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::table::Target;

/// npm takes the versions of what servers depend on as they were on this day.
const AS_OF: &str = "2026-12-01";
/// No step of an installation takes longer.
const LONGEST: Duration = Duration::from_secs(900);
/// How much of what an installer said is shown.
const SHOWN: u64 = 4000;
/// Written last: what is installed in a folder.
const MARKER: &str = "installed.txt";

/// The folder the target is installed in.
pub(crate) fn installed(target: &Target) -> Result<PathBuf, String> {
    let cache = std::env::var_os("SEALMARK_REAL_CACHE").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("real-servers"),
        PathBuf::from,
    );
    let said = |error: std::io::Error| format!("{}: {error}", cache.display());
    fs::create_dir_all(&cache).map_err(said)?;
    let cache = cache.canonicalize().map_err(said)?;
    let folder = cache.join(&target.id);
    // Another run of the tests may install the same; the lock ends with the file.
    let lock = File::create(cache.join(format!("{}.lock", target.id))).map_err(said)?;
    lock.lock().map_err(said)?;
    // A Python environment works only where it was made, so the folder is part of what is there.
    let wanted = format!("{} {:?} {:?} {AS_OF}\n", folder.display(), target.npm, target.pip);
    let marker = folder.join(MARKER);
    if target.cargo.is_none() {
        if fs::read_to_string(&marker).is_ok_and(|there| there == wanted) {
            return Ok(folder);
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(said)?;
        }
    }
    fs::create_dir_all(&folder).map_err(said)?;
    for step in steps(target, &folder) {
        carry_out(step, &cache.join(format!("{}.log", target.id)))?;
    }
    fs::write(&marker, wanted).map_err(said)?;
    Ok(folder)
}

fn steps(target: &Target, folder: &Path) -> Vec<Command> {
    let mut steps = Vec::new();
    if !target.npm.is_empty() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--prefix"]).arg(folder);
        npm.args(["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
        npm.arg(format!("--before={AS_OF}")).args(&target.npm);
        steps.push(npm);
    }
    if !target.pip.is_empty() {
        let mut environment = Command::new("python3");
        environment.args(["-m", "venv"]).arg(folder);
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(&target.pip);
        steps.extend([environment, pip]);
    }
    if let Some(name) = &target.cargo {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--locked", "--quiet", "--manifest-path"]);
        cargo.arg(manifest.join("Cargo.toml")).arg("--target-dir").arg(folder);
        steps.push(cargo);
    }
    steps
}

/// Waits for the command, and says what it said when it does not succeed.
fn carry_out(mut command: Command, log: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{command:?}: {error}");
    let mut output = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(log)
        .map_err(failed)?;
    let streams = (output.try_clone().map_err(failed)?, output.try_clone().map_err(failed)?);
    let began = Instant::now();
    command.stdin(Stdio::null()).stdout(streams.0).stderr(streams.1).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => break status.to_string(),
            Ok(None) if began.elapsed() < LONGEST => thread::sleep(Duration::from_millis(50)),
            Ok(None) => {
                let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
                let _ = child.wait();
                break format!("not done after {} s", LONGEST.as_secs());
            }
            Err(error) => break error.to_string(),
        }
    };
    let mut said = String::new();
    let _ = output.seek(SeekFrom::Start(0));
    let mut bytes = Vec::new();
    let _ = output.take(SHOWN).read_to_end(&mut bytes);
    said.push_str(&String::from_utf8_lossy(&bytes));
    Err(format!("{command:?}: {ended}\n{said}"))
}
