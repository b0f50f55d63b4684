//! From YAML (and so JSON) to the types of the file, with errors in one style.

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Location, MergeKeyPolicy, Options};

use super::error::{ConfigError, ErrorKind, Place, Source, quoted};
use super::file;
use crate::text::nearest;

/// A configuration of more nodes than this is refused; it also ends an alias bomb, since nodes are
/// counted as aliases are replayed.
const MAX_NODES: usize = 20_000;
/// Nesting allowed; the format itself needs six levels, the rest is for literal tool arguments.
const MAX_DEPTH: usize = 64;

fn options() -> Options {
    serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        merge_keys: MergeKeyPolicy::Error,
        budget: serde_saphyr::budget! {
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES,
            max_depth: MAX_DEPTH,
        },
    }
}

/// Reads `T` from the text of one YAML document.
pub(crate) fn read<T: DeserializeOwned>(source: Source<'_>) -> Result<T, ConfigError> {
    serde_saphyr::from_str_with_options(source.text, options())
        .map_err(|error| explained(source, &error))
}

/// The place of a location, underlined as far as the token goes on its first line.
pub(crate) fn place(source: Source<'_>, location: Location) -> Place {
    let width = location
        .span()
        .byte_offset()
        .zip(location.span().byte_len())
        .and_then(|(from, len)| {
            let from = usize::try_from(from).ok()?;
            let to = from.checked_add(usize::try_from(len).ok()?)?;
            source.text.get(from..to)?.lines().next().map(|line| line.chars().count())
        })
        .unwrap_or(1);
    Place {
        line: u32::try_from(location.line()).unwrap_or(u32::MAX),
        column: u32::try_from(location.column()).unwrap_or(u32::MAX),
        width: u32::try_from(width).unwrap_or(1).max(1),
    }
}

fn explained(source: Source<'_>, error: &Error) -> ConfigError {
    let mut error = error.without_snippet();
    let location = error.location().unwrap_or(Location::UNKNOWN);
    while let Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    let (kind, message, help) = words(error);
    ConfigError::at(kind, source, place(source, location), message, help)
}

fn words(error: &Error) -> (ErrorKind, String, String) {
    use ErrorKind::{Key, NotInThisVersion, Syntax, Value};
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            // Only the top level has a key `server`.
            let later = expected
                .contains(&"server")
                .then(|| file::LATER_KEYS.iter().find(|(key, _)| key == field))
                .flatten();
            if let Some((key, comes)) = later {
                return (
                    NotInThisVersion,
                    format!("the key `{key}` is not in this version"),
                    format!("remove it; it comes with {comes}"),
                );
            }
            let top = expected.contains(&"server");
            let help = match nearest(field, expected.iter().copied()) {
                None if top && matches!(field.as_str(), "command" | "args" | "env" | "cwd") => {
                    format!("write `server:`, and `{field}:` indented below it")
                }
                None if top && matches!(field.as_str(), "mcpServers" | "servers") => {
                    "this is the file of a client; write `server:` with the command of one of them"
                        .to_owned()
                }
                Some(near) => format!("did you mean `{near}`?"),
                None if expected.is_empty() => "remove it".to_owned(),
                None => format!("the keys here are {}", listed(expected)),
            };
            (Key, format!("unknown key {}", quoted(field)), help)
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let help = match nearest(variant, expected.iter().copied()) {
                Some(near) => format!("did you mean `{near}`? It is one of {}", listed(expected)),
                None => format!("use one of {}", listed(expected)),
            };
            (Value, format!("unknown value {}", quoted(variant)), help)
        }
        Error::SerdeMissingField { field, .. } => (
            Key,
            format!("the key `{field}` is missing"),
            match *field {
                "server" => "write `server:` with a `command:` below it".to_owned(),
                "until" => "say until when the failure is accepted: `until: 2027-01-31`".to_owned(),
                "reason" => "say why the failure is accepted: `reason: \"…\"`".to_owned(),
                "check" => "name the check the entry is about: `check: fs-path-escape`".to_owned(),
                field => format!("add `{field}:`"),
            },
        ),
        Error::DuplicateMappingKey { key, .. } => (
            Key,
            match key {
                Some(key) => format!("the key {} is given twice", quoted(key)),
                None => "a key is given twice".to_owned(),
            },
            "keep one of the two".to_owned(),
        ),
        Error::MergeKeyNotAllowed { .. } => (
            Key,
            "merge keys (`<<`) are not accepted".to_owned(),
            "write the keys out: what runs should be seen where it stands".to_owned(),
        ),
        Error::Eof { .. } => (
            Syntax,
            "the file has no content".to_owned(),
            "write `server:` with a `command:` below it, as in docs/configuration.md".to_owned(),
        ),
        Error::MultipleDocuments { .. } => (
            Syntax,
            "there is more than one YAML document".to_owned(),
            "keep one, and remove the line `---`".to_owned(),
        ),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => (
            Syntax,
            "the file is larger or nested deeper than a configuration can be".to_owned(),
            format!("keep to {MAX_NODES} values and {MAX_DEPTH} levels; aliases count each time"),
        ),
        Error::InvalidBooleanStrict { .. } => {
            (Value, "expected `true` or `false`".to_owned(), "write `true` or `false`".to_owned())
        }
        Error::NullIntoString { .. } => (
            Value,
            "expected a text, found nothing".to_owned(),
            "write `\"\"` for an empty text, or remove the key".to_owned(),
        ),
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => (
            Value,
            // What was found may be a secret; its type is enough.
            format!(
                "expected {expected}, found {}",
                unexpected.split(['"', '`']).next().unwrap_or("another type").trim()
            ),
            format!("write {expected} here"),
        ),
        Error::InvalidScalar { ty: "u64", .. } => (
            Value,
            "expected a whole number".to_owned(),
            "write it in plain digits, such as 10000".to_owned(),
        ),
        Error::InvalidScalar { .. } | Error::NonFiniteFloat { .. } => (
            Value,
            "expected a number".to_owned(),
            "write a plain decimal number, such as 30".to_owned(),
        ),
        Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. }
        | Error::UnexpectedValueForUnitEnumVariant { .. } => {
            (Value, "expected one word".to_owned(), "write one plain word here".to_owned())
        }
        Error::UnknownAnchor { .. } => (
            Syntax,
            "the alias has no anchor".to_owned(),
            "quote a text that begins with `*`, or name its anchor with `&` before".to_owned(),
        ),
        Error::Unexpected { expected, .. } => {
            let (what, help) = match *expected {
                "sequence start" => {
                    ("a list", "write the items in brackets, `[a, b]`, or one a line, `- a`")
                }
                "mapping start" => {
                    ("keys with values", "write `key: value`, one a line, or `{ key: value }`")
                }
                "string scalar" => ("a text", "write one plain or quoted text"),
                other => {
                    (other, "look at the manual's page of the configuration for what goes here")
                }
            };
            (Value, format!("expected {what}"), help.to_owned())
        }
        other => {
            let mut text = other.to_string();
            if let Some(at) = text.rfind(" at line ") {
                text.truncate(at);
            }
            let help = if text.contains("tabs disallowed") {
                "indent with spaces"
            } else if text.contains("unclosed quote") {
                "close the quote that opens here"
            } else if text.contains("unclosed bracket") {
                "close the bracket that opens here"
            } else if text.contains("mapping values are not allowed") {
                "quote a text that contains `: `, and give keys of one level the same indentation"
            } else if text.contains("unexpected character") {
                "quote a text that begins with a character special to YAML, such as `@`, or contains an unprintable one"
            } else if text.contains("did not find expected") {
                "give all keys or items of one level the same indentation"
            } else if text.contains("recursion limit") {
                "nest less deeply"
            } else {
                "correct the YAML; quoting a text is often enough"
            };
            (Syntax, text, help.to_owned())
        }
    }
}

pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}
