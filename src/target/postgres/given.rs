//! A server that the user named with `--pg`: our database and our roles in it for the time of the
//! run, and nothing else of it touched.

use std::{fmt::Write, thread, time::Duration};

use nix::unistd::{User, geteuid};
use tokio_postgres::{
    Client, Config,
    config::{Host, SslMode},
    error::SqlState,
};

use super::{
    Backend, DATABASE, ProvideError, connect,
    find::Version,
    seed::{self, ROLES, literal},
    template::said,
};

/// What helps when the named server cannot be used.
pub const HELP: &str =
    "--pg takes postgres://SUPERUSER:PASSWORD@HOST:PORT/DATABASE of a server you control";

/// The comment that marks a database and roles as ours. Others are never dropped.
const MARK: &str = "made by sealmark, which drops it at the end of its run";
/// The key of the advisory lock that keeps two runs apart: "sealmark" in ASCII.
const LOCK: i64 = 0x7365_616c_6d61_726b;
/// The database advisory locks are taken in, which are a database's own: the same for every URL.
const COMMON: &str = "postgres";
/// How long the removal may take when the run is dropped and not closed.
const DROP_LIMIT: Duration = Duration::from_secs(15);

fn usage(why: impl Into<String>) -> ProvideError {
    ProvideError::Usage(why.into(), HELP.into())
}

fn usage_with(why: impl Into<String>, help: impl Into<String>) -> ProvideError {
    ProvideError::Usage(why.into(), help.into())
}

/// How to get in as superuser.
#[derive(Clone)]
struct Login {
    backend: Backend,
    user: String,
    password: Option<Vec<u8>>,
    /// The databases of the server that our roles may have left something in.
    databases: Vec<String>,
}

impl Login {
    async fn open(&self, database: &str) -> Result<Client, tokio_postgres::Error> {
        connect(&self.backend.config(&self.user, self.password.as_deref(), database)).await
    }

    /// What went wrong, without the password.
    fn explain(&self, error: &tokio_postgres::Error) -> String {
        let text = said(error);
        match self.password.as_deref().map(String::from_utf8_lossy) {
            Some(password) if password.len() > 3 => text.replace(&*password, "…"),
            _ => text,
        }
    }
}

/// The named server with our database in it. Dropping it removes that again.
pub struct Given {
    /// Its version.
    pub version: String,
    login: Login,
    /// Holds the lock against other runs; `None` when the removal was done.
    session: Option<Client>,
}

impl Given {
    /// Makes the seed database in the server. What a dead run left is removed first.
    pub async fn open(url: &str) -> Result<Self, ProvideError> {
        let (login, client, version) = enter(url).await?;
        let fail = |error| usage(login.explain(&error));
        let session = match login.open(COMMON).await {
            Ok(session) => session,
            Err(error) if error.code() == Some(&SqlState::INVALID_CATALOG_NAME) => client,
            Err(error) => return Err(fail(error)),
        };
        let locked = session.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK]).await;
        if !locked.map_err(fail)?.get::<_, bool>(0) {
            return Err(usage_with(
                "another run of sealmark is using it",
                "wait until that run has ended, or name another server",
            ));
        }
        refuse_foreign(&session, &login).await?;
        let given = Self { version, login, session: Some(session) };
        if let Err(error) = given.rebuild().await {
            let why = given.login.explain(&error);
            given.close().await;
            return Err(usage(format!("the seed database could not be made: {why}")));
        }
        Ok(given)
    }

    async fn rebuild(&self) -> Result<(), tokio_postgres::Error> {
        let Some(session) = &self.session else { return Ok(()) };
        remove(session, &self.login).await?;
        make(session, &self.login).await
    }

    /// Where the server listens.
    pub fn backend(&self) -> &Backend {
        &self.login.backend
    }

    /// The superuser and its password.
    pub fn superuser(&self) -> (String, Option<Vec<u8>>) {
        (self.login.user.clone(), self.login.password.clone())
    }

    /// Removes database and roles; says what could not be removed.
    pub async fn close(mut self) -> Vec<String> {
        let Some(session) = self.session.take() else { return Vec::new() };
        let removed = if session.is_closed() {
            remove_anew(&self.login).await
        } else {
            remove(&session, &self.login).await
        };
        removed.err().map(|error| left(&self.login, &error)).into_iter().collect()
    }
}

fn left(login: &Login, error: &tokio_postgres::Error) -> String {
    format!(
        "the database {DATABASE} and the roles sm_* are left in the server of --pg: {}",
        login.explain(error)
    )
}

impl Drop for Given {
    fn drop(&mut self) {
        // The old session keeps the lock until the removal is done.
        let Some(session) = self.session.take() else { return };
        let login = self.login.clone();
        // A runtime of its own, because the one this is dropped in may be ending.
        let removal = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let _ = tokio::time::timeout(DROP_LIMIT, remove_anew(&login)).await;
            });
        });
        let _ = removal.join();
        drop(session);
    }
}

/// Reads the URL, gets in, and looks whether who got in may do what is needed.
async fn enter(url: &str) -> Result<(Login, Client, String), ProvideError> {
    // The error of the reader is left out: it may quote the URL.
    let Ok(config) = url.parse::<Config>() else {
        return Err(if url.contains("sslmode=verify") {
            no_tls()
        } else {
            usage("it is no URL of a Postgres")
        });
    };
    if config.get_ssl_mode() == SslMode::Require {
        return Err(no_tls());
    }
    let own = || Some(User::from_uid(geteuid()).ok()??.name);
    let user = config.get_user().map(str::to_owned).or_else(own);
    let user = user.ok_or_else(|| usage("its URL names no user"))?;
    let database = config.get_dbname().unwrap_or(&user).to_owned();
    if database == DATABASE {
        return Err(usage(format!(
            "its URL names the database {DATABASE}, which is made and dropped: name another"
        )));
    }
    let backends = backends(&config);
    let mut refused = usage("its URL names no host");
    for backend in backends {
        let login = Login {
            backend,
            user: user.clone(),
            password: config.get_password().map(<[u8]>::to_vec),
            databases: vec![COMMON.into(), database.clone()],
        };
        match login.open(&database).await {
            Ok(client) => {
                let version = examine(&client, &login).await?;
                return Ok((login, client, version));
            }
            Err(error) => refused = explain_refusal(&login, &error),
        }
    }
    Err(refused)
}

fn no_tls() -> ProvideError {
    usage_with(
        "TLS is asked for, which is not spoken here",
        "name a server that takes plain connections, with sslmode=disable",
    )
}

fn explain_refusal(login: &Login, error: &tokio_postgres::Error) -> ProvideError {
    let text = login.explain(error);
    // pg_hba.conf with hostssl lines only; before version 14 the words were "SSL off".
    if text.contains("no encryption") || text.contains("SSL off") {
        return no_tls();
    }
    usage(format!("the role `{}` did not get in: {text}", login.user))
}

/// The places a URL names, in its order.
fn backends(config: &Config) -> Vec<Backend> {
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        let of =
            |(at, address): (usize, &std::net::IpAddr)| Backend::Tcp(address.to_string(), port(at));
        return addresses.iter().enumerate().map(of).collect();
    }
    let hosts = config.get_hosts().iter().enumerate();
    hosts
        .map(|(at, host)| match host {
            Host::Tcp(host) => Backend::Tcp(host.clone(), port(at)),
            Host::Unix(folder) => Backend::Unix(folder.join(format!(".s.PGSQL.{}", port(at)))),
        })
        .collect()
}

async fn examine(client: &Client, login: &Login) -> Result<String, ProvideError> {
    let sql = "SELECT current_setting('server_version'), pg_is_in_recovery(), current_user::text, \
               (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)";
    let row = client.query_one(sql, &[]).await.map_err(|error| usage(login.explain(&error)))?;
    let version: String = row.get(0);
    if !row.get::<_, bool>(3) {
        let user: String = row.get(2);
        return Err(usage(format!("the role `{user}` is no superuser")));
    }
    if row.get::<_, bool>(1) {
        return Err(usage("it is a standby, which cannot be written to"));
    }
    match Version::parse(&version) {
        Some(version) if version.serves() => Ok(version.text),
        _ => Err(usage_with(format!("it is Postgres {version}"), "Postgres 13 or newer is needed")),
    }
}

/// Refuses a server with a database or role of our names that no run of ours made.
async fn refuse_foreign(session: &Client, login: &Login) -> Result<(), ProvideError> {
    let names = ROLES.map(literal).join(", ");
    let sql = format!(
        "SELECT 'database', datname::text FROM pg_database WHERE datname = {database} \
         AND shobj_description(oid, 'pg_database') IS DISTINCT FROM {mark} \
         UNION ALL SELECT 'role', rolname::text FROM pg_roles WHERE rolname IN ({names}) \
         AND shobj_description(oid, 'pg_authid') IS DISTINCT FROM {mark}",
        database = literal(DATABASE),
        mark = literal(MARK)
    );
    let found = session.query(&sql, &[]).await.map_err(|error| usage(login.explain(&error)))?;
    let Some(row) = found.first() else { return Ok(()) };
    let (kind, name): (&str, &str) = (row.get(0), row.get(1));
    Err(usage_with(
        format!("it has a {kind} {name} that is not of our making"),
        format!("name another server, or rename or drop the {kind} {name} yourself"),
    ))
}

async fn make(session: &Client, login: &Login) -> Result<(), tokio_postgres::Error> {
    let create = format!(
        "CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
    );
    session.batch_execute(&create).await?;
    let mark = literal(MARK);
    session.batch_execute(&format!("COMMENT ON DATABASE {DATABASE} IS {mark}")).await?;
    // One batch is one transaction: no role is left without its mark.
    let mut sql = seed::SEED.to_owned();
    for role in ROLES {
        let _ = writeln!(sql, "COMMENT ON ROLE {role} IS {mark};");
    }
    let inside = login.open(DATABASE).await?;
    inside.batch_execute(&sql).await?;
    inside.batch_execute("VACUUM (FREEZE)").await
}

/// Removes what is ours through a session of its own.
async fn remove_anew(login: &Login) -> Result<(), tokio_postgres::Error> {
    let mut session = login.open(COMMON).await;
    if session.is_err() {
        for database in &login.databases {
            session = login.open(database).await;
        }
    }
    remove(&session?, login).await
}

/// Removes the database and the roles, with all that hangs on them. Both were found to be ours.
async fn remove(session: &Client, login: &Login) -> Result<(), tokio_postgres::Error> {
    let database = literal(DATABASE);
    let prepared = format!("SELECT gid FROM pg_prepared_xacts WHERE database = {database}");
    let prepared = session.query(&prepared, &[]).await?;
    if !prepared.is_empty() {
        let inside = login.open(DATABASE).await?;
        for row in prepared {
            let gid = literal(row.get(0));
            inside.batch_execute(&format!("ROLLBACK PREPARED {gid}")).await?;
        }
    }
    session.batch_execute(&format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")).await?;
    let names = ROLES.map(literal).join(", ");
    let roles = format!("SELECT rolname::text FROM pg_roles WHERE rolname IN ({names})");
    let roles: Vec<String> =
        session.query(&roles, &[]).await?.iter().map(|row| row.get(0)).collect();
    if roles.is_empty() {
        return Ok(());
    }
    let owned = format!("DROP OWNED BY {} CASCADE", roles.join(", "));
    for database in &login.databases {
        match login.open(database).await {
            Ok(inside) => inside.batch_execute(&owned).await?,
            Err(error) if error.code() == Some(&SqlState::INVALID_CATALOG_NAME) => {}
            Err(error) => return Err(error),
        }
    }
    session.batch_execute(&format!("DROP ROLE {}", roles.join(", "))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(url: &str) -> String {
        match Given::open(url).await {
            Err(ProvideError::Usage(why, _)) => why,
            Err(other) => other.to_string(),
            Ok(_) => "opened".into(),
        }
    }

    #[tokio::test]
    async fn what_is_no_url_is_refused_without_being_quoted() {
        for url in ["", "geheim", "postgres://u:geheim@h:x/d", "password=geheim'x user=u"] {
            let why = refused(url).await;
            assert!(!why.contains("geheim") && why != "opened", "{url}: {why}");
        }
        assert!(refused("postgres:///d?user=u").await.contains("names no host"));
    }

    #[tokio::test]
    async fn tls_is_refused_before_anything_is_sent() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let why = refused(&format!("postgres://u:geheim@127.0.0.1:1/d?sslmode={mode}")).await;
            assert!(why.contains("TLS"), "{why}");
        }
    }

    #[tokio::test]
    async fn the_seed_database_itself_cannot_be_the_way_in() {
        let why = refused("postgres://u@127.0.0.1:1/sealmark_seed").await;
        assert!(why.contains("name another"), "{why}");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named_without_the_password() {
        let why = refused("postgres://u:geheim@127.0.0.1:1/d").await;
        assert!(why.contains("`u`") && why.contains("refused") && !why.contains("geheim"), "{why}");
    }

    #[tokio::test]
    async fn a_server_that_insists_on_tls_is_said_to() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 512]).await.unwrap();
            let text = b"SFATAL\0C28000\0Mno pg_hba.conf entry for host \"h\", no encryption\0\0";
            let length = u32::try_from(text.len() + 4).unwrap().to_be_bytes();
            stream.write_all(&[b"E", &length[..], text].concat()).await.unwrap();
        });
        let why = refused(&format!("postgres://u:geheim@127.0.0.1:{port}/d")).await;
        server.await.unwrap();
        assert!(why.contains("TLS"), "{why}");
    }

    #[test]
    fn the_places_of_a_url_keep_their_order() {
        let config: Config = "postgres://u@h1:1,h2:2,%2Ftmp:3/d".parse().unwrap();
        let socket = Backend::Unix("/tmp/.s.PGSQL.3".into());
        let all = [Backend::Tcp("h1".into(), 1), Backend::Tcp("h2".into(), 2), socket];
        assert_eq!(backends(&config), all);
    }
}
