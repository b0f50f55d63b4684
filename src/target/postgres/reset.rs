//! Brings the seed back, whatever happened to it: made objects are dropped, privileges, settings
//! and comments rewritten, rows repaired. Where an object of the seed was altered or dropped, the
//! schema is built anew. Then the whole state must equal that of the start.
//!
//! What is executed here runs as a superuser beside objects a server made, so those are dropped
//! before any row is touched, and triggers do not fire.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    seed::SEED,
    state::{Error, Read, Reader, Section, Snapshot, is_locked, lines},
};
use crate::evidence::How;

mod split;

/// How long a reset waits for locks while a statement is running that may give them back
/// (methodology 8).
const WORKING: Duration = Duration::from_secs(5);
/// The same where every session of the server is idle: a lock it holds now, it keeps.
const IDLE: Duration = Duration::from_millis(250);
/// Between two questions whether something is over.
const PAUSE: Duration = Duration::from_millis(10);
/// Where big tables that are as they were wait while the schema is built anew.
const ASIDE: &str = "sm_aside";

/// What a reset had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reset {
    /// Whether connections of the server were ended, which is a caveat of all that follows.
    pub terminated: bool,
    /// Whether the schema was built anew.
    pub rebuilt: bool,
}

/// Why an attempt ended early.
enum Stopped {
    Locked,
    Failed(Error),
}

impl From<tokio_postgres::Error> for Stopped {
    fn from(error: tokio_postgres::Error) -> Self {
        if is_locked(&error) { Self::Locked } else { Self::Failed(error.into()) }
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        match error {
            Error::Postgres(error) => error.into(),
            other => Self::Failed(other),
        }
    }
}

impl Reader {
    /// Brings the seed back and takes it for the state the next look compares with. `servers` are
    /// the backends of the server: where they hold locks for longer than 5 s, or are idle with
    /// locks that are in the way, they are ended and it is tried once more.
    ///
    /// # Errors
    /// Fails where a lock of another connection stays, or the state differs in the end.
    pub async fn reset(&mut self, servers: &[i32]) -> Result<Reset, Error> {
        self.reconnect().await?;
        let mut reset = Reset::default();
        let outcome = match self.restore(servers, &mut reset).await {
            Err(Stopped::Locked) => {
                self.terminate(servers).await?;
                reset.terminated = !servers.is_empty();
                self.restore(&[], &mut reset).await
            }
            outcome => outcome,
        };
        self.set_lock_timeout(Duration::from_millis(300)).await?;
        match outcome {
            Ok(()) => Ok(reset),
            Err(Stopped::Locked) => Err(Error::Locked),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }

    async fn set_lock_timeout(&self, timeout: Duration) -> Result<(), Error> {
        let sql = format!("SET lock_timeout = {}", timeout.as_millis());
        Ok(self.client().batch_execute(&sql).await?)
    }

    async fn restore(&mut self, servers: &[i32], reset: &mut Reset) -> Result<(), Stopped> {
        let wait = if self.active(servers).await? > 0 { WORKING } else { IDLE };
        let deadline = Instant::now() + wait;
        while self.is_pending(servers).await? {
            if Instant::now() > deadline {
                return Err(Stopped::Locked);
            }
            sleep(PAUSE).await;
        }
        self.set_lock_timeout(wait).await?;
        self.roll_back_prepared().await?;
        let mut now = match self.unmoved().await? {
            Some(seen) => seen,
            None => self.present().await?,
        };
        if self.remove(&now).await? {
            now = self.present().await?;
        }
        if self.rewrite(&now).await? {
            now = self.present().await?;
        }
        if self.is_reshaped(&now) {
            now = self.rebuild(&now, reset).await?;
        }
        self.refill(&mut now).await?;
        self.adopt(&now);
        if !self.differing(&now).is_empty() && !reset.rebuilt {
            now = self.rebuild(&now, reset).await?;
            self.refill(&mut now).await?;
            self.adopt(&now);
        }
        if let Some(object) = self.differing(&now).first() {
            return Err(Stopped::Failed(Error::Differs(object.clone())));
        }
        self.settle(servers, now).await?;
        Ok(())
    }

    /// A prepared transaction holds its locks without a backend that could be ended.
    async fn roll_back_prepared(&self) -> Result<(), Stopped> {
        let sql = "SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts \
            WHERE database = current_database()";
        for row in self.client().query(sql, &[]).await? {
            self.attempt(row.get(0)).await?;
        }
        Ok(())
    }

    async fn present(&self) -> Result<Snapshot, Stopped> {
        // Nobody but the reset itself has written since the last look; where that saw a counted
        // table changed, it is read again to the end.
        let same = |read: &Read| {
            let id = read.id();
            self.seen.lines.get(&id) == self.pristine.lines.get(&id)
        };
        let counted = !self.reads.iter().filter(|read| read.is_coarse).all(same);
        match self.picture(counted).await? {
            Some((snapshot, false)) => Ok(snapshot),
            _ => Err(Stopped::Locked),
        }
    }

    /// What is not as it was at the start. The version of a row, the file of a table and what a
    /// session keeps for itself may differ.
    fn differing(&self, now: &Snapshot) -> Vec<String> {
        lines(&self.pristine, now)
            .iter()
            .filter(|line| !matches!(line.id.section, Section::Physical | Section::Temporary))
            .filter(|line| line.how != How::Touched || self.is_coarse(&line.id.object))
            .map(|line| line.id.object.clone())
            .collect()
    }

    /// Whether these are the rows of a table that is only counted, where versions are all that
    /// tells.
    fn is_coarse(&self, object: &str) -> bool {
        self.reads.iter().any(|read| read.is_coarse && read.id().object == object)
    }

    /// Drops what was not there at the start; whether something was.
    async fn remove(&self, now: &Snapshot) -> Result<bool, Stopped> {
        let mut made: Vec<_> = lines(&self.pristine, now)
            .into_iter()
            .filter(|line| line.how == How::Created)
            .collect();
        made.sort_by_key(|line| removal_rank(line.id.section));
        for undo in made.iter().filter_map(|line| line.after?.undo.as_deref()) {
            self.attempt(undo).await?;
        }
        Ok(!made.is_empty())
    }

    /// Runs statements of which one may fail because an earlier one has done its work.
    async fn attempt(&self, sql: &str) -> Result<(), Stopped> {
        for statement in split::statements(sql) {
            match self.client().batch_execute(statement).await {
                Err(error) if is_locked(&error) || error.is_closed() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes back what a statement alone restores: privileges, comments, settings, roles.
    async fn rewrite(&self, now: &Snapshot) -> Result<bool, Stopped> {
        let mut any = false;
        let mut lines = lines(&self.pristine, now);
        lines.sort_by_key(|line| line.id.section != Section::Schema);
        for line in lines {
            let redo = line.before.and_then(|entry| entry.redo.as_deref());
            if let (Some(redo), true) = (redo, line.id.section != Section::Value) {
                any = true;
                self.attempt(redo).await?;
                if line.id.object == CONFIGURATION {
                    self.attempt("SELECT pg_reload_conf()").await?;
                }
            }
        }
        Ok(any)
    }

    /// Whether an object of the seed is not what it was, which only building it anew restores.
    fn is_reshaped(&self, now: &Snapshot) -> bool {
        lines(&self.pristine, now).iter().any(|line| {
            line.how != How::Touched
                && !matches!(
                    line.id.section,
                    Section::Physical | Section::Temporary | Section::Value | Section::Rows
                )
        })
    }

    /// Builds the schema anew, but for big tables that are as they were.
    async fn rebuild(&self, now: &Snapshot, reset: &mut Reset) -> Result<Snapshot, Stopped> {
        reset.rebuilt = true;
        let kept: Vec<&Read> = self.reads.iter().filter(|read| self.is_intact(read, now)).collect();
        let mut steps = vec![
            "SET LOCAL session_replication_role = replica".to_owned(),
            format!("CREATE SCHEMA {ASIDE}"),
        ];
        steps.extend(kept.iter().map(|read| {
            let name = &read.name;
            format!("ALTER TABLE {name} SET SCHEMA {ASIDE}")
        }));
        let mut there: Vec<_> = now.lines.iter().collect();
        there.sort_by_key(|(id, _)| removal_rank(id.section));
        for (id, entry) in there {
            let is_kept = kept.iter().any(|read| id.object == format!("relation {}", read.words));
            if is_built(id.section) && !is_kept {
                steps.extend(entry.undo.clone());
            }
        }
        for statement in split::statements(SEED) {
            let fills_kept = kept.iter().any(|read| fills(statement, read));
            if !statement.starts_with("CREATE ROLE") && !fills_kept {
                steps.push(statement.to_owned());
            }
        }
        for read in &kept {
            let name = &read.name;
            let plain = name.rsplit('.').next().unwrap_or_default();
            steps.push(format!("DROP TABLE {name}"));
            steps.push(format!("ALTER TABLE {ASIDE}.{plain} SET SCHEMA public"));
        }
        steps.push(format!("DROP SCHEMA {ASIDE}"));
        self.transaction(&steps.join("\n;\n")).await?;
        self.present().await
    }

    /// Runs statements of which all take effect or none.
    async fn transaction(&self, sql: &str) -> Result<(), Stopped> {
        if let Err(error) = self.client().batch_execute(&format!("BEGIN; {sql}; COMMIT")).await {
            self.client().batch_execute("ROLLBACK").await?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Whether a big table is as it was, so that it need not be filled again.
    fn is_intact(&self, read: &Read, now: &Snapshot) -> bool {
        let relation = format!("relation {}", read.words);
        read.is_coarse
            && !lines(&self.pristine, now).iter().any(|line| {
                let parent = line.before.or(line.after).and_then(|entry| entry.parent.as_deref());
                line.id.section != Section::Physical
                    && (line.id.object == relation || parent == Some(&relation))
            })
    }

    /// Repairs rows that differ and sets sequences back, and reads them again.
    async fn refill(&self, now: &mut Snapshot) -> Result<(), Stopped> {
        let mut filled = Vec::new();
        for read in &self.reads {
            let id = read.id();
            let (before, after) = (self.pristine.lines.get(&id), now.lines.get(&id));
            let same = before.zip(after).is_some_and(|(before, after)| {
                before.digest == after.digest
                    && (!read.is_coarse || before.versions == after.versions)
            });
            if same {
                continue;
            }
            filled.push(read.clone());
            let name = &read.name;
            if read.is_sequence {
                let redo = before.and_then(|entry| entry.redo.as_deref()).unwrap_or_default();
                self.client().batch_execute(redo).await?;
            } else if read.is_coarse {
                let fill = split::statements(SEED).into_iter().find(|one| fills(one, read));
                let Some(fill) = fill else { continue };
                self.transaction(&format!("TRUNCATE {name}; {fill}")).await?;
            } else if let Some((_, rows)) = self.rows.iter().find(|(table, _)| table == name) {
                self.repair(name, rows).await?;
            }
        }
        let before = now.clone();
        if now.contents(self.client(), &filled, &before).await? {
            return Err(Stopped::Locked);
        }
        Ok(())
    }

    /// Takes out the rows of a table that do not belong and puts in those that are missing, in
    /// the order of the seed.
    async fn repair(&self, name: &str, rows: &str) -> Result<(), Stopped> {
        let literal = literal(rows);
        let seed = format!("json_populate_recordset(NULL::{name}, {literal}) s");
        let sql = format!(
            "SET LOCAL session_replication_role = replica; \
             DELETE FROM ONLY {name} t WHERE record_out(t)::text NOT IN \
             (SELECT record_out(s)::text FROM {seed}); \
             INSERT INTO {name} OVERRIDING SYSTEM VALUE SELECT s.* FROM {seed} \
             WHERE record_out(s)::text NOT IN (SELECT record_out(t)::text FROM ONLY {name} t)"
        );
        self.transaction(&sql).await
    }

    /// What brings lines back, and the versions of rows that are only counted, are those of now
    /// on: both hold numbers that rebuilding changes.
    fn adopt(&mut self, now: &Snapshot) {
        let coarse: Vec<_> =
            self.reads.iter().filter(|read| read.is_coarse).map(Read::id).collect();
        for (id, entry) in &mut self.pristine.lines {
            let Some(new) = now.lines.get(id) else { continue };
            if coarse.contains(id) && entry.digest == new.digest {
                entry.versions.clone_from(&new.versions);
            }
            if entry.digest == new.digest {
                entry.undo.clone_from(&new.undo);
                entry.redo.clone_from(&new.redo);
            }
        }
    }
}

/// The words of the server's own configuration file.
const CONFIGURATION: &str = "configuration of the server";

/// The order in which objects go: what fires on others first, what holds others last.
fn removal_rank(section: Section) -> u8 {
    match section {
        Section::EventTrigger | Section::Prepared => 0,
        Section::Trigger | Section::Rule | Section::Policy | Section::Constraint => 1,
        Section::Relation | Section::Index | Section::Sequence => 2,
        Section::Column => 3,
        Section::Operator => 4,
        Section::Function | Section::Type => 5,
        Section::Extension => 6,
        Section::Schema => 7,
        Section::Role => 9,
        Section::Database => 10,
        _ => 8,
    }
}

/// Whether the seed's SQL makes objects of this kind.
fn is_built(section: Section) -> bool {
    matches!(
        section,
        Section::Relation
            | Section::Sequence
            | Section::Function
            | Section::Operator
            | Section::Type
    )
}

/// Whether a statement of the seed fills this table.
fn fills(statement: &str, read: &Read) -> bool {
    let rest =
        statement.strip_prefix("INSERT INTO ").and_then(|rest| rest.strip_prefix(&read.name));
    rest.is_some_and(|rest| rest.starts_with(' '))
}

/// A text as a literal, whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_reads_as_a_rebuild_needs_it() {
        let statements = split::statements(SEED);
        let big = Read {
            name: "public.big".into(),
            words: "public.big".into(),
            is_sequence: false,
            is_coarse: true,
        };
        let filling = statements.iter().filter(|one| fills(one, &big)).count();
        let roles = statements.iter().filter(|one| one.starts_with("CREATE ROLE ")).count();
        assert_eq!((filling, roles), (1, crate::target::postgres::seed::ROLES.len()));
        // A rebuild leaves out nothing else, and a statement begins with its verb.
        let verbs = ["ALTER", "CREATE", "GRANT", "INSERT", "REVOKE"];
        for statement in statements {
            assert!(verbs.iter().any(|verb| statement.starts_with(verb)), "{statement}");
        }
    }

    #[test]
    fn quotes_and_backslashes_of_rows_stay_in_their_literal() {
        assert_eq!(literal(r"it's \ '"), r"E'it''s \\ '''");
    }
}
