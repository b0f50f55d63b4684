//! A Postgres the harness owns, with the seed database in it: a cluster of the run's own, made
//! from a cached template and started from installed or fetched programs, or a database of its own
//! in a server that the user named.

pub mod acquire;
pub mod cluster;
pub mod files;
pub mod find;
pub mod given;
pub mod place;
pub mod reset;
pub mod seed;
pub mod state;
pub mod tap;
pub mod template;

use std::{
    fmt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio_postgres::{Client, Config, NoTls};

pub use state::Reader;
pub use tap::Tap;

use crate::world;

/// The version of the seed (methodology 8).
pub const SEED: &str = "0.2";
/// The seed database.
pub const DATABASE: &str = "sealmark_seed";
/// What our own sessions call themselves.
pub const APPLICATION: &str = "sealmark";
/// The origin of a server that was named.
const GIVEN: &str = "given";
/// How long opening a session may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Who an instance logs in as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Owns the probe tables and writes.
    Admin,
    /// Reads, all tenants, without the addresses of customers.
    Analyst,
    /// Reads, one tenant.
    Tenant,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 3] = [Role::Admin, Role::Analyst, Role::Tenant];

    /// The word for it in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Analyst => "analyst",
            Role::Tenant => "tenant",
        }
    }

    /// Its login.
    pub fn user(self) -> &'static str {
        match self {
            Role::Admin => "sm_admin",
            Role::Analyst => "sm_analyst",
            Role::Tenant => "sm_tenant",
        }
    }
}

/// What the user said about the Postgres to use.
#[derive(Clone)]
pub struct Wish {
    /// A connection URL of a superuser (`--pg`); nothing else is used then.
    pub given: Option<String>,
    /// Whether programs may be fetched when none are installed or cached.
    pub fetch: bool,
}

impl fmt::Debug for Wish {
    /// The URL holds a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wish")
            .field("given", &self.given.as_ref().map(|_| ".."))
            .field("fetch", &self.fetch)
            .finish()
    }
}

/// Why no Postgres was had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// The reason, to follow "no Postgres was had: ".
    pub why: String,
    /// What would help, one line; a command where one does.
    pub help: String,
}

/// Why [`Postgres::provide`] did not provide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProvideError {
    /// None could be had; the run goes on without.
    #[error("have a Postgres: {}", .0.why)]
    Unavailable(Unavailable),
    /// The one that was named cannot be used: the reason, and what helps.
    #[error("use the Postgres of --pg: {0}")]
    Usage(String, String),
}

impl ProvideError {
    fn unavailable(why: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Unavailable(Unavailable { why: why.into(), help: help.into() })
    }
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The file of its Unix socket, `DIRECTORY/.s.PGSQL.PORT`.
    Unix(PathBuf),
    /// A host name or address, and a port.
    Tcp(String, u16),
}

impl Backend {
    /// A configuration that connects there to `database` as `user`.
    pub fn config(&self, user: &str, password: Option<&[u8]>, database: &str) -> Config {
        let mut config = Config::new();
        match self {
            Backend::Unix(socket) => {
                let port = socket.extension().and_then(|port| port.to_str()?.parse().ok());
                config.host_path(socket.parent().unwrap_or(socket)).port(port.unwrap_or(5432));
            }
            Backend::Tcp(host, port) => {
                config.host(host).port(*port);
            }
        }
        config.user(user).dbname(database).application_name(APPLICATION);
        config.connect_timeout(CONNECT_LIMIT);
        if let Some(password) = password {
            config.password(password);
        }
        config
    }
}

/// Opens a session; its connection is driven until the client is dropped.
pub async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A cell whose content exists in this run only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinel {
    /// What it is, in plain words.
    pub object: String,
    /// Its token.
    pub token: String,
    /// The column it stands in.
    pub column: &'static str,
    /// Whose row it is.
    pub tenant: Option<u8>,
}

/// What has to be ended or removed.
enum Holding {
    Cluster(Box<cluster::Cluster>),
    Given(Box<given::Given>),
}

/// The seed database of this run. Dropping it ends or removes it, like [`Postgres::close`].
pub struct Postgres {
    origin: &'static str,
    version: String,
    backend: Backend,
    superuser: (String, Option<Vec<u8>>),
    fresh: seed::Fresh,
    notes: Vec<String>,
    holding: Mutex<Option<Holding>>,
}

impl fmt::Debug for Postgres {
    /// Passwords and tokens are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("origin", &self.origin)
            .field("version", &self.version)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

impl Postgres {
    /// Provides the seed database: in the server that was named, else in a cluster of the run's
    /// own. From a template that is there already this takes a few tenths of a second; building
    /// one takes a second, fetching the programs depends on the network and is given five
    /// minutes.
    ///
    /// When the future is dropped halfway, nothing of a cluster is left.
    pub async fn provide(run: &world::Run, wish: &Wish) -> Result<Self, ProvideError> {
        Self::provide_telling(run, wish, |_| ()).await
    }

    /// Like [`Postgres::provide`], and tells in one line when something is about to be fetched.
    pub async fn provide_telling(
        run: &world::Run,
        wish: &Wish,
        tell: impl Fn(&str),
    ) -> Result<Self, ProvideError> {
        let fresh = seed::Fresh::draw().map_err(|error| {
            ProvideError::unavailable(format!("the system gave no random bytes: {error}"), "")
        })?;
        if let Some(url) = &wish.given {
            return Self::in_given(url, fresh).await;
        }
        let cache = files::cache();
        let mut notes = Vec::new();
        let programs = find::programs(run, wish.fetch, cache.as_deref(), &tell, &mut notes).await?;
        let help =
            || format!("run {} by hand to see more", programs.bin.join("postgres").display());
        let broken = |why| ProvideError::unavailable(why, help());
        let cluster =
            cluster::Cluster::start(run, &programs, cache.as_deref()).await.map_err(broken)?;
        let this = Self {
            origin: programs.origin,
            version: programs.version.text.clone(),
            backend: Backend::Unix(cluster.socket()),
            superuser: (cluster::SUPERUSER.into(), None),
            fresh,
            notes,
            holding: Mutex::new(Some(Holding::Cluster(Box::new(cluster)))),
        };
        match this.refresh().await {
            Ok(()) => Ok(this),
            Err(error) => {
                this.close().await;
                Err(broken(format!(
                    "the seed could not be given its passwords: {}",
                    template::said(&error)
                )))
            }
        }
    }

    async fn in_given(url: &str, fresh: seed::Fresh) -> Result<Self, ProvideError> {
        let given = given::Given::open(url).await?;
        let this = Self {
            origin: GIVEN,
            version: given.version.clone(),
            backend: given.backend().clone(),
            superuser: given.superuser(),
            fresh,
            notes: Vec::new(),
            holding: Mutex::new(Some(Holding::Given(Box::new(given)))),
        };
        match this.refresh().await {
            Ok(()) => Ok(this),
            Err(error) => {
                this.close().await;
                let why = format!(
                    "the seed could not be given its passwords: {}",
                    template::said(&error)
                );
                Err(ProvideError::Usage(why, given::HELP.into()))
            }
        }
    }

    /// Gives the seed this run's passwords and tokens.
    async fn refresh(&self) -> Result<(), tokio_postgres::Error> {
        self.superuser().await?.batch_execute(&self.fresh.statements()).await
    }

    /// `given`, `installed`, `cached` or `acquired`.
    pub fn origin(&self) -> &'static str {
        self.origin
    }

    /// The server's version, such as `15.18`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where the server listens.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// What the user should know about how the server was had, each one line: versions that were
    /// passed over, programs that were fetched.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A role's password, new in every run: 24 alphanumeric characters.
    pub fn password(&self, role: Role) -> &str {
        let [admin, analyst, tenant] = &self.fresh.passwords;
        match role {
            Role::Admin => admin,
            Role::Analyst => analyst,
            Role::Tenant => tenant,
        }
    }

    /// The user with the rights of the analyst whose password has to be encoded in a URL, and that
    /// password, which holds `@:/%#'`.
    pub fn quoted(&self) -> (&'static str, &str) {
        (seed::QUOTED, &self.fresh.quoted)
    }

    /// This run's tokens and where they stand.
    pub fn sentinels(&self) -> &[Sentinel] {
        &self.fresh.sentinels
    }

    /// How a superuser's session in the seed database is opened.
    pub fn superuser_config(&self) -> Config {
        let (user, password) = &self.superuser;
        self.backend.config(user, password.as_deref(), DATABASE)
    }

    /// Opens a session as superuser in the seed database.
    pub async fn superuser(&self) -> Result<Client, tokio_postgres::Error> {
        connect(&self.superuser_config()).await
    }

    /// Whether the server is the user's own.
    pub fn is_given(&self) -> bool {
        self.origin == GIVEN
    }

    /// The file in the user's cache for what this version of Postgres does with this seed, as this
    /// state reader sees it; `None` for a server that was given, whose settings are its own.
    pub fn replayed(&self) -> Option<PathBuf> {
        let name = format!(
            "replayed-{}-{}.json",
            self.version,
            seed::fingerprint(&[state::GLANCE, state::CATALOGUE])
        );
        files::cache().filter(|_| !self.is_given()).map(|cache| cache.join(name))
    }

    /// Opens a session as a role in the seed database, directly.
    pub async fn session(&self, role: Role) -> Result<Client, tokio_postgres::Error> {
        let password = self.password(role).as_bytes();
        connect(&self.backend.config(role.user(), Some(password), DATABASE)).await
    }

    /// Ends the cluster and removes its files, or removes database and roles from the server that
    /// was named. Says what could not be removed; a second call does nothing.
    pub async fn close(&self) -> Vec<String> {
        let holding = self.holding.lock().unwrap_or_else(PoisonError::into_inner).take();
        match holding {
            Some(Holding::Cluster(cluster)) => cluster.close().await,
            Some(Holding::Given(given)) => given.close().await,
            None => Vec::new(),
        }
    }
}
