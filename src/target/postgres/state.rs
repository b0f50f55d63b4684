use super::{Postgres, Role, reset::Reset};
use crate::evidence::How;
pub struct Reader;
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct Error;
pub struct Look {
    pub changes: Vec<Changed>,
    pub pending: bool,
}
#[derive(Clone)]
pub struct Changed {
    pub object: String,
    pub how: How,
}
pub struct Landing {
    pub changes: Vec<Changed>,
    pub error: Option<String>,
    pub text: String,
}
impl Reader {
    pub async fn open(_p: &Postgres) -> Result<Self, Error> {
        unimplemented!()
    }
    pub async fn look(&mut self, _s: &[i32]) -> Result<Look, Error> {
        unimplemented!()
    }
    pub async fn reset(&mut self, _s: &[i32]) -> Result<Reset, Error> {
        unimplemented!()
    }
    pub async fn active(&mut self, _s: &[i32]) -> Result<usize, Error> {
        unimplemented!()
    }
    pub async fn terminate(&mut self, _s: &[i32]) -> Result<(), Error> {
        unimplemented!()
    }
    pub async fn lands(
        &mut self,
        _p: &Postgres,
        _r: Role,
        _s: &[String],
    ) -> Result<Landing, Error> {
        unimplemented!()
    }
}
