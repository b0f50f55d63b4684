//! What is left of a cluster when the harness is killed: nothing.

#![cfg(target_os = "linux")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sealmark::world::Run;
use tempfile::TempDir;

use crate::{Told, open_folder, program, within::within};

/// A harness that holds a cluster.
struct Held {
    harness: Child,
    root: PathBuf,
    postmaster: i32,
    segment: String,
    parent: TempDir,
}

impl Held {
    fn begin() -> Option<Self> {
        let parent = open_folder();
        let (harness, told) = Told::holding(&mut program(parent.path(), "hold"))?;
        let text = fs::read_to_string(told.root.join("pg/data/postmaster.pid")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let postmaster = lines[0].parse().unwrap();
        let segment = lines[6].split_whitespace().nth(1).unwrap().to_owned();
        let held = Self { harness, root: told.root, postmaster, segment, parent };
        assert!(held.process_is_there() && held.segment_is_there() && held.root.is_dir());
        Some(held)
    }

    fn process_is_there(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.postmaster));
        // One that nobody waits for is a zombie until then.
        stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
    }

    fn segment_is_there(&self) -> bool {
        let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        table.lines().any(|line| line.split_whitespace().nth(1) == Some(&self.segment))
    }

    fn nothing_is_left(&self) -> bool {
        !self.process_is_there()
            && !self.segment_is_there()
            && fs::read_dir(self.parent.path()).unwrap().count() == 0
    }

    fn kill(&mut self) {
        self.harness.kill().unwrap();
        self.harness.wait().unwrap();
    }
}

fn parent_of(pid: i32) -> i32 {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_killed_harness_leaves_no_process_no_folder_and_no_memory() {
    let Some(mut held) = Held::begin() else { return };
    held.kill();
    assert!(within(Duration::from_secs(5), || held.nothing_is_left()));
}

#[test]
fn the_next_run_sweeps_what_a_killed_supervisor_left() {
    let Some(mut held) = Held::begin() else { return };
    kill(Pid::from_raw(held.harness.id() as i32), Signal::SIGSTOP).unwrap();
    kill(Pid::from_raw(parent_of(held.postmaster)), Signal::SIGKILL).unwrap();
    held.kill();
    assert!(held.process_is_there() && held.root.is_dir());
    let run = Run::create_in(held.parent.path()).unwrap();
    assert_eq!((run.swept().roots, run.swept().kept), (1, 0));
    run.close().unwrap();
    assert!(within(Duration::from_secs(1), || held.nothing_is_left()));
}
