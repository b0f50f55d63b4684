//! What a tap has heard, in order and bounded.

use std::collections::VecDeque;

/// Statements kept; the oldest make room and are counted.
const MOST_STATEMENTS: usize = 10_000;
/// Logins kept; later ones are counted.
const MOST_LOGINS: usize = 1_000;
/// Tags kept of one statement.
const MOST_TAGS: usize = 16;
/// Bytes kept of a tag; the longest of Postgres is `CREATE TEXT SEARCH CONFIGURATION`.
pub(super) const TAG: usize = 64;

/// A statement as it crossed the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// The role its connection had asked for.
    pub user: String,
    /// The first 4 KiB of its text; a text in parentheses where none crossed the wire.
    pub sql: String,
    /// Whether it came by the extended protocol, which takes one statement at a time.
    pub extended: bool,
    /// What Postgres completed of it, such as `DELETE 1`; 16 at most.
    pub tags: Vec<String>,
    /// The SQLSTATE it failed with.
    pub state: Option<String>,
}

/// A connection that was opened, or tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The role asked for; empty where the client never said.
    pub user: String,
    /// The database asked for.
    pub database: String,
    /// What the client calls itself, at the start or, without that, later.
    pub application_name: String,
    /// Whether the client asked for TLS first.
    pub wanted_tls: bool,
    /// Whether it went away, or spoke nothing but TLS, when it got none.
    pub insisted_on_tls: bool,
    /// Whether Postgres let it in.
    pub accepted: bool,
    /// The SQLSTATE Postgres refused it with; `08001` where Postgres could not be reached.
    pub refused: Option<String>,
}

/// A position in a tap's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// Names one statement of the log for as long as it is kept.
pub(super) type Key = u64;

#[derive(Debug, Default)]
pub(super) struct Log {
    statements: VecDeque<Statement>,
    /// The key of the oldest statement kept, which is the count of those that are not.
    first: Key,
    /// The position of the last mark.
    marked: Key,
    pub(super) logins: Vec<Login>,
}

impl Log {
    pub(super) fn add(&mut self, statement: Statement) -> Key {
        if self.statements.len() == MOST_STATEMENTS {
            self.statements.pop_front();
            self.first += 1;
        }
        self.statements.push_back(statement);
        self.next() - 1
    }

    fn next(&self) -> Key {
        self.first + self.statements.len() as u64
    }

    fn at(&mut self, key: Key) -> Option<&mut Statement> {
        let at = usize::try_from(key.checked_sub(self.first)?).ok()?;
        self.statements.get_mut(at)
    }

    pub(super) fn mark(&mut self) -> Mark {
        self.marked = self.next();
        Mark(self.marked)
    }

    /// Whether the statement stands before the last mark.
    pub(super) fn is_before_mark(&self, key: Key) -> bool {
        key < self.marked
    }

    pub(super) fn since(&self, mark: Mark) -> Vec<Statement> {
        let skip = usize::try_from(mark.0.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.statements.iter().skip(skip).cloned().collect()
    }

    /// Statements no longer kept.
    pub(super) fn forgotten(&self) -> u64 {
        self.first
    }

    pub(super) fn completed(&mut self, key: Key, tag: String) {
        if let Some(statement) = self.at(key)
            && statement.tags.len() < MOST_TAGS
        {
            statement.tags.push(tag);
        }
    }

    pub(super) fn failed(&mut self, key: Key, state: String) {
        if let Some(statement) = self.at(key) {
            statement.state.get_or_insert(state);
        }
    }

    /// Notes a login; the index is out of range where no more are kept.
    pub(super) fn login(&mut self, login: Login) -> usize {
        if self.logins.len() == MOST_LOGINS {
            return usize::MAX;
        }
        self.logins.push(login);
        self.logins.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(n: usize) -> Statement {
        Statement { sql: n.to_string(), ..Statement::default() }
    }

    #[test]
    fn the_oldest_statements_make_room_and_are_counted() {
        let mut log = Log::default();
        let start = log.mark();
        for n in 0..MOST_STATEMENTS + 5 {
            log.add(statement(n));
        }
        assert_eq!((log.forgotten(), log.since(start).len()), (5, MOST_STATEMENTS));
        let mark = log.mark();
        assert!(log.since(mark).is_empty());
        let key = log.add(statement(7));
        log.completed(key, "SELECT 1".into());
        log.completed(0, "for one that is gone".into());
        let found = log.since(mark);
        assert_eq!((found.len(), found[0].tags.as_slice()), (1, &["SELECT 1".to_owned()][..]));
    }

    #[test]
    fn the_first_error_and_sixteen_tags_are_kept() {
        let mut log = Log::default();
        let key = log.add(statement(0));
        for n in 0..20 {
            log.completed(key, n.to_string());
        }
        log.failed(key, "42501".into());
        log.failed(key, "57P01".into());
        let found = log.since(Mark::default()).remove(0);
        assert_eq!((found.tags.len(), found.state.as_deref()), (16, Some("42501")));
    }
}
