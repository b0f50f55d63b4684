//! A picture of a database: every object with a digest, and the rows of the seed's tables.

use std::collections::BTreeMap;

use tokio_postgres::{Client, Error, Statement, error::SqlState};

/// What a line of the picture is about, as far as it is treated in another way than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Section {
    /// What `catalogue.sql` lists and this type has no name for.
    Other,
    EventTrigger,
    Prepared,
    Trigger,
    Rule,
    Policy,
    Constraint,
    Column,
    Relation,
    Index,
    Sequence,
    Function,
    Operator,
    Type,
    Extension,
    Schema,
    Database,
    Role,
    /// Relations of a session; that they go with it is no change.
    Temporary,
    /// The rows of a table.
    Rows,
    /// The value of a sequence.
    Value,
    /// What can change though the content stays: files, statistics, rows of system catalogues.
    Physical,
}

impl Section {
    fn of(name: &str, object: &str) -> Self {
        match name {
            "prepared" => Self::Prepared,
            "trigger" => Self::Trigger,
            "rule" => Self::Rule,
            "policy" => Self::Policy,
            "constraint" => Self::Constraint,
            "column" => Self::Column,
            "relation" => Self::Relation,
            "index" => Self::Index,
            "sequence" => Self::Sequence,
            "function" => Self::Function,
            "operator" => Self::Operator,
            "type" => Self::Type,
            "extension" => Self::Extension,
            "schema" => Self::Schema,
            "database" => Self::Database,
            "role" => Self::Role,
            "temporary" => Self::Temporary,
            "file" | "statistics" | "system" => Self::Physical,
            "object" if object.starts_with("event trigger ") => Self::EventTrigger,
            _ => Self::Other,
        }
    }
}

/// Names a line of a picture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Id {
    pub(in super::super) section: Section,
    /// The object in plain words.
    pub(in super::super) object: String,
    /// Tells objects apart that share their words.
    pub(in super::super) key: String,
}

/// A line of a picture. It may hold a role's password verifier, so it has no debug form.
#[derive(Clone, PartialEq)]
pub(in super::super) struct Entry {
    /// The words of what it is a part of.
    pub(in super::super) parent: Option<String>,
    /// Of its content. That of rows begins with their count.
    pub(in super::super) digest: String,
    /// Of the versions of rows, which a write moves that changes nothing.
    pub(in super::super) versions: String,
    /// The SQL that removes it.
    pub(in super::super) undo: Option<String>,
    /// The SQL that brings it back as it is now.
    pub(in super::super) redo: Option<String>,
}

/// A table or sequence whose content is read, by its quoted name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Read {
    /// The name for SQL.
    pub(in super::super) name: String,
    /// The name in words.
    pub(in super::super) words: String,
    pub(in super::super) is_sequence: bool,
    /// Whether it is too big to hash: its rows are counted, and their versions compared.
    pub(in super::super) is_coarse: bool,
}

#[derive(Clone, Default)]
pub(in super::super) struct Snapshot {
    pub(in super::super) lines: BTreeMap<Id, Entry>,
}

/// Whether a statement gave up because of a lock.
pub(in super::super) fn is_locked(error: &Error) -> bool {
    matches!(error.code(), Some(code) if [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::QUERY_CANCELED,
        SqlState::OBJECT_IN_USE,
    ].contains(code))
}

impl Snapshot {
    /// Reads the catalogues, and tells which tables and sequences there are.
    pub(in super::super) async fn catalogue(
        client: &Client,
        catalogue: &Statement,
        given: bool,
        counts_vacuums: bool,
    ) -> Result<(Self, Vec<Read>), Error> {
        let mut lines = BTreeMap::new();
        let mut reads = Vec::new();
        for row in client.query(catalogue, &[&given, &counts_vacuums]).await? {
            let (section, object): (&str, String) = (row.get(0), row.get(1));
            let section = Section::of(section, &object);
            if let Some(name) = row.get::<_, Option<String>>(7) {
                let words = object.split_once(' ').map_or(object.as_str(), |(_, words)| words);
                reads.push(Read {
                    name,
                    words: words.to_owned(),
                    is_sequence: section == Section::Sequence,
                    is_coarse: false,
                });
            }
            let entry = Entry {
                parent: row.get(3),
                digest: row.get::<_, Option<String>>(4).unwrap_or_default(),
                versions: String::new(),
                undo: row.get(5),
                redo: row.get(6),
            };
            lines.insert(Id { section, object, key: row.get(2) }, entry);
        }
        Ok((Self { lines }, reads))
    }

    /// Whether a line of `part` is another than here.
    pub(super) fn differs_in(&self, part: &Self) -> bool {
        let same = |(id, entry): (&Id, &Entry)| {
            self.lines.get(id).is_some_and(|line| line.digest == entry.digest)
        };
        !part.lines.iter().all(same)
    }

    /// Reads what `reads` names. Rows whose versions are those of `before` are not hashed again,
    /// and what is locked is carried over from there; the answer says whether something was.
    pub(in super::super) async fn contents(
        &mut self,
        client: &Client,
        reads: &[Read],
        before: &Self,
    ) -> Result<bool, Error> {
        let mut locked = false;
        match self.read(client, reads, before).await {
            Err(error) if is_locked(&error) => {}
            outcome => return outcome.map(|()| false),
        }
        for read in reads {
            match self.read(client, std::slice::from_ref(read), before).await {
                Err(error) if is_locked(&error) => {
                    locked = true;
                    let id = read.id();
                    let entry = before.lines.get(&id).cloned();
                    self.lines.extend(entry.map(|entry| (id, entry)));
                }
                outcome => outcome?,
            }
        }
        Ok(locked)
    }

    async fn read(&mut self, client: &Client, reads: &[Read], before: &Self) -> Result<(), Error> {
        let mut moved = Vec::new();
        for (read, (digest, versions)) in ask(client, reads, versions).await? {
            let id = read.id();
            let same = before.lines.get(&id).filter(|entry| entry.versions == versions);
            let redo = read.is_sequence.then(|| {
                let (value, called) = digest.split_once(' ').unwrap_or((&digest, "t"));
                format!("SELECT setval('{}', {value}, '{called}')", read.name.replace('\'', "''"))
            });
            let hashed = !(read.is_sequence || read.is_coarse);
            let digest = match same {
                Some(same) if hashed => same.digest.clone(),
                None if hashed => {
                    moved.push(read.clone());
                    digest
                }
                _ => digest,
            };
            let parent = (!read.is_sequence).then(|| format!("relation {}", read.words));
            self.lines.insert(id, Entry { parent, digest, versions, undo: None, redo });
        }
        for (read, (digest, _)) in ask(client, &moved, digests).await? {
            if let Some(entry) = self.lines.get_mut(&read.id()) {
                entry.digest = digest;
            }
        }
        Ok(())
    }
}

impl Read {
    pub(in super::super) fn id(&self) -> Id {
        let (section, object) = if self.is_sequence {
            (Section::Value, format!("sequence {}", self.words))
        } else {
            (Section::Rows, format!("rows of {}", self.short()))
        };
        Id { section, object, key: String::new() }
    }

    /// The name without the schema `public`.
    fn short(&self) -> &str {
        self.words.strip_prefix("public.").unwrap_or(&self.words)
    }
}

/// Asks one question about each of `reads` at once, which is answered by two texts.
async fn ask<'a>(
    client: &Client,
    reads: &'a [Read],
    question: impl Fn(&Read) -> String,
) -> Result<Vec<(&'a Read, (String, String))>, Error> {
    if reads.is_empty() {
        return Ok(Vec::new());
    }
    let questions: Vec<String> = reads
        .iter()
        .enumerate()
        .map(|(at, read)| format!("SELECT {at}, {}", question(read)))
        .collect();
    let rows = client.query(&questions.join(" UNION ALL "), &[]).await?;
    let answer = |row: &tokio_postgres::Row| {
        let at = usize::try_from(row.get::<_, i32>(0)).ok()?;
        Some((reads.get(at)?, (row.get(1), row.get(2))))
    };
    Ok(rows.iter().filter_map(answer).collect())
}

/// The value of a sequence; of a table the count of its rows, and their versions: that of the
/// first row, and the sum of those that differ from it. A row that is written has another version.
///
/// Nothing in this question and the next runs code that belongs to anyone but Postgres: rows are
/// put out as records, never cast, and views are not read.
fn versions(read: &Read) -> String {
    let name = &read.name;
    if read.is_sequence {
        return format!("concat(last_value, ' ', is_called), '' FROM {name}");
    }
    let first = format!("(SELECT xmin FROM ONLY {name} LIMIT 1)");
    format!(
        "count(*)::text, concat(count(*), ' ', {first}, ' ', \
         sum(xmin::text::bigint) FILTER (WHERE xmin <> {first})) FROM ONLY {name}"
    )
}

/// The count of rows, and the sum of their hashes.
fn digests(read: &Read) -> String {
    let hashes = "sum(hashtextextended(record_out(t)::text, 0))";
    format!("concat(count(*), ' ', {hashes}), '' FROM ONLY {} t", read.name)
}
