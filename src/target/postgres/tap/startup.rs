//! The untyped beginning of a connection: requests for encryption, a cancel request, or the
//! message that says who connects to what.

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::head;

/// The longest first packet Postgres takes (`MAX_STARTUP_PACKET_LENGTH`).
const LONGEST: u32 = 10_000;
/// How long a client may take to say who it is. Postgres itself gives up a minute after it
/// connects (`authentication_timeout`).
const TIME: Duration = Duration::from_secs(60);
/// Requests for encryption one connection may make: there are two kinds.
const REQUESTS: usize = 4;
/// The first byte of a TLS handshake, which a client may begin with since Postgres 17.
const HANDSHAKE: u8 = 0x16;

const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// Who connects, as the client says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) user: String,
    pub(super) database: String,
    pub(super) application_name: String,
}

/// What a connection began with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Startup {
    /// A session; the packet is passed on as it came.
    Session { names: Names, packet: Vec<u8>, wanted_tls: bool },
    /// A request to cancel a statement of another connection.
    Cancel { packet: Vec<u8> },
    /// The client went away when it was denied encryption, or never spoke anything else.
    InsistedOnTls,
    /// Nothing, or no Postgres client.
    Nobody,
}

/// Reads up to the message that tells what the connection is for, and answers what comes before.
pub(super) async fn read<S>(client: &mut S) -> Startup
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut wanted_tls = false;
    let read = tokio::time::timeout(TIME, read_packets(client, &mut wanted_tls)).await;
    match read {
        Ok(Ok(startup)) => startup,
        _ if wanted_tls => Startup::InsistedOnTls,
        _ => Startup::Nobody,
    }
}

async fn read_packets<S>(client: &mut S, wanted_tls: &mut bool) -> io::Result<Startup>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for _ in 0..=REQUESTS {
        let mut packet = vec![0; 8];
        client.read_exact(&mut packet[..1]).await?;
        if packet[0] == HANDSHAKE {
            return Ok(Startup::InsistedOnTls);
        }
        client.read_exact(&mut packet[1..]).await?;
        let word = |at: usize| {
            packet[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
        };
        let (length, code) = (word(0), word(4));
        if !(8..=LONGEST).contains(&length) {
            return Ok(Startup::Nobody);
        }
        packet.resize(length as usize, 0);
        client.read_exact(&mut packet[8..]).await?;
        match code {
            TLS | GSS => {
                *wanted_tls |= code == TLS;
                client.write_all(b"N").await?;
                client.flush().await?;
            }
            CANCEL => return Ok(Startup::Cancel { packet }),
            _ => {
                let names = names(&packet[8..]);
                return Ok(Startup::Session { names, packet, wanted_tls: *wanted_tls });
            }
        }
    }
    Ok(Startup::Nobody)
}

/// The names in the parameters of a startup message.
fn names(parameters: &[u8]) -> Names {
    let mut names = Names::default();
    let mut words = parameters.split(|byte| *byte == 0);
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        let value = || head(value, super::NAME);
        match key {
            b"" => break,
            b"user" => names.user = value(),
            b"database" => names.database = value(),
            b"application_name" => names.application_name = value(),
            _ => {}
        }
    }
    if names.database.is_empty() {
        // What Postgres makes of it.
        names.database.clone_from(&names.user);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `bytes` begin, and what was answered.
    async fn begun(bytes: &[u8]) -> (Startup, Vec<u8>) {
        let (mut client, mut tap) = tokio::io::duplex(1 << 16);
        client.write_all(bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let startup = read(&mut tap).await;
        drop(tap);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        (startup, answer)
    }

    fn packet(code: u32, body: &[u8]) -> Vec<u8> {
        let mut packet = u32::try_from(body.len() + 8).unwrap().to_be_bytes().to_vec();
        packet.extend_from_slice(&code.to_be_bytes());
        packet.extend_from_slice(body);
        packet
    }

    #[tokio::test]
    async fn a_session_is_read_behind_both_requests_for_encryption() {
        let hello = packet(196_608, b"user\0sm_admin\0database\0d\0application_name\0shop\0\0");
        let bytes = [packet(GSS, b""), packet(TLS, b""), hello.clone()].concat();
        let (startup, answer) = begun(&bytes).await;
        assert_eq!(answer, b"NN");
        let names = Names {
            user: "sm_admin".into(),
            database: "d".into(),
            application_name: "shop".into(),
        };
        assert_eq!(startup, Startup::Session { names, packet: hello, wanted_tls: true });
    }

    #[tokio::test]
    async fn a_database_that_is_not_named_is_that_of_the_user() {
        let (startup, _) = begun(&packet(196_608, b"user\0sm_tenant\0\0")).await;
        let Startup::Session { names, wanted_tls, .. } = startup else { panic!("{startup:?}") };
        assert_eq!((names.database.as_str(), wanted_tls), ("sm_tenant", false));
    }

    #[tokio::test]
    async fn a_client_that_leaves_or_speaks_tls_at_once_insists_on_it() {
        assert_eq!(begun(&packet(TLS, b"")).await, (Startup::InsistedOnTls, b"N".to_vec()));
        assert_eq!(begun(b"\x16\x03\x01\x02\x00\x01").await.0, Startup::InsistedOnTls);
        assert_eq!(begun(&packet(GSS, b"")).await.0, Startup::Nobody);
    }

    #[tokio::test]
    async fn a_cancel_request_is_kept_as_it_came() {
        let bytes = packet(CANCEL, &[0, 0, 0, 7, 1, 2, 3, 4]);
        assert_eq!(begun(&bytes).await.0, Startup::Cancel { packet: bytes });
    }

    #[tokio::test]
    async fn what_is_no_startup_is_nobody() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"\xff\xff\xff\xff\0\x03\0\0",
            b"\0\0\0\x07\0\x03\0\0",
            b"\0\0\x27\x11\0\x03\0\0",
            b"\0\0\0\x20\0\x03\0\0user\0",
            b"\0\0",
            b"",
        ] {
            assert_eq!(begun(bytes).await.0, Startup::Nobody, "{bytes:?}");
        }
        let requests = packet(GSS, b"").repeat(100);
        assert_eq!(begun(&requests).await.0, Startup::Nobody);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_startup_ends() {
        let (_client, mut tap) = tokio::io::duplex(64);
        assert_eq!(read(&mut tap).await, Startup::Nobody);
    }
}
