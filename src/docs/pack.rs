//! The page of a pack.

use super::{WRITTEN, cell, words};
use crate::check::Pack;

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
        text += &format!("\n## {title}\n\n| check | severity | question |\n|---|---|---|\n");
        for check in checks {
            text += &format!(
                "| [{0}](../checks/{0}.md) | {1} | {2} |\n",
                check.id(),
                words::severity(&check.spec),
                cell(&check.spec.question)
            );
        }
    }
    text
}
