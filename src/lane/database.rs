//! The database as one lane has it: a tap between its server and Postgres, a look at its sessions,
//! and on the writing lane the state reader.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use super::LineRef;
use crate::{
    canary::{Canary, Kind},
    check::{Check, Direct, LaneKind},
    config::PgValues,
    evidence::{Fact, Observer, What},
    journal::Session,
    target::postgres::{
        DATABASE, Postgres, Reader, Role, Tap,
        state::Changed,
        tap::{Mark, Statement},
    },
};

/// The object a database password is called by; it is looked for like a secret of the environment.
pub(super) const PASSWORD: &str = "env database password";
/// How often a running statement is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Statements of one question that become facts.
const MOST_STATEMENTS: usize = 3;
/// The length of the beginning of a statement by which it is known again: the tap keeps 4 KiB.
const KNOWN_BY: usize = 2048;

/// One lane's database.
pub(super) struct Database {
    postgres: Arc<Postgres>,
    role: Role,
    user: String,
    password: String,
    tap: Tap,
    /// Only on the lane that may write.
    reader: Option<Reader>,
    /// The harness's own connection to look at sessions.
    watch: Option<tokio_postgres::Client>,
    /// Whether something changed since the last reset.
    dirty: bool,
    /// What changed when nothing but a control had been asked: the server's own housekeeping.
    housekeeping: BTreeSet<String>,
    /// The line of the statement that was asked last.
    last: Option<LineRef>,
    /// Whether a statement lands when the role runs it directly, by check and probe.
    lands: BTreeMap<(String, String), bool>,
    tagged: bool,
}

/// What one question did.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) facts: Vec<Fact>,
    pub(super) changes: Vec<Changed>,
    /// A transaction was left open that may still write.
    pub(super) pending: bool,
    /// The state could not be read.
    pub(super) unread: Option<String>,
}

impl Database {
    pub(super) async fn open(postgres: Arc<Postgres>, kind: LaneKind) -> Result<Self, String> {
        let role = role(kind);
        let (user, password) = match kind {
            LaneKind::Quoted => postgres.quoted(),
            _ => (role.user(), postgres.password(role)),
        };
        let tap = Tap::open(postgres.backend().clone())
            .await
            .map_err(|error| format!("failed to open the tap of the database: {error}"))?;
        let reader = match kind {
            LaneKind::Writer => {
                let reader = Reader::open(&postgres).await;
                Some(reader.map_err(|error| format!("failed to {error}"))?)
            }
            _ => None,
        };
        Ok(Self {
            role,
            user: user.to_owned(),
            password: password.to_owned(),
            tap,
            reader,
            watch: None,
            dirty: false,
            housekeeping: BTreeSet::new(),
            last: None,
            lands: BTreeMap::new(),
            tagged: false,
            postgres,
        })
    }

    /// The role of the lane's server.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// What stands for the placeholders of the database.
    pub(super) fn values(&self) -> PgValues {
        PgValues::loopback(self.tap.port(), &self.user, &self.password, DATABASE)
    }

    /// The canaries of the database, and whether the lane's role may read each.
    pub(super) fn canaries(&self, kind: LaneKind) -> Vec<(Canary, bool)> {
        let mut all: Vec<(Canary, bool)> = self
            .postgres
            .sentinels()
            .iter()
            .map(|sentinel| {
                let inside = match kind {
                    LaneKind::Tenant => sentinel.tenant.is_none_or(|tenant| tenant == 1),
                    LaneKind::Analyst => sentinel.column != "email",
                    _ => true,
                };
                let canary = Canary {
                    object: sentinel.object.clone(),
                    token: sentinel.token.clone(),
                    kind: Kind::Plain,
                };
                (canary, inside)
            })
            .collect();
        all.push((
            Canary { object: PASSWORD.into(), token: self.password.clone(), kind: Kind::Secret },
            false,
        ));
        all
    }

    /// Runs every statement of the checks directly, as the same role, to learn which of them change
    /// this database at all. What one version of Postgres does with the seed it does again, so it
    /// is asked once and kept beside the prepared cluster.
    pub(super) async fn replay(&mut self, checks: &[&'static Check]) {
        let Some(reader) = &mut self.reader else { return };
        let mut kept = Kept::open(&self.postgres);
        for check in checks {
            for probe in check.spec.probes.iter().filter(|probe| probe.direct == Direct::Run) {
                let Some(sql) = &probe.sql else { continue };
                let statements: Vec<String> = std::iter::once(sql)
                    .chain(&probe.then)
                    .map(|sql| sql.replace("${token}", "direct"))
                    .collect();
                let landed = match kept.known(&statements) {
                    Some(landed) => landed,
                    None => {
                        let landing = reader.lands(&self.postgres, self.role, &statements).await;
                        let landed = match landing {
                            Ok(landing) if !landing.changes.is_empty() => true,
                            Ok(landing) if landing.changes_nothing() => false,
                            // What could not be tried is sent: state decides.
                            _ => continue,
                        };
                        kept.learn(statements, landed);
                        landed
                    }
                };
                self.lands.insert((check.id(), probe.id.clone()), landed);
            }
        }
        kept.close();
    }

    /// Whether a statement is known not to change this database.
    pub(super) fn cannot_land(&self, check: &str, probe: &str) -> bool {
        self.lands.get(&(check.to_owned(), probe.to_owned())) == Some(&false)
    }

    /// A position before a question.
    pub(super) fn mark(&self) -> Mark {
        self.tap.mark()
    }

    /// What happened since: statements that arrived, and what differs now.
    pub(super) async fn seen(&mut self, mark: Mark, sent: &[String], control: bool) -> Seen {
        let mut seen = Seen::default();
        for statement in self.tap.since(mark) {
            let own = sent.iter().any(|sent| carries(&statement, sent));
            if own && seen.facts.len() < MOST_STATEMENTS {
                seen.facts.push(Fact::now(Observer::Wire, arrived(&statement)));
            }
            self.tagged |=
                statement.sql.contains("/*") && !sent.iter().any(|sent| sent.contains("/*"));
        }
        let Some(reader) = &mut self.reader else { return seen };
        match reader.look(&self.tap.pids()).await {
            Ok(look) => {
                seen.pending = look.pending;
                self.dirty |= look.pending || !look.changes.is_empty();
                if control && self.last.is_none() {
                    // Rows of the seed are nobody's housekeeping.
                    let own = look.changes.iter().filter(|c| !c.object.starts_with("rows of "));
                    self.housekeeping.extend(own.map(|change| change.object.clone()));
                }
                let changes = look.changes.into_iter();
                seen.changes = changes.filter(|c| !self.housekeeping.contains(&c.object)).collect();
            }
            Err(error) => seen.unread = Some(error.to_string()),
        }
        seen
    }

    /// Remembers the line a late change belongs to.
    pub(super) fn asked(&mut self, line: LineRef) {
        self.last = Some(line);
    }

    pub(super) fn last(&self) -> Option<LineRef> {
        self.last.clone()
    }

    /// Brings the seed back when something changed. Says so when the server's sessions had to be
    /// ended for it.
    pub(super) async fn reset(&mut self) -> Result<bool, String> {
        let Some(reader) = self.reader.as_mut().filter(|_| self.dirty) else { return Ok(false) };
        let reset = reader.reset(&self.tap.pids()).await;
        let reset = reset.map_err(|error| format!("failed to {error}"))?;
        self.dirty = false;
        Ok(reset.terminated)
    }

    /// How many statements of the server the database still runs, looked at until there are none
    /// or the time is over.
    pub(super) async fn running(&mut self, within: Duration) -> Option<u64> {
        let until = Instant::now() + within;
        loop {
            let pids = self.tap.pids();
            let watch = self.watch().await?;
            let row = watch
                .query_one(
                    "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1) AND state = 'active'",
                    &[&pids],
                )
                .await
                .ok()?;
            let running: i64 = row.try_get(0).ok()?;
            if running == 0 || Instant::now() >= until {
                return u64::try_from(running).ok();
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends what the database still runs for the server.
    pub(super) async fn stop_running(&mut self) {
        let pids = self.tap.pids();
        if let Some(watch) = self.watch().await {
            let terminate = "SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid";
            // One that ended by itself meanwhile is no matter.
            let _ = watch.query(terminate, &[&pids]).await;
        }
    }

    async fn watch(&mut self) -> Option<&tokio_postgres::Client> {
        if self.watch.as_ref().is_none_or(tokio_postgres::Client::is_closed) {
            self.watch = self.postgres.superuser().await.ok();
        }
        self.watch.as_ref()
    }

    /// The sessions the server opened, each role and name once.
    pub(super) async fn sessions(&mut self, lane: LaneKind) -> Vec<Session> {
        let mut found: BTreeSet<(String, String)> = BTreeSet::new();
        for login in self.tap.logins().into_iter().filter(|login| login.accepted) {
            found.insert((login.user, login.application_name));
        }
        let pids = self.tap.pids();
        let (given, tagged) = (self.user.clone(), self.tagged);
        let Some(watch) = self.watch().await else { return Vec::new() };
        let live = "SELECT usename::text, application_name FROM pg_stat_activity \
                    WHERE pid = ANY($1) AND usename IS NOT NULL";
        for row in watch.query(live, &[&pids]).await.unwrap_or_default() {
            let (user, name): (String, String) = (row.get(0), row.get(1));
            if !name.is_empty() {
                // A name that was set after the login stands for the login without one.
                found.remove(&(user.clone(), String::new()));
            }
            found.insert((user, name));
        }
        let rights = "SELECT rolsuper, rolbypassrls, EXISTS (SELECT FROM pg_class \
                      WHERE relowner = r.oid AND relrowsecurity) FROM pg_roles r WHERE rolname = $1";
        let mut sessions = Vec::new();
        for (user, application_name) in found.into_iter().take(32) {
            let row = watch.query_opt(rights, &[&user]).await.ok().flatten();
            let right = |n: usize| row.as_ref().is_some_and(|row| row.get(n));
            sessions.push(Session {
                lane: lane.name().into(),
                given: given.clone(),
                superuser: right(0),
                bypasses_rls: right(1),
                owns_rls: right(2),
                user,
                application_name,
                tagged,
            });
        }
        sessions
    }

    /// Why the server could not use the database, where the tap knows.
    pub(super) fn trouble(&self) -> Option<String> {
        let logins = self.tap.logins();
        if logins.iter().any(|login| login.insisted_on_tls) {
            let what = "the server insists on TLS to its database, which the tap does not speak";
            return Some(format!("{what}; set its option, usually sslmode=disable"));
        }
        let refused = logins.iter().find_map(|login| Some((login, login.refused.as_ref()?)));
        refused.map(|(login, state)| {
            format!("the database refused the server's login as {} (SQLSTATE {state})", login.user)
        })
    }
}

/// What statements were found to do with the seed, kept in a file of the user's cache.
struct Kept {
    file: Option<PathBuf>,
    known: BTreeMap<String, bool>,
    learnt: bool,
}

impl Kept {
    /// What is known of this version of Postgres and of the seed; nothing of a Postgres that was
    /// given, for its settings are its own.
    fn open(postgres: &Postgres) -> Self {
        let file = postgres.replayed();
        let read = file.as_ref().and_then(|file| std::fs::read(file).ok());
        let known = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Self { file, known, learnt: false }
    }

    fn key(statements: &[String]) -> String {
        statements.join("\u{1f}")
    }

    fn known(&self, statements: &[String]) -> Option<bool> {
        self.known.get(&Self::key(statements)).copied()
    }

    fn learn(&mut self, statements: Vec<String>, landed: bool) {
        self.learnt = true;
        self.known.insert(Self::key(&statements), landed);
    }

    /// Writes what is new. Another run may do the same: each writes a whole file of its own and
    /// renames it.
    fn close(self) {
        let Some(file) = self.file.filter(|_| self.learnt) else { return };
        let Some(folder) = file.parent() else { return };
        let Ok(json) = serde_json::to_vec(&self.known) else { return };
        // A cache that cannot be written is done without.
        let _ = tempfile::NamedTempFile::new_in(folder).and_then(|mut new| {
            new.write_all(&json)?;
            new.persist(&file).map_err(|error| error.error)
        });
    }
}

/// The role of the instances of a lane.
fn role(kind: LaneKind) -> Role {
    match kind {
        LaneKind::Tenant => Role::Tenant,
        LaneKind::Analyst | LaneKind::Quoted => Role::Analyst,
        _ => Role::Admin,
    }
}

/// Whether a statement that arrived is, or holds, the one that was sent.
fn carries(statement: &Statement, sent: &str) -> bool {
    let sent = sent.trim().trim_end_matches(';');
    let end = (0..=KNOWN_BY.min(sent.len())).rev().find(|at| sent.is_char_boundary(*at));
    let sent = &sent[..end.unwrap_or(0)];
    !sent.is_empty() && statement.sql.contains(sent)
}

fn arrived(statement: &Statement) -> What {
    let ended = match (&statement.state, statement.tags.as_slice()) {
        (Some(state), _) => format!("SQLSTATE {state}"),
        (None, []) => "no answer yet".into(),
        (None, tags) => tags.join(", "),
    };
    What::Sql { role: statement.user.clone(), ended }
}
