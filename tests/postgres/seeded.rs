//! A seeded cluster for one test.

use sealmark::{
    target::postgres::{Backend, DATABASE, Postgres, Role, state::Reader, tap::Tap},
    world::Run,
};
use tempfile::TempDir;
use tokio_postgres::{Client, Config};

use crate::{provided, run};

/// A cluster with the seed. Fields are dropped in this order.
pub(crate) struct Seeded {
    postgres: Postgres,
    _run: Run,
    _parent: TempDir,
}

/// A cluster of an installed Postgres; `None`, loudly, without one.
pub(crate) async fn seeded() -> Option<Seeded> {
    let (run, parent) = run();
    let postgres = provided(&run).await?;
    Some(Seeded { postgres, _run: run, _parent: parent })
}

impl Seeded {
    /// A session as `sm_root` or as the login of a role, past the tap.
    pub(crate) async fn session(&self, login: &str) -> Client {
        match Role::ALL.into_iter().find(|role| role.user() == login) {
            Some(role) => self.postgres.session(role).await.unwrap(),
            None => self.postgres.superuser().await.unwrap(),
        }
    }

    pub(crate) async fn reader(&self) -> Reader {
        Reader::open(&self.postgres).await.unwrap()
    }

    /// The first number of the server's version.
    pub(crate) fn major(&self) -> u32 {
        self.postgres.version().split('.').next().unwrap().parse().unwrap()
    }

    pub(crate) fn backend(&self) -> Backend {
        self.postgres.backend().clone()
    }

    /// How a role connects through a tap.
    pub(crate) fn through(&self, tap: &Tap, role: Role) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(tap.port()).dbname(DATABASE);
        config.user(role.user()).password(self.postgres.password(role));
        config
    }
}
