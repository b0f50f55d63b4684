//! The handshake of the revisions up to 2025-11-25.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Client, VERSIONS, cap, client::NoReply, intake::METHOD_NOT_FOUND, message::Message,
    shared::line, skim::Scalar,
};

/// The code of revision 2026-07-28 for a revision it does not speak.
const UNSUPPORTED_VERSION: i64 = -32022;
/// Words of a server that are kept in an error.
const MAX_WORDS: usize = 500;
/// What is said of a program that repeats its input, as `cat` does.
pub(crate) const ECHOED: &str = "the server sent our own request back: it is no MCP server";

/// What a server said of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Handshake {
    /// The revision it chose.
    pub protocol: String,
    /// Its capabilities as sent; `Null` when absent.
    pub capabilities: Value,
    /// `serverInfo` as sent; `Null` when absent.
    pub server: Value,
    /// Its instructions, empty when absent.
    pub instructions: String,
}

impl Handshake {
    /// Whether it declares a capability.
    pub fn declares(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|value| !value.is_null())
    }
}

/// Why there is no session. It fits "failed to …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The server has no `initialize`.
    #[error("shake hands: the server speaks only 2026-07-28, which this version does not")]
    ModernOnly,
    /// The server chose a revision that is not known.
    #[error("shake hands: the server chose the unknown protocol version {0:?}")]
    UnknownVersion(String),
    /// The server answered an error; an older revision may be tried on a fresh instance.
    #[error("shake hands: the server refused{}: {message}", bracketed(*code))]
    Refused {
        /// The code, when it is an integer.
        code: Option<i64>,
        /// Its words, at most 500 bytes.
        message: String,
    },
    /// The server sent the request back instead of answering it.
    #[error("shake hands: {ECHOED}")]
    Echoed,
    /// The answer is no initialize result.
    #[error("shake hands: the answer {0}")]
    Malformed(String),
    /// The server closed its output before it answered.
    #[error("shake hands: the server closed the connection")]
    Closed,
    /// No answer in time.
    #[error("shake hands: the server gave no answer in time")]
    Silent,
}

impl From<NoReply> for HandshakeError {
    fn from(why: NoReply) -> Self {
        match why {
            NoReply::Closed => Self::Closed,
            NoReply::Silent => Self::Silent,
        }
    }
}

impl Client {
    /// Sends `initialize` offering that revision and no capability, and on a good answer
    /// `notifications/initialized`. Noise and notifications before the answer do not matter.
    pub async fn initialize(
        &mut self,
        version: &str,
        limit: Duration,
    ) -> Result<Handshake, HandshakeError> {
        let deadline = Instant::now() + limit;
        let params = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {
                "name": self.options.client_name,
                "version": self.options.client_version,
            },
        });
        let message = match self.request("initialize", params, deadline).await {
            Ok(message) if self.is_echo(&message) => return Err(HandshakeError::Echoed),
            Err(NoReply::Silent) if self.shared.state().echoed.is_some() => {
                return Err(HandshakeError::Echoed);
            }
            answer => answer?,
        };
        let handshake = self.read(message)?;
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        if !self.send(line(&done), deadline).await {
            return Err(HandshakeError::Closed);
        }
        self.handshake = Some(handshake.clone());
        Ok(handshake)
    }

    fn read(&self, message: Message) -> Result<Handshake, HandshakeError> {
        if message.facts.error {
            return Err(self.refused(&message));
        }
        let malformed = |why: &str| HandshakeError::Malformed(why.into());
        let value = message.value.ok_or_else(|| {
            malformed(message.malformed.as_deref().unwrap_or("is longer than what is kept"))
        })?;
        let result = value.get("result").and_then(Value::as_object);
        let result = result.ok_or_else(|| malformed("has no result object"))?;
        let text = |name: &str| result.get(name).and_then(Value::as_str);
        let protocol =
            text("protocolVersion").ok_or_else(|| malformed("has no protocolVersion"))?;
        if !VERSIONS.contains(&protocol) {
            return Err(if protocol.starts_with("2026-") {
                HandshakeError::ModernOnly
            } else {
                HandshakeError::UnknownVersion(self.words(protocol))
            });
        }
        Ok(Handshake {
            protocol: protocol.into(),
            capabilities: result.get("capabilities").cloned().unwrap_or_default(),
            server: result.get("serverInfo").cloned().unwrap_or_default(),
            instructions: text("instructions").unwrap_or_default().into(),
        })
    }

    fn refused(&self, message: &Message) -> HandshakeError {
        let error = message.value.as_ref().and_then(|value| value.get("error"));
        let rendered = error.map(Value::to_string).unwrap_or_default();
        if message.facts.code == Some(UNSUPPORTED_VERSION) || rendered.contains("2026-") {
            return HandshakeError::ModernOnly;
        }
        let words = error.and_then(|error| error.get("message")?.as_str());
        HandshakeError::Refused {
            code: message.facts.code,
            message: self.words(words.unwrap_or(&rendered)),
        }
    }

    /// Whether a reply is our own answer to our own request, which the server sent back.
    pub(crate) fn is_echo(&self, message: &Message) -> bool {
        let echoed = self.shared.state().echoed.map(Scalar::Int);
        echoed.is_some()
            && message.facts.id == echoed
            && message.facts.code == Some(METHOD_NOT_FOUND)
    }

    /// Words of the server for an error: short, without canaries.
    pub(crate) fn words(&self, text: &str) -> String {
        cap(self.options.canaries.redact(text), MAX_WORDS)
    }
}

/// The code of an error as it stands in a sentence.
pub(crate) fn bracketed(code: Option<i64>) -> String {
    code.map(|code| format!(" ({code})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::fake::{PLAIN, pair};

    const LIMIT: Duration = Duration::from_secs(30);

    async fn against(answer: Value) -> Result<Handshake, HandshakeError> {
        let (mut client, fake) = pair();
        tokio::spawn(fake.serve(move |_, _| Some(answer.clone())));
        client.initialize(VERSIONS[0], LIMIT).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_handshake_is_two_messages_and_noise_before_the_answer_does_not_matter() {
        let (mut client, mut fake) = pair();
        let server = tokio::spawn(async move {
            fake.say("Server listening on stdio").await;
            let message = fake.next().await;
            assert_eq!(
                message["params"],
                json!({"protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "sealmark", "version": "0"}})
            );
            fake.say(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#).await;
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "x"}, "instructions": PLAIN});
            fake.reply(&message["id"], result).await;
            let done = fake.next().await;
            assert_eq!(done, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            fake.line().await
        });
        let handshake = client.initialize("2025-11-25", LIMIT).await.unwrap();
        assert_eq!(handshake.protocol, "2025-06-18");
        assert!(handshake.declares("tools") && !handshake.declares("prompts"));
        assert_eq!(client.drain_hits()[0].channel, crate::evidence::Channel::Surface);
        client.close_stdin();
        assert_eq!(server.await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn known_revisions_are_taken_and_others_are_named() {
        for version in VERSIONS {
            assert!(against(json!({"protocolVersion": version})).await.is_ok());
        }
        let unknown = against(json!({"protocolVersion": "1999-01-01"})).await;
        assert_eq!(unknown, Err(HandshakeError::UnknownVersion("1999-01-01".into())));
        let modern = [
            json!({"protocolVersion": "2026-07-28"}),
            json!({"code": -32022, "message": "unsupported"}),
            json!({"code": -32602, "message": "no", "data": {"supported": ["2026-07-28"]}}),
        ];
        for answer in modern {
            assert_eq!(against(answer).await, Err(HandshakeError::ModernOnly));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_keep_their_words_without_canaries() {
        let refused = against(json!({"code": -32602, "message": format!("no {PLAIN}")})).await;
        let message = "no <canary>".to_owned();
        let expected = HandshakeError::Refused { code: Some(-32602), message };
        assert_eq!(expected.to_string(), "shake hands: the server refused (-32602): no <canary>");
        assert_eq!(refused, Err(expected));
        let without = HandshakeError::Refused { code: None, message: "no".into() };
        assert_eq!(without.to_string(), "shake hands: the server refused: no");
        let malformed = against(json!([])).await;
        assert_eq!(malformed, Err(HandshakeError::Malformed("has no result object".into())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_repeats_its_input_is_called_no_server() {
        for lines in [usize::MAX, 1] {
            let (mut client, mut fake) = pair();
            let server = tokio::spawn(async move {
                let mut n = 0;
                while let Some(line) = fake.line().await {
                    n += 1;
                    if n <= lines {
                        fake.say(line.trim_end()).await;
                    }
                }
            });
            let echoed = client.initialize(VERSIONS[0], LIMIT).await.unwrap_err();
            assert_eq!(echoed, HandshakeError::Echoed);
            assert!(echoed.to_string().contains("our own request back"));
            server.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_repeats_its_input_and_answers_is_a_server() {
        let (mut client, mut fake) = pair();
        tokio::spawn(async move {
            let request = fake.line().await.unwrap();
            fake.say(request.trim_end()).await;
            let id = serde_json::from_str::<Value>(&request).unwrap()["id"].clone();
            fake.reply(&id, json!({"protocolVersion": VERSIONS[0]})).await;
            while fake.line().await.is_some() {}
        });
        assert!(client.initialize(VERSIONS[0], LIMIT).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_and_a_silent_server_are_told_apart() {
        let (mut client, fake) = pair();
        drop(fake);
        assert_eq!(client.initialize(VERSIONS[0], LIMIT).await, Err(HandshakeError::Closed));
        let (mut client, _fake) = pair();
        let began = Instant::now();
        assert_eq!(client.initialize(VERSIONS[0], LIMIT).await, Err(HandshakeError::Silent));
        assert_eq!(began.elapsed().as_secs(), 30);
    }
}
