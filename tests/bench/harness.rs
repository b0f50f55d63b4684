//! The same with sealmark: whole runs as a process of their own, and one start under its supervisor.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sealmark::{
    report::{Report, Timings},
    world::{self, Graces, Launch, env},
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::{
    PROGRAM,
    floor::{HELLO, LIST, is_answer},
};

/// What one run took.
pub(crate) struct Run {
    pub(crate) wall: Duration,
    pub(crate) timings: Timings,
    /// The most memory of sealmark's own process, in KiB; the servers and the supervisors are not in
    /// it. 0 where the system does not say.
    pub(crate) peak: u64,
}

/// A whole run of every pack that applies.
pub(crate) fn run(command: &[String]) -> Run {
    recorded(Command::new(PROGRAM).args(["__record", "--"]).args(command))
}

/// A whole run by a configuration file.
pub(crate) fn run_file(file: &Path) -> Run {
    recorded(Command::new(PROGRAM).arg("__record").arg(file))
}

fn recorded(command: &mut Command) -> Run {
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().unwrap();
    let wall = began.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let peak = said.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok()
    });
    Run { wall, timings: report.run.timings, peak: peak.unwrap_or_default() }
}

/// From the start of the supervisor to the answered list of its server.
pub(crate) fn listed_under_supervisor(command: &[String]) -> Duration {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let run = world::Run::create().unwrap();
        let lane = run.lane("main").unwrap();
        let launch = Launch {
            program: command[0].clone().into(),
            args: command[1..].iter().map(Into::into).collect(),
            env: env::build(&lane, None, env::Stage::Serve, &[]),
            cwd: lane.sandbox(),
            lane,
            supervisor: Some(PROGRAM.into()),
            parting: None,
        };
        let began = Instant::now();
        let mut process = launch.start().await.unwrap();
        let mut stdin = process.stdin().unwrap();
        let mut lines = BufReader::new(process.stdout().unwrap()).lines();
        stdin.write_all(HELLO.as_bytes()).await.unwrap();
        while !is_answer(&lines.next_line().await.unwrap().unwrap(), 1) {}
        stdin.write_all(LIST.as_bytes()).await.unwrap();
        while !is_answer(&lines.next_line().await.unwrap().unwrap(), 2) {}
        let took = began.elapsed();
        drop(stdin);
        process.end(Graces::default()).await;
        run.close().unwrap();
        took
    })
}
