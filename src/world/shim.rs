//! The supervisor of one server: this program run again as `sealmark __shim`.
//!
//! It starts the server, hands it the three standard streams, adopts its orphaned descendants,
//! and ends all of them on command or when the harness is gone.

use std::{
    ffi::{CString, OsString},
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::{ffi::OsStringExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Instant,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn},
    sys::{
        signal::{SigSet, Signal},
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, close, dup2_stderr, dup2_stdin, dup2_stdout, setsid},
};

use super::{
    protocol::{Command, LIFE, Report, STATUS},
    run, tree, unprivileged,
};

/// The hidden subcommand that makes this program a supervisor.
pub const SUBCOMMAND: &str = "__shim";

/// Becomes a supervisor, or another user's program, when the program's first argument asks for
/// that. Every binary that starts servers calls this first, before it opens a file or starts a
/// thread.
pub fn dispatch() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let word = arguments.next()?;
    if word == SUBCOMMAND {
        Some(main(arguments))
    } else if word == unprivileged::SUBCOMMAND {
        Some(unprivileged::main(arguments))
    } else {
        None
    }
}

/// Runs the supervisor. Arguments: the control directory with its FIFOs, the lane's directory,
/// the server's program as an absolute path, the server's arguments.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match supervise(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        // Its standard error belongs to the server, so there is no one to tell.
        Err(_) => ExitCode::FAILURE,
    }
}

fn supervise(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    close_inherited();
    // Only SIGKILL ends a supervisor: a server may signal its parent, on purpose or not.
    SigSet::all().thread_block()?;
    let mut next = || arguments.next().ok_or(io::ErrorKind::InvalidInput);
    let control = PathBuf::from(next()?);
    let lane = PathBuf::from(next()?);
    let program = next()?;

    let mut commands = Commands::open(&control.join(LIFE))?;
    let status = Arc::new(Reports(Mutex::new(open_fifo(&control.join(STATUS), false)?)));
    // Both ends are open. Without names, no server finds them.
    let _ = run::remove_tree(&control);
    if !commands.harness_is_there()? {
        return Ok(());
    }

    setsid()?;
    #[cfg(target_os = "linux")]
    {
        nix::sys::prctl::set_child_subreaper(true)?;
        // Keeps a server of the same user from opening our descriptors through /proc.
        nix::sys::prctl::set_dumpable(false)?;
    }
    let pid = match execute(program, arguments) {
        Ok(pid) => pid.as_raw(),
        Err(errno) => {
            status.tell(&Report::Failed { errno: errno as i32 });
            return Ok(());
        }
    };
    // The server's streams are its own from here on: end of file means what it says.
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    std::env::set_current_dir("/")?;
    status.tell(&Report::Started { pid });

    let reports = Arc::clone(&status);
    let reaper = thread::spawn(move || reap(pid, &reports));
    let parting = tree::parting(std::env::var_os(run::PARTING_VARIABLE).as_deref());
    let asked = commands.serve(pid, parting.unwrap_or(Signal::SIGTERM));
    if asked {
        let outlived = tree::own_descendants();
        status.tell(&Report::Outlived { names: tree::names(&outlived) });
    }
    if let Some(signal) = parting {
        tree::part(&[(pid, signal)]);
    }
    let left = end_tree(pid, || reaper.is_finished());
    if !asked {
        run::remove_lane(&lane);
    } else if !left.is_empty() {
        status.tell(&Report::Left { names: left });
    }
    Ok(())
}

/// Executes the server in a process group of its own, with this process's environment, no signal
/// blocked and none ignored, whatever the harness was started with.
fn execute(program: OsString, arguments: impl Iterator<Item = OsString>) -> nix::Result<Pid> {
    let text = |text: OsString| CString::new(text.into_vec()).map_err(|_| Errno::EINVAL);
    let program = text(program)?;
    let mut words = vec![program.clone()];
    for argument in arguments {
        words.push(text(argument)?);
    }
    let mut environment = Vec::new();
    for (mut entry, value) in std::env::vars_os() {
        entry.push("=");
        entry.push(value);
        environment.push(text(entry)?);
    }
    let mut defaults = SigSet::all();
    defaults.remove(Signal::SIGKILL);
    defaults.remove(Signal::SIGSTOP);
    let mut start = PosixSpawnAttr::init()?;
    start.set_pgroup(Pid::from_raw(0))?;
    start.set_sigmask(&SigSet::empty())?;
    start.set_sigdefault(&defaults)?;
    start.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    )?;
    let actions = PosixSpawnFileActions::init()?;
    posix_spawn(program.as_c_str(), &actions, &start, &words, &environment)
}

/// Closes every descriptor but the standard streams: whoever started the harness may have left
/// some open.
fn close_inherited() {
    let Ok(folder) = fs::read_dir("/dev/fd") else { return };
    let open: Vec<i32> =
        folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The listing's own descriptor is closed by now; closing it again only fails.
    for descriptor in open.into_iter().filter(|number| *number > 2) {
        let _ = close(descriptor);
    }
}

/// Opens one end of a FIFO without waiting for the other end.
fn open_fifo(path: &Path, read: bool) -> io::Result<File> {
    OpenOptions::new().read(read).write(!read).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

/// The reporting end. A report is sent whole or, when the harness does not listen, not at all.
struct Reports(Mutex<File>);

impl Reports {
    fn tell(&self, report: &Report) {
        let Ok(mut line) = serde_json::to_vec(report) else { return };
        line.push(b'\n');
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
    }
}

/// The end that receives commands.
struct Commands {
    life: File,
    unread: Vec<u8>,
}

impl Commands {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { life: open_fifo(path, true)?, unread: Vec::new() })
    }

    /// Whether anyone holds the other end; from then on, reading waits.
    ///
    /// A FIFO that never had a writer is at its end of file, one that has a writer would block.
    fn harness_is_there(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 64];
        match self.life.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        fcntl(&self.life, FcntlArg::F_SETFL(OFlag::empty()))?;
        Ok(true)
    }

    /// Carries out commands until the tree is to be ended: `true` when that was asked for,
    /// `false` when the harness is gone. `term` is sent where the ladder says SIGTERM.
    fn serve(&mut self, group: i32, term: Signal) -> bool {
        let mut chunk = [0; 64];
        loop {
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                match Command::parse(String::from_utf8_lossy(&line).trim_end()) {
                    Some(Command::Term) => tree::signal_group(group, term),
                    Some(Command::Kill) => tree::signal_group(group, Signal::SIGKILL),
                    Some(Command::End) => return true,
                    None => {}
                }
            }
            match self.life.read(&mut chunk) {
                Ok(count) if count > 0 && self.unread.len() < 1024 => {
                    self.unread.extend_from_slice(&chunk[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return false,
            }
        }
    }
}

/// Collects the status of every child, own or adopted, and reports the server's own and the end
/// of the last one.
fn reap(server: i32, status: &Reports) {
    let mut exited = false;
    loop {
        let (pid, code, signal) = match waitpid(Pid::from_raw(-1), None) {
            Ok(WaitStatus::Exited(pid, code)) => (pid.as_raw(), Some(code), None),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid.as_raw(), None, Some(signal as i32)),
            // nix has no name for real-time signals and keeps the process id to itself.
            Err(Errno::EINVAL) if !exited && !tree::exists(server) => (server, None, None),
            Err(Errno::ECHILD) => break,
            _ => continue,
        };
        if pid == server {
            exited = true;
            status.tell(&Report::Exited { code, signal });
        }
    }
    // Without a subreaper the rest of the group has another parent.
    while !cfg!(target_os = "linux") && tree::group_lives(server) {
        thread::sleep(tree::LOOK);
    }
    status.tell(&Report::Gone);
}

/// Sends SIGKILL to all of the tree until it is over, for at most [`tree::KILL_LIMIT`], and
/// returns the names of what could not be ended.
fn end_tree(group: i32, is_over: impl Fn() -> bool) -> Vec<String> {
    let deadline = Instant::now() + tree::KILL_LIMIT;
    while !is_over() {
        tree::signal_group(group, Signal::SIGKILL);
        let found = tree::own_descendants();
        tree::kill_each(&found);
        if Instant::now() > deadline {
            let mut names = tree::names(&found);
            if names.is_empty() {
                names.push(format!("descendants of process {group}"));
            }
            return names;
        }
        thread::sleep(tree::LOOK);
    }
    Vec::new()
}
