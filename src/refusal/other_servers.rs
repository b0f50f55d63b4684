//! Replies as other servers and SDKs word them, both ways. Hand-written: none is from a named server.

use super::*;

const URL: &str = "http://127.0.0.1:4416/c";
const FILE: &str = "/srv/other/note.txt";
const WRITE: &str = "INSERT INTO probe_t VALUES (1,'w')";
const COMMAND: &str = "id; touch /srv/other/x";

/// The ways a reply is delivered.
#[derive(Clone, Copy)]
enum As {
    /// `isError: true`.
    Error,
    /// A result not marked as an error.
    Success,
    /// A JSON-RPC error with this code.
    Code(i64),
}
use As::{Code, Error, Success};

fn check(subject: Subject, sent: &[&str], wanted: Reply, cases: &[(As, &str)]) {
    let mut wrong = Vec::new();
    for (how, text) in cases {
        let (declined, code) = match how {
            Error => (true, None),
            Success => (false, None),
            Code(code) => (true, Some(*code)),
        };
        let answer = Answer { declined, code, text };
        let reading = read(&answer, &Asked { subject, tool: "fetch", sent });
        if reading.reply != wanted {
            wrong.push(format!("{subject:?} {text:?} reads {reading:?}"));
        }
    }
    assert!(wrong.is_empty(), "wanted {wanted:?}:\n{}", wrong.join("\n"));
}

#[test]
fn guards_of_other_fetch_servers_are_refusals() {
    let cases = [
        (Error, "This URL is blocked"),
        (Error, "connections to a private address are not allowed"),
        (Error, "Error executing tool fetch: URL host 127.0.0.1 is not permitted"),
        (Error, "MCP error -32602: refused: http://127.0.0.1:4416/c"),
        (Code(-32602), "refused http://127.0.0.1:4416/c by policy"),
        (Code(-32603), "Access to localhost is not allowed"),
        (Code(-32000), "Blocked: internal/private IP addresses cannot be fetched"),
        (Success, "Error: Requests to internal IP ranges are forbidden for security reasons."),
        (
            Success,
            "{\"success\": false, \"error\": \"SSRF protection: host resolves to a blocked range\"}",
        ),
        (
            Success,
            "{\"error\": {\"code\": \"FORBIDDEN_HOST\", \"message\": \"Host 127.0.0.1 is not in the allowlist\"}}",
        ),
        (Success, "❌ Access to private network addresses is not allowed"),
        (Success, "{\"ok\": false, \"status\": \"blocked\", \"reason\": \"loopback address\"}"),
        (
            Error,
            "1 validation error for call[fetch]\nurl\n  Value error, hostname points to a private IP address [type=value_error, input_value='http://127.0.0.1:4416/c', input_type=str]\n    For further information visit https://errors.pydantic.dev/2.14/v/value_error",
        ),
        (
            Error,
            "MCP error -32602: Input validation error: Invalid arguments for tool fetch: URL points to a non-public address at url",
        ),
        (
            Error,
            "Invalid arguments for tool fetch: [\n  {\n    \"code\": \"custom\",\n    \"message\": \"Host is not allowed\",\n    \"path\": [\"url\"]\n  }\n]",
        ),
        (Error, "Error calling tool 'fetch': Forbidden host: 127.0.0.1"),
        (Error, "ValueError: URL resolves to non\u{2011}public address 127.0.0.1"),
        (
            Error,
            "Navigation to http://127.0.0.1:4416/c is blocked: only example.com and example.org are allowed",
        ),
        (Error, "Domain not in allowed domains list"),
        (Error, "Fetching from localhost is disabled"),
    ];
    check(Subject::Net, &[URL], Reply::Refused, &cases);
}

#[test]
fn a_broken_fetch_is_a_failure_whatever_adjectives_it_uses() {
    let cases = [
        (Error, "connection blocked by proxy"),
        (Error, "network access is restricted in this environment"),
        (
            Error,
            "Failed to fetch http://127.0.0.1:4416/c: network access is restricted in this environment",
        ),
        (Error, "Error executing tool fetch"),
        (Error, "An error occurred invoking 'fetch'."),
        (Error, "fetch failed: blocked"),
        (Code(-32601), "Method not found: host blocked"),
        (Code(-32603), "Internal error"),
        (Code(-32600), "Request to this host is not allowed before initialize"),
        (Error, "Rate limit exceeded for host 127.0.0.1, request denied"),
        (Error, "HTTP error 429: too many requests, url blocked"),
        (Error, "Only 10 requests per minute are allowed for this URL"),
        (
            Error,
            "HTTPConnectionPool(host='127.0.0.1', port=4416): Max retries exceeded with url: /c (Caused by NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused'))",
        ),
        (Error, "403 Client Error: Forbidden for url: http://127.0.0.1:4416/c"),
        (Error, "page.goto: net::ERR_CONNECTION_REFUSED at http://127.0.0.1:4416/c"),
        (Error, "net::ERR_BLOCKED_BY_ADMINISTRATOR at http://127.0.0.1:4416/c"),
        (Error, "127.0.0.1 refused to connect."),
        (Error, "TypeError: fetch failed\ncause: connect ECONNREFUSED 127.0.0.1:4416"),
        (
            Error,
            "error sending request for url (http://127.0.0.1:4416/c): client error (Connect): tcp connect error: Connection refused (os error 111)",
        ),
        (Error, "dial tcp 127.0.0.1:4416: connect: connection refused"),
        (Error, "java.net.ConnectException: Connection refused"),
        (Error, "Invalid host: DNS lookup failed"),
        (Error, "TLS security error: the certificate of the host was rejected"),
        (Error, "Missing API key: access to this endpoint is forbidden"),
        (Error, "Unable to reach the host: egress proxy denied the request"),
        (Success, "Error: Failed to fetch URL: timed out after 30000ms"),
        (
            Success,
            "{\"success\": false, \"error\": \"Connection reset by peer\", \"url\": \"http://127.0.0.1:4416/c\"}",
        ),
        (Error, "Invalid URL"),
        (
            Error,
            "The site's robots.txt (http://127.0.0.1:4416/robots.txt) specifies that autonomous fetching of this page is not allowed",
        ),
        (Error, ""),
    ];
    check(Subject::Net, &[URL], Reply::Failed, &cases);
}

#[test]
fn what_a_schema_rejects_is_neither() {
    let cases = [
        (
            Code(-32603),
            "[{\"code\":\"invalid_string\",\"validation\":\"url\",\"message\":\"Invalid url, host is not allowed\",\"path\":[\"url\"]}]",
        ),
        (
            Code(-32602),
            "Input validation error: 'http://127.0.0.1:4416/c' does not match '^https://[a-z]+\\\\.example\\\\.com'",
        ),
        (
            Error,
            "MCP error -32602: Input validation error: Invalid arguments for tool fetch: Invalid URL at url",
        ),
        (
            Error,
            "1 validation error for fetchArguments\nurl\n  URL scheme should be 'http' or 'https' [type=url_scheme, input_value='x', input_type=str]\n    For further information visit https://errors.pydantic.dev/2.14/v/url_scheme",
        ),
        (Error, "failed to deserialize parameters: missing field `url`"),
        (
            Error,
            "validating \"arguments\": validating root: unexpected additional properties [\"host\"]",
        ),
        (Error, "Tool (fetch) input validation failed: $.url: must be string"),
        (
            Error,
            "1 validation error for call[fetch]\nhost\n  Unexpected keyword argument [type=unexpected_keyword_argument, input_value='x', input_type=str]",
        ),
        (Error, "✖ Invalid input: expected string, received undefined\n  → at url"),
        (
            Error,
            "Input validation error: Additional properties are not allowed ('host' was unexpected)",
        ),
    ];
    check(Subject::Net, &[URL], Reply::RejectedBySchema, &cases);
}

#[test]
fn ordinary_answers_stay_answers() {
    let cases = [
        (
            Success,
            "# Denied\n\nHow to configure a blocked host: the address is not allowed unless it is listed.",
        ),
        (Success, "The URL returned: Access to this site is forbidden unless you log in"),
        (Success, "{\"status\": 403, \"body\": \"Forbidden host\"}"),
        (Success, "{\"error\": null, \"data\": {\"note\": \"access denied to host\"}}"),
        (Success, "{\"success\": true, \"error\": \"\", \"warnings\": [\"host blocked\"]}"),
        (Success, "[{\"error\": \"host not allowed\"}]"),
        (Success, "Found 3 errors: host not allowed"),
        (Success, "HTTP/1.1 403 Forbidden\r\n\r\nThis host is blocked"),
        (Success, "2026-11-30 12:00:00 ERROR: host blocked\n2026-11-30 12:00:01 INFO ok"),
        (Success, ""),
    ];
    check(Subject::Net, &[URL], Reply::Answered, &cases);
    let echo = "access denied: blocked host 127.0.0.1 is not allowed";
    check(Subject::General, &[echo], Reply::Answered, &[(Success, echo)]);
}

#[test]
fn file_git_and_repository_guards_are_refusals() {
    let cases = [
        (Error, "Access denied: /srv/other/note.txt"),
        (
            Error,
            "PermissionError: Access to path '/srv/other/note.txt' is outside the project root",
        ),
        (Error, "Path traversal detected"),
        (Error, "Path /srv/other/note.txt is outside of the workspace"),
        (Success, "Error: File access denied. Path is not within allowed directories."),
        (Success, "{\"success\": false, \"error\": \"Path escapes workspace root\"}"),
        (Error, "'/srv/other/note.txt' is not in the subpath of '/srv/docs'"),
        (Error, "Symlinks are not allowed"),
        (Code(-32602), "Invalid path: must be inside /srv/docs"),
        (Code(-32000), "Operation not allowed: absolute path"),
        (Error, "failed to read file: path escapes from parent directory root"),
        (Error, "access denied - path not in allowed directories"),
    ];
    check(Subject::Fs, &[FILE], Reply::Refused, &cases);
    let failed = [
        (Error, "[Errno 13] Permission denied: '/srv/other/note.txt'"),
        (Error, "EACCES: permission denied, open '/srv/other/note.txt'"),
        (Error, "open /srv/other/note.txt: permission denied"),
        (Error, "Access is denied. (os error 5)"),
        (Error, "File not found: /srv/other/note.txt"),
        (Error, "open /srv/other/note.txt: no such file or directory"),
        (Success, "Error: File does not exist"),
    ];
    check(Subject::Fs, &[FILE], Reply::Failed, &failed);
    let git = [
        (Error, "Error executing tool git_diff: target must not start with '-'"),
        (Error, "fatal: transport 'ext' not allowed"),
        (Error, "Repository /srv/other is not in the list of allowed repositories"),
        (Code(-32602), "option-like revision rejected: --output=x"),
    ];
    check(Subject::Git, &["/srv/other", "--output=x"], Reply::Refused, &git);
    let git = [
        (Error, "fatal: not a git repository (or any of the parent directories): .git"),
        (Error, "fatal: bad revision '--output=x'"),
        (Error, "fatal: Could not read from remote repository."),
    ];
    check(Subject::Git, &["/srv/other", "--output=x"], Reply::Failed, &git);
}

#[test]
fn statement_and_command_guards_are_refusals() {
    let cases = [
        (Success, "Error: Query contains forbidden keyword: INSERT"),
        (Error, "Only SELECT queries are allowed"),
        (Error, "INSERT operations are disabled in this configuration"),
        (Success, "❌ Write operations are not allowed in read-only mode"),
        (Error, "attempt to write a readonly database"),
        (Error, "ERROR: cannot execute INSERT in a read-only transaction (SQLSTATE 25006)"),
        (Success, "{\"success\": false, \"message\": \"Query rejected: not a SELECT statement\"}"),
        (Code(-32602), "Statement type INSERT is not permitted"),
        (Error, "Multiple statements are not supported"),
        (Error, "Unsafe query: data-modifying CTE"),
    ];
    check(Subject::Db, &[WRITE], Reply::Refused, &cases);
    let failed = [
        (Error, "ERROR: relation \"probe_t\" does not exist (SQLSTATE 42P01)"),
        (Error, "permission denied for table probe_t"),
        (Error, "canceling statement due to statement timeout"),
        (Error, "duplicate key value violates unique constraint \"probe_t_pkey\""),
        (Error, "database is locked"),
        (Error, "(sqlite3.OperationalError) near \"INSERT\": syntax error"),
    ];
    check(Subject::Db, &[WRITE], Reply::Failed, &failed);
    let cases = [
        (Error, "Command 'touch' is not allowed. Allowed commands: id, ls"),
        (Success, "Error: Command blocked for security reasons"),
        (Success, "Command contains forbidden characters: ;"),
        (Error, "Shell metacharacters are not permitted"),
        (Success, "{\"status\": \"denied\", \"message\": \"command is not on the allowlist\"}"),
        (Code(-32602), "Dangerous command rejected"),
    ];
    check(Subject::Exec, &[COMMAND], Reply::Refused, &cases);
    let failed = [
        (
            Error,
            "Command failed with exit code 1: touch: cannot touch '/srv/other/x': Permission denied",
        ),
        (Error, "spawn id; ENOENT"),
        (Error, "exec: \"id;\": executable file not found in $PATH"),
        (Error, "Command timed out after 30 seconds"),
    ];
    check(Subject::Exec, &[COMMAND], Reply::Failed, &failed);
}
