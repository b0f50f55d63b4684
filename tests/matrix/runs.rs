//! The runs, each made once for all tests: sealmark as a process of its own, over one server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{LazyLock, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use sealmark::report::{CheckReport, Report};

use crate::{
    made::{BOSS, SECRET},
    theirs::Theirs,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealmark-under-test");
const SERVER: &str = env!("CARGO_BIN_EXE_fixture-server");

/// How many runs are made at once. They mostly wait for each other's servers.
const AT_ONCE: usize = 4;
/// No run takes longer.
const LONGEST: Duration = Duration::from_secs(120);

/// What a server is started with beside its flaw.
enum Setup {
    /// A command line with these flaws.
    Flaws(&'static [&'static str]),
    /// A configuration file with these flaws and this line.
    File(&'static [&'static str], &'static str),
    /// A configuration file with the flaw of the run's name and this line.
    Own(&'static str),
    /// A command line whose root is a fixed directory.
    FixedRoot,
    /// A configuration file for a server of SQL with these flaws, and these packs.
    Sql(&'static [&'static str], &'static str),
}

/// Runs that need more than the one flaw of their name.
const SPECIAL: &[(&str, Setup)] = &[
    ("sound", Setup::Flaws(&[])),
    ("sql-sound", Setup::Sql(&[], "db")),
    ("sql-echoes-dsn", Setup::Sql(&["sql-echoes-dsn"], "core")),
    // A call during which the server asks for a capability is no evidence.
    (
        "sql-write-tool-confirm+asks-for-sampling",
        Setup::Sql(&["sql-write-tool-confirm", "asks-for-sampling"], "db"),
    ),
    ("fixed-root", Setup::FixedRoot),
    ("switched-off", Setup::File(&[], "checks: { shutdown: { enabled: false } }")),
    // Two weaknesses at once, where a rule counts them.
    ("no-type-check+no-enum-check", Setup::Flaws(&["no-type-check", "no-enum-check"])),
    ("trims-names+file-uri", Setup::Flaws(&["trims-names", "file-uri"])),
    ("late-tools+unstable-list", Setup::Flaws(&["late-tools", "unstable-list"])),
    // Neither tools nor prompts nor resources.
    ("resources-only+prompts-only", Setup::Flaws(&["resources-only", "prompts-only"])),
    // A broken control beside a server that is stricter than sound.
    ("refuses-dotfiles+broken-read", Setup::Flaws(&["refuses-dotfiles", "broken-read"])),
    ("refuses-hard-links+broken-read", Setup::Flaws(&["refuses-hard-links", "broken-read"])),
    // What would only take long.
    ("never-answers-initialize", Setup::Own("timeouts: { start: 0.3 }")),
    ("ignores-eof", Setup::Own("timeouts: { close_stdin: 1 }")),
    ("ignores-eof-and-term", Setup::Own("timeouts: { close_stdin: 1, close_term: 1 }")),
    ("stops-reading", Setup::Own("timeouts: { ping: 1 }")),
    ("mute-after-wrong-type", Setup::Own("timeouts: { ping: 1 }")),
    ("answers-100mb", Setup::Own("checks: { robust-input: { enabled: false } }")),
    ("answers-100mb-id-last", Setup::Own("checks: { robust-input: { enabled: false } }")),
];

/// Flaws that have nothing to do with files: one pack is enough.
const CORE: [&str; 30] = [
    "crash-on-unknown-tool",
    "crash-on-wrong-type",
    "crash-on-long-string",
    "crash-on-garbage-line",
    "unknown-tool-answers",
    "unknown-tool-refused-as-success",
    "echo-secret-env",
    "secret-base64",
    "secret-on-stderr",
    "secret-in-instructions",
    "traceback-in-errors",
    "path-in-errors",
    "dsn-in-errors",
    "hidden-unicode",
    "poisoned-description",
    "poisoned-parameter",
    "poisoned-prompt",
    "poisoned-instructions",
    "no-instructions",
    "no-missing-check",
    "no-enum-check",
    "no-bounds-check",
    "no-extra-check",
    "schema-not-object",
    "rug-pull",
    "cloaks-by-client",
    "unstable-list",
    "stdout-ansi",
    "leaves-orphan",
    "broken-resource",
];

/// What a flaw of SQL is about: the other checks of the pack that take time are left out. A flaw
/// that stands here in no row is asked everything.
const ABOUT: [(&[&str], &[&str]); 6] = [
    (&WRITES, &["mutating-sql", "multi-statement", "write-gate"]),
    (&ABOVE, &["rls", "pii", "pii-masked"]),
    (&["sql-leaks-detail"], &["rls", "pii", "pii-masked"]),
    (&["sql-no-row-limit", "sql-no-byte-limit", "sql-unlimited-own-limit"], &["row-limit"]),
    (&["sql-no-timeout", "sql-abandons"], &["statement-timeout"]),
    (&["sql-no-application-name"], &["write-gate"]),
];
const WRITES: [&str; 16] = [
    "sql-write-tool-confirm+asks-for-sampling",
    "sql-prefix-gate",
    "sql-simple-protocol",
    "sql-commit",
    "sql-keyword-gate",
    "sql-session-read-only",
    "sql-no-gate",
    "sql-opaque",
    "sql-empty-success",
    "sql-says-ok",
    "sql-says-error",
    "sql-says-deleted",
    "sql-late-commit",
    "sql-poisoned",
    "sql-write-tool",
    "sql-write-tool-confirm",
];

/// The checks of pack db that a flaw of SQL is not asked.
fn left_out(name: &str) -> impl Iterator<Item = String> {
    let about = ABOUT.iter().find(|(flaws, _)| flaws.contains(&name)).map(|(_, checks)| *checks);
    let asks = |check: &&sealmark::check::Check| {
        matches!(check.collect, sealmark::check::Collect::Journal(_))
    };
    let of_db = sealmark::registry::checks().filter(|check| check.pack == "db");
    let timed = of_db.filter(move |check| !asks(check)).map(|check| check.id());
    timed.filter(move |id| about.is_some_and(|about| !about.contains(&id.as_str())))
}

/// Flaws that log in above their role, and so need a superuser with a password.
const ABOVE: [&str; 5] = [
    "sql-set-role",
    "sql-set-role-session",
    "sql-tenant-guc",
    "sql-pooled-admin",
    "sql-as-superuser-login",
];

/// Runs that take longest stand first, so that none is still going when all others are done.
const LONG: [&str; 6] = [
    "stops-reading",
    "mute-after-wrong-type",
    "answers-100mb",
    "answers-100mb-id-last",
    "ignores-eof-and-term",
    "silent-tool",
];

/// One run and what came of it.
pub(crate) struct Run {
    /// The flaw, or what else is peculiar.
    pub(crate) name: String,
    /// The record as it was written.
    pub(crate) json: String,
    report: Result<Report, String>,
    /// The most memory sealmark took, in KiB; `None` where the system does not say.
    pub(crate) peak: Option<u64>,
    /// From its start to its end.
    pub(crate) took: Duration,
    /// Files and processes that were still there afterwards.
    pub(crate) left: Vec<String>,
}

impl Run {
    pub(crate) fn report(&self) -> &Report {
        match &self.report {
            Ok(report) => report,
            Err(why) => panic!("{} left no record: {why}", self.name),
        }
    }

    pub(crate) fn checks(&self) -> impl Iterator<Item = &CheckReport> {
        self.report().packs.iter().flat_map(|pack| &pack.checks)
    }

    pub(crate) fn check(&self, id: &str) -> Option<&CheckReport> {
        self.checks().find(|check| check.id == id)
    }

    /// Whether any instance started.
    pub(crate) fn started(&self) -> bool {
        self.report().server.instances.iter().any(|instance| instance.started)
    }
}

/// The run of that name.
pub(crate) fn run(name: &str) -> &'static Run {
    all().iter().find(|run| run.name == name).unwrap_or_else(|| panic!("no run {name}"))
}

/// Every run, sound first, then in the order in which the server lists its flaws.
pub(crate) fn all() -> &'static [Run] {
    static ALL: LazyLock<Vec<Run>> = LazyLock::new(make_all);
    &ALL
}

/// Whether a run is one of pack db: by its name.
pub(crate) fn is_sql(name: &str) -> bool {
    name.starts_with("sql-")
}

/// The run of a sound server in which a check can be asked.
pub(crate) fn sound(check: &sealmark::check::Check) -> &'static Run {
    run(if check.pack == "db" { "sql-sound" } else { "sound" })
}

/// The flaws of the fixture server, in its order.
fn flaws() -> Vec<String> {
    let mut names = Vec::new();
    for list in ["--list-flaws", "--list-sql-flaws"] {
        let listed = Command::new(SERVER).arg(list).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let firsts = listed.lines().filter_map(|line| line.split_whitespace().next());
        names.extend(firsts.map(str::to_owned));
    }
    names
}

fn make_all() -> Vec<Run> {
    let mut names = vec!["sound".to_owned()];
    names.extend(flaws());
    let special = SPECIAL.iter().map(|(name, _)| (*name).to_owned());
    names.extend(special.filter(|name| !names.contains(name)).collect::<Vec<_>>());
    if let Ok(only) = std::env::var("ONLY") {
        assert!(std::env::var_os("UPDATE").is_none(), "a part of the runs makes no tables");
        names.retain(|name| name == "sound" || only.split(',').any(|word| word == name));
    }
    let mut queue: Vec<(usize, String)> = names.into_iter().enumerate().collect();
    queue.sort_by_key(|(at, name)| (!LONG.contains(&name.as_str()), *at));
    let queue = Mutex::new(queue.into_iter());
    let (send, made) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            let (queue, send) = (&queue, send.clone());
            scope.spawn(move || {
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some((at, name)) = next else { break };
                    send.send((at, make(name))).unwrap();
                }
            });
        }
    });
    drop(send);
    let mut made: Vec<(usize, Run)> = made.iter().collect();
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, run)| run).collect()
}

fn make(name: String) -> Run {
    // A short name: the path of a Unix socket in the sandbox may be 107 bytes long.
    let parent = tempfile::Builder::new().prefix("m").rand_bytes(4).tempdir().unwrap();
    let beside = tempfile::tempdir().unwrap();
    let words = words(&name, beside.path());
    let theirs = ABOVE.contains(&name.as_str()).then(|| Theirs::begin(PROGRAM));
    let began = Instant::now();
    let url = theirs.as_ref().map(|theirs| theirs.url.as_str());
    let output = output(&words, parent.path(), url);
    let took = began.elapsed();
    let left = left(parent.path());
    let peak = output.1.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok()
    });
    let report = serde_json::from_str(&output.0).map_err(|error| format!("{error}: {}", output.1));
    keep(&name, &output.0);
    Run { name, json: output.0, report, peak, took, left }
}

/// With `KEEP=DIRECTORY` every record stays there, to be read by a person.
fn keep(name: &str, json: &str) {
    if let Some(directory) = std::env::var_os("KEEP") {
        fs::write(Path::new(&directory).join(format!("{name}.json")), json).unwrap();
    }
}

/// The words behind `__record`.
fn words(name: &str, beside: &Path) -> Vec<String> {
    let command = |flaws: &[&str], root: &str| {
        let mut words = vec!["--".to_owned(), SERVER.to_owned()];
        for flaw in flaws {
            words.extend(["--flaw".to_owned(), (*flaw).to_owned()]);
        }
        words.push(root.to_owned());
        words
    };
    let special = SPECIAL.iter().find(|(known, _)| *known == name).map(|(_, setup)| setup);
    let file = |flaws: &[&str], line: &str| {
        let words = command(flaws, "${sandbox}");
        let args = serde_json::to_string(&words[2..]).unwrap();
        let server = format!("server: {{ command: {:?}, args: {args} }}", words[1]);
        let file = beside.join("sealmark.yaml");
        fs::write(&file, format!("{server}\n{line}\n")).unwrap();
        vec![file.display().to_string()]
    };
    let sql = |flaws: &[&str], packs: &str| {
        let mut args = Vec::new();
        for flaw in flaws {
            args.extend(["--flaw", flaw]);
        }
        args.push("${pg.url}");
        let root = format!("postgres://{BOSS}:{SECRET}@${{pg.host}}:${{pg.port}}/${{pg.database}}");
        let env = serde_json::json!({ "SM_FIXTURE_SUPER_URL": root, "SM_FIXTURE_ADMIN_URL": root });
        let server = serde_json::json!({ "command": SERVER, "args": args, "env": env });
        let file = beside.join("sealmark.yaml");
        // The time limit of the sound server is 2 s: nobody needs to wait for 32.
        let off = left_out(name).map(|id| format!("{id}: {{ enabled: false }}"));
        let off = off.collect::<Vec<_>>().join(", ");
        let rest = format!("packs: [{packs}]\ntimeouts: {{ time_limit: 4 }}\nchecks: {{ {off} }}");
        fs::write(&file, format!("server: {server}\n{rest}\n")).unwrap();
        vec![file.display().to_string()]
    };
    match special {
        None if is_sql(name) => sql(&[name], "db"),
        Some(Setup::Sql(flaws, packs)) => sql(flaws, packs),
        None if CORE.contains(&name) => file(&[name], "packs: [core]"),
        None => command(&[name], "${sandbox}"),
        Some(Setup::Flaws(flaws)) => command(flaws, "${sandbox}"),
        Some(Setup::FixedRoot) => command(&[], &beside.display().to_string()),
        Some(Setup::File(flaws, line)) => file(flaws, line),
        Some(Setup::Own(line)) => file(&[name], line),
    }
}

/// Standard output and standard error of one run, whose directories lie below `parent`.
fn output(words: &[String], parent: &Path, postgres: Option<&str>) -> (String, String) {
    // As root the database runs as another user, who has to get in.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    fs::set_permissions(parent, open).unwrap();
    let mut child = Command::new(PROGRAM)
        .arg("__record")
        .args(words)
        .env("TMPDIR", parent)
        .envs(postgres.map(|url| ("SEALMARK_PG", url)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (id, finished) = (child.id(), mpsc::channel::<()>());
    let watch = thread::spawn(move || {
        if finished.1.recv_timeout(LONGEST).is_err_and(|e| e == mpsc::RecvTimeoutError::Timeout) {
            let id = nix::unistd::Pid::from_raw(id.cast_signed());
            // It may just have ended.
            let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL);
        }
    });
    let mut errors = child.stderr.take().unwrap();
    let errors = thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut errors, &mut text).map(|_| text).unwrap_or_default()
    });
    let output = child.wait_with_output().unwrap();
    drop(finished.0);
    watch.join().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), errors.join().unwrap())
}

/// Files below the run's parent, and living processes that have it in their environment.
fn left(parent: &Path) -> Vec<String> {
    let mut left: Vec<String> = fs::read_dir(parent)
        .unwrap()
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .collect();
    let marker = parent.display().to_string();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process: PathBuf = entry.path();
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let carries = String::from_utf8_lossy(&environment).contains(&marker);
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        let dead = |state: &str| state.trim_start().starts_with(['Z', 'X']);
        if carries && !stat.is_empty() && !stat.rsplit(')').next().is_some_and(dead) {
            left.push(format!("{} {stat}", process.display()));
        }
    }
    left
}
