//! Starts a server through its supervisor.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    io::{self, Read},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::{signal::Signal, stat::Mode},
    unistd::{AccessFlags, access, mkfifo},
};
use tokio::{net::unix::pipe, process::Command};

use super::{
    process::{Life, Process, Watch},
    protocol::{LIFE, STATUS},
    run::{Lane, PARTING_VARIABLE, RUN_VARIABLE, START_VARIABLE, remove_tree},
    shim,
};

/// How long the supervisor may take to execute the server. It only has to be scheduled.
const SUPERVISOR_LIMIT: Duration = Duration::from_secs(10);

/// Why a server did not start. Each reads as the rest of "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The working directory is missing or is no directory.
    #[error("enter the working directory {}: no such directory", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// No such program, on the server's PATH or at the path given.
    #[error("find the command {}: {help}", program.display())]
    NotFound {
        /// The program as configured.
        program: OsString,
        /// Where it was looked for, and what may help.
        help: String,
    },
    /// There is such a file, but it is not executable.
    #[error("execute {}: it is no executable file", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The program is a script whose interpreter is missing.
    #[error("execute {}: its interpreter {interpreter:?} is missing", path.display())]
    Interpreter {
        /// The script.
        path: PathBuf,
        /// The interpreter that its first line names.
        interpreter: String,
    },
    /// The system refused to execute the program for another reason.
    #[error("execute {}: {source}", path.display())]
    Execute {
        /// The program.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The lane's control directory or its FIFOs could not be made.
    #[error("prepare the lane {}: {source}", path.display())]
    Lane {
        /// The lane's directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The supervisor, which is this program itself, did not do its work.
    #[error("start the supervisor {}: {reason}", path.display())]
    Supervisor {
        /// The program that was to supervise.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
}

/// All that is needed to start a server.
#[derive(Clone)]
pub struct Launch {
    /// The command: a path, or a name that is looked up on the PATH of `env`.
    pub program: OsString,
    /// The command's arguments.
    pub args: Vec<OsString>,
    /// The complete environment, as [`super::env::build`] makes it.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The lane the server lives in.
    pub lane: Lane,
    /// A program that calls [`shim::dispatch`] first, when it is not the lane's.
    pub supervisor: Option<PathBuf>,
    /// The signal that asks this program to end, in place of SIGTERM, and that it also gets, with
    /// a short grace, before anything kills it: what it holds outside its files would stay.
    pub parting: Option<Signal>,
}

impl fmt::Debug for Launch {
    /// Arguments and values may hold credentials and are only counted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsString> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Launch")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("lane", &self.lane.name())
            .finish_non_exhaustive()
    }
}

impl Launch {
    /// Starts the server and returns when it is executed, which says nothing about its health.
    ///
    /// When the future is dropped halfway, whatever was started is ended.
    pub async fn start(&self) -> Result<Process, StartError> {
        if !self.cwd.is_dir() {
            return Err(StartError::WorkingDirectory { path: self.cwd.clone() });
        }
        let cwd = std::path::absolute(&self.cwd).unwrap_or_else(|_| self.cwd.clone());
        let program = resolve(&self.program, &self.env, &cwd)?;
        let supervisor = match self.supervisor.as_deref().or(self.lane.supervisor()) {
            Some(program) => program.to_owned(),
            None => {
                own_binary().map_err(|(path, reason)| StartError::Supervisor { path, reason })?
            }
        };
        let lane_fails = |source| StartError::Lane { path: self.lane.root().to_owned(), source };
        let (control, mark) = self.lane.next_start().map_err(lane_fails)?;
        let fifos = Fifos::make(control).map_err(lane_fails)?;

        let mut command = Command::new(&supervisor);
        command
            .arg(shim::SUBCOMMAND)
            .args([fifos.control.as_path(), self.lane.root(), &program])
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env(RUN_VARIABLE, self.lane.run())
            .env(START_VARIABLE, &mark)
            .env_remove(PARTING_VARIABLE)
            .envs(self.parting.map(|signal| (PARTING_VARIABLE, (signal as i32).to_string())))
            .current_dir(&cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let supervisor_fails =
            |reason: String| StartError::Supervisor { path: supervisor.clone(), reason };
        let mut child = command.spawn().map_err(|error| supervisor_fails(error.to_string()))?;

        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let marks =
            vec![format!("{RUN_VARIABLE}={}", self.lane.run()), format!("{START_VARIABLE}={mark}")];
        let seen = Watch::begin(child, fifos.status, fifos.status_writer, marks);
        let mut process = Process::new(streams, fifos.life, seen);
        let started = tokio::time::timeout(SUPERVISOR_LIMIT, process.executed()).await;
        // The supervisor holds its own end now.
        drop(fifos.life_reader);
        // It removed the directory itself, unless it never came to that.
        let _ = remove_tree(&fifos.control);
        match started {
            Ok(Ok(())) => Ok(process),
            Ok(Err(Some(errno))) => Err(explain(&program, errno)),
            Ok(Err(None)) => Err(supervisor_fails("it ended without a word".to_owned())),
            Err(_) => Err(supervisor_fails(format!("no word from it for {SUPERVISOR_LIMIT:?}"))),
        }
    }
}

/// Both FIFOs of one start, each open at the harness's end and, so that opening waits for nobody
/// and reads no early end of file, at the supervisor's end too.
struct Fifos {
    control: PathBuf,
    life: Life,
    life_reader: fs::File,
    status: pipe::Receiver,
    status_writer: fs::File,
}

impl Fifos {
    fn make(control: PathBuf) -> io::Result<Self> {
        let (life, status) = (control.join(LIFE), control.join(STATUS));
        for path in [&life, &status] {
            mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        }
        let open = |path: &Path, read: bool| {
            use std::os::unix::fs::OpenOptionsExt;
            fs::OpenOptions::new()
                .read(read)
                .write(!read)
                .custom_flags(OFlag::O_NONBLOCK.bits())
                .open(path)
        };
        // A FIFO opens for writing without waiting only when a reader is there already.
        let life_reader = open(&life, true)?;
        let life = Life::new(open(&life, false)?);
        let receiver = pipe::OpenOptions::new().open_receiver(&status)?;
        let status_writer = open(&status, false)?;
        Ok(Self { control, life, life_reader, status: receiver, status_writer })
    }
}

/// The running program, to be started again as supervisor or to drop privileges. The error is
/// its path, as far as known, and the reason.
pub(crate) fn own_binary() -> Result<PathBuf, (PathBuf, String)> {
    let kernels_name = PathBuf::from("/proc/self/exe");
    match env::current_exe() {
        Ok(path) if path.exists() => Ok(path),
        // The file was replaced while it runs; the kernel still has it.
        _ if cfg!(target_os = "linux") => Ok(kernels_name),
        other => Err((other.unwrap_or_default(), "the running program cannot be found".to_owned())),
    }
}

/// Finds the program as execvp(3) would in the server's place, and says why when it cannot.
fn resolve(
    program: &OsStr,
    env: &[(OsString, OsString)],
    cwd: &Path,
) -> Result<PathBuf, StartError> {
    let missing = |help: String| StartError::NotFound { program: program.to_owned(), help };
    if program.is_empty() || program.as_bytes().contains(&0) {
        return Err(missing("it is no file name".to_owned()));
    }
    if program.as_bytes().contains(&b'/') {
        let path = cwd.join(program);
        return match executable(&path) {
            Some(true) => Ok(path),
            Some(false) => Err(StartError::NotExecutable { path }),
            None if Path::new(program).is_absolute() => Err(missing("no such file".to_owned())),
            None => Err(missing(format!("no such file below {}", cwd.display()))),
        };
    }
    let paths =
        env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let mut refused = None;
    for folder in env::split_paths(paths.unwrap_or_default()) {
        let path = cwd.join(folder).join(program);
        match executable(&path) {
            Some(true) => return Ok(path),
            Some(false) if path.is_file() => refused = refused.or(Some(path)),
            _ => {}
        }
    }
    Err(match refused {
        Some(path) => StartError::NotExecutable { path },
        None => missing(help_for(program)),
    })
}

/// `None` when there is nothing, otherwise whether it can be executed.
fn executable(path: &Path) -> Option<bool> {
    let metadata = fs::metadata(path).ok()?;
    Some(metadata.is_file() && access(path, AccessFlags::X_OK).is_ok())
}

fn help_for(program: &OsStr) -> String {
    let from = match program.to_str().unwrap_or_default() {
        "node" | "npx" | "npm" => "it comes with Node.js",
        "uv" | "uvx" => "it comes with uv",
        "bun" | "bunx" => "it comes with Bun",
        "deno" => "it comes with Deno",
        "docker" => "it comes with Docker",
        "python" => "many systems only have python3",
        _ => "give its full path, or set PATH in the server's environment",
    };
    format!("it is not on the server's PATH; {from}")
}

/// Turns the error of execve(2) into one that names the cause.
fn explain(path: &Path, errno: i32) -> StartError {
    let path = path.to_owned();
    match Errno::from_raw(errno) {
        Errno::ENOENT => match interpreter(&path) {
            Some(interpreter) => StartError::Interpreter { path, interpreter },
            None => StartError::Execute { path, source: io::Error::from_raw_os_error(errno) },
        },
        Errno::EACCES => StartError::NotExecutable { path },
        _ => StartError::Execute { path, source: io::Error::from_raw_os_error(errno) },
    }
}

/// The interpreter in a script's first line, of which Linux reads 256 bytes, execve(2).
fn interpreter(path: &Path) -> Option<String> {
    let mut start = Vec::new();
    fs::File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = OsString::from_vec(line.to_vec());
    Some(line.to_string_lossy().split_ascii_whitespace().next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(path: &Path, mode: u32) {
        fs::write(path, "#!/no/such/interpreter -x\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_command_is_looked_up_on_the_path_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path();
        fs::create_dir_all(cwd.join("a/tool")).unwrap();
        fs::create_dir_all(cwd.join("b")).unwrap();
        file(&cwd.join("b/tool"), 0o755);
        file(&cwd.join("b/plain"), 0o644);
        let env = [("PATH".into(), OsString::from("a:b"))];
        assert_eq!(resolve("tool".as_ref(), &env, cwd).unwrap(), cwd.join("b/tool"));
        assert_eq!(resolve("./b/tool".as_ref(), &env, cwd).unwrap(), cwd.join("./b/tool"));
        let plain = resolve("plain".as_ref(), &env, cwd).unwrap_err();
        assert!(matches!(plain, StartError::NotExecutable { .. }), "{plain}");
        let folder = resolve("a/tool".as_ref(), &env, cwd).unwrap_err();
        assert!(matches!(folder, StartError::NotExecutable { .. }), "{folder}");
        for absent in ["sh", "", "b/absent", "/no/such"] {
            let error = resolve(absent.as_ref(), &env, cwd).unwrap_err();
            assert!(matches!(error, StartError::NotFound { .. }), "{absent}: {error}");
        }
    }

    #[test]
    fn a_missing_interpreter_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        file(&script, 0o755);
        let error = explain(&script, Errno::ENOENT as i32).to_string();
        assert!(error.contains("/no/such/interpreter\""), "{error}");
    }
}
