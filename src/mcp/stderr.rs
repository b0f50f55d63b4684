//! The task that always drains stderr: a full pipe would stop the server.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::{Limits, shared::Shared};
use crate::{canary::Canaries, evidence::Channel};

/// Reads to the end, keeps the last bytes, counts and scans all of them.
pub(crate) async fn drain(
    mut stderr: Box<dyn AsyncRead + Send + Unpin>,
    canaries: Arc<Canaries>,
    limits: Limits,
    shared: Arc<Shared>,
) {
    let mut scanner = canaries.scanner();
    let mut chunk = vec![0; 16 << 10];
    let mut found = Vec::new();
    loop {
        let read = stderr.read(&mut chunk).await.unwrap_or(0);
        let part = chunk.get(..read).unwrap_or(&[]);
        let mut note = |object, form| {
            if !found.contains(&(object, form)) {
                found.push((object, form));
            }
        };
        scanner.feed(part, &mut note);
        if read == 0 {
            scanner.settle(&mut note);
        }
        let mut state = shared.state();
        for (object, form) in found.drain(..) {
            state.hit(canaries.object(object), form, Channel::Stderr);
        }
        state.stderr_bytes += read as u64;
        state.stderr.extend(part);
        let over = state.stderr.len().saturating_sub(limits.stderr);
        state.stderr.drain(..over);
        if read == 0 {
            state.stderr_ended = true;
            drop(state);
            shared.news.notify_waiters();
            return;
        }
    }
}
