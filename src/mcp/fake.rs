//! The other side of a connection, for tests: a server that says what the test tells it to.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};

use super::{Client, Io, Limits, Options};
use crate::canary::{Canaries, Canary, Kind};

pub(crate) const PLAIN: &str = "sm-aaaabbbbccccdddd";
pub(crate) const SECRET: &str = "sm-0f1e2d3c4b5a6978";

pub(crate) struct Fake {
    pub(crate) input: BufReader<DuplexStream>,
    pub(crate) output: DuplexStream,
    pub(crate) errors: DuplexStream,
}

pub(crate) fn pair() -> (Client, Fake) {
    pair_with(Limits::default())
}

pub(crate) fn pair_with(limits: Limits) -> (Client, Fake) {
    let (stdin, input) = duplex(4 << 10);
    let (stdout, output) = duplex(64 << 10);
    let (stderr, errors) = duplex(4 << 10);
    let canary = |object: &str, token: &str, kind| Canary {
        object: object.into(),
        token: token.into(),
        kind,
    };
    let canaries =
        [canary("attic/a.txt", PLAIN, Kind::Plain), canary("env A", SECRET, Kind::Secret)];
    let options = Options {
        canaries: Arc::new(Canaries::new(&canaries).unwrap()),
        lane: "main".into(),
        client_name: "sealmark".into(),
        client_version: "0".into(),
        limits,
    };
    let io = Io { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr: Box::new(stderr) };
    let client = Client::open(io, options);
    (client, Fake { input: BufReader::new(input), output, errors })
}

impl Fake {
    /// The next line as it came; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.input.read_line(&mut line).await.unwrap();
        (read > 0).then_some(line)
    }

    pub(crate) async fn next(&mut self) -> Value {
        let line = self.line().await.expect("the client closed");
        serde_json::from_str(&line).unwrap()
    }

    /// The next request of that method; it must be the very next message.
    pub(crate) async fn take(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method);
        message["id"].clone()
    }

    pub(crate) async fn say(&mut self, line: &str) {
        // The client may be gone already.
        let _ = self.output.write_all(format!("{line}\n").as_bytes()).await;
    }

    pub(crate) async fn reply(&mut self, id: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()).await;
    }

    pub(crate) async fn text(&mut self, id: &Value, text: &str) {
        self.reply(id, json!({"content": [{"type": "text", "text": text}]})).await;
    }

    /// Answers every request by what `answer` says; `None` leaves it unanswered. Ends with the
    /// input.
    pub(crate) async fn serve(mut self, mut answer: impl FnMut(&str, &Value) -> Option<Value>) {
        while let Some(line) = self.line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let Some(id) = message.get("id") else { continue };
            let method = message["method"].as_str().unwrap_or("");
            if let Some(body) = answer(method, &message["params"]) {
                let member = if body.get("code").is_some() { "error" } else { "result" };
                self.say(&json!({"jsonrpc": "2.0", "id": id, member: body}).to_string()).await;
            }
        }
    }
}
