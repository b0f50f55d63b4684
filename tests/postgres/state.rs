//! Each kind of change is named by the look and undone by the reset; reading shows nothing.

use std::time::Instant;

use sealmark::{
    evidence::How,
    target::postgres::{
        DATABASE, Postgres, Role,
        state::{Changed, Reader},
    },
};

use crate::seeded::{Seeded, seeded};

/// Statements that change something as `sm_admin`, and one of the objects the look must name.
const CHANGES: &[(&str, &str, How)] = &[
    ("INSERT INTO probe_t (v) VALUES ('x')", "rows of probe_t", How::Modified),
    ("UPDATE tenants SET name = 'x' WHERE id = 2", "rows of tenants", How::Modified),
    ("UPDATE customers SET notes = 'x' WHERE id = 7", "rows of customers", How::Modified),
    ("UPDATE tenants SET name = name WHERE id = 2", "rows of tenants", How::Touched),
    ("DELETE FROM orders WHERE id < 3", "rows of orders", How::Modified),
    ("DELETE FROM big WHERE id = 99999", "rows of big", How::Modified),
    ("UPDATE big SET tag = tag WHERE id = 5", "rows of big", How::Touched),
    ("TRUNCATE probe_t", "rows of probe_t", How::Modified),
    ("TRUNCATE tenants, customers, orders", "rows of customers", How::Modified),
    ("SELECT f_write()", "rows of probe_t", How::Modified),
    (
        "CREATE TABLE sm_ddl_probe (id serial PRIMARY KEY, v text)",
        "relation public.sm_ddl_probe",
        How::Created,
    ),
    ("SELECT 1 AS a INTO sm_into", "relation public.sm_into", How::Created),
    ("CREATE MATERIALIZED VIEW sm_m AS SELECT 1 AS a", "relation public.sm_m", How::Created),
    ("CREATE VIEW sm_v AS SELECT 1 AS a", "relation public.sm_v", How::Created),
    (
        "CREATE UNLOGGED TABLE \"sm odd'\"\"name\" (a int)",
        "relation public.sm odd'\"name",
        How::Created,
    ),
    ("DROP TABLE probe_t", "relation public.probe_t", How::Deleted),
    ("DROP TABLE audit_probe", "relation public.audit_probe", How::Deleted),
    ("ALTER TABLE probe_t ADD COLUMN x int", "column x of public.probe_t", How::Created),
    ("ALTER TABLE probe_t DROP COLUMN v", "column v of public.probe_t", How::Deleted),
    (
        "ALTER TABLE probe_t ALTER COLUMN v SET DEFAULT 'x'",
        "column v of public.probe_t",
        How::Modified,
    ),
    ("ALTER TABLE probe_t RENAME TO probe_u", "relation public.probe_u", How::Created),
    ("ALTER TABLE probe_t SET (fillfactor = 50)", "relation public.probe_t", How::Modified),
    ("ALTER TABLE probe_t ENABLE ROW LEVEL SECURITY", "relation public.probe_t", How::Modified),
    (
        "ALTER TABLE probe_t ADD CHECK (v <> '')",
        "constraint probe_t_v_check of public.probe_t",
        How::Created,
    ),
    ("CREATE INDEX sm_i ON probe_t (v)", "index public.sm_i", How::Created),
    ("CREATE POLICY sm_p ON probe_t USING (true)", "policy sm_p of public.probe_t", How::Created),
    (
        "CREATE RULE sm_r AS ON DELETE TO probe_t DO INSTEAD NOTHING",
        "rule sm_r of public.probe_t",
        How::Created,
    ),
    (
        "CREATE FUNCTION sm_f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "function public.sm_f",
        How::Created,
    ),
    (
        "CREATE FUNCTION sm_t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; \
      CREATE TRIGGER sm_g BEFORE INSERT ON probe_t FOR EACH ROW EXECUTE FUNCTION sm_t()",
        "trigger sm_g of public.probe_t",
        How::Created,
    ),
    (
        "CREATE AGGREGATE sm_a (int) (SFUNC = int4pl, STYPE = int)",
        "function public.sm_a",
        How::Created,
    ),
    ("CREATE TYPE sm_e AS ENUM ('a')", "type public.sm_e", How::Created),
    ("CREATE TYPE sm_c AS (a int)", "relation public.sm_c", How::Created),
    ("CREATE DOMAIN sm_d AS int CHECK (VALUE > 0)", "type public.sm_d", How::Created),
    (
        "CREATE OPERATOR public.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq)",
        "operator public.===",
        How::Created,
    ),
    (
        "CREATE TYPE sm_x AS (a int); CREATE CAST (sm_x AS text) WITH INOUT",
        "cast (public.sm_x AS pg_catalog.text)",
        How::Created,
    ),
    ("CREATE COLLATION sm_l FROM \"C\"", "collation public.sm_l", How::Created),
    (
        "CREATE TEXT SEARCH CONFIGURATION sm_ts (COPY = simple)",
        "text search configuration public.sm_ts",
        How::Created,
    ),
    ("CREATE STATISTICS sm_s ON id, v FROM probe_t", "statistics object public.sm_s", How::Created),
    ("CREATE SEQUENCE sm_q", "sequence public.sm_q", How::Created),
    ("SELECT nextval('probe_t_id_seq')", "sequence public.probe_t_id_seq", How::Modified),
    ("SELECT setval('probe_t_id_seq', 5, false)", "sequence public.probe_t_id_seq", How::Modified),
    ("ALTER SEQUENCE probe_t_id_seq INCREMENT 2", "sequence public.probe_t_id_seq", How::Modified),
    ("SELECT lo_from_bytea(0, 'x')", "large object", How::Created),
    ("SELECT lo_create(4711)", "large object", How::Created),
    ("COMMENT ON TABLE probe_t IS 'x'", "comment on public.probe_t", How::Created),
    ("COMMENT ON COLUMN probe_t.v IS 'x'", "comment on public.probe_t.v", How::Created),
    ("GRANT SELECT ON probe_t TO sm_tenant", "privileges of public.probe_t", How::Modified),
    (
        "GRANT SELECT (v) ON probe_t TO PUBLIC",
        "privileges of column v of public.probe_t",
        How::Modified,
    ),
    ("REVOKE ALL ON probe_t FROM sm_analyst", "privileges of public.probe_t", How::Modified),
    (
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
        "default privileges of role sm_admin",
        How::Created,
    ),
    ("ALTER ROLE sm_admin SET work_mem = '1MB'", "setting of role sm_admin", How::Created),
    (
        "ALTER ROLE sm_admin IN DATABASE sealmark_seed SET work_mem = '1MB'",
        "setting of role sm_admin",
        How::Created,
    ),
    ("ALTER ROLE sm_admin PASSWORD 'x'", "role sm_admin", How::Modified),
    ("CREATE TEMP TABLE customers (a int)", "temporary relation customers", How::Created),
    ("NOTIFY sm_probe, 'x'", "notification", How::Created),
    ("SELECT pg_notify('sm_probe', 'x')", "notification", How::Created),
    ("SELECT pg_advisory_lock(4711)", "advisory lock", How::Created),
    ("REINDEX INDEX probe_t_pkey", "file of index public.probe_t_pkey", How::Modified),
    ("VACUUM FULL probe_t", "file of table public.probe_t", How::Modified),
    ("CLUSTER probe_t USING probe_t_pkey", "index public.probe_t_pkey", How::Modified),
    ("ANALYZE probe_t", "statistics of public.probe_t", How::Modified),
];

/// The same as a superuser, which a server under test is only by mistake.
const CHANGES_OF_A_SUPERUSER: &[(&str, &str, How)] = &[
    ("CREATE ROLE sm_p_x LOGIN SUPERUSER", "role sm_p_x", How::Created),
    ("ALTER ROLE sm_tenant BYPASSRLS PASSWORD NULL", "role sm_tenant", How::Modified),
    ("GRANT sm_owner TO sm_tenant", "membership of role sm_tenant in sm_owner", How::Created),
    ("CREATE SCHEMA sm_s CREATE TABLE x (a int)", "schema sm_s", How::Created),
    ("DROP TABLE customers CASCADE", "relation public.customers", How::Deleted),
    ("DROP SCHEMA public CASCADE", "schema public", How::Deleted),
    (
        "ALTER POLICY by_user ON customers USING (true)",
        "policy by_user of public.customers",
        How::Modified,
    ),
    ("ALTER TABLE orders NO FORCE ROW LEVEL SECURITY", "relation public.orders", How::Modified),
    ("TRUNCATE big", "rows of big", How::Modified),
    ("DROP FUNCTION f_stable", "function public.f_stable", How::Deleted),
    ("ALTER TABLE probe_t OWNER TO sm_tenant", "relation public.probe_t", How::Modified),
    (
        "GRANT CREATE ON DATABASE sealmark_seed TO PUBLIC",
        "privileges of database sealmark_seed",
        How::Modified,
    ),
    ("GRANT CREATE ON SCHEMA public TO sm_tenant", "privileges of schema public", How::Modified),
    (
        "ALTER DATABASE sealmark_seed SET work_mem = '1MB'",
        "setting of database sealmark_seed",
        How::Created,
    ),
    ("COMMENT ON ROLE sm_admin IS 'x'", "comment on role sm_admin", How::Created),
    (
        "CREATE FUNCTION sm_e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; \
      CREATE EVENT TRIGGER sm_e ON ddl_command_start EXECUTE FUNCTION sm_e()",
        "event trigger sm_e",
        How::Created,
    ),
    ("CREATE PUBLICATION sm_p FOR TABLE probe_t", "publication sm_p", How::Created),
    ("CREATE FOREIGN DATA WRAPPER sm_w", "foreign-data wrapper sm_w", How::Created),
    ("ALTER SYSTEM SET work_mem = '1MB'", "configuration of the server", How::Modified),
    ("VACUUM probe_t", "statistics of public.probe_t", How::Modified),
    ("CREATE DATABASE sm_other", "database sm_other", How::Created),
    (
        "REVOKE EXECUTE ON FUNCTION pg_sleep FROM PUBLIC",
        "privileges of pg_catalog.pg_sleep(double precision)",
        How::Created,
    ),
    (
        "UPDATE pg_proc SET procost = 2 WHERE proname = 'pg_sleep'; \
      UPDATE pg_proc SET procost = 1 WHERE proname = 'pg_sleep'",
        "catalogue pg_proc",
        How::Modified,
    ),
];

/// What writes nothing.
const READS: &[&str] = &[
    "SELECT count(*) FROM customers",
    "SELECT * FROM big ORDER BY random() LIMIT 10",
    "BEGIN; INSERT INTO probe_t (id, v) VALUES (99, 'x'); ROLLBACK",
    "BEGIN; CREATE INDEX ON probe_t (v); ROLLBACK",
    "BEGIN; CREATE TABLE x (a int); ROLLBACK",
    "BEGIN READ ONLY; SELECT pg_advisory_xact_lock(1); COMMIT",
    "SELECT set_config('work_mem', '1MB', false)",
    "SELECT * FROM probe_t FOR UPDATE",
    "EXPLAIN ANALYZE SELECT * FROM orders",
    "SELECT nothing",
];

async fn names(seeded: &Seeded, reader: &mut Reader, role: &str, case: &(&str, &str, How)) {
    let (sql, object, how) = case;
    let session = seeded.session(role).await;
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    session.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let look = reader.look(&[pid]).await.unwrap();
    let found = look.changes.iter().any(|one| one.object == *object && one.how == *how);
    assert!(found, "{sql}: {:?}", look.changes);
    assert!(!look.pending, "{sql}");
    drop(session);
    reader.reset(&[pid]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let after = reader.look(&[]).await.unwrap();
    assert!(after.changes.is_empty(), "{sql}: {:?}", after.changes);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_change_is_named_and_undone() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    for case in CHANGES {
        names(&seeded, &mut reader, "sm_admin", case).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn so_is_what_a_superuser_does() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    for case in CHANGES_OF_A_SUPERUSER {
        // Before 15 vacuums are counted some time later.
        if case.0.starts_with("VACUUM ") && seeded.major() < 15 {
            continue;
        }
        names(&seeded, &mut reader, "sm_root", case).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_of_somebody_else_only_what_is_the_seeds_is_watched() {
    let Some(seeded) = seeded().await else { return };
    let config = seeded.backend().config("sm_root", None, DATABASE);
    let mut reader = Reader::connect(config, true).await.unwrap();
    let watched = CHANGES.iter().filter(|case| !case.0.starts_with("ANALYZE"));
    for case in watched.step_by(6) {
        names(&seeded, &mut reader, "sm_admin", case).await;
    }
    let root = seeded.session("sm_root").await;
    for sql in [
        "CREATE ROLE another",
        "CREATE DATABASE another",
        "VACUUM probe_t",
        "ALTER SYSTEM SET work_mem = '1MB'",
    ] {
        root.batch_execute(sql).await.unwrap();
        let look = reader.look(&[]).await.unwrap();
        assert!(look.changes.is_empty(), "{sql}: {look:?}");
        reader.reset(&[]).await.unwrap();
    }
    let count = "SELECT count(*) FROM pg_database WHERE datname = 'another'";
    assert_eq!(root.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 1);
}

#[test]
fn what_the_reader_does_can_be_done_in_a_task() {
    fn task(_: impl Send) {}
    fn all<'a>(reader: &'a mut Reader, postgres: &'a Postgres) {
        task(reader.look(&[]));
        task(reader.reset(&[]));
        task(reader.terminate(&[]));
        task(reader.lands(postgres, Role::Admin, &[]));
        task(Reader::open(postgres));
    }
    let _ = all;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_reads_is_no_change() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    for sql in READS {
        let session = seeded.session("sm_admin").await;
        // Some of them are meant to fail.
        let _ = session.batch_execute(sql).await;
        let look = reader.look(&[]).await.unwrap();
        assert!(look.changes.is_empty() && !look.pending, "{sql}: {look:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_figure_that_moves_without_a_transaction_id_is_seen() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    let session = seeded.session("sm_admin").await;
    // The first value of 33 takes an id; those after it take none.
    session.batch_execute("SELECT nextval('probe_t_id_seq')").await.unwrap();
    reader.look(&[]).await.unwrap();
    session.batch_execute("SELECT nextval('probe_t_id_seq')").await.unwrap();
    let look = reader.look(&[]).await.unwrap();
    assert_eq!(objects(&look.changes), ["sequence public.probe_t_id_seq"]);
    reader.reset(&[]).await.unwrap();
    assert!(reader.look(&[]).await.unwrap().changes.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_left_open_is_pending_and_ended_by_the_reset() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    for sql in [
        "BEGIN; DELETE FROM probe_t",
        "BEGIN; LOCK TABLE probe_t IN ACCESS EXCLUSIVE MODE",
        "BEGIN; TRUNCATE probe_t",
        "BEGIN; ALTER TABLE tenants ADD COLUMN x int",
    ] {
        let session = seeded.session(if sql.contains("tenants") { "sm_root" } else { "sm_admin" });
        let session = session.await;
        let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        session.batch_execute(sql).await.unwrap();
        let look = reader.look(&[pid]).await.unwrap();
        assert!(look.pending && look.changes.is_empty(), "{sql}: {look:?}");
        assert_eq!(reader.active(&[pid]).await.unwrap(), 0);
        assert!(reader.reset(&[pid]).await.unwrap().terminated, "{sql}");
        assert!(session.batch_execute("SELECT 1").await.is_err(), "{sql}");
        let look = reader.look(&[]).await.unwrap();
        assert!(!look.pending && look.changes.is_empty(), "{sql}: {look:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_table_to_be_dropped_is_ended_and_others_stay() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    let (session, other) = (seeded.session("sm_admin").await, seeded.session("sm_admin").await);
    let pid: i32 = session.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    other.batch_execute("CREATE TABLE sm_ddl_probe (a int)").await.unwrap();
    session.batch_execute("BEGIN; SELECT * FROM sm_ddl_probe").await.unwrap();
    assert!(!reader.look(&[pid]).await.unwrap().pending);
    assert!(reader.reset(&[pid]).await.unwrap().terminated);
    other.batch_execute("SELECT 1").await.unwrap();
    assert!(session.is_closed() || session.batch_execute("SELECT 1").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_transaction_is_named_and_rolled_back() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    let session = seeded.session("sm_admin").await;
    for sql in ["INSERT INTO probe_t (v) VALUES ('x')", "TRUNCATE probe_t"] {
        let prepared = format!("BEGIN; {sql}; PREPARE TRANSACTION 'sm it''s \\ '");
        session.batch_execute(&prepared).await.unwrap();
        let look = reader.look(&[]).await.unwrap();
        assert!(objects(&look.changes).contains(&"prepared transaction"), "{look:?}");
        reader.reset(&[]).await.unwrap();
        assert!(reader.look(&[]).await.unwrap().changes.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_a_server_made_is_called_by_the_superuser() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    let session = seeded.session("sm_admin").await;
    let trap = "CREATE FUNCTION sm_trap() RETURNS text LANGUAGE plpgsql AS $$ BEGIN \
        IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) \
        THEN ALTER ROLE sm_admin SUPERUSER; END IF; RETURN 'x'; END $$;";
    for sql in [
        "DROP TABLE probe_t; CREATE VIEW probe_t AS SELECT 1 AS id, sm_trap() AS v",
        "CREATE FUNCTION sm_cast(probe_t) RETURNS text LANGUAGE sql AS 'SELECT sm_trap()'; \
         CREATE CAST (probe_t AS text) WITH FUNCTION sm_cast(probe_t)",
        "CREATE FUNCTION sm_fires() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM sm_trap(); RETURN NULL; END'; \
         CREATE TRIGGER sm_g AFTER INSERT OR DELETE ON probe_t EXECUTE FUNCTION sm_fires(); \
         ALTER TABLE probe_t ENABLE ALWAYS TRIGGER sm_g; DELETE FROM probe_t",
        "CREATE FUNCTION count(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1 FROM sm_trap()'; \
         CREATE FUNCTION concat(bigint, text) RETURNS text LANGUAGE sql AS 'SELECT sm_trap()'; \
         UPDATE probe_t SET v = 'x'",
        "ALTER TABLE probe_t ADD CHECK (sm_trap() <> ''), ALTER v SET DEFAULT sm_trap(); \
         DELETE FROM probe_t",
    ] {
        session.batch_execute(&format!("{trap} {sql}")).await.unwrap();
        assert!(!reader.look(&[]).await.unwrap().changes.is_empty(), "{sql}");
        let reset = reader.reset(&[]).await;
        let super_now = seeded.session("sm_root").await;
        let sql_super = "SELECT rolsuper FROM pg_roles WHERE rolname = 'sm_admin'";
        let is_super: bool = super_now.query_one(sql_super, &[]).await.unwrap().get(0);
        assert!(!is_super, "{sql}");
        reset.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(reader.look(&[]).await.unwrap().changes.is_empty(), "{sql}");
    }
}

/// Statements; the objects changed, the first error, whether something was pending, the values.
type Replayed =
    (&'static [&'static str], &'static [&'static str], Option<&'static str>, bool, &'static str);

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_tells_what_landed_what_failed_and_what_was_returned() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    let cases: &[Replayed] = &[
        (&["COMMIT; DELETE FROM probe_t"], &["rows of probe_t"], None, false, ""),
        (&["DELETE FROM nothing", "SELECT 'a', 2"], &[], Some("42P01"), false, "a\t2\n"),
        (
            &["SET default_transaction_read_only = on", "DELETE FROM probe_t"],
            &[],
            Some("25006"),
            false,
            "",
        ),
        (&["BEGIN", "DELETE FROM probe_t"], &[], None, true, ""),
        (&["SELECT pg_advisory_lock(4711) IS NULL"], &["advisory lock"], None, false, "f\n"),
        (&["CREATE TEMP TABLE t (a int)"], &["temporary relation t"], None, false, ""),
        (&["COPY probe_t TO STDOUT", "SELECT 1"], &[], None, false, ""),
        (&["COPY probe_t FROM STDIN", "SELECT 1"], &[], None, false, ""),
    ];
    for (statements, changes, error, pending, text) in cases {
        let statements: Vec<String> = statements.iter().map(|one| (*one).to_owned()).collect();
        let session = seeded.session("sm_admin").await;
        let landing = reader.replay(session, &statements).await.unwrap();
        assert_eq!(objects(&landing.changes), *changes, "{statements:?}");
        assert_eq!(landing.error.as_deref(), *error, "{statements:?}");
        assert_eq!((landing.pending, landing.text.as_str()), (*pending, *text), "{statements:?}");
        assert!(reader.look(&[]).await.unwrap().changes.is_empty(), "{statements:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_without_an_end_ends_after_five_seconds_and_keeps_a_head() {
    let Some(seeded) = seeded().await else { return };
    let mut reader = seeded.reader().await;
    let start = Instant::now();
    let endless = ["SELECT repeat('x', 10000), generate_series(1, 100000000)".to_owned()];
    let session = seeded.session("sm_admin").await;
    let landing = reader.replay(session, &endless).await.unwrap();
    assert_eq!(landing.error.as_deref(), Some("57014"));
    assert!(landing.text.len() <= 64 << 10 && landing.text.len() > 60 << 10);
    assert!(start.elapsed().as_secs() < 8, "{:?}", start.elapsed());
}

fn objects(changes: &[Changed]) -> Vec<&str> {
    changes.iter().map(|one| one.object.as_str()).collect()
}
