//! A running server: its streams, its exit, and the ladder that ends it.

use std::{
    fmt,
    fs::File,
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::unix::pipe,
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    protocol::{Command, REPORT_LIMIT, Report},
    tree::{self, Entry},
};

/// How long the supervisor may take for what it was asked: twice the time it repeats SIGKILL.
const ANSWER_LIMIT: Duration = Duration::from_secs(6);

/// How the server itself ended. Neither field is set when nobody saw it: its supervisor was
/// killed, or the signal has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code, 0 to 255.
    pub code: Option<i32>,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("unseen exit"),
        }
    }
}

/// How long each step of the ladder is given. The defaults are methodology 11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    /// From the closing of stdin to SIGTERM.
    pub eof: Duration,
    /// From SIGTERM to SIGKILL.
    pub term: Duration,
    /// From the server's exit to the end of its last descendant, before those still alive count
    /// as having outlived it.
    pub descendants: Duration,
}

impl Default for Graces {
    fn default() -> Self {
        Self {
            eof: Duration::from_secs(5),
            term: Duration::from_secs(3),
            descendants: Duration::from_millis(200),
        }
    }
}

/// The step of the ladder at which the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// After its stdin was closed, or before.
    Eof,
    /// After SIGTERM.
    Term,
    /// After SIGKILL, or not at all: then it is listed in [`Ending::left`].
    Kill,
}

/// What the end of a server was like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// The step at which it ended.
    pub step: Step,
    /// How it ended; `None` when that was not seen.
    pub exit: Option<Exit>,
    /// Seconds from the beginning of the ladder to the server's own exit.
    pub seconds_to_exit: f64,
    /// Names of at most 32 descendants that were alive when the server had been gone for
    /// [`Graces::descendants`]. They were ended then.
    pub outlived: Vec<String>,
    /// Names of processes that SIGKILL did not end: always empty, unless the kernel is stuck.
    pub left: Vec<String>,
    /// The supervisor was killed, by the server or another process of its user. What could be
    /// found of the tree was ended at once.
    pub supervisor_lost: bool,
}

/// The commanding end of the supervisor's life FIFO. Dropping it asks for the end of the tree;
/// when it is closed without that, which only the death of the harness does, the supervisor
/// removes the lane as well.
#[derive(Debug)]
pub(crate) struct Life(File);

impl Life {
    pub(crate) fn new(writer: File) -> Self {
        Self(writer)
    }

    fn ask(&mut self, command: Command) {
        // Without a reader the supervisor is gone, which the watch reports.
        let _ = self.0.write_all(command.line().as_bytes());
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.ask(Command::End);
    }
}

/// What is known of a process so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pid: Option<i32>,
    failed: Option<i32>,
    exit: Option<(Exit, Option<Instant>)>,
    outlived: Vec<String>,
    gone: bool,
    left: Vec<String>,
    lost: bool,
    /// The supervisor is gone, and with it what it left was dealt with.
    over: bool,
}

/// The task that reads a supervisor's reports.
pub(crate) struct Watch {
    supervisor: Child,
    status: pipe::Receiver,
    status_writer: Option<File>,
    marks: Vec<String>,
    seen: watch::Sender<Seen>,
}

impl Watch {
    pub(crate) fn begin(
        supervisor: Child,
        status: pipe::Receiver,
        status_writer: File,
        marks: Vec<String>,
    ) -> watch::Receiver<Seen> {
        let (seen, receiver) = watch::channel(Seen::default());
        let status_writer = Some(status_writer);
        tokio::spawn(Watch { supervisor, status, status_writer, marks, seen }.run());
        receiver
    }

    async fn run(mut self) {
        let session = self.supervisor.id().and_then(|pid| i32::try_from(pid).ok());
        let mut unread = Vec::new();
        let mut ended = false;
        loop {
            tokio::select! {
                biased;
                read = self.status.read_buf(&mut unread) => {
                    if !matches!(read, Ok(count) if count > 0) || unread.len() > REPORT_LIMIT {
                        break;
                    }
                    self.take_reports(&mut unread);
                }
                _ = self.supervisor.wait(), if !ended => {
                    ended = true;
                    // The last writer: what is in the FIFO can still be read, then it ends.
                    self.status_writer = None;
                }
            }
        }
        // Closing our end first keeps a supervisor that talks nonsense from waiting for us.
        drop(self.status);
        if !ended {
            let _ = timeout(ANSWER_LIMIT, self.supervisor.wait()).await;
        }
        let lost = {
            let seen = self.seen.borrow();
            seen.failed.is_none() && !seen.gone && seen.left.is_empty()
        };
        let mut left = Vec::new();
        if lost {
            let group = self.seen.borrow().pid;
            let marks = Arc::new(self.marks);
            left = tokio::task::spawn_blocking(move || end_strays(group, session, &marks))
                .await
                .unwrap_or_default();
        }
        self.seen.send_modify(|seen| {
            if lost {
                seen.lost = true;
                seen.left = left;
                seen.exit.get_or_insert((Exit { code: None, signal: None }, None));
            }
            seen.over = true;
        });
    }

    fn take_reports(&mut self, unread: &mut Vec<u8>) {
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            let Ok(report) = serde_json::from_slice::<Report>(&line) else { continue };
            // It speaks, so it holds its own end.
            self.status_writer = None;
            self.seen.send_modify(|seen| match report {
                Report::Started { pid } => seen.pid = Some(pid),
                Report::Failed { errno } => seen.failed = Some(errno),
                Report::Exited { code, signal } => {
                    seen.exit = Some((Exit { code, signal }, Some(Instant::now())));
                }
                Report::Outlived { names } => seen.outlived = names,
                Report::Gone => seen.gone = true,
                Report::Left { names } => seen.left = names,
            });
        }
    }
}

/// Ends what can be found of a tree whose supervisor was killed: by process group, by session,
/// by the marks in the environment, and what descends from any of these.
fn end_strays(group: Option<i32>, session: Option<i32>, marks: &[String]) -> Vec<String> {
    let belongs = |entry: &Entry| {
        Some(entry.group) == group
            || Some(entry.session) == session
            || tree::has_marks(entry.pid, marks)
    };
    if let Some(group) = group.filter(|group| *group > 1) {
        match tree::own_parting(group) {
            Some(signal) => tree::part(&[(group, signal)]),
            None => tree::kill_group(group),
        }
    }
    tree::end_all(|| tree::selected(belongs))
}

/// A server that was executed. Dropping it ends the server and everything it started at once.
#[derive(Debug)]
pub struct Process {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    life: Life,
    seen: watch::Receiver<Seen>,
    pid: i32,
    started: Instant,
}

impl Process {
    pub(crate) fn new(
        (stdin, stdout, stderr): (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>),
        life: Life,
        seen: watch::Receiver<Seen>,
    ) -> Self {
        Self { stdin, stdout, stderr, life, seen, pid: 0, started: Instant::now() }
    }

    /// Waits for the word that the server was executed. The error is `errno`, or `None` when the
    /// supervisor ended without one.
    pub(crate) async fn executed(&mut self) -> Result<(), Option<i32>> {
        let known = |seen: &Seen| seen.pid.is_some() || seen.failed.is_some() || seen.over;
        let seen = self.seen.wait_for(known).await.map_err(|_| None)?;
        match (seen.pid, seen.failed) {
            (Some(pid), _) => {
                self.pid = pid;
                self.started = Instant::now();
                Ok(())
            }
            (None, failed) => Err(failed),
        }
    }

    /// The server's standard input, once. Dropping it is how the server is asked to end.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The server's standard output, once. Its end of file is the server's own doing: it comes
    /// when the server and every descendant that inherited the stream have closed it.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// The server's standard error, once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// The server's process id, which is also its process group.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// When the server was executed.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Waits until the server itself has exited; its descendants may live on. May be called
    /// again, and may be dropped at any point.
    pub async fn exited(&mut self) -> Exit {
        let unseen = Exit { code: None, signal: None };
        match self.seen.wait_for(|seen| seen.exit.is_some() || seen.over).await {
            Ok(seen) => seen.exit.map_or(unseen, |(exit, _)| exit),
            Err(_) => unseen,
        }
    }

    /// The exit, when the server has exited.
    pub fn try_exited(&self) -> Option<Exit> {
        self.seen.borrow().exit.map(|(exit, _)| exit)
    }

    /// Ends the server and everything it started: waits for its exit, sends SIGTERM to its
    /// process group, then SIGKILL, then ends the descendants that outlived it. Returns as soon
    /// as nothing is left.
    ///
    /// The caller has dropped stdin, which is the request to end, and goes on reading the streams
    /// it took, because a full pipe can keep a server from exiting. Streams that were never taken
    /// are closed or drained here. When the future is dropped halfway, the tree is ended at once.
    pub async fn end(mut self, graces: Graces) -> Ending {
        drop(self.stdin.take());
        self.drain();
        let began = Instant::now();
        let mut step = Step::Eof;
        if !self.exits_within(graces.eof).await {
            step = Step::Term;
            self.life.ask(Command::Term);
            if !self.exits_within(graces.term).await {
                step = Step::Kill;
                self.life.ask(Command::Kill);
                self.exits_within(ANSWER_LIMIT).await;
            }
        }
        let settled = |seen: &Seen| seen.gone || seen.over;
        let _ = timeout(graces.descendants, self.seen.wait_for(settled)).await;
        self.life.ask(Command::End);
        let _ = timeout(ANSWER_LIMIT, self.seen.wait_for(|seen| seen.over)).await;

        let seen = self.seen.borrow().clone();
        let mut left = seen.left;
        if !seen.gone && !seen.lost && left.is_empty() {
            left.push(format!("pid {}", self.pid));
        }
        let witnessed = seen.exit.and_then(|(exit, at)| Some((exit, at?)));
        let until = witnessed.map_or_else(Instant::now, |(_, at)| at);
        Ending {
            // Without its supervisor the server was killed on the spot.
            step: if witnessed.is_none() { Step::Kill } else { step },
            exit: witnessed.map(|(exit, _)| exit),
            seconds_to_exit: until.saturating_duration_since(began).as_secs_f64(),
            outlived: seen.outlived,
            left,
            supervisor_lost: seen.lost,
        }
    }

    fn drain(&mut self) {
        async fn discard(mut stream: impl AsyncRead + Unpin) {
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
        if let Some(stdout) = self.stdout.take() {
            tokio::spawn(discard(stdout));
        }
        if let Some(stderr) = self.stderr.take() {
            tokio::spawn(discard(stderr));
        }
    }

    async fn exits_within(&mut self, grace: Duration) -> bool {
        tokio::select! {
            biased;
            _ = self.exited() => true,
            () = sleep(grace) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_reads_as_code_or_signal() {
        let text = |code, signal| Exit { code, signal }.to_string();
        assert_eq!(text(Some(3), None), "exit 3");
        assert_eq!(text(None, Some(9)), "signal 9");
        assert_eq!(text(None, None), "unseen exit");
    }

    #[test]
    fn the_default_graces_are_the_documented_ones() {
        let graces = Graces::default();
        assert_eq!((graces.eof.as_secs(), graces.term.as_secs()), (5, 3));
        assert_eq!(graces.descendants.as_millis(), 200);
    }
}
