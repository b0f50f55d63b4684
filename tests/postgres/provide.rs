//! A cluster of the run's own.

use std::time::Instant;

use sealmark::target::postgres::Role;

use crate::{provided, run};

#[tokio::test]
async fn a_seeded_cluster_lets_the_roles_in_and_leaves_nothing() {
    let (run, parent) = run();
    let began = Instant::now();
    let Some(postgres) = provided(&run).await else { return };
    println!("provided in {:?}: {postgres:?}", began.elapsed());
    for role in Role::ALL {
        let session = postgres.session(role).await.unwrap();
        let row =
            session.query_one("SELECT current_user::text, (SELECT count(*) FROM orders)", &[]);
        let row = row.await.unwrap();
        assert_eq!(row.get::<_, &str>(0), role.user());
        assert_eq!(row.get::<_, i64>(1), if role == Role::Tenant { 1250 } else { 5000 });
    }
    let superuser = postgres.superuser().await.unwrap();
    for sentinel in postgres.sentinels() {
        let sql = format!(
            "SELECT count(*) FROM (SELECT c::text AS t FROM customers c UNION ALL SELECT o::text FROM orders o \
             UNION ALL SELECT t::text FROM tenants t) a WHERE t LIKE '%{}%'",
            sentinel.token
        );
        let count: i64 = superuser.query_one(&sql, &[]).await.unwrap().get(0);
        assert_eq!(count, 1, "{}", sentinel.object);
    }
    drop(superuser);
    assert_eq!(postgres.close().await, Vec::<String>::new());
    run.close().unwrap();
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}
