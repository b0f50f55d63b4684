//! Questions against servers that answer, dawdle, die and misbehave.

use super::*;
use crate::{
    evidence::{Channel, Form},
    mcp::{
        Limits,
        fake::{Fake, PLAIN, SECRET, pair, pair_with},
    },
};
use tokio::io::AsyncWriteExt;

fn call() -> Ask {
    Ask::call("read", json!({"path": "a"}))
}

fn patience() -> Patience {
    Patience::new(Duration::from_secs(1))
}

fn hit(object: &str, form: Form, channel: Channel) -> Hit {
    Hit { object: object.into(), form, channel }
}

#[tokio::test(start_paused = true)]
async fn a_reply_in_time_is_replied_and_nothing_else_is_sent() {
    let (mut client, mut fake) = pair();
    let server = tokio::spawn(async move {
        let message = fake.next().await;
        assert_eq!(
            message,
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "read", "arguments": {"path": "a"}}})
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
        fake.text(&message["id"], "fine").await;
        fake.line().await
    });
    let asked = client.ask(&call(), patience()).await;
    assert_eq!(asked.life, Life::Replied);
    assert_eq!(asked.reply.unwrap().text, "fine");
    assert!((0.1..0.11).contains(&asked.seconds), "{}", asked.seconds);
    assert_eq!(asked.bytes, 77);
    assert!(!asked.tainted && asked.hits.is_empty());
    client.close_stdin();
    assert_eq!(server.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_living_server_without_a_reply_is_silent_and_the_late_reply_is_scanned() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        let id = fake.take("tools/call").await;
        let ping = fake.take("ping").await;
        fake.reply(&ping, json!({})).await;
        let cancel = fake.next().await;
        assert_eq!(cancel["method"], "notifications/cancelled");
        assert_eq!(cancel["params"]["requestId"], id);
        let next = fake.take("tools/call").await;
        fake.text(&id, PLAIN).await;
        fake.text(&next, "second").await;
        fake.line().await;
    });
    let asked = client.ask(&call(), patience()).await;
    assert_eq!((asked.life, asked.reply), (Life::Silent, None));
    assert!((1.0..1.1).contains(&asked.seconds), "{}", asked.seconds);
    let asked = client.ask(&call(), patience()).await;
    assert_eq!(asked.reply.unwrap().text, "second");
    assert_eq!(asked.hits, [hit("attic/a.txt", Form::Raw, Channel::Reply)]);
    assert_eq!((client.counts().late, client.counts().unknown_ids), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_in_a_long_wait_is_not_called_silent() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        fake.take("tools/call").await;
        let ping = fake.take("ping").await;
        fake.reply(&ping, json!({})).await;
        fake.take("ping").await;
        std::future::pending::<()>().await;
    });
    let asked = client.ask(&call(), Patience::new(Duration::from_secs(10))).await;
    assert_eq!(asked.life, Life::Mute);
    assert!((15.0..15.1).contains(&asked.seconds), "{}", asked.seconds);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_ping_is_mute_after_five_seconds() {
    let (mut client, _fake) = pair();
    let asked = client.ask(&call(), patience()).await;
    assert_eq!(asked.life, Life::Mute);
    assert!((5.2..5.3).contains(&asked.seconds), "{}", asked.seconds);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_reading_hangs_nobody() {
    let (mut client, _fake) = pair();
    let big = Ask::call("read", json!({"path": "x".repeat(100_000)}));
    for _ in 0..3 {
        let asked = client.ask(&big, patience()).await;
        assert_eq!(asked.life, Life::Mute);
        assert!(asked.seconds < 5.3, "{}", asked.seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_stdout_is_death_now_and_later() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        fake.take("tools/call").await;
    });
    for _ in 0..2 {
        let asked = client.ask(&call(), patience()).await;
        assert_eq!(asked.life, Life::Died("connection closed".into()));
        assert!(asked.seconds < 0.1);
    }
    assert!(client.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_reply_before_the_end_still_counts() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        let id = fake.take("tools/call").await;
        // The last line may lack its newline.
        let reply = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
        fake.output.write_all(reply.to_string().as_bytes()).await.unwrap();
    });
    assert_eq!(client.ask(&call(), patience()).await.life, Life::Replied);
    let died = Life::Died("connection closed".into());
    assert_eq!(client.ask(&call(), patience()).await.life, died);
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_server_are_answered_at_once_and_taint_except_a_ping() {
    for (method, tainted) in [("ping", false), ("roots/list", true)] {
        let (mut client, mut fake) = pair();
        tokio::spawn(async move {
            let id = fake.take("tools/call").await;
            // Its ids collide with ours.
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method});
            fake.say(&request.to_string()).await;
            let answer = fake.next().await;
            assert_eq!(answer["id"], id);
            match method {
                "ping" => assert_eq!(answer["result"], json!({})),
                _ => assert_eq!(answer["error"]["code"], -32601),
            }
            fake.text(&id, "done").await;
            fake.line().await;
        });
        let asked = client.ask(&call(), patience()).await;
        assert_eq!((asked.reply.unwrap().text.as_str(), asked.tainted), ("done", tainted));
        assert_eq!(client.wanted().len(), usize::from(tainted));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_asks_for_a_capability_taints() {
    let (mut client, fake) = pair();
    tokio::spawn(fake.serve(|_, params| match params["name"].as_str() {
        Some("read") => Some(json!({"code": -32042, "message": "open this"})),
        _ => Some(json!({"resultType": "input_required"})),
    }));
    assert!(client.ask(&call(), patience()).await.tainted);
    assert!(client.ask(&Ask::call("x", json!({})), patience()).await.tainted);
}

#[tokio::test(start_paused = true)]
async fn canaries_are_told_by_channel_and_form() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        let id = fake.take("tools/call").await;
        fake.say(&format!("log: {SECRET}")).await;
        fake.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"x":"{PLAIN}"}}}}"#
        ))
        .await;
        fake.errors.write_all(&SECRET.as_bytes()[..9]).await.unwrap();
        fake.errors.write_all(&SECRET.as_bytes()[9..]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let escaped = PLAIN.replace('-', "\\u002d");
        fake.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{escaped}"}}]}}}}"#
        ))
        .await;
        fake.line().await;
    });
    let asked = client.ask(&call(), patience()).await;
    assert_eq!(
        asked.hits,
        [
            hit("env A", Form::Raw, Channel::Noise),
            hit("attic/a.txt", Form::Raw, Channel::Notification),
            hit("env A", Form::Raw, Channel::Stderr),
            hit("attic/a.txt", Form::Escaped, Channel::Reply),
        ]
    );
    assert!(client.drain_hits().is_empty());
    assert_eq!(client.noise()[0].line, "log: <canary>");
    assert_eq!(client.stderr_tail(), "<canary>");
    assert_eq!(client.stderr_bytes(), 19);
    assert_eq!(client.messages(), 2);
}

#[tokio::test(start_paused = true)]
async fn noise_duplicates_batches_and_unknown_ids_are_counted_and_never_answered() {
    let (mut client, mut fake) = pair();
    let server = tokio::spawn(async move {
        let id = fake.take("tools/call").await;
        for _ in 0..110 {
            fake.say(&"é".repeat(300)).await;
        }
        fake.say("").await;
        fake.say("[]").await;
        fake.say(r#"{"jsonrpc":"2.0","id":"zzz","result":{}}"#).await;
        fake.say(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#).await;
        fake.output.write_all(b"\xff\xfe\n").await.unwrap();
        fake.text(&id, "one").await;
        let id = fake.take("tools/call").await;
        fake.text(&json!(1), "again").await;
        fake.reply(&json!(id.to_string()), json!({"content": []})).await;
        fake.line().await
    });
    assert_eq!(client.ask(&call(), patience()).await.reply.unwrap().text, "one");
    let reply = client.ask(&call(), patience()).await.reply.unwrap();
    assert_eq!(reply.malformed.as_deref(), Some("has the id as a string"));
    let counts = client.counts();
    assert_eq!((counts.noise, counts.batches, counts.not_utf8), (113, 1, 1));
    assert_eq!((counts.unknown_ids, counts.duplicates), (2, 1));
    let noise = client.noise();
    assert_eq!((noise.len(), noise[0].line.chars().count()), (100, 200));
    assert!(!noise[0].blank && noise[0].lane == "main");
    client.close_stdin();
    assert_eq!(server.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_raw_line_is_followed_by_a_ping_that_shows_life() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        for answer in [false, true] {
            assert_eq!(fake.line().await.unwrap(), "{broken\n");
            if answer {
                fake.say(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#)
                    .await;
            }
            let ping = fake.take("ping").await;
            fake.reply(&ping, json!({})).await;
        }
        assert_eq!(fake.line().await.unwrap(), "{broken\n");
        std::future::pending::<()>().await;
    });
    let raw = Ask::Line(b"{broken".to_vec());
    let asked = client.ask(&raw, patience()).await;
    assert_eq!((asked.life, asked.reply), (Life::Silent, None));
    assert!(asked.seconds < 0.1);
    let asked = client.ask(&raw, patience()).await;
    assert_eq!(asked.life, Life::Replied);
    assert_eq!(asked.reply.unwrap().code, Some(-32700));
    assert_eq!(client.ask(&raw, patience()).await.life, Life::Mute);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_a_raw_line_and_then_ends_has_died() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        fake.line().await;
        fake.say(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#).await;
        fake.take("ping").await;
    });
    let asked = client.ask(&Ask::Line(b"5".to_vec()), patience()).await;
    assert!(matches!(asked.life, Life::Died(_)), "{:?}", asked.life);
    assert_eq!(asked.reply.unwrap().code, Some(-32600));
}

#[tokio::test(start_paused = true)]
async fn a_raw_line_with_the_known_id_may_be_answered_after_its_ping() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        for answer in [true, false] {
            fake.take("tools/call").await;
            let ping = fake.take("ping").await;
            fake.reply(&ping, json!({})).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            if answer {
                fake.text(&json!(RAW_ID), "raw").await;
            }
        }
        fake.line().await;
    });
    let raw = br#"{"jsonrpc":"2.0","id":"sm-raw","method":"tools/call"}"#;
    let raw = Ask::Line(raw.to_vec());
    assert_eq!(client.ask(&raw, patience()).await.reply.unwrap().text, "raw");
    let asked = client.ask(&raw, patience()).await;
    assert_eq!((asked.life, asked.seconds >= 1.0), (Life::Silent, true));
}

async fn long_reply(fake: &mut Fake, id: &Value, mebibytes: usize, pause: Duration) {
    let head = r#"{"jsonrpc":"2.0","result":{"isError":true,"content":[{"type":"text","text":""#;
    fake.output.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..mebibytes {
        if fake.output.write_all(&vec![b'a'; 1 << 20]).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
    fake.say(&format!("\"}}]}},\"id\":{id}}}")).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_reply_that_keeps_arriving_is_waited_for_counted_and_cut() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        let id = fake.take("tools/call").await;
        long_reply(&mut fake, &id, 4, Duration::from_secs(4)).await;
        let ping = fake.take("ping").await;
        fake.reply(&ping, json!({})).await;
        fake.line().await;
    });
    let asked = client.ask(&call(), patience()).await;
    assert_eq!(asked.life, Life::Replied);
    assert_eq!(asked.bytes, (4 << 20) + 88);
    let reply = asked.reply.unwrap();
    assert!(reply.declined && !reply.whole && reply.result.is_none());
    assert!(reply.text.len() < 70_000 && reply.text.ends_with("\"id\":1}"));
    assert!(asked.seconds > 15.0);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_never_ends_is_given_up() {
    let (mut client, mut fake) = pair_with(Limits { counted: 2 << 20, ..Limits::default() });
    tokio::spawn(async move {
        let id = fake.take("tools/call").await;
        long_reply(&mut fake, &id, 4, Duration::ZERO).await;
    });
    let asked = client.ask(&call(), patience()).await;
    assert_eq!((asked.life, asked.given_up.as_deref()), (Life::Mute, Some("line over 2 MiB")));
    assert!(client.is_closed());

    // One that drips on is given up by time.
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        while fake.output.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let asked = client.ask(&call(), patience()).await;
    assert_eq!(asked.life, Life::Mute);
    assert!((119.0..131.0).contains(&asked.seconds), "{}", asked.seconds);
}

#[tokio::test(start_paused = true)]
async fn closing_the_input_lets_the_server_see_its_end_even_when_it_does_not_read() {
    let (mut client, mut fake) = pair();
    client.close_stdin();
    assert_eq!(fake.line().await, None);

    let (mut client, mut fake) = pair();
    let big = Ask::call("read", json!({"path": "x".repeat(100_000)}));
    assert_eq!(client.ask(&big, patience()).await.life, Life::Mute);
    client.close_stdin();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!fake.line().await.unwrap().ends_with('\n'));
    assert_eq!(fake.line().await, None);
}

#[tokio::test(start_paused = true)]
async fn stderr_is_drained_whatever_comes_and_its_tail_is_kept() {
    let (client, mut fake) = pair();
    for _ in 0..40 {
        fake.errors.write_all(&[b'e'; 5_000]).await.unwrap();
    }
    fake.errors.write_all("the ränd".as_bytes()).await.unwrap();
    drop(fake);
    assert!(client.stderr_ended(Duration::from_secs(1)).await);
    assert_eq!(client.stderr_bytes(), 200_009);
    let tail = client.stderr_tail();
    assert!(tail.len() <= 4_096 && tail.ends_with("ethe ränd"), "{tail}");
}
