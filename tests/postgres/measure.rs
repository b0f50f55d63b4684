use crate::seeded;
use sealmark::target::postgres::tap::Tap;
use std::time::Instant;
#[tokio::test(flavor = "multi_thread")]
async fn measure() {
    let s = seeded().await.unwrap();
    let t = Instant::now();
    let mut r = s.reader().await;
    eprintln!("open {:?}", t.elapsed());
    let admin = s.session("sm_admin").await;
    let mut v: Vec<_> = vec![];
    for _ in 0..300 {
        let t = Instant::now();
        r.look(&[1, 2, 3]).await.unwrap();
        v.push(t.elapsed());
    }
    v.sort();
    eprintln!("look nothing median {:?} p95 {:?} min {:?}", v[150], v[285], v[0]);
    for (what, sql) in [
        ("aborted", "BEGIN; INSERT INTO probe_t (v) VALUES ('x'); ROLLBACK"),
        ("row", "INSERT INTO probe_t (id, v) VALUES (1000, 'x')"),
        ("table", "CREATE TABLE sm_ddl_probe (a int)"),
        ("orders", "DELETE FROM orders WHERE id = 77"),
        ("drop", "DROP TABLE probe_t"),
        ("column", "ALTER TABLE probe_t ADD COLUMN x int"),
        ("big", "DELETE FROM big WHERE id = 77"),
        ("grant", "GRANT SELECT ON probe_t TO sm_tenant"),
    ] {
        let (mut l, mut q): (Vec<_>, Vec<_>) = (vec![], vec![]);
        for _ in 0..9 {
            admin.batch_execute(sql).await.unwrap();
            let t = Instant::now();
            r.look(&[]).await.unwrap();
            l.push(t.elapsed());
            let t = Instant::now();
            r.reset(&[]).await.unwrap();
            q.push(t.elapsed());
        }
        l.sort();
        q.sort();
        eprintln!("{what}: look {:?} (min {:?}) reset {:?} (min {:?})", l[4], l[0], q[4], q[0]);
    }
    let tap = Tap::open(s.backend()).await.unwrap();
    let (through, c) = s.through(&tap, "sm_admin").connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(c);
    for _ in 0..3 {
        let t = Instant::now();
        for _ in 0..1000 {
            admin.simple_query("SELECT 1").await.unwrap();
        }
        let direct = t.elapsed();
        let t = Instant::now();
        for _ in 0..1000 {
            through.simple_query("SELECT 1").await.unwrap();
        }
        eprintln!("1000 queries direct (unix) {direct:?}, through the tap {:?}", t.elapsed());
        let t = Instant::now();
        admin.query("SELECT * FROM big", &[]).await.unwrap();
        let direct = t.elapsed();
        let t = Instant::now();
        through.query("SELECT * FROM big", &[]).await.unwrap();
        eprintln!("100000 rows direct {direct:?}, through the tap {:?}", t.elapsed());
    }
}
