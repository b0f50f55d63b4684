//! Passes the bytes of one connection on, in both directions, and lets the session read along.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::{
    Backend, SUPERUSER, Shared,
    frames::{Frames, From, Malformed},
    log::Login,
    session::{News, Session},
    startup::{self, Startup},
};

/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// What is still read from Postgres for a client that has gone away. A kernel would take about as
/// much into its buffers before Postgres is told.
const UNREAD: usize = 64 << 10;
/// How long Postgres may take to accept a connection, and to act on a cancel request.
const CONNECT: Duration = Duration::from_secs(10);
/// The SQLSTATE of a connection that could not be made.
const UNREACHED: &str = "08001";
/// What a cluster of ours says to whoever asks for its superuser, who is let in there without a
/// password because nobody but the harness reaches the socket.
const NOT_FOR_SERVERS: &[u8] =
    b"SFATAL\0VFATAL\0C28000\0Mrole \"sm_root\" is not for servers under test\0\0";
/// The SQLSTATE in it.
const NOT_AUTHORIZED: &str = "28000";

/// Serves one connection until both sides are done with it.
pub(super) async fn connection(
    mut client: TcpStream,
    backend: Backend,
    shared: Arc<Shared>,
    number: u64,
) {
    // Small messages go out as they come; without this a round trip takes 40 ms.
    let _ = client.set_nodelay(true);
    match startup::read(&mut client).await {
        Startup::Nobody => {}
        Startup::InsistedOnTls => {
            let login = Login { wanted_tls: true, insisted_on_tls: true, ..Login::default() };
            shared.log().login(login);
        }
        Startup::Cancel { packet } => {
            // Postgres answers a cancel request by closing the connection.
            let _ = timeout(CONNECT, cancel(&backend, &packet)).await;
        }
        Startup::Session { names, packet, wanted_tls } => {
            let session = Session::new(names.user.clone());
            let is_superuser = names.user == SUPERUSER;
            let login = shared.log().login(Login {
                user: names.user,
                database: names.database,
                application_name: names.application_name,
                wanted_tls,
                ..Login::default()
            });
            let relay = Relay {
                session: Mutex::new(session),
                login,
                connection: number,
                shared: Arc::clone(&shared),
            };
            if matches!(backend, Backend::Unix(_)) && is_superuser {
                relay.note(News::Refused(NOT_AUTHORIZED.to_owned()));
                let length = u32::try_from(NOT_FOR_SERVERS.len() + 4).unwrap_or_default();
                let message = [b"E", &length.to_be_bytes()[..], NOT_FOR_SERVERS].concat();
                let _ = timeout(CONNECT, client.write_all(&message)).await;
                return;
            }
            match timeout(CONNECT, connect(&backend, &packet)).await {
                Ok(Ok(Stream::Unix(postgres))) => relay.run(client, postgres).await,
                Ok(Ok(Stream::Tcp(postgres))) => relay.run(client, postgres).await,
                _ => relay.note(News::Refused(UNREACHED.to_owned())),
            }
        }
    }
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Connects and sends the first packet.
async fn connect(backend: &Backend, packet: &[u8]) -> io::Result<Stream> {
    match backend {
        Backend::Unix(path) => {
            let mut stream = UnixStream::connect(path).await?;
            stream.write_all(packet).await?;
            Ok(Stream::Unix(stream))
        }
        Backend::Tcp(host, port) => {
            let mut stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            stream.write_all(packet).await?;
            Ok(Stream::Tcp(stream))
        }
    }
}

async fn cancel(backend: &Backend, packet: &[u8]) -> io::Result<()> {
    let mut end = [0; 1];
    match connect(backend, packet).await? {
        Stream::Unix(mut stream) => stream.read(&mut end).await.map(drop),
        Stream::Tcp(mut stream) => stream.read(&mut end).await.map(drop),
    }
}

/// One connection of the server under test to Postgres.
struct Relay {
    session: Mutex<Session>,
    /// Its place among the logins.
    login: usize,
    connection: u64,
    shared: Arc<Shared>,
}

impl Relay {
    async fn run<S>(&self, client: TcpStream, postgres: S)
    where
        S: AsyncRead + AsyncWrite,
    {
        let (from_client, to_client) = client.into_split();
        let (from_postgres, to_postgres) = tokio::io::split(postgres);
        let up = async {
            if self.up(from_client, to_postgres).await.is_ok() {
                // Postgres ends the connection when it has read the end of it.
                std::future::pending().await
            }
        };
        tokio::select! {
            () = up => {}
            () = self.down(from_postgres, to_client) => {}
        }
    }

    async fn up<R, W>(&self, mut client: R, mut postgres: W) -> Result<(), Malformed>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut frames = Frames::new(From::Client);
        let mut chunk = vec![0; CHUNK];
        while let Ok(read @ 1..) = client.read(&mut chunk).await {
            self.read_client(&mut frames, &chunk[..read])?;
            if postgres.write_all(&chunk[..read]).await.is_err() {
                break;
            }
        }
        let _ = postgres.shutdown().await;
        Ok(())
    }

    fn read_client(&self, frames: &mut Frames, chunk: &[u8]) -> Result<(), Malformed> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let mut log = self.shared.log();
        let mut fits = Ok(());
        frames.read(chunk, |frame| {
            fits = fits.and_then(|()| session.client(&frame, &mut log));
        })?;
        fits
    }

    async fn down<R, W>(&self, mut postgres: R, mut client: W)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut frames = Frames::new(From::Postgres);
        let mut chunk = vec![0; CHUNK];
        let mut unread: Option<usize> = None;
        while let Ok(read @ 1..) = postgres.read(&mut chunk).await {
            if self.read_postgres(&mut frames, &chunk[..read]).is_err() {
                break;
            }
            match &mut unread {
                None => {
                    self.shared.bytes.fetch_add(read as u64, Ordering::Relaxed);
                    if client.write_all(&chunk[..read]).await.is_err() {
                        unread = Some(read);
                    }
                }
                Some(unread) => *unread += read,
            }
            if unread.is_some_and(|unread| unread > UNREAD) {
                break;
            }
        }
        let _ = client.shutdown().await;
    }

    fn read_postgres(&self, frames: &mut Frames, chunk: &[u8]) -> Result<(), Malformed> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = 0;
        let mut news = Vec::new();
        let mut log = self.shared.log();
        let outcome = frames.read(chunk, |frame| {
            rows += u64::from(matches!(frame.kind, b'D' | b'd'));
            news.extend(session.postgres(&frame, &mut log));
        });
        drop(log);
        self.shared.rows.fetch_add(rows, Ordering::Relaxed);
        for one in news {
            self.note(one);
        }
        outcome
    }

    fn note(&self, news: News) {
        if let News::Pid(pid) = news {
            self.shared.pids().insert(self.connection, pid);
            return;
        }
        let mut log = self.shared.log();
        let Some(login) = log.logins.get_mut(self.login) else { return };
        match news {
            News::Accepted => login.accepted = true,
            News::Refused(state) => {
                login.refused.get_or_insert(state);
            }
            News::ApplicationName(name) if login.application_name.is_empty() => {
                login.application_name = name;
            }
            News::ApplicationName(_) | News::Pid(_) => {}
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.pids().remove(&self.connection);
    }
}
