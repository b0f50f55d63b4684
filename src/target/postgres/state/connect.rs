//! The reader's connections: one for questions, one that hears notifications.

use std::{future::poll_fn, pin::pin};

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls};

/// The channel probes notify on.
pub const CHANNEL: &str = "sm_probe";
/// Notifications that may wait to be counted; one is enough to say that something was notified.
const MOST_WAITING: usize = 64;

/// What every connection of the reader is set to. Names resolve in `pg_catalog` alone, so nothing
/// a server has made is called by the superuser. Scans begin at the first page, and no worker
/// joins in, so the same rows give the same answer; the questions are planned once. Planning the big question costs twice what
/// answering it does, so it is planned once.
const SETTINGS: &str = "SET search_path = pg_catalog; SET statement_timeout = '20s'; \
    SET synchronize_seqscans = off; SET max_parallel_workers_per_gather = 0; SET jit = off; \
    SET plan_cache_mode = force_generic_plan; \
    SET plan_cache_mode = force_generic_plan; SET default_transaction_read_only = off; SET transform_null_equals = off; \
    SET client_min_messages = error; SET row_security = on";

/// A connection, and the count of what was notified on it.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) notified: mpsc::Receiver<()>,
}

impl Connection {
    pub(super) async fn open(config: &Config) -> Result<Self, Error> {
        let (client, connection) = config.connect(NoTls).await?;
        let (send, notified) = mpsc::channel(MOST_WAITING);
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(_) = message {
                    // Where it is full, enough is known.
                    let _ = send.try_send(());
                }
            }
        });
        client.batch_execute(SETTINGS).await?;
        Ok(Self { client, notified })
    }

    /// Whether something was notified since the last time. Postgres sends what was committed
    /// before it answers.
    pub(super) async fn was_notified(&mut self) -> Result<bool, Error> {
        self.client.batch_execute("").await?;
        let mut any = false;
        while self.notified.try_recv().is_ok() {
            any = true;
        }
        Ok(any)
    }
}
