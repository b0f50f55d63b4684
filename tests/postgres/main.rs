//! x
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "x")]
mod measure;
mod state;
mod tap;
use sealmark::target::postgres::state::Reader;
use sealmark::target::postgres::{Backend, tap::Tap};
pub struct Seeded;
async fn seeded() -> Option<Seeded> {
    Some(Seeded)
}
impl Seeded {
    fn config(user: &str) -> tokio_postgres::Config {
        let mut c = tokio_postgres::Config::new();
        c.host_path("/tmp/reader-pg").user(user).dbname("sealmark_seed");
        c
    }
    async fn session(&self, role: &str) -> tokio_postgres::Client {
        let (c, d) = Self::config(role).connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(d);
        c
    }
    fn backend(&self) -> Backend {
        Backend::Unix("/tmp/reader-pg".into())
    }
    fn superuser(&self) -> String {
        "sm_root".into()
    }
    fn through(&self, tap: &Tap, role: &str) -> tokio_postgres::Config {
        let mut c = tokio_postgres::Config::new();
        c.host("127.0.0.1").port(tap.port()).user(role).dbname("sealmark_seed");
        c
    }
    async fn reader(&self) -> Reader {
        Reader::connect(Self::config("sm_root"), false).await.unwrap()
    }
    async fn is_as_before(&self, _r: &mut Reader) {}
}
