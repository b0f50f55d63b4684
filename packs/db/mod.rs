//! SQL tools against a database the harness owns: one instance for each role, and the rows looked
//! at.

use super::shown;
use crate::check::Needs;

mod audit;
mod db_privilege;
mod statement_timeout;

crate::check::pack! { "db",
    "SQL tools keep the database as it is and its controls in force",
    "`${pg.url}` or a part of it is used in the configuration, a Postgres was had, and the server has a tool that runs SQL.",
    Needs::Database(&["sql"]);
    mutating_sql = calls,
    multi_statement = calls,
    row_limit = calls,
    statement_timeout = script,
    rls = calls,
    pii = calls,
    pii_masked = calls,
    write_gate = calls,
    audit = journal,
    db_privilege = journal,
}
