//! Looks in error texts for stack traces, connection strings with a password and paths of the
//! server's own code. Patterns hold on to structure, not to words.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

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
        for finding in scan_traces(variant, &known).into_iter().chain(scan_dsn(variant, &known)).chain(scan_paths(variant, &known)) {
            let twin = findings.iter_mut().find(|other: &&mut ErrorFinding| other.class == finding.class);
            match twin {
                Some(other) if other.weight == ErrorWeight::Note => *other = finding,
                Some(_) => {}
                None => findings.push(finding),
            }
        }
    }
    findings
}

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
            !own.is_empty() && path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn ends_in_sent(&self, path: &str) -> bool {
        self.sent.iter().any(|sent| {
            let tail = sent.trim_start_matches(['/', '.']);
            tail.len() >= ECHO_MIN && path.ends_with(tail)
        })
    }
}

/// The text with JSON line escapes and HTML markup undone: frames hide in both.
fn plain_text(text: &str) -> Cow<'_, str> {
    if !["\\n", "<br", "&nbsp;", "&lt;", "&quot;", "&#"].iter().any(|mark| text.contains(mark)) {
        return Cow::Borrowed(text);
    }
    let mut plain = text.to_owned();
    let undone = [
        ("\\r\\n", "\n"), ("\\n", "\n"), ("\\t", "\t"), ("\\\"", "\""), ("<br>", "\n"), ("<br/>", "\n"),
        ("<br />", "\n"), ("&nbsp;", " "), ("&#160;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""),
        ("&#34;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&"),
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
        let found = pattern.find_iter(text).take(MATCHES).find(|found| !known.was_sent(found.as_str().trim()));
        if let Some(found) = found {
            // A traceback of code that the probe handed in shows no code of the server.
            let foreign = *class == "python-traceback" && !shows_server_frame(text, known);
            let weight = if foreign { ErrorWeight::Note } else { ErrorWeight::Trace };
            findings.push(ErrorFinding { class, weight, shown: show(found.as_str()) });
        }
    }
    if findings.is_empty()
        && let Some(found) = PANIC.find(text).filter(|found| !known.was_sent(found.as_str()))
    {
        findings.push(ErrorFinding { class: "go-panic", weight: ErrorWeight::Note, shown: show(found.as_str()) });
    }
    findings
}

/// Whether a Python traceback has a frame outside `<string>` and the paths we own; one without any
/// frame counts as well.
fn shows_server_frame(text: &str, known: &Known<'_>) -> bool {
    let mut frames = PYTHON_FRAME.captures_iter(text).take(MATCHES).filter_map(|frame| frame.get(1)).peekable();
    frames.peek().is_none()
        || frames.any(|file| {
            let file = file.as_str();
            !(file.starts_with('<') || known.is_own_path(file) || known.was_sent(file))
        })
}

fn scan_dsn(text: &str, known: &Known<'_>) -> Option<ErrorFinding> {
    let url = DSN.captures_iter(text).take(MATCHES).find_map(|found| {
        let (whole, password) = (found.get(0)?.as_str(), found.name("password")?.as_str());
        let user = found.name("user").map_or("", |user| user.as_str());
        let real = !is_port(password) && is_password(password) && !is_placeholder(user, password);
        (real && !known.was_sent(whole)).then(|| show(whole))
    });
    let pairs = || {
        PASSWORD_PAIR.captures_iter(text).take(MATCHES).find_map(|found| {
            let (whole, password) = (found.get(0)?, found.name("password")?.as_str());
            let near = near(text, whole.start(), whole.end(), 160);
            let connects = SERVER_PAIR.is_match(near);
            let fresh = !known.was_sent(whole.as_str()) && !is_placeholder("user", password);
            (connects && fresh && is_password(password)).then(|| {
                let key = whole.as_str().split('=').next().unwrap_or_default();
                show(&format!("{key}=***"))
            })
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
    let is_mask = text.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '\u{2022}' | '\u{2026}' | '-' | '_' | '#' | '\u{25CF}'));
    let masked = text.contains("***") || text.contains("\u{2022}\u{2022}") || text.contains("xxxxx");
    let variable = text.starts_with(['<', '[', '{', '$', '%']) || text.ends_with(['>', '}']);
    let word = text.to_ascii_lowercase();
    !(is_mask || masked || variable || word.contains("redacted") || word.contains("masked") || word.contains("hidden"))
}

/// Usage lines show the shape of a connection string.
fn is_placeholder(user: &str, password: &str) -> bool {
    let users = ["", "user", "username", "usr", "your_user", "your_username", "myuser", "dbuser", "db_user", "u"];
    let passwords = ["password", "pass", "passwd", "pwd", "pw", "secret", "your_password", "yourpassword", "mypassword", "dbpass", "p", "..."];
    users.contains(&user.to_ascii_lowercase().as_str()) && passwords.contains(&password.to_ascii_lowercase().as_str())
}

fn scan_paths(text: &str, known: &Known<'_>) -> Option<ErrorFinding> {
    let mut note = None;
    for found in CODE_PATH.find_iter(text).take(MATCHES) {
        let is_url = {
            let before = near(text, found.start(), found.start(), 40);
            let word = before.rsplit(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '(' | '<' | '`')).next();
            word.is_some_and(|word| word.contains("://") && !word.contains("file://"))
        };
        let path = found.as_str();
        if is_url || known.is_own_path(path) || known.was_sent(path) {
            continue;
        }
        if known.ends_in_sent(path) {
            note.get_or_insert(ErrorFinding { class: "code-path", weight: ErrorWeight::Note, shown: show(path) });
            continue;
        }
        return Some(ErrorFinding { class: "code-path", weight: ErrorWeight::CodePath, shown: show(path) });
    }
    note
}

/// The text around a range, at most `reach` bytes before it and after it.
fn near(text: &str, start: usize, end: usize, reach: usize) -> &str {
    let mut from = start.saturating_sub(reach);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let to = if start == end { end } else { end.saturating_add(reach).min(text.len()) };
    head(text, to).get(from..).unwrap_or_default()
}

fn show(found: &str) -> String {
    let blanked = DSN.replace_all(found.trim(), "${scheme}://${user}:***@");
    escape(blanked.chars())
}

/// Compiles a pattern with ASCII classes.
fn ascii(pattern: &str) -> Regex {
    RegexBuilder::new(&pattern.replace(r"\w", "[0-9A-Za-z_]").replace(r"\d", "[0-9]"))
        .build()
        .expect("patterns are fixed and tests compile each")
}

static TRACES: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    vec![
        ("python-traceback", ascii(r#"Traceback \(most recent call last\)|File "[^"\n]{1,300}", line \d+, in "#)),
        ("node-stack", ascii(r"[ \t\n]at (?:async )?(?:new )?[^\s()][^\n()]{0,120}\((?:file://|node:|webpack|/|[A-Za-z]:[\\/])[^()\n]{1,300}:\d+:\d+\)|[ \t\n]at [^\s()][^\n()]{0,120}\(<anonymous>\)|(?:^|\n)[ \t]*at (?:async )?(?:file://|node:|/|[A-Za-z]:[\\/])[^\s()]{1,300}\.[cm]?[jt]sx?:\d+:\d+|[ \t\n(]node:internal/[\w/.-]{1,120}")),
        ("java-stack", ascii(r#"\bat [\w.$/<>]{1,200}\((?:[\w$-]{1,120}\.(?:java|kt|kts|scala|groovy|clj):\d+|Native Method|Unknown Source)\)|Exception in thread "[^"\n]{1,80}""#)),
        ("go-panic", ascii(r"goroutine \d+ \[[a-z]|\.go:\d+ \+0x[0-9a-f]+|runtime/debug\.Stack")),
        ("rust-panic", ascii(r"thread '[^'\n]{0,80}' (?:\(\d+\) )?panicked at |stack backtrace:\s{1,8}0:|panicked at (?:/|src/|library/)[^\s:]{1,200}\.rs:\d+:\d+")),
        ("dotnet-stack", ascii(r"(?:^|\n)[ \t]*at [^\n]{1,300} in [^\n]{1,300}:line \d+|--- End of (?:inner exception )?stack trace|(?:(?:^|\n)[ \t]{2,8}at [A-Za-z_][\w`+]{0,80}(?:\.[\w`+<>]{1,80}){1,12}\([^()\n]{0,200}\)\r?){2}")),
        ("php-stack", ascii(r"Stack trace:\s{0,4}#0 |(?:^|\n)#\d+ [^\n]{1,300}\.php\(\d+\): |(?:Fatal error|Warning|Notice|Parse error|Deprecated)(?:</b>)?: [^\n]{1,400} in (?:<b>)?[^\s<]{1,300}\.php(?:</b>)? on line ")),
        ("ruby-backtrace", ascii(r"\.rb:\d+:in [`'][^\n']{1,200}'")),
        ("native-stack", ascii(r"#\d{1,3}\s{1,4}0x[0-9a-f]{6,16} in \w|stack traceback:\s{1,4}\S")),
        ("elixir-stack", ascii(r"\((?:elixir|stdlib|[a-z_]{2,40}) \d+\.\d+[\w.-]*\) (?:lib|src)/[^\s:]{1,200}\.e(?:xs?|rl):\d+:")),
    ]
});
static PYTHON_FRAME: LazyLock<Regex> = LazyLock::new(|| ascii(r#"File "([^"\n]{1,300})", line \d+"#));
static PANIC: LazyLock<Regex> = LazyLock::new(|| ascii(r"panic: [^\n]{1,200}"));
/// The password may hold `@`: it ends at the last one before white space or a quotation mark.
static DSN: LazyLock<Regex> = LazyLock::new(|| {
    ascii(r#"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,24})://(?P<user>[^/\s:@"'<>]{0,64}):(?P<password>[^\s"'`<>,]{1,128})@"#)
});
static PASSWORD_PAIR: LazyLock<Regex> = LazyLock::new(|| {
    ascii(r#"(?i)\b(?:password|pwd|passwd)\s{0,2}=\s{0,2}(?P<password>[^\s;&'",)]{1,128})"#)
});
static SERVER_PAIR: LazyLock<Regex> = LazyLock::new(|| {
    ascii(r"(?i)\b(?:host|server|data source|user id|uid|dbname|database|initial catalog|port)\s{0,2}=|jdbc:")
});
static CODE_PATH: LazyLock<Regex> = LazyLock::new(|| {
    const PART: &str = r#"[^\s"'`()<>,;:\[\]{}|*?]"#;
    ascii(&format!(
        r"(?:[A-Za-z]:\\|/|\.{{1,2}}/)?(?:{PART}{{1,100}}/)?(?:site-packages|dist-packages|node_modules|pkg/mod|\.cargo/registry|lib/python3?(?:\.\d+)?|GOROOT)/{PART}{{1,200}}|/(?:{PART}{{1,80}}/)*{PART}{{1,80}}\.(?:pyc?|[cm]?[jt]sx?|rb|php|java|kt|jar|class|go|rs|cs|dll|p[lm]|exs?|erl|lua|c|cc|cpp)\b|[A-Za-z]:\\(?:[^\s\\/:*?<>|\x22']{{1,80}}\\)+[^\s\\/:*?<>|\x22']{{1,80}}\.(?:py|[cm]?[jt]sx?|rb|php|java|go|rs|cs|dll|jar)\b"
    ))
});
