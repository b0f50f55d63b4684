//! The task that writes to the server, so that a server that stops reading holds up nobody else.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use super::shared::Shared;

/// Lines that may wait for a server that does not read.
pub(crate) const QUEUE: usize = 256;
/// How long a line that is being written may still take once the input is to be closed.
const GRACE: Duration = Duration::from_millis(200);

/// Writes until the queue is closed, the server stops reading, or the input is to be closed.
pub(crate) async fn write(
    mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
    mut queue: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
) {
    let work = async {
        while let Some(line) = queue.recv().await {
            if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
                return;
            }
        }
    };
    let closing = async {
        shared.closing.notified().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = work => {}
        () = closing => {}
    }
}
