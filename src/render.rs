//! A record as people and programs read it. Every format is a pure function of the record: the
//! same record always gives the same bytes, and nothing here can change a verdict or a letter.

use std::{io, str::FromStr};

use thiserror::Error;

use crate::report::Report;

pub mod json;
pub mod live;
#[doc(hidden)]
pub mod sample;
pub mod style;

mod finding;
mod page;
mod summary;
mod text;
mod words;

pub use json::{ReadError, read};
pub use style::Style;

/// What a letter says and does not say, word for word as published (methodology 1). It stands at
/// the foot of every format that is made to be read.
pub const PROMISE: [&str; 2] = [
    "An A means: these published probes passed, against this server name and version, started \
     with exactly this command, arguments and environment; it is not a security endorsement.",
    "Grades are never inherited between versions; another flag can earn another letter.",
];

/// A format of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The report for people.
    Text,
    /// A few lines: letters, gate, configuration.
    Summary,
    /// The record itself.
    Json,
}

/// Formats of the design that this version does not write yet.
pub const LATER_FORMATS: [&str; 5] = ["markdown", "junit", "sarif", "html", "badge"];

/// The word is no format of this version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownFormat {
    /// The design has it, this version does not.
    #[error("the format {0} is not in this version; it has text, summary and json")]
    Later(&'static str),
    /// Nothing has that name.
    #[error("there is no format {0:?}; there are text, summary and json")]
    Unknown(String),
}

impl Format {
    /// Every format of this version.
    pub const ALL: [Self; 3] = [Self::Text, Self::Summary, Self::Json];

    /// The names, in the same order, for lists and errors.
    pub const NAMES: [&str; 3] = ["text", "summary", "json"];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Summary => "summary",
            Self::Json => "json",
        }
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        if let Some(format) = Self::ALL.into_iter().find(|format| format.name() == text) {
            return Ok(format);
        }
        Err(match LATER_FORMATS.into_iter().find(|name| *name == text) {
            Some(name) => UnknownFormat::Later(name),
            None => UnknownFormat::Unknown(crate::text::safe(text, 40)),
        })
    }
}

/// Writes a record in a format. `style` says how text is laid out; JSON is the same in any style.
///
/// # Errors
/// Those of the writer.
pub fn render(
    format: Format,
    report: &Report,
    style: Style,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let text = match format {
        Format::Text if style.quiet => summary::summary(report, style),
        Format::Text => text::text(report, style),
        Format::Summary => summary::summary(report, style),
        Format::Json => json::json(report)?,
    };
    out.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests;
