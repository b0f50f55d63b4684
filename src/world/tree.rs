//! Reads the process table and ends process trees.
//!
//! Only Linux lets a process adopt its orphaned descendants and read the environment of others.
//! Elsewhere the table reads as empty and a tree is what its process group holds.

use std::{
    ffi::OsStr,
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

use super::{protocol::NAMES_LIMIT, run::PARTING_VARIABLE};

/// Characters of a process's name that are kept.
pub(crate) const NAME_LIMIT: usize = 64;
/// How long SIGKILL is repeated before what is left is reported.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(3);
/// How long a process with a parting signal may take to end by it.
pub(crate) const PARTING_GRACE: Duration = Duration::from_secs(2);
/// Pause between two looks at the process table.
pub(crate) const LOOK: Duration = Duration::from_millis(2);

/// One line of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Ended, and kept only until its parent asks for its status.
    pub(crate) zombie: bool,
}

/// All processes of the machine that this one may see.
pub(crate) fn table() -> Vec<Entry> {
    if !cfg!(target_os = "linux") {
        return Vec::new();
    }
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    folder
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// Reads `/proc/PID/stat`, proc(5). The command's name may itself hold blanks and parentheses.
fn parse_stat(text: &str) -> Option<Entry> {
    let pid = text.split_once(' ')?.0.parse().ok()?;
    let mut rest = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let zombie = matches!(rest.next()?, "Z" | "X" | "x");
    let mut number = || rest.next()?.parse::<i32>().ok();
    Some(Entry { pid, parent: number()?, group: number()?, session: number()?, zombie })
}

/// The members of `table` that descend from one of `roots`, the roots themselves left out.
fn descendants(table: &[Entry], roots: &[i32]) -> Vec<Entry> {
    let mut known = roots.to_vec();
    let mut found: Vec<Entry> = Vec::new();
    loop {
        let next: Vec<Entry> = table
            .iter()
            .filter(|entry| known.contains(&entry.parent) && !known.contains(&entry.pid))
            .copied()
            .collect();
        if next.is_empty() {
            return found;
        }
        known.extend(next.iter().map(|entry| entry.pid));
        found.extend(next);
    }
}

/// Descendants of this process that still run.
pub(crate) fn own_descendants() -> Vec<Entry> {
    let mut found = descendants(&table(), &[own_pid()]);
    found.retain(|entry| !entry.zombie);
    found
}

/// Sends `signal` to the process group of a server, unless no process of the tree is in it, and
/// to the server itself when it has moved to another group.
pub(crate) fn signal_group(group: i32, signal: Signal) {
    let own = own_descendants();
    if own.iter().any(|entry| entry.pid == group && entry.group != group) {
        let _ = kill(Pid::from_raw(group), signal);
    }
    if has_child_in(group) || own.iter().any(|entry| entry.group == group) {
        // It may have ended since: that is what the caller wants.
        let _ = killpg(Pid::from_raw(group), signal);
    }
}

/// Whether a child of this process, own or adopted, is in the group. The kernel answers, so
/// children that come and go faster than the table can be read do not escape.
#[cfg(target_os = "linux")]
fn has_child_in(group: i32) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::PGid(Pid::from_raw(group)), look) != Err(Errno::ECHILD)
}

#[cfg(not(target_os = "linux"))]
fn has_child_in(group: i32) -> bool {
    group_lives(group)
}

/// Sends SIGKILL to a process group.
pub(crate) fn kill_group(group: i32) {
    let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
}

/// Whether a process group has members, by the null signal of kill(2).
pub(crate) fn group_lives(group: i32) -> bool {
    killpg(Pid::from_raw(group), None) != Err(Errno::ESRCH)
}

/// Sends SIGKILL to each of the processes, and to the groups they are in.
pub(crate) fn kill_each(found: &[Entry]) {
    let own_group = nix::unistd::getpgrp().as_raw();
    for entry in found {
        // The signal to a whole group also reaches a child that is being forked just now. The
        // supervisor opened the session, so every group in it belongs to the server.
        if entry.group > 1 && entry.group != own_group {
            kill_group(entry.group);
        }
        let _ = kill(Pid::from_raw(entry.pid), Signal::SIGKILL);
    }
}

/// The signal a value of [`PARTING_VARIABLE`] names.
pub(crate) fn parting(value: Option<&OsStr>) -> Option<Signal> {
    Signal::try_from(value?.to_str()?.parse::<i32>().ok()?).ok()
}

/// Sends each of these processes its parting signal and waits until all of them are gone, for at
/// most [`PARTING_GRACE`] in all.
pub(crate) fn part(parting: &[(i32, Signal)]) {
    let deadline = Instant::now() + PARTING_GRACE;
    for (pid, signal) in parting {
        let _ = kill(Pid::from_raw(*pid), *signal);
    }
    while parting.iter().any(|(pid, _)| runs(*pid)) && Instant::now() < deadline {
        thread::sleep(LOOK);
    }
}

/// Whether a process with this id has not ended.
fn runs(pid: i32) -> bool {
    let zombie = || {
        let stat = read_start(&format!("/proc/{pid}/stat"), 4096)?;
        Some(parse_stat(&String::from_utf8_lossy(&stat))?.zombie)
    };
    exists(pid) && zombie() != Some(true)
}

/// The parting signal in the environment a process was executed with.
pub(crate) fn own_parting(pid: i32) -> Option<Signal> {
    let environment = environment(pid)?;
    let start = [PARTING_VARIABLE.as_bytes(), b"="].concat();
    let value =
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(&*start))?;
    parting(Some(OsStr::new(std::str::from_utf8(value).ok()?)))
}

fn environment(pid: i32) -> Option<Vec<u8>> {
    read_start(&format!("/proc/{pid}/environ"), 1 << 20)
}

/// Whether there is a process with this id, ended or not.
pub(crate) fn exists(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

/// Ends the processes that `find` lists until it twice lists none, for at most [`KILL_LIMIT`]:
/// a process that is being forked or executed can be missing from one look. Returns the names of
/// those it could not end.
///
/// Those that have a parting signal get it first.
pub(crate) fn end_all(find: impl Fn() -> Vec<Entry>) -> Vec<String> {
    let parting: Vec<(i32, Signal)> =
        find().iter().filter_map(|entry| Some((entry.pid, own_parting(entry.pid)?))).collect();
    part(&parting);
    let deadline = Instant::now() + KILL_LIMIT;
    let mut empty_looks = 0;
    loop {
        let found = find();
        empty_looks = if found.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == 2 {
            return Vec::new();
        }
        if Instant::now() > deadline {
            return names(&found);
        }
        kill_each(&found);
        thread::sleep(LOOK);
    }
}

/// Running processes, other than this one, whose environment holds every one of `marks`
/// (each `NAME=value`), with their descendants. Empty where environments cannot be read.
pub(crate) fn marked(marks: &[String]) -> Vec<Entry> {
    selected(|entry| has_marks(entry.pid, marks))
}

/// Running processes, other than this one, for which `belongs` holds, with their descendants.
pub(crate) fn selected(belongs: impl Fn(&Entry) -> bool) -> Vec<Entry> {
    let table = table();
    let own = own_pid();
    let roots: Vec<Entry> = table
        .iter()
        .filter(|entry| entry.pid != own && !entry.zombie && belongs(entry))
        .copied()
        .collect();
    let pids: Vec<i32> = roots.iter().map(|entry| entry.pid).collect();
    let mut all = roots;
    all.extend(
        descendants(&table, &pids).into_iter().filter(|entry| !entry.zombie && entry.pid != own),
    );
    all
}

/// Whether the environment a process was executed with holds every one of `marks`.
pub(crate) fn has_marks(pid: i32, marks: &[String]) -> bool {
    let Some(environment) = environment(pid) else { return false };
    marks
        .iter()
        .all(|mark| environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
}

/// Names for at most [`NAMES_LIMIT`] processes.
pub(crate) fn names(entries: &[Entry]) -> Vec<String> {
    entries.iter().take(NAMES_LIMIT).map(|entry| name(entry.pid)).collect()
}

fn name(pid: i32) -> String {
    let line = read_start(&format!("/proc/{pid}/cmdline"), 4096).unwrap_or_default();
    label(&String::from_utf8_lossy(&line)).unwrap_or_else(|| {
        let short = read_start(&format!("/proc/{pid}/comm"), 64).unwrap_or_default();
        printable(String::from_utf8_lossy(&short).trim())
    })
}

/// The base name of the program and, when it is plainly a file or a number, of its first
/// argument. Further arguments are left out because they may carry credentials.
fn label(line: &str) -> Option<String> {
    let mut words = line.split('\0');
    let program = words.next().map(base_name).filter(|program| !program.is_empty())?;
    let file = words.next().filter(|word| {
        !word.is_empty() && !word.starts_with('-') && !word.contains(['=', '@', ':', ' ', '\n'])
    });
    Some(match file {
        Some(file) => printable(&format!("{program} {}", base_name(file))),
        None => printable(program),
    })
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn printable(text: &str) -> String {
    text.chars()
        .take(NAME_LIMIT)
        .map(|character| if character.is_control() { '\u{fffd}' } else { character })
        .collect()
}

fn read_start(path: &str, limit: u64) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn own_pid() -> i32 {
    Pid::this().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: i32, parent: i32) -> Entry {
        Entry { pid, parent, group: pid, session: pid, zombie: false }
    }

    #[test]
    fn a_command_name_with_a_parenthesis_does_not_shift_the_fields() {
        let parsed = parse_stat("42 (a) Z 1 (b)) S 7 8 9 0 -1 4194560").unwrap();
        assert_eq!(parsed, Entry { pid: 42, parent: 7, group: 8, session: 9, zombie: false });
        assert!(parse_stat("42 (x) Z 1 2 3 4").unwrap().zombie);
        assert_eq!(parse_stat("42 (x) S 1"), None);
    }

    #[test]
    fn descendants_are_found_in_any_order_and_loops_end() {
        let table = [entry(5, 4), entry(3, 2), entry(4, 3), entry(9, 1), entry(2, 5)];
        let found: Vec<i32> = descendants(&table, &[3]).iter().map(|entry| entry.pid).collect();
        assert_eq!(found, [4, 5, 2]);
    }

    #[test]
    fn names_leave_out_what_may_be_a_credential() {
        let read = |line| label(line).unwrap_or_default();
        assert_eq!(read("/usr/bin/node\0/srv/server.js\0--token=geheim\0"), "node server.js");
        assert_eq!(read("sh\0-c\0curl -u a:b\0"), "sh");
        assert_eq!(read("server\0postgres://u:geheim@h/d\0"), "server");
        assert_eq!(read("a\x1b[31mb\0"), "a\u{fffd}[31mb");
        assert_eq!(label(""), None);
    }
}
