//! The wire tap: a server reaches Postgres through a loopback relay, which passes every byte on
//! and notes who connected, which statements crossed and what Postgres made of them.
//!
//! Bodies are streamed. What is kept is the head of a statement, its tags and its SQLSTATE;
//! passwords and rows are never kept. Text in the log was written by the server under test.

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::TcpListener,
    task::{AbortHandle, JoinSet},
};

use super::{Backend, cluster::SUPERUSER};

mod frames;
mod log;
mod relay;
mod session;
mod startup;

pub use log::{Login, Mark, Statement};

/// Bytes kept of the text of a statement.
const HEAD: usize = 4_096;
/// Bytes kept of a name. Names in Postgres have 63; those of prepared statements in the protocol
/// have no bound.
const NAME: usize = 128;
/// Connections relayed at once, as many as a cluster of ours takes; further ones are closed at once.
const MOST_CONNECTIONS: usize = 200;

/// A relay between one server and Postgres. It ends, with every connection, when it is dropped.
#[derive(Debug)]
pub struct Tap {
    shared: Arc<Shared>,
    port: u16,
    accepts: AbortHandle,
}

/// What connections note.
#[derive(Debug, Default)]
struct Shared {
    log: Mutex<log::Log>,
    /// The backends of the connections that are open, by the number of the connection.
    pids: Mutex<BTreeMap<u64, i32>>,
    rows: AtomicU64,
    bytes: AtomicU64,
    turned_away: AtomicU64,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, log::Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pids(&self) -> MutexGuard<'_, BTreeMap<u64, i32>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap {
    /// Opens a tap before `backend` on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// Fails where the system gives no port.
    pub async fn open(backend: Backend) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::<Shared>::default();
        let accepts = tokio::spawn(accept(listener, backend, Arc::clone(&shared))).abort_handle();
        Ok(Self { shared, port, accepts })
    }

    /// The port on 127.0.0.1 where it takes connections.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The position in the log behind everything heard so far.
    pub fn mark(&self) -> Mark {
        self.shared.log().mark()
    }

    /// What crossed since `mark`, in order, 10,000 statements at most. A statement is here before
    /// the server can have read its answer. One that was prepared before the mark and executed
    /// after it is here too.
    pub fn since(&self, mark: Mark) -> Vec<Statement> {
        self.shared.log().since(mark)
    }

    /// Statements the log no longer holds because too many came.
    pub fn forgotten(&self) -> u64 {
        self.shared.log().forgotten()
    }

    /// Who connected so far, in order; the first 1,000.
    pub fn logins(&self) -> Vec<Login> {
        self.shared.log().logins.clone()
    }

    /// The process numbers of the backends behind the connections that are open now. A backend
    /// stays here while it works on for a client that has gone away.
    pub fn pids(&self) -> Vec<i32> {
        self.shared.pids().values().copied().collect()
    }

    /// Rows relayed towards the server so far, those of COPY included.
    pub fn rows(&self) -> u64 {
        self.shared.rows.load(Ordering::Relaxed)
    }

    /// Bytes relayed towards the server so far.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Connections closed at once because 200 were open.
    pub fn turned_away(&self) -> u64 {
        self.shared.turned_away.load(Ordering::Relaxed)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

async fn accept(listener: TcpListener, backend: Backend, shared: Arc<Shared>) {
    // Dropped together with this task, it ends the connections.
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok(_) if connections.len() >= MOST_CONNECTIONS => {
                shared.turned_away.fetch_add(1, Ordering::Relaxed);
            }
            Ok((client, _)) => {
                number += 1;
                connections.spawn(relay::connection(
                    client,
                    backend.clone(),
                    Arc::clone(&shared),
                    number,
                ));
            }
            // Most likely no descriptor is free; one may be soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// The beginning of a text, `most` bytes at most, read as UTF-8 as far as it is.
fn head(bytes: &[u8], most: usize) -> String {
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned();
    // A replacement character is longer than the byte it stands for.
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}
