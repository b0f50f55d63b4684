//! The page of a pack.

use super::{WRITTEN, cell, words};
use crate::check::Pack;
use std::fmt::Write as _;

/// `docs/packs/<pack>.md`.
pub(super) fn page(pack: &Pack) -> String {
    let mut text = format!(
        "# Pack {}\n\n{WRITTEN}\n**{}**\n\nApplies when: {}\n",
        pack.id, pack.title, pack.applies
    );
    let (scored, others): (Vec<_>, Vec<_>) =
        pack.checks.iter().partition(|check| crate::registry::is_standard(check));
    for (title, checks) in [("Scored", scored), ("Shown, not scored", others)] {
        if checks.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n## {title}\n\n| check | severity | question |\n|---|---|---|");
        for check in checks {
            let _ = writeln!(
                text,
                "| [{0}](../checks/{0}.md) | {1} | {2} |",
                check.id(),
                words::severity(&check.spec),
                cell(&check.spec.question)
            );
        }
    }
    text
}
