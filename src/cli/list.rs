//! `sealmark list-checks`: the checks of this version, a line each.

use serde_json::json;

use super::args::ListArgs;
use super::{names, out};
use crate::check::{Check, Pack};
use crate::error::{Error, MET};
use crate::registry;
use crate::standard::word;

pub(crate) fn main(args: &ListArgs) -> Result<u8, Error> {
    let packs: Vec<&Pack> = match &args.pack {
        Some(id) => vec![names::pack(id)?],
        None => registry::packs().to_vec(),
    };
    let text = match args.format.as_str() {
        "text" => text(&packs),
        "json" => json(&packs),
        other => {
            let known = ["text", "json"];
            return Err(names::unknown("format", other, known, "list-checks has text and json"));
        }
    };
    out::print(text.as_bytes())?;
    Ok(MET)
}

fn text(packs: &[&Pack]) -> String {
    let checks = || packs.iter().flat_map(|pack| pack.checks);
    let widest = checks().map(|check| check.id().len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for pack in packs {
        lines.push(format!("{}: {}", pack.id, pack.title));
        for check in pack.checks {
            lines.push(format!(
                "  {:widest$}  {:9}  {}",
                check.id(),
                mark(check),
                check.spec.title
            ));
        }
        lines.push(String::new());
    }
    lines.push("sealmark explain CHECK shows what a check asks and how it decides.".to_owned());
    lines.join("\n") + "\n"
}

/// How a check counts, in one word.
fn mark(check: &Check) -> &'static str {
    if check.spec.candidate { "candidate" } else { word(check.spec.severity) }
}

fn json(packs: &[&Pack]) -> String {
    let checks = packs.iter().flat_map(|pack| pack.checks).map(|check| {
        let spec = &*check.spec;
        json!({
            "id": check.id(),
            "pack": check.pack,
            "title": spec.title,
            "severity": spec.severity,
            "candidate": spec.candidate,
            "scored": registry::is_standard(check),
            "deep": spec.deep,
            "scope": spec.measures,
            "since": spec.since,
            "question": spec.question.trim(),
        })
    });
    crate::docs::pretty(&checks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_listed_once_in_report_order() {
        let text = text(registry::packs());
        let listed: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
            .collect();
        let ids: Vec<String> = registry::checks().map(Check::id).collect();
        assert_eq!(listed, ids);
    }

    #[test]
    fn the_list_for_programs_is_json() {
        let list: serde_json::Value = serde_json::from_str(&json(registry::packs())).unwrap();
        assert_eq!(list.as_array().unwrap().len(), registry::checks().count());
        assert!(list.as_array().unwrap().iter().any(|check| check["id"] == "fs-path-escape"));
    }
}
