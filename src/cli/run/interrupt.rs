//! SIGINT, SIGTERM and the time of `--timeout`: the first ends the run in order, the next at once.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::out;
use crate::error::{Error, INTERRUPTED, Interruption};

/// The longest time that can be given, in seconds: a day.
const LONGEST: u64 = 86_400;

/// The value of `--timeout`: a whole number of seconds, at least 1.
pub(super) fn seconds(text: &str) -> Result<u64, Error> {
    text.parse().ok().filter(|seconds| (1..=LONGEST).contains(seconds)).ok_or_else(|| {
        Error::usage(
            format!("--timeout is no time: {}", crate::cli::names::quoted(text)),
            format!("write whole seconds, from 1 to {LONGEST}"),
        )
    })
}

/// What may interrupt a run, watched from its creation on.
pub(super) struct Interrupts {
    receiver: watch::Receiver<bool>,
    first: Arc<OnceLock<Interruption>>,
}

impl Interrupts {
    /// Begins to watch, on the runtime it is called in.
    ///
    /// # Errors
    /// When the system lets no handler be set.
    pub(super) fn watch(timeout: Option<u64>) -> io::Result<Self> {
        let (sender, receiver) = watch::channel(false);
        let first = Arc::new(OnceLock::new());
        let int = signal(SignalKind::interrupt())?;
        let term = signal(SignalKind::terminate())?;
        tokio::spawn(wait(int, term, timeout, sender, Arc::clone(&first)));
        Ok(Self { receiver, first })
    }

    /// Becomes true when the run is to end.
    pub(super) fn receiver(&self) -> watch::Receiver<bool> {
        self.receiver.clone()
    }

    /// What came first, if anything came.
    pub(super) fn first(&self) -> Option<Interruption> {
        self.first.get().copied()
    }
}

async fn wait(
    mut int: Signal,
    mut term: Signal,
    timeout: Option<u64>,
    sender: watch::Sender<bool>,
    first: Arc<OnceLock<Interruption>>,
) {
    let over = async {
        match timeout {
            Some(seconds) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                seconds
            }
            None => std::future::pending().await,
        }
    };
    let (by, said) = tokio::select! {
        _ = int.recv() => (Interruption::Signal, "interrupted".to_owned()),
        _ = term.recv() => (Interruption::Signal, "interrupted".to_owned()),
        seconds = over => {
            (Interruption::Timeout(seconds), format!("the {seconds} s of --timeout are over"))
        }
    };
    let _ = first.set(by);
    let again = if by == Interruption::Signal { "again" } else { "Ctrl-C" };
    out::tell(&format!("{said}: ending the server; {again} to stop at once"));
    // Nobody waits for it when the run is over already.
    let _ = sender.send(true);
    tokio::select! {
        _ = int.recv() => {}
        _ = term.recv() => {}
    }
    #[expect(clippy::exit, reason = "the user wants the end now; supervisors end the servers")]
    std::process::exit(INTERRUPTED.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_whole_seconds() {
        assert_eq!(seconds("90"), Ok(90));
        for text in ["0", "-1", "1.5", "", "86401", "a"] {
            assert_eq!(seconds(text).map_err(|error| error.exit_code()), Err(2), "{text}");
        }
    }
}
