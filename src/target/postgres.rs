//! A Postgres the harness owns.

pub use state::Reader;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::{path::PathBuf, sync::Mutex, time::Duration};
pub use tap::Tap;
use tokio_postgres::NoTls;
pub const DATABASE: &str = "sealmark_seed";
pub const SEED: &str = "0.2";
const SQL: &str = include_str!("../../seeds/postgres/seed.sql");
const SENTINELS: &str = include_str!("../../seeds/postgres/sentinels.yaml");

pub mod reset;
pub mod state;
pub mod tap;

/// Where a Postgres listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Admin,
    Analyst,
    Tenant,
}
impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Analyst => "analyst",
            Self::Tenant => "tenant",
        }
    }
    pub fn user(self) -> &'static str {
        match self {
            Self::Admin => "sm_admin",
            Self::Analyst => "sm_analyst",
            Self::Tenant => "sm_tenant",
        }
    }
}
#[derive(Clone, Default)]
pub struct Wish {
    pub given: Option<String>,
    pub embedded: bool,
}
#[derive(Debug)]
pub struct Unavailable {
    pub why: String,
    pub help: String,
}
#[derive(Debug)]
pub enum ProvideError {
    Unavailable(Unavailable),
    Usage(String, String),
}
#[derive(Clone)]
pub struct Sentinel {
    pub object: String,
    pub token: String,
    pub column: String,
    pub tenant: Option<u8>,
}
#[derive(serde::Deserialize)]
struct S {
    object: String,
    kind: String,
    table: String,
    column: String,
    key: i32,
    tenant: Option<u8>,
}
pub struct Postgres {
    backend: Backend,
    dir: PathBuf,
    child: Mutex<Option<std::process::Child>>,
    pw: [String; 3],
    quoted: String,
    sentinels: Vec<Sentinel>,
    version: String,
}
fn hex(n: usize) -> String {
    let mut b = vec![0u8; n];
    let _ = getrandom::fill(&mut b);
    b.iter().map(|b| format!("{b:02x}")).collect()
}
fn un(why: impl std::fmt::Display) -> ProvideError {
    ProvideError::Unavailable(Unavailable { why: why.to_string(), help: String::new() })
}
impl Postgres {
    pub async fn provide(run: &crate::world::Run, wish: &Wish) -> Result<Self, ProvideError> {
        if !wish.embedded {
            return Err(un("--no-embedded"));
        }
        let bin = PathBuf::from("/usr/lib/postgresql/15/bin");
        std::fs::set_permissions(run.root(), std::fs::Permissions::from_mode(0o711)).map_err(un)?;
        let dir = run.root().join("pg");
        std::fs::create_dir(&dir).map_err(un)?;
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o711)).map_err(un)?;
        std::os::unix::fs::chown(&dir, Some(101), Some(104)).map_err(un)?;
        let cache = PathBuf::from("/tmp/sm-pgcache-data");
        let data = dir.join("data");
        if !cache.exists() {
            let o = std::process::Command::new(bin.join("initdb"))
                .uid(101)
                .gid(104)
                .args([
                    "-U",
                    "sm_root",
                    "-A",
                    "trust",
                    "-E",
                    "UTF8",
                    "--no-locale",
                    "--no-sync",
                    "--wal-segsize=1",
                    "-D",
                ])
                .arg(&data)
                .output()
                .map_err(un)?;
            if !o.status.success() {
                return Err(un(String::from_utf8_lossy(&o.stderr)));
            }
        } else {
            let o = std::process::Command::new("cp")
                .args(["-a"])
                .arg(&cache)
                .arg(&data)
                .output()
                .map_err(un)?;
            if !o.status.success() {
                return Err(un(String::from_utf8_lossy(&o.stderr)));
            }
        }
        std::fs::write(
            data.join("pg_hba.conf"),
            "local all sm_root trust\nlocal sealmark_seed all scram-sha-256\n",
        )
        .map_err(un)?;
        let mut c = std::process::Command::new(bin.join("postgres"));
        c.uid(101).gid(104).arg("-D").arg(&data);
        for o in [
            "listen_addresses=",
            &format!("unix_socket_directories={}", dir.display()),
            "fsync=off",
            "synchronous_commit=off",
            "full_page_writes=off",
            "wal_level=minimal",
            "max_wal_senders=0",
            "shared_buffers=16MB",
            "max_connections=60",
            "autovacuum=off",
            "jit=off",
            "max_prepared_transactions=5",
            "max_logical_replication_workers=0",
        ] {
            c.arg("-c").arg(o);
        }
        c.stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::fs::File::create(dir.join("log")).map_err(un)?);
        let child = c.spawn().map_err(un)?;
        let mut me = Self {
            backend: Backend::Unix(dir.join(".s.PGSQL.5432")),
            dir: dir.clone(),
            child: Mutex::new(Some(child)),
            pw: [hex(12), hex(12), hex(12)],
            quoted: format!("{}@:/%#'", hex(8)),
            sentinels: Vec::new(),
            version: "15.18".into(),
        };
        if !cache.exists() {
            let cl = me.wait("postgres").await?;
            cl.batch_execute("CREATE DATABASE sealmark_seed").await.map_err(un)?;
            let cl = me.wait(DATABASE).await?;
            cl.batch_execute(SQL).await.map_err(|e| un(format!("{e:?}")))?;
            cl.batch_execute("VACUUM FREEZE").await.map_err(un)?;
            cl.batch_execute("CHECKPOINT").await.map_err(un)?;
            drop(cl);
            let mut ch = me.child.lock().unwrap().take().unwrap();
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(ch.id() as i32),
                nix::sys::signal::Signal::SIGINT,
            );
            let _ = ch.wait();
            std::process::Command::new("cp")
                .args(["-a"])
                .arg(&data)
                .arg(&cache)
                .output()
                .map_err(un)?;
            return Err(un("template built; run again"));
        }
        let cl = me.wait(DATABASE).await?;
        let mut sql = String::new();
        for (u, p) in [
            ("sm_admin", &me.pw[0]),
            ("sm_analyst", &me.pw[1]),
            ("sm_tenant", &me.pw[2]),
            ("sm_quoted", &me.quoted),
        ] {
            sql += &format!("ALTER ROLE {u} PASSWORD '{}';", p.replace('\'', "''"));
        }
        let list: Vec<S> = serde_saphyr::from_str(SENTINELS).map_err(un)?;
        for s in list {
            let token = format!("SM-{}-{}", s.kind, hex(8));
            sql += &format!(
                "UPDATE public.{} SET {} = replace({}, 'SM-{}-0000000000000000', '{token}') WHERE id = {};",
                s.table, s.column, s.column, s.kind, s.key
            );
            me.sentinels.push(Sentinel {
                object: s.object,
                token,
                column: s.column,
                tenant: s.tenant,
            });
        }
        cl.batch_execute(&sql).await.map_err(un)?;
        Ok(me)
    }
    async fn wait(&self, db: &str) -> Result<tokio_postgres::Client, ProvideError> {
        let mut c = self.config("sm_root", None);
        c.dbname(db);
        for _ in 0..2000 {
            if let Ok((cl, co)) = c.connect(NoTls).await {
                tokio::spawn(co);
                return Ok(cl);
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        Err(un("no start"))
    }
    fn config(&self, user: &str, pw: Option<&str>) -> tokio_postgres::Config {
        let mut c = tokio_postgres::Config::new();
        c.user(user).dbname(DATABASE).host_path(&self.dir).application_name("sealmark");
        if let Some(p) = pw {
            c.password(p);
        }
        c
    }
    pub fn superuser_config(&self) -> tokio_postgres::Config {
        self.config("sm_root", None)
    }
    pub fn is_given(&self) -> bool {
        false
    }
    pub fn cache(&self) -> Option<&std::path::Path> {
        Some(std::path::Path::new("/tmp"))
    }
    pub fn origin(&self) -> &'static str {
        "installed"
    }
    pub fn version(&self) -> &str {
        &self.version
    }
    pub fn backend(&self) -> &Backend {
        &self.backend
    }
    pub fn password(&self, role: Role) -> &str {
        &self.pw[role as usize]
    }
    pub fn quoted(&self) -> (&'static str, &str) {
        ("sm_quoted", &self.quoted)
    }
    pub fn sentinels(&self) -> &[Sentinel] {
        &self.sentinels
    }
    pub async fn superuser(&self) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let (c, co) = self.superuser_config().connect(NoTls).await?;
        tokio::spawn(co);
        Ok(c)
    }
    pub async fn session(
        &self,
        role: Role,
    ) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let (c, co) = self.config(role.user(), Some(self.password(role))).connect(NoTls).await?;
        tokio::spawn(co);
        Ok(c)
    }
    pub async fn close(self) {}
}
impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut ch) = self.child.lock().unwrap().take() {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(ch.id() as i32),
                nix::sys::signal::Signal::SIGQUIT,
            );
            let _ = ch.wait();
        }
    }
}
