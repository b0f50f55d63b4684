//! Reads the texts a server shows to a model for hidden Unicode and for orders to the model, and its
//! error texts for traces, connection strings and code paths.
//!
//! Everything here is a pure function of its input. The phrase list is English and will always trail
//! new wordings: silence means that nothing known was found.

mod errors;
mod fold;
mod phrases;
mod rules;
mod schema_texts;
mod secrets;
mod unicode;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

pub use errors::{ErrorFinding, ErrorWeight, scan_error};
pub use schema_texts::{name_text, schema_texts};

/// The part of one text that is read, in bytes; the rest is left unread.
pub const TEXT_LIMIT: usize = 1 << 20;
/// Findings of one class kept for one text.
const PER_CLASS: usize = 5;
/// Characters of evidence kept in a finding.
const SHOWN_LIMIT: usize = 120;

/// How much a finding counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Hidden text or an order to the model.
    Breach,
    /// Worth showing; never decides a verdict.
    Note,
}

/// Which kind of text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Names, titles, descriptions and schema texts.
    Metadata,
    /// Text of a prompt. Prompts give orders by nature, so only hidden Unicode, concealment and
    /// exfiltration are breaches here.
    Prompt,
    /// Text of a resource; the rule of [`Source::Prompt`] holds.
    Resource,
    /// The `instructions` of the initialize result.
    Instructions,
}

impl Source {
    fn is_content(self) -> bool {
        matches!(self, Self::Prompt | Self::Resource)
    }
}

/// One thing found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kebab-case class, for example `override` or `zero-width`.
    pub class: &'static str,
    /// How much it counts.
    pub weight: Weight,
    /// Where it starts, in characters from the start of the text.
    pub at: usize,
    /// The evidence, escaped to printable ASCII and at most 120 characters long. Tag characters are
    /// shown as the ASCII text they hide.
    pub shown: String,
}

/// Finds hidden Unicode and orders to the model in the first MiB of `text`, ordered by position; at
/// most five findings of each class.
pub fn scan(text: &str, source: Source) -> Vec<Finding> {
    let text = head(text, TEXT_LIMIT);
    let mut findings = unicode::scan(text, source);
    findings.extend(phrases::scan(text, source));
    findings.sort_by_key(|finding| finding.at);
    let mut kept: Vec<Finding> = Vec::new();
    for finding in findings {
        let same = |other: &&Finding| other.class == finding.class;
        // A breach is never crowded out by notes of its class.
        let alike = kept.iter().filter(same).filter(|other| other.weight == finding.weight);
        if alike.count() < PER_CLASS {
            kept.push(finding);
        }
    }
    kept
}

/// The longest prefix of at most `limit` bytes that ends between characters.
fn head(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Escapes everything but printable ASCII and stops after 120 characters.
fn escape(chars: impl Iterator<Item = char>) -> String {
    let mut shown = String::new();
    for c in chars {
        if shown.len() > SHOWN_LIMIT {
            break;
        }
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            ' '..='~' => shown.push(c),
            // Writing to a String cannot fail.
            other => drop(write!(shown, "\\u{{{:X}}}", u32::from(other))),
        }
    }
    if shown.len() > SHOWN_LIMIT {
        shown.truncate(SHOWN_LIMIT - 3);
        shown.push_str("...");
    }
    shown
}
