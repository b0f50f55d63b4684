//! The tap between a client and a real Postgres.

use std::time::{Duration, Instant};

use sealmark::target::postgres::{
    Backend, Role,
    tap::{Statement, Tap},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_postgres::{Client, NoTls, error::SqlState};

use crate::seeded::{Seeded, seeded};

async fn open(seeded: &Seeded) -> Tap {
    Tap::open(seeded.backend()).await.unwrap()
}

/// A session through the tap.
async fn session(seeded: &Seeded, tap: &Tap, role: Role) -> Client {
    let (client, connection) = seeded.through(tap, role).connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn texts(statements: &[Statement]) -> Vec<(&str, Vec<&str>, Option<&str>)> {
    statements
        .iter()
        .map(|one| {
            let tags = one.tags.iter().map(String::as_str).collect();
            (one.sql.as_str(), tags, one.state.as_deref())
        })
        .collect()
}

async fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..200 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("not within two seconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_tags_and_errors_of_both_protocols_are_heard() {
    let Some(seeded) = seeded().await else { return };
    let tap = open(&seeded).await;
    let client = session(&seeded, &tap, Role::Admin).await;
    let mark = tap.mark();
    client.batch_execute("BEGIN READ ONLY; SELECT 1; COMMIT; SELECT 2, 3").await.unwrap();
    assert!(client.batch_execute("SELECT nothing").await.is_err());
    let prepared = client.prepare("SELECT id FROM big WHERE id < $1").await.unwrap();
    let rows = tap.rows();
    assert_eq!(client.query(&prepared, &[&11]).await.unwrap().len(), 10);
    assert_eq!((tap.rows() - rows, tap.bytes() > 100), (10, true));
    assert!(client.query("DELETE FROM pg_authid", &[]).await.is_err());
    let heard = tap.since(mark);
    let expected = [
        (
            "BEGIN READ ONLY; SELECT 1; COMMIT; SELECT 2, 3",
            vec!["BEGIN", "SELECT 1", "COMMIT", "SELECT 1"],
            None,
        ),
        ("SELECT nothing", vec![], Some("42703")),
        ("SELECT id FROM big WHERE id < $1", vec!["SELECT 10"], None),
        ("DELETE FROM pg_authid", vec![], Some("42501")),
    ];
    assert_eq!(texts(&heard), expected);
    let extended: Vec<bool> = heard.iter().map(|one| one.extended).collect();
    assert_eq!(extended, [false, false, true, true]);
    assert!(heard.iter().all(|one| one.user == "sm_admin"));

    let mark = tap.mark();
    client.query(&prepared, &[&3]).await.unwrap();
    assert_eq!(texts(&tap.since(mark)).len(), 1, "a statement prepared before the mark");
    let (a, b) = tokio::join!(client.query("SELECT 1/0", &[]), client.query("SELECT 4", &[]));
    assert!(a.is_err() && b.is_ok());
    let last = tap.since(mark);
    let states: Vec<_> = texts(&last).iter().map(|one| (one.0.to_owned(), one.2)).collect();
    assert!(states.contains(&("SELECT 1/0".to_owned(), Some("22012"))), "{states:?}");
    assert!(states.contains(&("SELECT 4".to_owned(), None)), "{states:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_tell_the_role_and_a_refusal_its_state() {
    let Some(seeded) = seeded().await else { return };
    let tap = open(&seeded).await;
    let client = session(&seeded, &tap, Role::Tenant).await;
    assert_eq!(tap.pids().len(), 1);
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    assert_eq!(tap.pids(), [pid]);
    client.batch_execute("SET application_name = 'shop'").await.unwrap();
    let mut wrong = seeded.through(&tap, Role::Tenant);
    wrong.user("sm_nobody").password("wrong");
    let refused = wrong.connect(NoTls).await.err().unwrap();
    assert!(refused.code().is_some(), "{refused:?}");
    let logins = tap.logins();
    assert_eq!((logins[0].user.as_str(), logins[0].accepted), ("sm_tenant", true));
    assert_eq!(logins[0].database, "sealmark_seed");
    assert_eq!(logins[0].application_name, "shop");
    assert!(!logins[1].accepted);
    assert_eq!(logins[1].refused.as_deref(), refused.code().map(SqlState::code));
    drop(client);
    until(|| tap.pids().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_reaches_the_statement() {
    let Some(seeded) = seeded().await else { return };
    let tap = open(&seeded).await;
    let client = session(&seeded, &tap, Role::Admin).await;
    let cancel = client.cancel_token();
    let start = Instant::now();
    let (slept, canceled) = tokio::join!(client.batch_execute("SELECT pg_sleep(20)"), async {
        sleep(Duration::from_millis(100)).await;
        cancel.cancel_query(NoTls).await
    });
    canceled.unwrap();
    assert_eq!(slept.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_works_on_for_nobody_is_still_named() {
    let Some(seeded) = seeded().await else { return };
    let (tap, mut reader) = (open(&seeded).await, seeded.reader().await);
    let client = session(&seeded, &tap, Role::Admin).await;
    let slept = timeout(Duration::from_millis(100), client.batch_execute("SELECT pg_sleep(20)"));
    assert!(slept.await.is_err());
    drop(client);
    sleep(Duration::from_millis(50)).await;
    let pids = tap.pids();
    assert_eq!((pids.len(), reader.active(&pids).await.unwrap()), (1, 1));
    reader.terminate(&pids).await.unwrap();
    assert_eq!(reader.active(&pids).await.unwrap(), 0);
    until(|| tap.pids().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_in_both_directions_pass() {
    let Some(seeded) = seeded().await else { return };
    let tap = open(&seeded).await;
    let client = session(&seeded, &tap, Role::Admin).await;
    let (mark, rows) = (tap.mark(), tap.rows());
    let copied = client.copy_in::<_, &[u8]>("COPY probe_t (v) FROM STDIN").await.unwrap();
    assert_eq!(std::pin::pin!(copied).finish().await.unwrap(), 0);
    drop(client.copy_out("COPY tenants TO STDOUT").await.unwrap());
    client.batch_execute("SELECT 1").await.unwrap();
    let heard = tap.since(mark);
    let expected = [
        ("COPY probe_t (v) FROM STDIN", vec!["COPY 0"], None),
        ("COPY tenants TO STDOUT", vec!["COPY 4"], None),
        ("SELECT 1", vec!["SELECT 1"], None),
    ];
    assert_eq!(texts(&heard), expected);
    assert_eq!(tap.rows() - rows, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bytes_close_their_connection_and_no_other() {
    let Some(seeded) = seeded().await else { return };
    let tap = open(&seeded).await;
    let client = session(&seeded, &tap, Role::Admin).await;
    for bytes in [
        &b"\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        &[0; 64],
    ] {
        let mut hostile = TcpStream::connect(("127.0.0.1", tap.port())).await.unwrap();
        let _ = hostile.write_all(bytes).await;
        assert!(is_closed(&mut hostile).await, "{bytes:?}");
    }
    // After a login: lengths of 4 GiB, of nothing and of less than nothing, and unknown kinds.
    for bytes in [
        &b"Q\xff\xff\xff\xff"[..],
        b"Q\x00\x00\x00\x00",
        b"d\x80\x00\x00\x00",
        b"?\x00\x00\x00\x08abcd",
        &[0; 64],
    ] {
        let stream = std::net::TcpStream::connect(("127.0.0.1", tap.port())).unwrap();
        let mut hostile = stream.try_clone().unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = TcpStream::from_std(stream).unwrap();
        let login = seeded.through(&tap, Role::Admin).connect_raw(stream, NoTls).await;
        let (lost, connection) = login.unwrap();
        tokio::spawn(connection);
        lost.batch_execute("SELECT 1").await.unwrap();
        std::io::Write::write_all(&mut hostile, bytes).unwrap();
        for _ in 0..200 {
            if lost.is_closed() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        assert!(lost.is_closed(), "{bytes:?}");
        client.batch_execute("SELECT 1").await.unwrap();
    }
    let tls = TcpStream::connect(("127.0.0.1", tap.port())).await.unwrap();
    tls_request(tls).await;
    until(|| tap.logins().last().is_some_and(|login| login.insisted_on_tls)).await;
    until(|| tap.pids().len() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_superuser_of_the_cluster_is_not_for_servers() {
    let Some(seeded) = seeded().await else { return };
    let tap = open(&seeded).await;
    let mut config = seeded.through(&tap, Role::Admin);
    config.user("sm_root");
    let refused = config.connect(NoTls).await.err().unwrap();
    assert_eq!(refused.code(), Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION));
    let login = &tap.logins()[0];
    assert_eq!((login.user.as_str(), login.refused.as_deref()), ("sm_root", Some("28000")));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_are_relayed_are_closed_at_once() {
    let Some(seeded) = seeded().await else { return };
    let tap = open(&seeded).await;
    let mut open = Vec::new();
    for _ in 0..210 {
        open.push(TcpStream::connect(("127.0.0.1", tap.port())).await.unwrap());
    }
    until(|| tap.turned_away() == 10).await;
    open.clear();
    sleep(Duration::from_millis(50)).await;
    session(&seeded, &tap, Role::Admin).await.batch_execute("SELECT 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_tap_closes_everything() {
    let Some(seeded) = seeded().await else { return };
    let tap = open(&seeded).await;
    let (client, port) = (session(&seeded, &tap, Role::Admin).await, tap.port());
    drop(tap);
    assert!(client.batch_execute("SELECT 1").await.is_err());
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    let nowhere = Tap::open(Backend::Unix("/nowhere/at/all".into())).await.unwrap();
    assert!(seeded.through(&nowhere, Role::Admin).connect(NoTls).await.is_err());
    let login = &nowhere.logins()[0];
    assert_eq!((login.accepted, login.refused.as_deref()), (false, Some("08001")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_fifty_megabytes_passes() {
    let Some(seeded) = seeded().await else { return };
    let tap = open(&seeded).await;
    let client = session(&seeded, &tap, Role::Admin).await;
    let cell = client.query_one("SELECT repeat('x', 50000000)", &[]).await.unwrap();
    assert_eq!(cell.get::<_, &str>(0).len(), 50_000_000);
    assert!(tap.bytes() > 50_000_000);
}

/// Asks for encryption, hears that there is none, and leaves.
async fn tls_request(mut stream: TcpStream) {
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'N');
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut sink = Vec::new();
    timeout(Duration::from_secs(2), stream.read_to_end(&mut sink)).await.is_ok()
}
