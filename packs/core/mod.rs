//! The server itself: what it does with bad input, what it shows, what it lets out.

use crate::check::Needs;

mod shutdown;
mod stdout_clean;

crate::check::pack! { "core",
    "The server itself is sound",
    "Always.",
    Needs::Nothing;
    stdout_clean = journal,
    shutdown = journal,
}

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
