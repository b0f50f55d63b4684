//! The record as JSON, and back.

use std::io;

use serde::Deserialize;
use thiserror::Error;

use crate::{
    report::{Report, SCHEMA_VERSION},
    text::{is_hidden, safe},
};

/// The largest record that is read, in bytes: far above the longest run, far below memory.
pub const MAX_RECORD: usize = 64 << 20;

/// Why a text is no record of this version.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Longer than [`MAX_RECORD`].
    #[error("the record has {0} bytes, more than the {MAX_RECORD} that are read")]
    TooLong(usize),
    /// Not JSON.
    #[error("the record is not valid JSON at line {line}, column {column}: {why}")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What the parser expected.
        why: String,
    },
    /// Written by another version.
    #[error(
        "the record has schemaVersion {0}, and this version reads {SCHEMA_VERSION:?} only; \
         render it with the version that wrote it"
    )]
    Schema(String),
    /// JSON, and not this record.
    #[error("the record does not fit its schema at line {line}, column {column}: {why}")]
    Shape {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is missing, unknown or of the wrong type.
        why: String,
    },
}

/// The one field that tells whether the others can be read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    schema_version: Option<serde_json::Value>,
}

/// The record, pretty, with a line end behind it. Characters that show as nothing or change how
/// others show are written as `\u` escapes: the same value, safe to print.
pub(crate) fn json(report: &Report) -> io::Result<String> {
    let text = serde_json::to_string_pretty(report)?;
    let mut out = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c != '\n' && is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.extend(["\\u", &format!("{unit:04x}")]);
            }
        } else {
            out.push(c);
        }
    }
    out.push('\n');
    Ok(out)
}

/// Reads a record back.
///
/// # Errors
/// [`ReadError`] when the text is too long, is not JSON, has another schema version, lacks a field
/// or has an unknown one.
pub fn read(text: &str) -> Result<Report, ReadError> {
    if text.len() > MAX_RECORD {
        return Err(ReadError::TooLong(text.len()));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let head: Head = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    match head.schema_version {
        Some(version) if version == SCHEMA_VERSION => {}
        Some(version) => return Err(ReadError::Schema(safe(&version.to_string(), 40))),
        None => return Err(ReadError::Schema("of none".into())),
    }
    serde_json::from_str(text).map_err(|error| wrong(&error))
}

fn wrong(error: &serde_json::Error) -> ReadError {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let why = safe(text.split(" at line ").next().unwrap_or(&text), 300);
    if error.is_data() {
        ReadError::Shape { line, column, why }
    } else {
        ReadError::Json { line, column, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample::sample;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let mut report = sample();
        report.caveats.push("a\u{202e}b\u{7f}c\u{e0041}\n\x1b[31m".into());
        let text = json(&report).unwrap();
        assert!(text.chars().all(|c| c == '\n' || !is_hidden(c)));
        assert!(text.contains(r"a\u202eb\u007fc\udb40\udc41\n\u001b[31m"));
        assert!(text.ends_with("}\n"));
        assert_eq!(read(&text).unwrap(), report);
    }

    #[test]
    fn another_schema_version_is_named_before_anything_else_is_read() {
        let error = read(r#"{"schemaVersion": "2", "everything": "new"}"#).unwrap_err();
        assert!(error.to_string().contains(r#"schemaVersion "2""#), "{error}");
        assert!(matches!(read("{}"), Err(ReadError::Schema(_))));
    }

    #[test]
    fn broken_json_and_unknown_fields_say_where() {
        let error = read("{\n  \"schemaVersion\": ,").unwrap_err();
        assert!(matches!(error, ReadError::Json { line: 2, .. }), "{error}");
        let text = json(&sample()).unwrap().replacen("\"cleanup\"", "\"cleenup\"", 1);
        let error = read(&text).unwrap_err();
        assert!(matches!(error, ReadError::Shape { .. }), "{error}");
        assert!(error.to_string().contains("cleenup"), "{error}");
    }

    #[test]
    fn a_record_longer_than_the_limit_is_not_parsed() {
        let text = " ".repeat(MAX_RECORD + 1);
        assert!(matches!(read(&text), Err(ReadError::TooLong(_))));
    }
}
