//! What looks like a credential, and the same text without it.

use std::sync::LazyLock;

use regex::Regex;

/// What stands in the place of a credential.
pub const HIDDEN: &str = "<hidden>";

/// Words that make a name the name of a credential, when they are one of its segments.
const WORDS: &[&str] = &[
    "key",
    "keys",
    "apikey",
    "token",
    "tokens",
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "pwd",
    "credential",
    "credentials",
    "auth",
    "authorization",
    "dsn",
    "cookie",
    "pat",
    "bearer",
];

/// Flags whose name has such a word and that take no value.
const SWITCHES: &[&str] = &["no", "disable", "enable", "allow", "require", "skip", "without"];

/// Forms of issued credentials, from what their issuers document: OpenAI and Anthropic, Stripe,
/// GitHub, GitLab, AWS, Slack, JWT (RFC 7519), npm, Google, Hugging Face, PEM keys, and the two
/// schemes of an Authorization header (RFC 7617, RFC 6750).
static SHAPES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"sk-[A-Za-z0-9_-]{16,}",
        r"|[sprw]k_(?:live|test)_[A-Za-z0-9]{10,}",
        r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}",
        r"|glpat-[\w-]{16,}",
        r"|(?:AKIA|ASIA)[0-9A-Z]{12,}",
        r"|xox[abposr]-[A-Za-z0-9-]{10,}",
        r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?",
        r"|npm_[A-Za-z0-9]{30,}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}",
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
        r"|(?i:bearer|basic) +[A-Za-z0-9._~+/=-]{8,}",
    ))
    .expect("the pattern is fixed and valid")
});

/// The user part of a URL that carries a password (RFC 3986, 3.2.1).
static USERINFO: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^/\s@]*:[^/\s]*)@")
        .expect("the pattern is fixed and valid")
});

static RUN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[A-Za-z0-9+=_-]{24,}").expect("the pattern is fixed and valid"));

/// `name: value`, `name=value` or `--name value` inside a line of YAML, JSON or a shell.
static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r#"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)["']?"#,
        r#"(?:\s*[:=]\s*"(?P<double>[^"]*)|\s*[:=]\s*'(?P<single>[^']*)"#,
        r#"|=(?P<word>[^\s"',}\]{\[][^\s"',}\]]*)|:\s+(?P<plain>[^\s"',}\]{\[][^,}\]]*))"#,
        r#"|--?(?P<flag>[A-Za-z][\w-]*)["']?[\s,]+["']?(?P<next>[^\s"',\]-][^\s"',\]]*)"#,
    ))
    .expect("the pattern is fixed and valid")
});

/// Whether a name of a variable, flag or header says that its value is a credential: one of its
/// segments is a word such as `key`, `token` or `auth` (`author` is none).
pub fn secret_name(name: &str) -> bool {
    segments(name).iter().any(|segment| WORDS.contains(&segment.as_str()))
}

/// Whether a flag of that name takes its value from the next argument and the value is a secret.
pub(crate) fn secret_flag(name: &str) -> bool {
    let first = segments(name).into_iter().next().unwrap_or_default();
    secret_name(name) && !SWITCHES.contains(&first.as_str())
}

fn segments(name: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            all.push(String::new());
            lower = false;
            continue;
        }
        if lower && c.is_uppercase() {
            all.push(String::new());
        }
        lower = c.is_lowercase() || c.is_ascii_digit();
        if let Some(last) = all.last_mut() {
            last.extend(c.to_lowercase());
        }
    }
    all.retain(|segment| !segment.is_empty());
    all
}

/// Byte ranges of the text that look like a credential by their shape, in order, not overlapping.
/// Placeholders are not seen as credentials.
pub(crate) fn ranges(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> =
        SHAPES.find_iter(text).map(|m| m.range()).collect();
    for user in USERINFO.captures_iter(text).filter_map(|c| c.name("user")) {
        let literal = without_placeholders(user.as_str());
        // `${pg.user}:${pg.password}` is no credential of the file, and neither is `user:`.
        if literal.split(':').nth(1).is_some_and(|password| !password.is_empty()) {
            found.push(user.range());
        }
    }
    found.extend(RUN.find_iter(text).filter(|run| random(run.as_str())).map(|run| run.range()));
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let mut kept: Vec<std::ops::Range<usize>> = Vec::new();
    for range in found {
        match kept.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => kept.push(range),
        }
    }
    kept
}

fn without_placeholders(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// Whether a run of letters and digits is too disordered to be words: both kinds, an unbroken piece
/// of 12, and at least 3.4 bits a character (24 random hexadecimal digits average 3.7, English
/// names joined by hyphens stay without such a piece).
fn random(run: &str) -> bool {
    let digits = run.chars().filter(char::is_ascii_digit).count();
    let letters = run.chars().filter(char::is_ascii_alphabetic).count();
    let longest = run.split(['-', '_']).map(str::len).max().unwrap_or(0);
    if digits < 3 || letters < 3 || longest < 12 {
        return false;
    }
    let mut counts = [0_u32; 128];
    for byte in run.bytes() {
        counts[usize::from(byte & 127)] += 1;
    }
    let n = run.len() as f64;
    let bits: f64 = counts
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| f64::from(count) / n)
        .map(|share| -share * share.log2())
        .sum();
    bits >= 3.4
}

/// Whether some part of the text looks like a credential by its shape.
pub fn secret_shape(text: &str) -> bool {
    !ranges(text).is_empty()
}

/// The text with each such part replaced by `<hidden>`.
pub fn hide_shapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for range in ranges(text) {
        out.push_str(&text[at..range.start]);
        out.push_str(HIDDEN);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

/// A line of a source with credentials, by shape and by the name before them, replaced by as many
/// stars, so that columns stay.
pub(crate) fn starred(line: &str) -> String {
    let mut hidden = ranges(line);
    for found in ASSIGNED.captures_iter(line) {
        let group = |names: &[&str]| names.iter().find_map(|name| found.name(name));
        let name = group(&["name", "flag"]).map_or("", |name| name.as_str());
        let Some(value) = group(&["double", "single", "word", "plain", "next"]) else { continue };
        if secret_name(name) && !without_placeholders(value.as_str()).is_empty() {
            hidden.push(value.range());
        }
    }
    line.char_indices()
        .map(|(at, c)| if hidden.iter().any(|range| range.contains(&at)) { '*' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_judged_by_its_segments() {
        for name in ["API_KEY", "githubToken", "--api-key", "DB_PASSWORD", "X-Auth", "SENTRY_DSN"] {
            assert!(secret_name(name), "{name}");
        }
        for name in ["AUTHOR", "KEYBOARD", "monkey", "PATH", "TOKENIZER", "compass"] {
            assert!(!secret_name(name), "{name}");
        }
        assert!(!secret_flag("--no-auth") && secret_flag("--auth-token"));
    }

    #[test]
    fn issued_credentials_are_known_by_their_shape() {
        for text in [
            "sk-proj-abcdefghijklmnop1234",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "AKIAIOSFODNN7EXAMPLE",
            "xoxb-123456789012-abcdefGHIJ",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
            "postgres://app:hunter2@db.example/x",
            "Bearer abcdefgh12345678",
            "9f86d081884c7d659a2feaa0c55ad015",
            "0b5e4c1e-7a3d-4f6c-9c3e-1f2a3b4c5d6e",
        ] {
            assert!(secret_shape(text), "{text}");
        }
    }

    #[test]
    fn names_paths_and_placeholders_are_no_credentials() {
        for text in [
            "@modelcontextprotocol/server-filesystem@2026.8.31",
            "/usr/lib/node_modules/some-package-with-a-long-name/index.js",
            "postgres://${pg.user}:${pg.password}@${pg.host}/x",
            "http://127.0.0.1:3000/mcp",
            "the-quick-brown-fox-2026-12-31-jumps",
            "https://example.org/a:b/c",
            "--allow-list=first,second,third",
        ] {
            assert!(!secret_shape(text), "{text}: {:?}", ranges(text));
        }
    }

    #[test]
    fn only_the_credential_of_a_text_is_hidden() {
        assert_eq!(hide_shapes("postgres://app:pw@h/x"), "postgres://<hidden>@h/x");
        assert_eq!(hide_shapes("a sk-abcdefghijklmnop1 b"), "a <hidden> b");
    }

    #[test]
    fn a_starred_line_keeps_its_columns() {
        let line = r#"  env: { API_KEY: "hunter2", NAME: x }"#;
        assert_eq!(starred(line), r#"  env: { API_KEY: "*******", NAME: x }"#);
        assert_eq!(starred("TOKEN: ${canary:T}"), "TOKEN: ${canary:T}");
        assert_eq!(starred("s: {e: {KEY: ab c, B: d}}"), "s: {e: {KEY: ****, B: d}}");
        assert_eq!(starred("run --token abc -v --key=x y"), "run --token *** -v --key=* y");
    }
}
