//! Reads what a server shows to a model, and turns what is found into a line of evidence.

use crate::{
    evidence::{Evidence, Fact, Kind, Observer, What, Why},
    hygiene::{self, Source, Weight},
};

/// Breaches and notes beyond this many are not kept on one line.
const MAX_KEPT: usize = 10;

/// The line of these texts, each with its place: breached by hidden Unicode or an order to the
/// model, held when there was text and none of it. Notes become caveats.
pub(super) fn line(
    id: &str,
    texts: impl IntoIterator<Item = (Source, String, String)>,
) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, id);
    line.core = true;
    let mut read = false;
    for (source, place, text) in texts {
        read |= !text.trim().is_empty();
        for finding in hygiene::scan(&text, source) {
            let place = super::shown(&format!("{place}, character {}", finding.at));
            if finding.weight == Weight::Breach {
                if line.facts.is_empty() {
                    line.excerpt.clone_from(&finding.shown);
                }
                if line.facts.len() < MAX_KEPT {
                    let what = What::Text { class: finding.class.into(), place };
                    line.facts.push(Fact::now(Observer::Reply, what));
                }
            } else if line.caveats.len() < MAX_KEPT {
                line.caveats
                    .push(format!("noted: {} at {place}: {}", finding.class, finding.shown));
            }
        }
    }
    match (read, line.facts.is_empty()) {
        (_, false) => line.breached(Observer::Reply),
        (true, true) => line.held(Observer::Reply),
        (false, true) => line.none(Why::NothingSeen),
    }
}
