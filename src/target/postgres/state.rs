//! The state reader: a superuser's own connections to the seed, by which it sees what a server
//! changed, whatever the server answered.
//!
//! Every write of Postgres takes a transaction id, or moves one of a few figures that are read
//! beside it. Where none of them moved, nothing happened, and that is known after one question.
//! Otherwise the whole of the catalogues and the rows of the seed's tables are compared. Reading
//! takes no id.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, Config, Row, Statement};

use super::Postgres;
use crate::evidence::How;

mod connect;
mod difference;
mod land;
mod snapshot;

pub use connect::CHANNEL;
pub use land::Landing;

pub(super) use difference::lines;
pub(super) use snapshot::{Read, Section, Snapshot, is_locked};

use connect::Connection;
pub(super) const GLANCE: &str = include_str!("state/glance.sql");
pub(super) const CATALOGUE: &str = include_str!("state/catalogue.sql");

/// How long a look waits for a lock; what is locked counts as pending.
const LOOK_LOCK: &str = "SET lock_timeout = '300ms'";
/// Tables beyond this size are not hashed row by row, 4 MiB: `big` has 9.
const HASHED: i64 = 4 << 20;
/// The version that counts a vacuum where others see it at once.
const COUNTS_VACUUMS: i32 = 150_000;
/// How long a look waits for statements to end. Postgres sends an error before it gives back the
/// locks of the statement that failed, and the tag of a statement before it commits.
const SETTLING: Duration = Duration::from_millis(100);
/// How long ended backends may take to be gone.
const ENDING: Duration = Duration::from_secs(2);
/// Between two questions whether something is over.
const PAUSE: Duration = Duration::from_millis(5);

/// Why the state could not be read or brought back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Postgres refused, or the connection broke.
    #[error("read the state of the database: {0}")]
    Postgres(#[from] tokio_postgres::Error),
    /// A lock stays in the way of the reset, though the servers' connections were ended.
    #[error("bring the seed back: a lock is held by another connection")]
    Locked,
    /// The seed is not as it was, and rebuilding did not help.
    #[error("bring the seed back: {0} still differs")]
    Differs(String),
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The object in plain words, such as `rows of probe_t`. It may hold names a server chose.
    pub object: String,
    /// What happened to it. A row that was written with the values it had is touched.
    pub how: How,
}

/// What one look saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What differs since the last look or reset.
    pub changes: Vec<Changed>,
    /// Whether a backend of the servers is idle in a transaction that has written, or holds a
    /// lock on a relation above `ACCESS SHARE`.
    pub pending: bool,
}

/// What every question costs nothing to answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Glance {
    moved: String,
    pending: bool,
    active: bool,
    advisory: BTreeSet<String>,
    prepared: BTreeSet<String>,
}

impl Glance {
    fn of(row: &Row) -> Self {
        let (advisory, prepared): (Vec<String>, Vec<String>) = (row.get(2), row.get(4));
        Self {
            moved: row.get(0),
            pending: row.get(1),
            active: row.get(3),
            advisory: advisory.into_iter().collect(),
            prepared: prepared.into_iter().collect(),
        }
    }
}

impl Glance {
    /// Whether something may have been written between the two.
    fn differs(&self, before: &Self) -> bool {
        (&self.moved, &self.prepared) != (&before.moved, &before.prepared)
    }
}

/// Reads and restores the seed. It has three connections at most while it works.
pub struct Reader {
    pub(super) config: Config,
    pub(super) given: bool,
    connection: Connection,
    listener: Connection,
    glance_statement: Statement,
    catalogue_statement: Statement,
    counts_vacuums: bool,
    /// As of the last look or reset.
    glance: Glance,
    pub(super) seen: Snapshot,
    /// Whether something could not be read at the last look.
    behind: bool,
    /// The tables and sequences of the seed.
    pub(super) reads: Vec<Read>,
    pub(super) pristine: Snapshot,
    /// The rows of each hashed table of the seed as JSON, by the table's quoted name.
    pub(super) rows: Vec<(String, String)>,
}

impl Reader {
    /// Connects to the seed as its superuser, and takes the present state for the seed's.
    ///
    /// # Errors
    /// Fails where Postgres refuses.
    pub async fn open(postgres: &Postgres) -> Result<Self, Error> {
        Self::connect(postgres.superuser_config(), postgres.is_given()).await
    }

    /// Connects as `config` says, to the seed and as a superuser, and takes the present state for
    /// the seed's. `given` is whether the cluster is somebody else's.
    ///
    /// # Errors
    /// Fails where Postgres refuses.
    pub async fn connect(config: Config, given: bool) -> Result<Self, Error> {
        let connection = Connection::open(&config).await?;
        let listener = Connection::open(&config).await?;
        listener.client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        let client = &connection.client;
        client.batch_execute(LOOK_LOCK).await?;
        let version: String = client.query_one("SHOW server_version_num", &[]).await?.get(0);
        let counts_vacuums = version.parse().is_ok_and(|version: i32| version >= COUNTS_VACUUMS);
        let (glance_statement, catalogue_statement) =
            tokio::try_join!(client.prepare(GLANCE), client.prepare(CATALOGUE))?;
        let mut reader = Self {
            config,
            given,
            connection,
            listener,
            glance_statement,
            catalogue_statement,
            counts_vacuums: counts_vacuums && !given,
            glance: Glance::default(),
            seen: Snapshot::default(),
            behind: false,
            reads: Vec::new(),
            pristine: Snapshot::default(),
            rows: Vec::new(),
        };
        reader.begin().await?;
        Ok(reader)
    }

    /// Takes the present state for the seed's.
    async fn begin(&mut self) -> Result<(), Error> {
        self.glance = self.glance(&[]).await?;
        let client = &self.connection.client;
        let (mut snapshot, mut reads) =
            Snapshot::catalogue(client, &self.catalogue_statement, self.given, self.counts_vacuums)
                .await?;
        for read in reads.iter_mut().filter(|read| !read.is_sequence) {
            let size = format!("SELECT pg_relation_size('{}')", read.name.replace('\'', "''"));
            read.is_coarse = client.query_one(&size, &[]).await?.get::<_, i64>(0) > HASHED;
            if !read.is_coarse {
                let name = &read.name;
                let rows = format!("SELECT coalesce(json_agg(t), '[]')::text FROM ONLY {name} t");
                let rows = client.query_one(&rows, &[]).await?.get(0);
                self.rows.push((name.clone(), rows));
            }
        }
        snapshot.contents(client, &reads, &Snapshot::default()).await?;
        self.reads = reads;
        self.pristine = snapshot.clone();
        self.seen = snapshot;
        Ok(())
    }

    pub(super) fn client(&self) -> &Client {
        &self.connection.client
    }

    async fn glance(&self, servers: &[i32]) -> Result<Glance, Error> {
        let row = self
            .client()
            .query_one(&self.glance_statement, &[&servers, &self.counts_vacuums, &self.given])
            .await?;
        Ok(Glance::of(&row))
    }

    /// What differs since the last look or reset. `servers` are the backends of the server, those
    /// of connections that were just closed included; while one is at work, the look waits for it
    /// up to 100 ms.
    ///
    /// # Errors
    /// Fails where the connection broke; the next look then opens another.
    pub async fn look(&mut self, servers: &[i32]) -> Result<Look, Error> {
        self.reconnect().await?;
        let values: Vec<Read> =
            self.reads.iter().filter(|read| read.is_sequence).cloned().collect();
        let deadline = Instant::now() + SETTLING;
        let (glance, read, values) = loop {
            let mut now = Snapshot::default();
            let client = &self.connection.client;
            let (glance, read) =
                tokio::join!(self.glance(servers), now.contents(client, &values, &self.seen));
            let glance = glance?;
            if !(glance.active || glance.pending) || Instant::now() > deadline {
                break (glance, read, now);
            }
            sleep(PAUSE).await;
        };
        let mut look = Look { changes: Vec::new(), pending: glance.pending };
        let moved = self.behind || glance.differs(&self.glance) || !matches!(read, Ok(false));
        let mut next = None;
        if moved {
            match self.picture(true).await? {
                Some((snapshot, locked)) => {
                    next = Some(snapshot);
                    self.behind = locked;
                }
                None => self.behind = true,
            }
            look.pending |= self.behind;
            if self.listener.was_notified().await? {
                look.changes.push(changed("notification"));
            }
        }
        if next.is_none() && self.seen.differs_in(&values) {
            let mut seen = self.seen.clone();
            seen.lines.extend(values.lines);
            next = Some(seen);
        }
        if let Some(next) = next {
            look.changes.extend(difference::changes(&self.seen, &next));
            self.seen = next;
        }
        let is_new = |now: &BTreeSet<String>, before| now.difference(before).next().is_some();
        if is_new(&glance.advisory, &self.glance.advisory) {
            look.changes.push(changed("advisory lock"));
        }
        // Its locks may have kept the catalogues from being read.
        let prepared = changed("prepared transaction");
        if is_new(&glance.prepared, &self.glance.prepared) && !look.changes.contains(&prepared) {
            look.changes.push(prepared);
        }
        self.glance = glance;
        Ok(look)
    }

    /// The present state, and whether contents were locked; `None` where the catalogues were.
    ///
    /// Tables that are only counted are read where `counted` says so: reading them takes as long as
    /// all the rest. Else they are taken to be as they were last seen.
    pub(super) async fn picture(&self, counted: bool) -> Result<Option<(Snapshot, bool)>, Error> {
        let catalogue = Snapshot::catalogue(
            self.client(),
            &self.catalogue_statement,
            self.given,
            self.counts_vacuums,
        );
        let (mut snapshot, found) = match catalogue.await {
            Ok(found) => found,
            Err(error) if is_locked(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Only what is a table or sequence now is read, and of those only the seed's.
        let there = |read: &&Read| {
            found
                .iter()
                .any(|found| (&found.name, found.is_sequence) == (&read.name, read.is_sequence))
        };
        let (later, reads): (Vec<Read>, Vec<Read>) =
            self.reads.iter().filter(there).cloned().partition(|read| read.is_coarse && !counted);
        for read in later {
            let entry = self.seen.lines.get(&read.id()).cloned();
            snapshot.lines.extend(entry.map(|entry| (read.id(), entry)));
        }
        let locked = snapshot.contents(self.client(), &reads, &self.seen).await?;
        Ok(Some((snapshot, locked)))
    }

    /// Takes a state for the one the next look compares with.
    pub(super) async fn settle(
        &mut self,
        servers: &[i32],
        snapshot: Snapshot,
    ) -> Result<(), Error> {
        self.listener.was_notified().await?;
        self.glance = self.glance(servers).await?;
        self.seen = snapshot;
        self.behind = false;
        Ok(())
    }

    /// Whether the server has a transaction open that has written or holds locks.
    pub(super) async fn is_pending(&self, servers: &[i32]) -> Result<bool, Error> {
        Ok(self.glance(servers).await?.pending)
    }

    /// The state as last seen, if nothing was written since then.
    pub(super) async fn unmoved(&self) -> Result<Option<Snapshot>, Error> {
        let moved = self.behind || self.glance(&[]).await?.differs(&self.glance);
        Ok((!moved).then(|| self.seen.clone()))
    }

    /// Opens what broke, such as by a server that may end other sessions.
    pub(super) async fn reconnect(&mut self) -> Result<(), Error> {
        if self.listener.client.is_closed() {
            self.listener = Connection::open(&self.config).await?;
            self.listener.client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        }
        if self.connection.client.is_closed() {
            self.connection = Connection::open(&self.config).await?;
            self.client().batch_execute(LOOK_LOCK).await?;
            self.glance_statement = self.client().prepare(GLANCE).await?;
            self.catalogue_statement = self.client().prepare(CATALOGUE).await?;
        }
        Ok(())
    }

    /// How many of these backends are executing a statement.
    ///
    /// # Errors
    /// Fails where the connection broke.
    pub async fn active(&mut self, servers: &[i32]) -> Result<usize, Error> {
        self.reconnect().await?;
        let sql = "SELECT count(*) FROM pg_stat_get_activity(NULL) \
            WHERE pid = ANY ($1) AND state IN ('active', 'fastpath function call')";
        let active: i64 = self.client().query_one(sql, &[&servers]).await?.get(0);
        Ok(usize::try_from(active).unwrap_or_default())
    }

    /// Ends these backends, as far as they serve the seed, and waits 2 s at most until they are
    /// gone.
    ///
    /// # Errors
    /// Fails where the connection broke.
    pub async fn terminate(&mut self, servers: &[i32]) -> Result<(), Error> {
        self.reconnect().await?;
        let deadline = Instant::now() + ENDING;
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE pid = ANY ($1) AND datname = current_database() AND pid <> pg_backend_pid()";
        while !self.client().query(sql, &[&servers]).await?.is_empty() && Instant::now() < deadline
        {
            sleep(PAUSE).await;
        }
        Ok(())
    }
}

fn changed(object: &str) -> Changed {
    Changed { object: object.to_owned(), how: How::Created }
}
