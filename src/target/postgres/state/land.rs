//! Direct replay: the harness runs a probe itself, as the same role, to know what it would do.

use std::{future::poll_fn, pin::pin, time::Duration};

use futures_core::Stream;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::{Changed, ENDING, Error, PAUSE, Reader};
use crate::target::postgres::{Postgres, Role};

/// How long one statement of a replay may run.
const STATEMENT: Duration = Duration::from_secs(5);
/// The SQLSTATE noted where it ran longer.
const CANCELED: &str = "57014";
/// Bytes kept of the values a replay returned.
const TEXT: usize = 64 << 10;

/// What a probe does when nothing stands between it and Postgres.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Landing {
    /// What it changed.
    pub changes: Vec<Changed>,
    /// Whether it left a transaction open that had written, or held locks.
    pub pending: bool,
    /// The SQLSTATE of the first statement that failed.
    pub error: Option<String>,
    /// The values it returned, the first 64 KiB of them, tabs and newlines between.
    pub text: String,
}

impl Landing {
    /// Whether the replay says that the statements change nothing: it was not cut short by a
    /// limit, a lock or a lack of resources (SQLSTATE classes 40, 53, 55, 57 and 58), which another
    /// time may not meet.
    pub fn changes_nothing(&self) -> bool {
        let passing = |state: &String| {
            ["40", "53", "55", "57", "58"].iter().any(|class| state.starts_with(class))
        };
        self.changes.is_empty() && !self.error.as_ref().is_some_and(passing)
    }
}

impl Reader {
    /// Runs statements one after another on a session of `role`, as [`Reader::replay`] does.
    ///
    /// # Errors
    /// Fails where no session is had, or the state cannot be read or brought back.
    pub async fn lands(
        &mut self,
        postgres: &Postgres,
        role: Role,
        statements: &[String],
    ) -> Result<Landing, Error> {
        let session = postgres.session(role).await?;
        self.replay(session, statements).await
    }

    /// Runs statements one after another on `session` by the simple protocol, looks at what they
    /// changed, and brings the seed back. A statement that runs longer than 5 s is ended together
    /// with the session.
    ///
    /// # Errors
    /// Fails where the state cannot be read or brought back.
    pub async fn replay(
        &mut self,
        session: Client,
        statements: &[String],
    ) -> Result<Landing, Error> {
        self.look(&[]).await?;
        let mut landing = Landing::default();
        let pid = backend(&session).await?;
        for statement in statements {
            let run = run(&session, statement, &mut landing.text);
            let (state, goes_on) = match timeout(STATEMENT, run).await {
                Ok(Ok(())) => (None, true),
                Ok(Err(error)) => {
                    // Without a code the reply was none that a simple query has, such as the
                    // beginning of a COPY, and the session waits for something else.
                    (error.code().map(|code| code.code().to_owned()), error.code().is_some())
                }
                Err(_) => (Some(CANCELED.to_owned()), false),
            };
            landing.error = landing.error.or(state);
            if !goes_on {
                self.terminate(&[pid]).await?;
            }
            if session.is_closed() || !goes_on {
                break;
            }
        }
        let looked = self.look(&[pid]).await?;
        landing.pending = looked.pending;
        drop(session);
        self.await_end(pid).await?;
        let late = self.look(&[]).await?;
        landing.changes = looked.changes;
        landing.changes.extend(late.changes);
        self.reset(&[]).await?;
        Ok(landing)
    }

    /// Waits until a session that was closed is gone, and ends it where it stays.
    async fn await_end(&mut self, pid: i32) -> Result<(), Error> {
        let deadline = Instant::now() + ENDING;
        let sql = "SELECT FROM pg_stat_get_activity($1)";
        while !self.client().query(sql, &[&pid]).await?.is_empty() {
            if Instant::now() > deadline {
                return self.terminate(&[pid]).await;
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }
}

/// The process number of a session's backend.
async fn backend(session: &Client) -> Result<i32, Error> {
    let messages = session.simple_query("SELECT pg_catalog.pg_backend_pid()").await?;
    let pid = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    // Postgres has no process 0, so nothing is found or ended by it.
    Ok(pid.unwrap_or_default())
}

/// Runs one statement and keeps the head of what it returns.
async fn run(
    session: &Client,
    statement: &str,
    text: &mut String,
) -> Result<(), tokio_postgres::Error> {
    let mut messages = pin!(session.simple_query_raw(statement).await?);
    while let Some(message) = poll_fn(|cx| messages.as_mut().poll_next(cx)).await {
        if let SimpleQueryMessage::Row(row) = message? {
            keep(&row, text);
        }
    }
    Ok(())
}

fn keep(row: &SimpleQueryRow, text: &mut String) {
    for at in 0..row.len() {
        let left = TEXT.saturating_sub(text.len() + 1);
        if left == 0 {
            return;
        }
        let value = row.try_get(at).ok().flatten().unwrap_or_default();
        let end = (0..=left.min(value.len())).rev().find(|end| value.is_char_boundary(*end));
        text.push_str(&value[..end.unwrap_or(0)]);
        text.push(if at + 1 == row.len() { '\n' } else { '\t' });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::How;

    #[test]
    fn a_replay_that_was_cut_short_says_nothing() {
        let ended =
            |state: Option<&str>| Landing { error: state.map(str::to_owned), ..Landing::default() };
        for state in [None, Some("42601"), Some("42501"), Some("0A000")] {
            assert!(ended(state).changes_nothing(), "{state:?}");
        }
        for state in ["57014", "55P03", "53200", "40001", "40P01"] {
            assert!(!ended(Some(state)).changes_nothing(), "{state}");
        }
        let changes = vec![Changed { object: "rows of probe_t".into(), how: How::Modified }];
        assert!(!Landing { changes, ..Landing::default() }.changes_nothing());
    }
}
