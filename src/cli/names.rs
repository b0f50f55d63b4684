//! Names that do not exist, and what may have been meant.

use std::fmt::Display;

use crate::check::{Check, Pack};
use crate::error::Error;
use crate::registry;
use crate::text::nearest;

/// The pack of that id.
pub(crate) fn pack(id: &str) -> Result<&'static Pack, Error> {
    if registry::LATER_PACKS.contains(&id) {
        return Err(Error::NotInThisVersion {
            what: format!("the pack `{id}`"),
            help: format!("the packs of this version are {}", packs()),
        });
    }
    let known = registry::packs().iter().map(|pack| pack.id);
    registry::pack(id).ok_or_else(|| {
        unknown("pack", id, known, format!("the packs of this version are {}", packs()))
    })
}

fn packs() -> String {
    registry::packs().iter().map(|pack| pack.id).collect::<Vec<_>>().join(", ")
}

/// The check of that id.
pub(crate) fn check(id: &str) -> Result<&'static Check, Error> {
    let known: Vec<String> = registry::checks().map(Check::id).collect();
    let known = known.iter().map(String::as_str);
    registry::check(id).ok_or_else(|| {
        unknown("check", id, known, "`sealmark list-checks` lists the checks of this version")
    })
}

/// The error for a name of a kind (`check`, `pack`, …) that does not exist. `otherwise` is the help
/// when no known name is near.
pub(crate) fn unknown<'a>(
    kind: &str,
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: impl Display,
) -> Error {
    let help = match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => otherwise.to_string(),
    };
    Error::usage(format!("there is no {kind} {}", quoted(word)), help)
}

/// A word of the command line as it is quoted in messages.
pub(crate) fn quoted(word: &str) -> String {
    format!("`{}`", crate::text::safe(word, 80))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        let known = ["fs-path-escape", "shutdown"];
        assert_eq!(nearest("fs-path-excape", known), Some("fs-path-escape"));
        assert_eq!(nearest("SHUTDOWN", known), Some("shutdown"));
        assert_eq!(nearest("x", known), None);
    }

    #[test]
    fn an_unknown_name_is_quoted_without_its_control_characters() {
        let error = unknown("pack", "a\u{1b}[31m", ["fs"], "see the list");
        assert_eq!(error.message(), "there is no pack `a\\u{1b}[31m`");
        assert_eq!(error.help(), "see the list");
    }
}
