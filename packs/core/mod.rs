//! The server itself: what it does with bad input, what it shows, what it lets out.

use super::shown;
use crate::{
    check::Needs,
    evidence::{Evidence, Observer, Why},
};

mod arguments;
mod error_hygiene;
mod instructions_hygiene;
mod list_stability;
mod metadata_hygiene;
mod refusal_quality;
mod resource_traversal;
mod robust_input;
mod schema;
mod schema_enforced;
mod secret_echo;
mod shutdown;
mod stdout_clean;
mod texts;

crate::check::pack! { "core",
    "The server itself is sound",
    "Always.",
    Needs::Nothing;
    robust_input = script,
    secret_echo = journal,
    error_hygiene = journal,
    metadata_hygiene = surface,
    schema_enforced = script,
    refusal_quality = journal,
    instructions_hygiene = surface,
    list_stability = script,
    stdout_clean = journal,
    shutdown = journal,
    resource_traversal = script,
}

/// A control's line: held when the call worked, no evidence when it did not.
fn control_line(line: Evidence, good: bool) -> Evidence {
    if good { line.held(Observer::Reply) } else { line.none(Why::ControlLost) }
}
