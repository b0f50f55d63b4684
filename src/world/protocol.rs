//! What the harness and the supervisor of a server say to each other over two FIFOs.

use serde::{Deserialize, Serialize};

/// The FIFO that carries commands; its end of file tells the supervisor that the harness is gone.
pub(crate) const LIFE: &str = "life";
/// The FIFO that carries reports; its end of file tells the harness that the supervisor is gone.
pub(crate) const STATUS: &str = "status";
/// Names of processes reported at most, so that a report always fits a FIFO.
pub(crate) const NAMES_LIMIT: usize = 32;
/// Bytes of one report; a longer line is no report of ours.
pub(crate) const REPORT_LIMIT: usize = 16 * 1024;

/// What the harness asks of the supervisor: one word per line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Send SIGTERM to the server's process group.
    Term,
    /// Send SIGKILL to the server's process group.
    Kill,
    /// End whatever is left of the tree, report it and exit; the lane's directory stays.
    End,
}

impl Command {
    pub(crate) fn line(self) -> &'static str {
        match self {
            Command::Term => "term\n",
            Command::Kill => "kill\n",
            Command::End => "end\n",
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        [Command::Term, Command::Kill, Command::End]
            .into_iter()
            .find(|command| command.line().trim_end() == line)
    }
}

/// What the supervisor tells the harness: one JSON object per line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    /// The server was executed under this process id, which is its process group's as well.
    Started { pid: i32 },
    /// The server could not be executed, for this `errno`.
    Failed { errno: i32 },
    /// The server itself ended. Descendants may be alive.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// Descendants that were alive when the end of the tree was asked for, after the exit.
    Outlived { names: Vec<String> },
    /// Nothing is left of the tree.
    Gone,
    /// These could not be ended.
    Left { names: Vec<String> },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_reads_back() {
        for command in [Command::Term, Command::Kill, Command::End] {
            assert_eq!(Command::parse(command.line().trim_end()), Some(command));
        }
        assert_eq!(Command::parse("en"), None);
    }

    #[test]
    fn the_longest_report_fits_its_limit() {
        let names = vec!["\u{fffd}".repeat(crate::world::tree::NAME_LIMIT); NAMES_LIMIT];
        let line = serde_json::to_string(&Report::Left { names }).unwrap();
        assert!(line.len() < REPORT_LIMIT, "{}", line.len());
    }
}
