//! Placeholders: `${name}` in a text of the configuration, and what stands for it on a lane.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use thiserror::Error;

/// A placeholder of this version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placeholder {
    /// `${sandbox}`: the lane's directory that the server may use.
    Sandbox,
    /// `${sandbox.out}`: a directory owned by the harness, outside the sandbox.
    SandboxOut,
    /// `${files}`: the lane's folder with the files of `server.files`.
    Files,
    /// `${role}`: the role of the instance.
    Role,
    /// `${pg.url}` and its parts: the database the harness owns, as the role of the instance.
    Pg(Pg),
    /// `${canary:NAME}`: a secret made for this run, watched for in everything the server says.
    Canary(String),
    /// `${env:NAME}`: a variable of the environment the harness was started with.
    Env(String),
}

/// A part of the address of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pg {
    /// `${pg.url}`, without a query string.
    Url,
    /// `${pg.host}`, an address of loopback.
    Host,
    /// `${pg.port}`.
    Port,
    /// `${pg.user}`.
    User,
    /// `${pg.password}`, as it is, not encoded.
    Password,
    /// `${pg.database}`.
    Database,
}

impl Pg {
    const ALL: [(&str, Self); 6] = [
        ("pg.url", Self::Url),
        ("pg.host", Self::Host),
        ("pg.port", Self::Port),
        ("pg.user", Self::User),
        ("pg.password", Self::Password),
        ("pg.database", Self::Database),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, part)| *part == self).map_or("pg", |(name, _)| name)
    }
}

/// Placeholders that come with a later version.
const LATER: &[&str] =
    &["repo", "sqlite", "port", "listener.url", "listener.allowed_url", "marker", "role.token"];

/// The placeholders of this version as they are written.
const LIVE: &[&str] = &[
    "sandbox",
    "sandbox.out",
    "files",
    "role",
    "pg.url",
    "pg.host",
    "pg.port",
    "pg.user",
    "pg.password",
    "pg.database",
    "canary:NAME",
    "env:NAME",
];

/// The longest name between the braces, in bytes.
const MAX_NAME: usize = 128;

impl Placeholder {
    fn named(name: &str) -> Result<Self, Fault> {
        let parameter = |parameter: &str| {
            let mut chars = parameter.chars();
            let sound = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
            sound.then(|| parameter.to_owned()).ok_or_else(|| Fault::BadName(name.to_owned()))
        };
        if let Some((_, part)) = Pg::ALL.iter().find(|(known, _)| *known == name) {
            return Ok(Self::Pg(*part));
        }
        match name {
            "sandbox" => Ok(Self::Sandbox),
            "sandbox.out" => Ok(Self::SandboxOut),
            "files" => Ok(Self::Files),
            "role" => Ok(Self::Role),
            _ if LATER.contains(&name) => Err(Fault::Later(name.to_owned())),
            _ => match name.split_once(':') {
                Some(("canary", rest)) => Ok(Self::Canary(parameter(rest)?)),
                Some(("env", rest)) => Ok(Self::Env(parameter(rest)?)),
                _ => Err(Fault::Unknown(name.chars().take(MAX_NAME).collect())),
            },
        }
    }
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sandbox => f.write_str("${sandbox}"),
            Self::SandboxOut => f.write_str("${sandbox.out}"),
            Self::Files => f.write_str("${files}"),
            Self::Role => f.write_str("${role}"),
            Self::Pg(part) => write!(f, "${{{}}}", part.name()),
            Self::Canary(name) => write!(f, "${{canary:{name}}}"),
            Self::Env(name) => write!(f, "${{env:{name}}}"),
        }
    }
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// `${` without its `}` on the same line.
    #[error("a placeholder is not closed")]
    Unclosed,
    /// No placeholder has that name.
    #[error("unknown placeholder `${{{0}}}`")]
    Unknown(String),
    /// The part behind the colon is no name.
    #[error("the name in `${{{0}}}` is not a letter or `_` followed by letters, digits and `_`")]
    BadName(String),
    /// It exists, and comes with a later version.
    #[error("the placeholder `${{{0}}}` is not in this version")]
    Later(String),
}

impl Fault {
    /// What to write instead: one line.
    pub fn help(&self) -> String {
        match self {
            Self::Unclosed => "close it with `}`, or write `$${` for a literal `${`".into(),
            Self::Unknown(name) => match crate::text::nearest(name, LIVE.iter().copied()) {
                Some(near) => {
                    format!("did you mean `${{{near}}}`? Write `$${{` for a literal `${{`")
                }
                None => {
                    let known: Vec<_> = LIVE.iter().map(|name| format!("`${{{name}}}`")).collect();
                    format!("use one of {}, or write `$${{` for a literal `${{`", known.join(", "))
                }
            },
            Self::BadName(_) => "use a name such as `API_KEY`".into(),
            Self::Later(_) => {
                "remove it; it comes with the target it names, in a later version".into()
            }
        }
    }
}

/// A piece of a text: as it stands, or a placeholder. `raw` is the piece as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Literal { raw: &'a str },
    Hole { raw: &'a str, placeholder: Placeholder },
}

/// Splits a text into its pieces. On a fault, also gives the part of the text it is about.
pub(crate) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, (Fault, &str)> {
    let mut out = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find('$') {
        let start = at + found;
        let rest = &text[start..];
        if rest.starts_with("$${") {
            at = start + 3;
            continue;
        }
        if !rest.starts_with("${") {
            at = start + 1;
            continue;
        }
        let line = rest.lines().next().unwrap_or(rest);
        let Some(end) = line.find('}') else { return Err((Fault::Unclosed, line)) };
        let raw = &rest[..=end];
        let placeholder = Placeholder::named(&raw[2..end]).map_err(|fault| (fault, raw))?;
        if from < start {
            out.push(Piece::Literal { raw: &text[from..start] });
        }
        out.push(Piece::Hole { raw, placeholder });
        at = start + end + 1;
        from = at;
    }
    if from < text.len() {
        out.push(Piece::Literal { raw: &text[from..] });
    }
    Ok(out)
}

/// Something that knows what stands for a placeholder.
pub trait Resolve {
    /// The value, or `None` when there is none.
    fn resolve(&self, placeholder: &Placeholder) -> Option<&str>;
}

/// The address of the database on one lane, as one role. All empty where there is no database.
#[derive(Clone, Default)]
pub struct PgValues {
    /// `postgres://user:password@host:port/database`, user and password encoded.
    pub url: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: String,
    /// The role.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The database.
    pub database: String,
}

impl PgValues {
    /// The address of a database on loopback.
    pub fn loopback(port: u16, user: &str, password: &str, database: &str) -> Self {
        let host = "127.0.0.1";
        Self {
            url: format!(
                "postgres://{}:{}@{host}:{port}/{database}",
                encoded(user),
                encoded(password)
            ),
            host: host.into(),
            port: port.to_string(),
            user: user.into(),
            password: password.into(),
            database: database.into(),
        }
    }
}

/// Everything but unreserved characters percent-encoded (RFC 3986, sections 2.1 and 2.3).
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// What stands for each placeholder on one lane. `Debug` shows names and no values.
#[derive(Clone, Default)]
pub struct Values {
    /// `${sandbox}`, an absolute path.
    pub sandbox: String,
    /// `${sandbox.out}`, an absolute path.
    pub sandbox_out: String,
    /// `${files}`, an absolute path.
    pub files: String,
    /// `${role}`.
    pub role: String,
    /// `${pg.url}` and its parts.
    pub pg: PgValues,
    /// `${canary:NAME}`, by name.
    pub canaries: BTreeMap<String, String>,
    /// `${env:NAME}`, by name.
    pub env: BTreeMap<String, String>,
}

impl Resolve for Values {
    fn resolve(&self, placeholder: &Placeholder) -> Option<&str> {
        match placeholder {
            Placeholder::Sandbox => Some(&self.sandbox),
            Placeholder::SandboxOut => Some(&self.sandbox_out),
            Placeholder::Files => Some(&self.files),
            Placeholder::Role => Some(&self.role),
            Placeholder::Pg(Pg::Url) => Some(&self.pg.url),
            Placeholder::Pg(Pg::Host) => Some(&self.pg.host),
            Placeholder::Pg(Pg::Port) => Some(&self.pg.port),
            Placeholder::Pg(Pg::User) => Some(&self.pg.user),
            Placeholder::Pg(Pg::Password) => Some(&self.pg.password),
            Placeholder::Pg(Pg::Database) => Some(&self.pg.database),
            Placeholder::Canary(name) => self.canaries.get(name).map(String::as_str),
            Placeholder::Env(name) => self.env.get(name).map(String::as_str),
        }
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values")
            .field("role", &self.role)
            .field("canaries", &self.canaries.keys())
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

/// Why a text could not be expanded. It names placeholders and never their values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExpandError {
    /// The text is no template.
    #[error("read a placeholder: {0}")]
    Fault(#[from] Fault),
    /// There is no value for this one.
    #[error("expand {0}: it has no value")]
    NoValue(Placeholder),
}

/// The text with every placeholder replaced, and `$${` by `${`. Values are put in as they are and
/// not read again.
pub fn expand(text: &str, values: &impl Resolve) -> Result<String, ExpandError> {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text).map_err(|(fault, _)| fault)? {
        match piece {
            Piece::Literal { raw } => out.push_str(&raw.replace("$${", "${")),
            Piece::Hole { placeholder, .. } => match values.resolve(&placeholder) {
                Some(value) => out.push_str(value),
                None => return Err(ExpandError::NoValue(placeholder)),
            },
        }
    }
    Ok(out)
}

/// The same for every text inside a JSON value; keys stay.
pub fn expand_value(
    value: &serde_json::Value,
    values: &impl Resolve,
) -> Result<serde_json::Value, ExpandError> {
    use serde_json::Value;
    Ok(match value {
        Value::String(text) => Value::String(expand(text, values)?),
        Value::Array(items) => Value::Array(
            items.iter().map(|item| expand_value(item, values)).collect::<Result<_, _>>()?,
        ),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| Ok((key.clone(), expand_value(value, values)?)))
                .collect::<Result<_, ExpandError>>()?,
        ),
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values {
            sandbox: "/s".into(),
            sandbox_out: "/o".into(),
            files: "/f".into(),
            role: "default".into(),
            pg: PgValues::default(),
            canaries: BTreeMap::from([("K".into(), "SM-1 ${sandbox}".into())]),
            env: BTreeMap::from([("TOKEN".into(), "hunter2".into())]),
        }
    }

    #[test]
    fn placeholders_are_replaced_and_values_are_not_read_again() {
        let text =
            "${sandbox}/a ${sandbox.out} ${files} ${role} ${canary:K} ${env:TOKEN} $5 ${sandbox}";
        let expanded = expand(text, &values()).expect("a sound text");
        assert_eq!(expanded, "/s/a /o /f default SM-1 ${sandbox} hunter2 $5 /s");
    }

    #[test]
    fn a_doubled_dollar_is_a_literal_brace() {
        assert_eq!(expand("$${IFS} $$ $${sandbox}", &values()), Ok("${IFS} $$ ${sandbox}".into()));
    }

    #[test]
    fn faults_are_told_apart() {
        let fault = |text: &str| pieces(text).expect_err("a fault").0;
        assert_eq!(fault("a ${sandbox"), Fault::Unclosed);
        assert_eq!(fault("a ${sandbox\n}"), Fault::Unclosed);
        assert_eq!(fault("${sandbx}"), Fault::Unknown("sandbx".into()));
        assert_eq!(fault("${}"), Fault::Unknown(String::new()));
        assert_eq!(fault("${canary:}"), Fault::BadName("canary:".into()));
        assert_eq!(fault("${canary:1a}"), Fault::BadName("canary:1a".into()));
        assert_eq!(fault("${sqlite}"), Fault::Later("sqlite".into()));
        assert!(Fault::Unknown("sandbx".into()).help().contains("`${sandbox}`"));
    }

    #[test]
    fn a_missing_value_names_the_placeholder() {
        let error = expand("${env:OTHER}", &values()).expect_err("no value");
        assert!(error.to_string().contains("${env:OTHER}"));
    }

    #[test]
    fn texts_inside_a_value_are_expanded() {
        let value = serde_json::json!({"a": ["${sandbox}", 1], "b": {"c": "${role}"}});
        let expanded = expand_value(&value, &values()).expect("sound");
        assert_eq!(expanded, serde_json::json!({"a": ["/s", 1], "b": {"c": "default"}}));
    }

    #[test]
    fn the_url_of_a_database_is_encoded_and_its_parts_are_not() {
        let pg = PgValues::loopback(5433, "sm_quoted", "a@:/%#'b", "seed");
        assert_eq!(pg.url, "postgres://sm_quoted:a%40%3A%2F%25%23%27b@127.0.0.1:5433/seed");
        let values = Values { pg, ..values() };
        assert_eq!(
            expand("${pg.host} ${pg.port} ${pg.user} ${pg.password} ${pg.database}", &values),
            Ok("127.0.0.1 5433 sm_quoted a@:/%#'b seed".into())
        );
    }

    #[test]
    fn debug_shows_no_value() {
        let text = format!("{:?}", values());
        assert!(text.contains("TOKEN") && !text.contains("hunter2") && !text.contains("SM-1"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_splits_into_pieces_that_make_it_up_again(text in "[$a{}:\n é]{0,40}") {
            if let Ok(pieces) = pieces(&text) {
                let joined: String = pieces.iter().map(|piece| match piece {
                    Piece::Literal { raw } | Piece::Hole { raw, .. } => *raw,
                }).collect();
                proptest::prop_assert_eq!(joined, text);
            }
        }
    }
}
