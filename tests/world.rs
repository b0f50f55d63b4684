//! Real processes are started, watched and ended; nothing of them survives.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/within.rs"]
mod within;

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sealmark::world::{
    Ending, Graces, Launch, Process, Run, StartError, Step, env,
    unprivileged::{self, Owner},
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::within::within;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sealmark-under-test");

/// Graces short enough for tests, long enough for a busy machine.
const HASTY: Graces = Graces {
    eof: Duration::from_millis(400),
    term: Duration::from_millis(400),
    descendants: Duration::from_millis(200),
};

/// A run of its own below a directory of its own, so that tests do not meet.
struct World {
    run: Run,
    parent: TempDir,
}

impl World {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        Self { run: Run::create_in(parent.path()).unwrap(), parent }
    }

    fn launch(&self, program: &str, args: &[&str]) -> Launch {
        let lane = self.run.lane("main").unwrap();
        Launch {
            program: program.into(),
            args: args.iter().map(OsString::from).collect(),
            env: env::build(&lane, None, env::Stage::Serve, &[]),
            cwd: lane.sandbox(),
            lane,
            supervisor: Some(PROGRAM.into()),
            parting: None,
        }
    }

    async fn shell(&self, script: &str) -> Process {
        self.launch("sh", &["-c", script]).start().await.unwrap()
    }

    /// The run can be closed and leaves neither file nor process.
    fn close(self) {
        let id = self.run.id().to_owned();
        self.run.close().unwrap();
        assert_eq!(fs::read_dir(self.parent.path()).unwrap().count(), 0);
        assert_eq!(carrying(&id), Vec::<i32>::new());
    }
}

/// Running processes whose environment holds the text.
fn carrying(text: &str) -> Vec<i32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(text) && lives(*pid)
        })
        .collect()
}

fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']))
}

/// Reads a line that says the server is ready, so that no test depends on a pause.
async fn line(process: &mut Process) -> (String, tokio::process::ChildStdout) {
    let mut stdout = process.stdout().unwrap();
    let mut text = Vec::new();
    while stdout.read_buf(&mut text).await.unwrap() > 0 && !text.contains(&b'\n') {}
    (String::from_utf8(text).unwrap().trim().to_owned(), stdout)
}

fn assert_clean(ending: &Ending) {
    assert!(ending.left.is_empty() && !ending.supervisor_lost, "{ending:?}");
}

#[tokio::test]
async fn a_server_echoes_and_ends_with_its_input() {
    let world = World::new();
    let mut process = world.launch("cat", &[]).start().await.unwrap();
    let mut stdin = process.stdin().unwrap();
    let mut stdout = process.stdout().unwrap();
    stdin.write_all(b"hello\n").await.unwrap();
    let mut text = [0; 6];
    stdout.read_exact(&mut text).await.unwrap();
    assert_eq!(&text, b"hello\n");
    assert!(process.try_exited().is_none());
    drop(stdin);
    let ending = process.end(Graces::default()).await;
    assert_eq!((ending.step, ending.exit.unwrap().code), (Step::Eof, Some(0)));
    assert!(ending.seconds_to_exit < 1.0 && ending.outlived.is_empty(), "{ending:?}");
    assert_clean(&ending);
    assert_eq!(stdout.read(&mut text).await.unwrap(), 0);
    world.close();
}

#[tokio::test]
async fn a_server_that_ignores_the_end_of_its_input_is_terminated() {
    let world = World::new();
    let mut process = world.shell("echo ready; while :; do sleep 0.05; done").await;
    let _open = line(&mut process).await;
    let ending = process.end(HASTY).await;
    assert_eq!((ending.step, ending.exit.unwrap().signal), (Step::Term, Some(15)));
    assert!(ending.seconds_to_exit >= 0.4, "{ending:?}");
    assert_clean(&ending);
    world.close();
}

#[tokio::test]
async fn a_server_that_ignores_sigterm_is_killed() {
    let world = World::new();
    let mut process = world.shell("trap '' TERM; echo ready; while :; do sleep 0.05; done").await;
    let _open = line(&mut process).await;
    let ending = process.end(HASTY).await;
    assert_eq!((ending.step, ending.exit.unwrap().signal), (Step::Kill, Some(9)));
    assert_clean(&ending);
    world.close();
}

#[tokio::test]
async fn output_that_nobody_reads_does_not_keep_a_server() {
    let world = World::new();
    let process = world.shell("cat; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2").await;
    let ending = process.end(Graces::default()).await;
    assert_eq!((ending.step, ending.exit.unwrap().code), (Step::Eof, Some(0)));
    world.close();
}

#[tokio::test]
async fn a_server_that_forks_without_end_is_ended() {
    let world = World::new();
    let script = "import os\nprint('ready', flush=True)\nwhile True:\n if os.fork(): os._exit(0)";
    let mut process = world.launch("/usr/bin/python3", &["-c", script]).start().await.unwrap();
    let _open = line(&mut process).await;
    let run = world.run.id().to_owned();
    assert_clean(&process.end(HASTY).await);
    assert_eq!(carrying(&run), Vec::<i32>::new());
    world.close();
}

#[tokio::test]
async fn a_daemon_that_left_the_session_is_found_and_ended() {
    let world = World::new();
    let mut process = world.shell("setsid sh -c 'setsid sleep 97 & exit' & echo ready; cat").await;
    let _open = line(&mut process).await;
    let run = world.run.id().to_owned();
    assert!(within(Duration::from_secs(1), || carrying(&run).len() >= 3));
    let ending = process.end(HASTY).await;
    assert_eq!((ending.step, ending.exit.unwrap().code), (Step::Eof, Some(0)));
    assert_eq!(ending.outlived, ["sleep 97"]);
    assert_clean(&ending);
    assert_eq!(carrying(&run), Vec::<i32>::new());
    world.close();
}

#[tokio::test]
async fn a_launcher_is_ended_whole() {
    let world = World::new();
    // As npx does it: each waits for the next, none passes a signal on.
    let script =
        "sh -c 'python3 -c \"import sys,time; print(1, flush=True); time.sleep(60)\"; :'; :";
    let mut process = world.shell(script).await;
    let _open = line(&mut process).await;
    let run = world.run.id().to_owned();
    assert!(carrying(&run).len() >= 3);
    let began = Instant::now();
    let ending = process.end(HASTY).await;
    assert_eq!(ending.step, Step::Term);
    assert!(ending.outlived.is_empty(), "{ending:?}");
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_clean(&ending);
    assert_eq!(carrying(&run), Vec::<i32>::new());
    world.close();
}

#[tokio::test]
async fn an_exit_is_seen_while_a_grandchild_holds_the_output_open() {
    let world = World::new();
    let mut process = world.shell("sleep 96 & echo ready; exit 3").await;
    let (_, mut stdout) = line(&mut process).await;
    assert_eq!(process.exited().await.to_string(), "exit 3");
    assert_eq!(process.exited().await.to_string(), "exit 3");
    // The pipe is the grandchild's as well, so there is no end of file until it is ended.
    let mut rest = Vec::new();
    let early =
        tokio::time::timeout(Duration::from_millis(50), stdout.read_to_end(&mut rest)).await;
    assert!(early.is_err());
    let ending = process.end(HASTY).await;
    assert_eq!((ending.step, ending.outlived), (Step::Eof, vec!["sleep 96".to_owned()]));
    assert_eq!(stdout.read_to_end(&mut rest).await.unwrap(), 0);
    world.close();
}

#[tokio::test]
async fn a_server_that_exits_at_once_leaves_its_last_words() {
    let world = World::new();
    let mut process = world.shell("echo no database >&2; exit 7").await;
    assert_eq!(process.exited().await.code, Some(7));
    let mut words = String::new();
    process.stderr().unwrap().read_to_string(&mut words).await.unwrap();
    assert_eq!(words, "no database\n");
    let ending = process.end(Graces::default()).await;
    assert_eq!((ending.step, ending.exit.unwrap().code), (Step::Eof, Some(7)));
    world.close();
}

#[tokio::test]
async fn a_dropped_process_is_ended_and_keeps_its_lane() {
    let world = World::new();
    let mut process = world.shell("trap '' TERM; setsid sleep 95 & echo ready; sleep 95").await;
    let _open = line(&mut process).await;
    let run = world.run.id().to_owned();
    drop(process);
    assert!(within(Duration::from_secs(3), || carrying(&run).is_empty()));
    assert!(world.run.lane("main").unwrap().home().is_dir());
    world.close();
}

#[tokio::test]
async fn a_parting_signal_comes_before_the_kill() {
    let world = World::new();
    let script = "trap 'echo parted >parted; exit' QUIT; echo ready; while :; do sleep 0.05; done";
    let parted = world.run.lane("main").unwrap().sandbox().join("parted");
    let launch = Launch { parting: Some(Signal::SIGQUIT), ..world.launch("sh", &["-c", script]) };
    // When it is dropped, when it is ended, and when its supervisor was killed.
    for way in ["drop", "end", "lost"] {
        let mut process = launch.start().await.unwrap();
        let (_, open) = line(&mut process).await;
        match way {
            "drop" => drop(process),
            "end" => assert_eq!(process.end(HASTY).await.step, Step::Term),
            _ => {
                kill(Pid::from_raw(parent_of(process.pid())), Signal::SIGKILL).unwrap();
                assert!(process.end(HASTY).await.supervisor_lost);
            }
        }
        drop(open);
        let run = world.run.id().to_owned();
        assert!(within(Duration::from_secs(3), || carrying(&run).is_empty()), "{way}");
        assert_eq!(fs::read_to_string(&parted).unwrap(), "parted\n", "{way}");
        fs::remove_file(&parted).unwrap();
    }
    world.close();
}

#[tokio::test]
async fn a_parting_signal_that_is_ignored_only_delays_the_kill() {
    let world = World::new();
    let script = "trap '' QUIT; echo ready; while :; do sleep 0.05; done";
    let mut process =
        Launch { parting: Some(Signal::SIGQUIT), ..world.launch("sh", &["-c", script]) }
            .start()
            .await
            .unwrap();
    let _open = line(&mut process).await;
    let run = world.run.id().to_owned();
    drop(process);
    assert!(within(Duration::from_secs(5), || carrying(&run).is_empty()));
    world.close();
}

#[tokio::test]
async fn a_program_that_refuses_root_is_run_without_any_of_roots_rights() {
    let Ok(Some(owner)) = Owner::to_become() else { return };
    let world = World::new();
    let script = vec!["-c".into(), "id -u; id -G; kill -0 $PPID || echo safe".into()];
    let (program, args) =
        unprivileged::command(Some(Path::new(PROGRAM)), Some(owner), Path::new("/bin/sh"), script)
            .unwrap();
    let launch = Launch { program, args, cwd: "/".into(), ..world.launch("sh", &[]) };
    let mut process = launch.start().await.unwrap();
    let mut text = String::new();
    process.stdout().unwrap().read_to_string(&mut text).await.unwrap();
    assert_eq!(text, format!("{}\n{}\nsafe\n", owner.uid, owner.gid));
    process.end(HASTY).await;
    world.close();
}

#[tokio::test]
async fn a_server_that_kills_its_supervisor_is_ended() {
    let world = World::new();
    let script = "trap '' TERM; setsid sleep 94 & read go; kill -9 $PPID; sleep 94";
    let mut process = world.shell(script).await;
    process.stdin().unwrap().write_all(b"go\n").await.unwrap();
    let run = world.run.id().to_owned();
    assert_eq!(process.exited().await.to_string(), "unseen exit");
    assert!(within(Duration::from_secs(3), || carrying(&run).is_empty()));
    let ending = process.end(Graces::default()).await;
    assert!(ending.supervisor_lost && ending.left.is_empty(), "{ending:?}");
    assert_eq!((ending.step, ending.exit), (Step::Kill, None));
    world.close();
}

#[tokio::test]
async fn a_server_that_kills_its_supervisor_at_once_is_ended_too() {
    let world = World::new();
    let script = "kill -9 $PPID; sleep 91";
    // Whether the supervisor still got to say that it started is a race.
    match world.launch("sh", &["-c", script]).start().await {
        Ok(process) => assert!(process.end(Graces::default()).await.supervisor_lost),
        Err(error) => assert!(matches!(error, StartError::Supervisor { .. }), "{error}"),
    }
    assert_eq!(carrying(world.run.id()), Vec::<i32>::new());
    world.close();
}

#[tokio::test]
async fn a_polite_signal_does_not_end_the_supervisor() {
    let world = World::new();
    let mut process = world.shell("kill $PPID; kill -INT $PPID; echo ready; cat").await;
    let _open = line(&mut process).await;
    let ending = process.end(HASTY).await;
    assert_eq!((ending.step, ending.exit.unwrap().code), (Step::Eof, Some(0)));
    assert_clean(&ending);
    world.close();
}

#[tokio::test]
async fn what_cannot_be_started_is_explained() {
    let world = World::new();
    let script = world.run.root().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let path = script.to_str().unwrap();

    let error = world.launch("sealmark-no-such-command", &[]).start().await.unwrap_err();
    assert!(matches!(error, StartError::NotFound { .. }), "{error}");
    let error = world.launch(path, &[]).start().await.unwrap_err();
    assert!(matches!(error, StartError::NotExecutable { .. }), "{error}");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let error = world.launch(path, &[]).start().await.unwrap_err();
    assert!(matches!(error, StartError::Interpreter { .. }), "{error}");
    fs::write(&script, b"\x7fELF and no more").unwrap();
    let error = world.launch(path, &[]).start().await.unwrap_err();
    assert!(matches!(error, StartError::Execute { .. }), "{error}");
    let nowhere = PathBuf::from("/no/such/directory");
    let error = Launch { cwd: nowhere, ..world.launch("cat", &[]) }.start().await.unwrap_err();
    assert!(matches!(error, StartError::WorkingDirectory { .. }), "{error}");
    let no_supervisor = Some(PathBuf::from("/bin/true"));
    let error =
        Launch { supervisor: no_supervisor, ..world.launch("cat", &[]) }.start().await.unwrap_err();
    assert!(matches!(error, StartError::Supervisor { .. }), "{error}");
    world.close();
}

#[tokio::test]
async fn no_descriptor_and_no_variable_leaks_into_the_server() {
    let world = World::new();
    // Inheritable, as whoever starts the harness may leave some.
    let file = fs::File::open("/dev/null").unwrap();
    let inheritable = nix::unistd::dup(&file).unwrap();
    let script = "import os, signal\n\
        print(sorted(f for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/'+f)))\n\
        print(sorted(os.environ), signal.pthread_sigmask(0, []), os.getsid(0) == os.getppid(), os.getpgrp() == os.getpid())";
    let mut process = world.launch("/usr/bin/python3", &["-c", script]).start().await.unwrap();
    let mut text = String::new();
    process.stdout().unwrap().read_to_string(&mut text).await.unwrap();
    drop(inheritable);
    let (descriptors, rest) = text.split_once('\n').unwrap();
    assert_eq!(descriptors, "['0', '1', '2']");
    assert!(rest.contains("'SEALMARK_RUN'") && rest.contains("'HOME'"), "{rest}");
    assert!(
        !rest.contains("CARGO_MANIFEST_DIR") && rest.trim().ends_with("set() True True"),
        "{rest}"
    );
    process.end(HASTY).await;
    world.close();
}

#[tokio::test]
async fn two_runs_at_once_do_not_meet() {
    let parent = tempfile::tempdir().unwrap();
    let first = Run::create_in(parent.path()).unwrap();
    let second = Run::create_in(parent.path()).unwrap();
    assert_eq!(second.swept(), Default::default());
    let lane = first.lane("main").unwrap();
    let env = env::build(&lane, None, env::Stage::Serve, &[]);
    let (cwd, supervisor) = (lane.sandbox(), Some(PROGRAM.into()));
    let launch =
        Launch { program: "cat".into(), args: vec![], env, cwd, lane, supervisor, parting: None };
    let process = launch.start().await.unwrap();
    second.close().unwrap();
    assert!(process.try_exited().is_none() && first.root().is_dir());
    assert_eq!(process.end(Graces::default()).await.step, Step::Eof);
}

#[tokio::test]
async fn lanes_of_a_run_end_apart() {
    let world = World::new();
    let one = world.launch("cat", &[]);
    let other = Launch { lane: world.run.lane("other").unwrap(), ..one.clone() };
    let (one, other) = (one.start().await.unwrap(), other.start().await.unwrap());
    kill(Pid::from_raw(parent_of(one.pid())), Signal::SIGKILL).unwrap();
    assert!(one.end(HASTY).await.supervisor_lost);
    let ending = other.end(HASTY).await;
    assert_eq!(ending.exit.unwrap().code, Some(0));
    assert_clean(&ending);
    world.close();
}

fn parent_of(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Starts the holder with a server in each of `lanes`, and returns it with the run's root and the
/// servers' process ids.
fn hold(parent: &Path, lanes: &str, script: &str) -> (std::process::Child, PathBuf, Vec<i32>) {
    let mut holder = Command::new(PROGRAM)
        .arg("__hold")
        .arg(parent)
        .args([lanes, "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut text).unwrap();
    let mut words = text.split_whitespace();
    let root = PathBuf::from(words.next().unwrap());
    (holder, root, words.map(|word| word.parse().unwrap()).collect())
}

fn survives_nothing(script: &str) {
    let parent = tempfile::tempdir().unwrap();
    let (mut holder, root, pids) = hold(parent.path(), "2", script);
    let id = root.file_name().unwrap().to_str().unwrap().trim_start_matches("sealmark-").to_owned();
    assert!(pids.len() == 2 && pids.iter().all(|pid| lives(*pid)));
    let lane = root.join("lane-0");
    assert!(within(Duration::from_secs(5), || lane.join("box/ready").exists()));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(within(Duration::from_secs(3), || carrying(&id).is_empty() && !lane.exists()));
    assert!(within(Duration::from_secs(3), || !root.exists()), "the last lane takes the root");
}

#[test]
fn nothing_survives_the_death_of_the_harness() {
    survives_nothing("touch ready; cat");
}

#[test]
fn nothing_survives_when_the_server_ignores_everything() {
    survives_nothing("trap '' TERM HUP INT; touch ready; while :; do sleep 0.1; done");
}

#[test]
fn nothing_survives_when_the_server_is_a_child_of_a_shell() {
    survives_nothing(
        "sh -c \"trap '' TERM HUP INT; touch ready; while :; do sleep 0.1; done\" & wait",
    );
}

#[test]
fn nothing_survives_when_a_daemon_was_left() {
    survives_nothing("setsid sh -c 'setsid sleep 93 & mkdir -p d/e; chmod 0 d; touch ready'; cat");
}

#[test]
fn a_sweep_removes_what_a_dead_run_left_and_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let (mut dead, dead_root, pids) = hold(parent.path(), "1", "echo $PPID >shim; sleep 92");
    let (mut live, live_root, live_pids) = hold(parent.path(), "1", "sleep 92");
    fs::create_dir(parent.path().join("sealmark-notes")).unwrap();
    // Both the harness and the supervisor die at once: only a sweep can tidy up.
    kill(Pid::from_raw(dead.id() as i32), Signal::SIGSTOP).unwrap();
    kill(Pid::from_raw(parent_of(pids[0])), Signal::SIGKILL).unwrap();
    dead.kill().unwrap();
    dead.wait().unwrap();
    assert!(dead_root.is_dir() && lives(pids[0]));

    let run = Run::create_in(parent.path()).unwrap();
    assert_eq!((run.swept().roots, run.swept().kept), (1, 0));
    assert!(run.swept().processes >= 1);
    assert!(!dead_root.exists() && within(Duration::from_secs(1), || !lives(pids[0])));
    assert!(live_root.is_dir() && lives(live_pids[0]));
    assert!(parent.path().join("sealmark-notes").is_dir());
    live.kill().unwrap();
    live.wait().unwrap();
    assert!(within(Duration::from_secs(3), || !live_root.exists()));
}

#[tokio::test]
async fn the_supervisor_costs_little() {
    let world = World::new();
    let launch = world.launch("/bin/true", &[]);
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let began = Instant::now();
        let process = launch.start().await.unwrap();
        best = best.min(began.elapsed());
        process.end(Graces::default()).await;
    }
    // The best of ten, so that a busy machine does not fail it; measured at a few milliseconds.
    assert!(best < Duration::from_millis(50), "{best:?}");
}
