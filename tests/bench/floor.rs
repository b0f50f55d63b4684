//! The least a client can do: start a server, initialise it, and read its tools.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The requests up to the list, one message a line.
pub(crate) const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"floor","version":"0"}}}"#,
    "\n"
);
/// What follows the answer to `initialize`.
pub(crate) const LIST: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#,
    "\n"
);

/// From the spawn to the answered list, of the server alone.
pub(crate) fn listed(command: &[String]) -> Duration {
    let began = Instant::now();
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    stdin.write_all(HELLO.as_bytes()).unwrap();
    lines.find(|line| is_answer(line.as_ref().unwrap(), 1)).unwrap().unwrap();
    stdin.write_all(LIST.as_bytes()).unwrap();
    lines.find(|line| is_answer(line.as_ref().unwrap(), 2)).unwrap().unwrap();
    let took = began.elapsed();
    drop(stdin);
    // A server that stays is not waited for.
    let _ = child.kill();
    child.wait().unwrap();
    took
}

/// Whether a line answers the request of that number.
pub(crate) fn is_answer(line: &str, id: u64) -> bool {
    serde_json::from_str::<serde_json::Value>(line).is_ok_and(|value| value["id"] == id)
}
