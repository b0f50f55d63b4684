//! The seed database: its fixed SQL, and what every run draws anew for it, the passwords of the
//! roles and the tokens of the sentinel cells.

use std::{collections::BTreeMap, fmt::Write, sync::LazyLock};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Role, Sentinel};

/// The database as every run finds it, one batch for a superuser.
pub const SEED: &str = include_str!("../../../seeds/postgres/seed.sql");
/// The cells that carry a run's tokens.
const SENTINELS: &str = include_str!("../../../seeds/postgres/sentinels.yaml");

/// Every role the seed makes; what one run leaves, the next removes by these names.
pub const ROLES: [&str; 5] = ["sm_owner", "sm_admin", "sm_analyst", "sm_tenant", QUOTED];
/// The analyst whose password needs encoding in a URL.
pub const QUOTED: &str = "sm_quoted";
/// What stands inside the password of [`QUOTED`]: each has a meaning of its own in a URL or in a
/// connection string.
const NEEDS_ENCODING: &str = "@:/%#'";

const PASSWORD_LENGTH: usize = 24;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    object: String,
    kind: String,
    table: String,
    column: String,
    key: u32,
    tenant: Option<u8>,
}

/// The cells of a table by their columns, each with its token.
type Columns<'a> = BTreeMap<&'static str, Vec<(&'static Cell, &'a Sentinel)>>;

static CELLS: LazyLock<Vec<Cell>> =
    LazyLock::new(|| serde_saphyr::from_str(SENTINELS).expect("a test reads this list"));

/// A digest of seed and sentinels, 16 hexadecimal digits: names the clusters made of them.
pub fn fingerprint(further: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in [SEED, SENTINELS].iter().chain(further) {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    hexadecimal(&digest.finalize()[..8])
}

/// What a run draws anew.
pub struct Fresh {
    /// The passwords of the roles in the order of [`Role::ALL`].
    pub passwords: [String; 3],
    /// The password of [`QUOTED`].
    pub quoted: String,
    /// The tokens.
    pub sentinels: Vec<Sentinel>,
}

impl Fresh {
    /// Draws; the error is the system's, which gave no random bytes.
    pub fn draw() -> Result<Self, getrandom::Error> {
        let half = PASSWORD_LENGTH / 2;
        Ok(Self {
            passwords: [
                alphanumeric(PASSWORD_LENGTH)?,
                alphanumeric(PASSWORD_LENGTH)?,
                alphanumeric(PASSWORD_LENGTH)?,
            ],
            quoted: format!("{}{NEEDS_ENCODING}{}", alphanumeric(half)?, alphanumeric(half)?),
            sentinels: CELLS.iter().map(sentinel).collect::<Result<_, _>>()?,
        })
    }

    /// One batch that gives the roles their passwords and the sentinel cells their tokens, with one
    /// UPDATE for each table.
    pub fn statements(&self) -> String {
        // Postgres 13 still has MD5 as its default.
        let mut sql = String::from("SET password_encryption = 'scram-sha-256';\n");
        let roles = Role::ALL.iter().map(|role| role.user()).chain([QUOTED]);
        for (user, password) in roles.zip(self.passwords.iter().chain([&self.quoted])) {
            let _ = writeln!(sql, "ALTER ROLE {user} PASSWORD {};", literal(password));
        }
        let mut tables: BTreeMap<&str, Columns<'_>> = BTreeMap::new();
        for (cell, sentinel) in CELLS.iter().zip(&self.sentinels) {
            let columns = tables.entry(&cell.table).or_default();
            columns.entry(&cell.column).or_default().push((cell, sentinel));
        }
        for (table, columns) in tables {
            let mut sets = Vec::new();
            let mut keys: Vec<u32> = Vec::new();
            for (column, cells) in columns {
                let mut set = format!("{column} = CASE id");
                for (cell, sentinel) in cells {
                    keys.push(cell.key);
                    let _ = write!(
                        set,
                        " WHEN {} THEN replace({column}, {}, {})",
                        cell.key,
                        literal(&placeholder(cell)),
                        literal(&sentinel.token)
                    );
                }
                let _ = write!(set, " ELSE {column} END");
                sets.push(set);
            }
            keys.sort_unstable();
            keys.dedup();
            let keys: Vec<String> = keys.iter().map(u32::to_string).collect();
            let _ = writeln!(
                sql,
                "UPDATE public.{table} SET {} WHERE id IN ({});",
                sets.join(", "),
                keys.join(", ")
            );
        }
        sql
    }
}

fn placeholder(cell: &Cell) -> String {
    format!("SM-{}-{}", cell.kind, "0".repeat(16))
}

fn sentinel(cell: &'static Cell) -> Result<Sentinel, getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(Sentinel {
        object: cell.object.clone(),
        token: format!("SM-{}-{}", cell.kind, hexadecimal(&bytes)),
        column: &cell.column,
        tenant: cell.tenant,
    })
}

/// A text as a literal of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn alphanumeric(length: usize) -> Result<String, getrandom::Error> {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut text = String::new();
    let mut bytes = [0; 64];
    while text.len() < length {
        getrandom::fill(&mut bytes)?;
        // 248 is the largest multiple of 62 in a byte: each letter is as likely as any other.
        let drawn = bytes.iter().filter(|byte| **byte < 248);
        let letters = drawn.map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
        text.extend(letters.take(length - text.len()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentinel_has_its_placeholder_in_the_seed() {
        assert!(CELLS.len() > 10);
        for cell in CELLS.iter() {
            assert!(SEED.contains(&placeholder(cell)), "{}", cell.object);
        }
    }

    #[test]
    fn every_role_of_the_seed_is_removed_by_name() {
        for line in SEED.lines().filter(|line| line.starts_with("CREATE ROLE ")) {
            let name = line.split_whitespace().nth(2).unwrap();
            assert!(ROLES.contains(&name), "{name}");
        }
    }

    #[test]
    fn every_run_draws_other_passwords_and_tokens() {
        let (one, other) = (Fresh::draw().unwrap(), Fresh::draw().unwrap());
        assert_ne!(one.passwords, other.passwords);
        let mut all: Vec<&str> = one.passwords.iter().map(String::as_str).collect();
        assert!(all.iter().all(|password| password.len() == PASSWORD_LENGTH
            && password.bytes().all(|byte| byte.is_ascii_alphanumeric())));
        all.extend(one.sentinels.iter().chain(&other.sentinels).map(|one| one.token.as_str()));
        let drawn = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), drawn);
        assert!(one.quoted.contains(NEEDS_ENCODING) && one.quoted.len() > PASSWORD_LENGTH);
    }

    #[test]
    fn a_table_is_updated_once_and_quotes_are_doubled() {
        let fresh = Fresh::draw().unwrap();
        let sql = fresh.statements();
        for table in ["tenants", "customers", "orders"] {
            assert_eq!(sql.matches(&format!("UPDATE public.{table} ")).count(), 1, "{sql}");
        }
        assert!(sql.contains(&format!("'{}'", fresh.quoted.replace('\'', "''"))));
        assert!(fresh.sentinels.iter().all(|one| sql.contains(&one.token)));
    }

    #[test]
    fn what_a_template_is_made_of_names_it() {
        assert_eq!(fingerprint(&[]).len(), 16);
        assert_ne!(fingerprint(&["a", "b"]), fingerprint(&["ab"]));
    }
}
