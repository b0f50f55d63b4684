//! Waiting for what comes true by itself.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Whether something holds before the limit is over.
pub(crate) fn within(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
    true
}
