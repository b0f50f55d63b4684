//! Pages, schemas and the published standard, written from the registry and from the types.

mod check;
mod config;
mod describe;
mod pack;
pub mod words;

use serde_json::Value;

pub use self::check::what_to_do;
pub use self::describe::description;
use crate::{config as configuration, registry, report, standard};

/// The line at the head of every generated page.
const WRITTEN: &str =
    "<!-- Written from the registry by `UPDATE=1 cargo test --test generated`. -->\n";

/// Every generated file but `docs/cli.md`: its path from the root of the project, and its text.
pub fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<(String, String)> = registry::checks()
        .map(|check| (format!("docs/checks/{}.md", check.id()), check::page(check)))
        .collect();
    pages.extend(
        registry::packs().iter().map(|p| (format!("docs/packs/{}.md", p.id), pack::page(p))),
    );
    pages.push(("docs/config.md".into(), config::page()));
    pages.push(("docs/schema/config.json".into(), config_schema()));
    pages.push(("docs/schema/report.json".into(), report_schema()));
    pages.push(("standard.yaml".into(), standard::standard_yaml()));
    pages
}

/// The JSON Schema of the configuration.
pub fn config_schema() -> String {
    pretty(&configuration::json_schema())
}

/// The JSON Schema of the report.
pub fn report_schema() -> String {
    pretty(&report::json_schema())
}

/// A value as indented JSON with a line end.
pub fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// A text as inline code in Markdown, whatever it contains.
fn code(text: &str) -> String {
    let runs = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(runs + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_path_is_written_once() {
        let pages = pages();
        let paths: BTreeSet<&String> = pages.iter().map(|(path, _)| path).collect();
        assert_eq!(paths.len(), pages.len());
    }

    #[test]
    fn every_check_has_a_page_with_an_anchor_for_every_rule() {
        let pages = pages();
        for check in registry::checks() {
            let path = format!("docs/checks/{}.md", check.id());
            let (_, page) = pages.iter().find(|(found, _)| *found == path).unwrap();
            for rule in check.rules {
                assert!(page.contains(&format!("\n### {}\n", rule.id())), "{path} {}", rule.id());
            }
            for rule in registry::runner_rules() {
                assert!(
                    page.contains(&format!("<a id=\"{}\">", rule.id())),
                    "{path} {}",
                    rule.id()
                );
            }
            let last = page.trim_end().lines().last().unwrap();
            assert!(last.starts_with("Decided in ["), "{path} ends {last}");
        }
    }

    #[test]
    fn code_and_cells_hold_whatever_they_are_given() {
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(cell("a |\n b"), "a \\| b");
    }
}
