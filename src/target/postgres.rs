//! Stub of the frozen interface.
pub mod reset;
pub mod state;
pub mod tap;
pub use state::Reader;
use std::path::PathBuf;
pub use tap::Tap;
/// The version of the seed (methodology 8).
pub const SEED: &str = "0.2";
pub const DATABASE: &str = "sealmark_seed";
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
#[derive(Clone, Debug)]
pub enum Backend {
    Unix(PathBuf),
    Tcp(String, u16),
}
#[derive(Clone)]
pub struct Sentinel {
    pub object: String,
    pub token: String,
    pub column: &'static str,
    pub tenant: Option<u8>,
}
pub struct Postgres;
impl Postgres {
    pub async fn provide(_run: &crate::world::Run, _wish: &Wish) -> Result<Self, ProvideError> {
        unimplemented!()
    }
    pub fn origin(&self) -> &'static str {
        ""
    }
    pub fn version(&self) -> &str {
        ""
    }
    pub fn backend(&self) -> &Backend {
        unimplemented!()
    }
    pub fn password(&self, _role: Role) -> &str {
        ""
    }
    pub fn quoted(&self) -> (&'static str, &str) {
        ("", "")
    }
    pub fn sentinels(&self) -> &[Sentinel] {
        &[]
    }
    pub async fn superuser(&self) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        unimplemented!()
    }
    pub async fn session(
        &self,
        _role: Role,
    ) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        unimplemented!()
    }
    pub async fn close(&self) {}
}
