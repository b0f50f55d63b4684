//! The methodology: what each check asks, and the rules that decide it. No input or output below.
#![deny(clippy::disallowed_methods)]

mod core;
mod db;
mod fs;

/// The packs, in report order.
pub(crate) static PACKS: &[&crate::check::Pack] = &[&core::PACK, &fs::PACK, &db::PACK];

/// The head of a text of the server, at most 200 characters, control and invisible direction
/// characters replaced: fit for an excerpt.
fn shown(text: &str) -> String {
    let safe = |c: char| match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().take(200).map(safe).collect()
}
