//! Looks in error texts for stack traces, connection strings with a password and paths of the
//! server's own code. Patterns hold on to structure, not to words.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::phrases::ascii;
use super::{TEXT_LIMIT, escape, head};

/// Matches of one pattern that are looked at before giving up.
const MATCHES: usize = 200;
/// Shortest argument whose echo at the end of a path explains the path.
const ECHO_MIN: usize = 3;

/// How much a finding in an error text counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorWeight {
    /// A stack trace of the server.
    Trace,
    /// A connection string with a password in it.
    Dsn,
    /// A path of the server's own or installed code.
    CodePath,
    /// Explained by what the probe sent, or too little to count.
    Note,
}

/// One thing found in an error text; at most one of each class is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFinding {
    /// Kebab-case class, for example `python-traceback` or `dsn`.
    pub class: &'static str,
    /// How much it counts.
    pub weight: ErrorWeight,
    /// The evidence, escaped, at most 120 characters, passwords in URLs blanked.
    pub shown: String,
}

/// Finds traces, connection strings and code paths in the first MiB of an error text.
///
/// `sent` are the probe's own arguments and `own` the paths the harness configured (sandbox, home):
/// what only repeats them is no finding, and a code path that ends in a sent argument is a note.
pub fn scan_error(text: &str, sent: &[&str], own: &[&str]) -> Vec<ErrorFinding> {
    let text = head(text, TEXT_LIMIT);
    let known = Known { sent, own };
    let mut findings = Vec::new();
    let plain = plain_text(text);
    let mut variants = vec![text];
    if plain != text {
        variants.push(&plain);
    }
    for variant in variants {
        for finding in scan_traces(variant, &known)
            .into_iter()
            .chain(scan_dsn(variant, &known))
            .chain(scan_paths(variant, &known))
        {
            let twin =
                findings.iter_mut().find(|other: &&mut ErrorFinding| other.class == finding.class);
            match twin {
                Some(other) if other.weight == ErrorWeight::Note => *other = finding,
                Some(_) => {}
                None => findings.push(finding),
            }
        }
    }
    findings
}

/// Characters of a name after which its head tells whose it is.
const LONG_NAME: usize = 64;

/// What the harness itself put into the world.
struct Known<'a> {
    sent: &'a [&'a str],
    own: &'a [&'a str],
}

impl Known<'_> {
    fn was_sent(&self, part: &str) -> bool {
        self.sent.iter().any(|sent| sent.contains(part))
    }

    fn is_own_path(&self, path: &str) -> bool {
        self.own.iter().any(|own| {
            let own = own.trim_end_matches('/');
            !own.is_empty()
                && path
                    .strip_prefix(own)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Whether a path ends in a sent argument. Of a long name its head is enough: the text, or what
    /// is known of the argument, may have been cut.
    fn ends_in_sent(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        let head = name.char_indices().nth(LONG_NAME).map(|(end, _)| &name[..end]);
        head.is_some_and(|head| self.was_sent(head))
            || self.sent.iter().any(|sent| {
                let tail = sent.trim_start_matches(['/', '.']);
                tail.len() >= ECHO_MIN && path.ends_with(tail)
            })
    }
}

/// The text with JSON line escapes and HTML markup undone: frames hide in both.
fn plain_text(text: &str) -> Cow<'_, str> {
    if !["\\n", "\\\"", "<br", "&nbsp;", "&lt;", "&quot;", "&#"]
        .iter()
        .any(|mark| text.contains(mark))
    {
        return Cow::Borrowed(text);
    }
    let mut plain = text.to_owned();
    let undone = [
        ("\\r\\n", "\n"),
        ("\\n", "\n"),
        ("\\t", "\t"),
        ("\\\"", "\""),
        ("<br>", "\n"),
        ("<br/>", "\n"),
        ("<br />", "\n"),
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&amp;", "&"),
    ];
    for (escaped, raw) in undone {
        if plain.contains(escaped) {
            plain = plain.replace(escaped, raw);
        }
    }
    Cow::Owned(plain)
}

fn scan_traces(text: &str, known: &Known<'_>) -> Vec<ErrorFinding> {
    let mut findings = Vec::new();
    for (class, pattern) in TRACES.iter() {
        let Some(found) = first_unsent(pattern, text, known) else { continue };
        // A traceback of code that the probe handed in shows no code of the server.
        let foreign = *class == "python-traceback" && !shows_server_frame(text, known);
        let weight = if foreign { ErrorWeight::Note } else { ErrorWeight::Trace };
        findings.push(ErrorFinding { class, weight, shown: show(&found) });
    }
    if findings.is_empty()
        && let Some(found) = first_unsent(&PANIC, text, known)
    {
        findings.push(ErrorFinding {
            class: "go-panic",
            weight: ErrorWeight::Note,
            shown: show(&found),
        });
    }
    findings
}

/// The first match that no argument of the probe holds.
fn first_unsent(pattern: &Regex, text: &str, known: &Known<'_>) -> Option<String> {
    pattern
        .find_iter(text.as_bytes())
        .take(MATCHES)
        .map(|found| String::from_utf8_lossy(found.as_bytes()).trim().to_owned())
        .find(|found| !known.was_sent(found))
}

/// Whether a Python traceback has a frame outside `<string>` and the paths we own; one without any
/// frame counts as well.
fn shows_server_frame(text: &str, known: &Known<'_>) -> bool {
    let frames = PYTHON_FRAME.captures_iter(text.as_bytes()).take(MATCHES);
    let mut files = frames.filter_map(|frame| frame.get(1)).peekable();
    files.peek().is_none()
        || files.any(|file| {
            let file = String::from_utf8_lossy(file.as_bytes());
            !(file.starts_with('<') || known.is_own_path(&file) || known.was_sent(&file))
        })
}

/// A URL with a user and a password, and where both stand.
struct Dsn<'a> {
    whole: &'a str,
    scheme: &'a str,
    user: &'a str,
    password: &'a str,
    start: usize,
}

/// Every URL with user information that has a colon. The password may hold `@` and `/`: it ends at the
/// last `@` before white space or a quotation mark.
fn dsns(text: &str) -> impl Iterator<Item = Dsn<'_>> {
    text.match_indices("://").filter_map(|(at, _)| {
        let before = &text.as_bytes()[at.saturating_sub(SCHEME_LIMIT)..at];
        let is_scheme =
            |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-');
        let start = at - before.iter().rev().take_while(is_scheme).count();
        let scheme = text.get(start..at).filter(|scheme| !scheme.is_empty())?;
        let rest = text.get(at + 3..)?;
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | '\\');
        let rest = head(rest, DSN_LIMIT);
        let rest = rest.split(ends).next()?;
        let (user_info, _) = rest.rsplit_once('@')?;
        let (user, password) = user_info.split_once(':')?;
        let whole = text.get(start..at + 3 + user_info.len() + 1)?;
        let plausible = !password.is_empty() && !user.contains(['/', '@']);
        plausible.then_some(Dsn { whole, scheme, user, password, start })
    })
}

fn scan_dsn(text: &str, known: &Known<'_>) -> Option<ErrorFinding> {
    let url = dsns(text).take(MATCHES).find_map(|dsn| {
        let real = !is_port(dsn.password)
            && is_password(dsn.password)
            && !is_placeholder(dsn.user, dsn.password);
        (real && !known.was_sent(dsn.whole)).then(|| show(dsn.whole))
    });
    let pairs = || {
        PASSWORD_PAIR.captures_iter(text.as_bytes()).take(MATCHES).find_map(|found| {
            let (whole, password) = (found.get(0)?, found.get(1)?);
            let around = whole.start().saturating_sub(160)..text.len().min(whole.end() + 160);
            let connects = SERVER_PAIR.is_match(&text.as_bytes()[around]);
            let password = String::from_utf8_lossy(password.as_bytes());
            let pair = String::from_utf8_lossy(whole.as_bytes());
            let fresh = !known.was_sent(&pair) && !is_placeholder("user", &password);
            let (key, _) = pair.split_once('=')?;
            (connects && fresh && is_password(&password)).then(|| show(&format!("{key}=***")))
        })
    };
    let shown = url.or_else(pairs)?;
    Some(ErrorFinding { class: "dsn", weight: ErrorWeight::Dsn, shown })
}

/// `host:5432/db?x=a@b` is a port and a path, no password.
fn is_port(password: &str) -> bool {
    let digits = password.bytes().take_while(u8::is_ascii_digit).count();
    (1..=5).contains(&digits) && password[digits..].starts_with(['/', '?', '#'])
}

/// Masks, variables and blanks are no passwords.
fn is_password(text: &str) -> bool {
    let is_mask = text.chars().all(|c| {
        matches!(c, '*' | 'x' | 'X' | '.' | '\u{2022}' | '\u{2026}' | '-' | '_' | '#' | '\u{25CF}')
    });
    let masked =
        text.contains("***") || text.contains("\u{2022}\u{2022}") || text.contains("xxxxx");
    let variable = text.starts_with(['<', '[', '{', '$', '%']) || text.ends_with(['>', '}']);
    let word = text.to_ascii_lowercase();
    !(is_mask
        || masked
        || variable
        || word.contains("redacted")
        || word.contains("masked")
        || word.contains("hidden"))
}

/// Usage lines show the shape of a connection string.
fn is_placeholder(user: &str, password: &str) -> bool {
    let users = [
        "",
        "user",
        "username",
        "usr",
        "your_user",
        "your_username",
        "myuser",
        "dbuser",
        "db_user",
        "u",
    ];
    let passwords = [
        "password",
        "pass",
        "passwd",
        "pwd",
        "pw",
        "secret",
        "your_password",
        "yourpassword",
        "mypassword",
        "dbpass",
        "p",
        "...",
    ];
    users.contains(&user.to_ascii_lowercase().as_str())
        && passwords.contains(&password.to_ascii_lowercase().as_str())
}

fn scan_paths(text: &str, known: &Known<'_>) -> Option<ErrorFinding> {
    let mut note = None;
    let borders = |c: char| c.is_whitespace() || "\"'`()<>,;|[]{}*?=".contains(c);
    for path in text.split(borders).filter_map(code_path).take(MATCHES) {
        if known.is_own_path(path) || known.was_sent(path) {
            continue;
        }
        let weight =
            if known.ends_in_sent(path) { ErrorWeight::Note } else { ErrorWeight::CodePath };
        let finding = ErrorFinding { class: "code-path", weight, shown: show(path) };
        if weight == ErrorWeight::CodePath {
            return Some(finding);
        }
        note.get_or_insert(finding);
    }
    note
}

/// The path in a word of text when it is one of source or installed code.
fn code_path(word: &str) -> Option<&str> {
    let word = word.strip_prefix("file://").unwrap_or(word);
    if word.contains("://") || word.starts_with("//") {
        return None;
    }
    // `path:12:5:` and `path.` name the same file.
    let path = word.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | '!'));
    let drive = path.find(":\\").and_then(|at| at.checked_sub(1)).and_then(|at| path.get(at..));
    let rooted = drive
        .or_else(|| path.find('/').and_then(|at| path.get(at..)).filter(|_| !is_relative(path)));
    if INSTALLED.iter().any(|folder| path.contains(folder)) {
        return Some(rooted.unwrap_or(path));
    }
    let rooted = rooted?;
    let (_, ending) = rooted.rsplit_once('.')?;
    SOURCE_ENDINGS.contains(&ending).then_some(rooted)
}

fn is_relative(path: &str) -> bool {
    path.bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'@'))
        && !path.contains(":/")
}

fn show(found: &str) -> String {
    let mut blanked = String::with_capacity(found.len());
    let mut done = 0;
    for dsn in dsns(found).take(MATCHES) {
        if let Some(before) = found.get(done..dsn.start) {
            blanked.extend([before, dsn.scheme, "://", dsn.user, ":***@"]);
            done = dsn.start + dsn.whole.len();
        }
    }
    blanked.push_str(found.get(done..).unwrap_or_default());
    escape(blanked.trim().chars())
}

/// Longest scheme and longest rest of a connection string that are looked at, in bytes.
const SCHEME_LIMIT: usize = 24;
const DSN_LIMIT: usize = 256;

/// Folders that hold installed packages.
const INSTALLED: &[&str] = &[
    "site-packages/",
    "dist-packages/",
    "node_modules/",
    "node_modules\\",
    "pkg/mod/",
    ".cargo/registry/",
    "/lib/python3",
    "GOROOT/",
];

/// Endings of source and compiled code.
const SOURCE_ENDINGS: &[&str] = &[
    "py", "pyc", "js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx", "rb", "php", "java", "kt",
    "jar", "class", "go", "rs", "cs", "dll", "pl", "pm", "ex", "exs", "erl", "lua", "c", "cc",
    "cpp",
];

// Gaps within a line are unbounded here: a loop is the smallest automaton, and a line is bounded.
static TRACES: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    [
        ("python-traceback", r#"Traceback \(most recent call last\)|File "[^"\n]+", line \d+, in "#),
        ("node-stack", r"[ \t\n]at (?:async |new )*[^\s()][^\n()]*\((?:file://|node:|webpack|/|[A-Za-z]:[\\/])[^()\n]+:\d+:\d+\)|[ \t\n]at [^\s()][^\n()]*\(<anonymous>\)|(?:^|\n)[ \t]*at (?:async )?(?:file://|node:|/|[A-Za-z]:[\\/])[^\s()]+\.[cm]?[jt]sx?:\d+:\d+|[ \t\n(]node:internal/[\w/.-]+"),
        ("java-stack", r#"\bat [\w.$/<>]+\((?:[\w$-]+\.(?:java|kt|kts|scala|groovy|clj):\d+|Native Method|Unknown Source)\)|Exception in thread "[^"\n]+""#),
        ("go-panic", r"goroutine \d+ \[[a-z]|\.go:\d+ \+0x[0-9a-f]+|runtime/debug\.Stack"),
        ("rust-panic", r"thread '[^'\n]*' (?:\(\d+\) )?panicked at |stack backtrace:\s+0:|panicked at [^\s:]+\.rs:\d+:\d+"),
        ("dotnet-stack", r"(?:^|\n)[ \t]*at [^\n]+ in [^\n]+:line \d+|--- End of (?:inner exception )?stack trace|(?:(?:^|\n)[ \t]{2,8}at [A-Za-z_][\w`+]*(?:\.[\w`+<>]+)+\([^()\n]*\)\r?){2}"),
        ("php-stack", r"Stack trace:\s*#0 |(?:^|\n)#\d+ [^\n]+\.php\(\d+\): |(?:Fatal error|Warning|Notice|Parse error|Deprecated)(?:</b>)?: [^\n]+ in (?:<b>)?[^\s<]+\.php(?:</b>)? on line "),
        ("ruby-backtrace", r"\.rb:\d+:in [`'][^\n']+'"),
        ("native-stack", r"#\d{1,3}\s+0x[0-9a-f]{6,16} in \w|stack traceback:\s+\S"),
        ("elixir-stack", r"\([a-z_]+ \d+\.\d+[\w.-]*\) (?:lib|src)/[^\s:]+\.(?:exs?|erl):\d+:"),
    ]
    .map(|(class, pattern)| (class, ascii(pattern)))
    .into()
});
static PYTHON_FRAME: LazyLock<Regex> = LazyLock::new(|| ascii(r#"File "([^"\n]+)", line \d+"#));
static PANIC: LazyLock<Regex> = LazyLock::new(|| ascii(r"panic: [^\n]+"));
static PASSWORD_PAIR: LazyLock<Regex> =
    LazyLock::new(|| ascii(r#"(?i)\b(?:password|pwd|passwd)\s*=\s*([^\s;&'",)]+)"#));
static SERVER_PAIR: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        r"(?i)\b(?:host|server|data source|user id|uid|dbname|database|initial catalog|port)\s*=|jdbc:",
    )
});
