//! `sealmark explain CHECK[/RULE]`: the page of a check, or of one rule, in the terminal.

use super::args::ExplainArgs;
use super::names;
use super::out::{self, wrapped};
use crate::check::{Check, Probe};
use crate::docs::{self, words};
use crate::error::{Error, MET};
use crate::registry;
use crate::verdict::RuleDef;
use std::fmt::Write as _;

/// Columns of the page.
const WIDTH: usize = 80;

pub(crate) fn main(args: &ExplainArgs) -> Result<u8, Error> {
    let text = match args.what.split_once('/') {
        None => page(names::check(&args.what)?),
        Some((id, rule)) => {
            let check = names::check(id)?;
            let found = registry::rule(check, rule).ok_or_else(|| no_such_rule(check, rule))?;
            rule_page(check, found)
        }
    };
    out::print(text.as_bytes())?;
    Ok(MET)
}

fn no_such_rule(check: &Check, rule: &str) -> Error {
    let known: Vec<String> =
        check.rules.iter().chain(registry::runner_rules()).map(RuleDef::id).collect();
    let id = check.id();
    names::unknown(
        &format!("rule of {id}"),
        rule,
        known.iter().map(String::as_str),
        format!("`sealmark explain {id}` shows its rules"),
    )
}

fn rule_page(check: &Check, rule: &RuleDef) -> String {
    let mut text = format!("{}/{}  {}\n\n", check.id(), rule.id(), rule.verdict());
    text += &para(&check.rule_text(rule));
    text += &para(words::verdict_means(rule.verdict()));
    let _ = write!(text, "\nWhat to do\n{}", para(&docs::what_to_do(check, rule)));
    let _ = writeln!(text, "\nDecided in {}.", rule.file());
    text
}

fn page(check: &Check) -> String {
    let spec = &*check.spec;
    let mut text = format!("{}\n{}\n\n{}", check.id(), spec.title.trim(), para(&spec.question));
    text += "\n";
    let mut fact = |name: &str, value: &str| {
        let value = wrapped(value, 14, WIDTH);
        let _ = writeln!(text, "  {name:10}  {}", value.trim_start());
    };
    fact("pack", check.pack);
    fact("severity", &words::severity(spec));
    fact("since", &spec.since);
    if spec.deep {
        fact("profile", "deep only");
    }
    fact("scope", &format!("{}: {}", words::measures(spec.measures), spec.scope));
    fact("collects", words::collects(&check.collect));
    fact("lane", words::lane(spec.lane));
    if !spec.tools.is_empty() {
        fact("operations", &spec.tools.join(", "));
    }
    if !spec.held_by.is_empty() {
        let held: Vec<&str> = spec.held_by.iter().map(|&reply| words::reply(reply)).collect();
        fact("held by", &held.join(", "));
    }
    text += "\nWho may decide, strongest first\n";
    for &seen_by in &spec.observers {
        let _ = writeln!(text, "  {}: {}", words::observer(seen_by), words::observer_sees(seen_by));
    }
    text += "\nRules, of which one gives the verdict\n";
    for rule in check.rules {
        let _ = writeln!(text, "  {:12}  {}", rule.verdict(), rule.id());
        let _ = writeln!(text, "{}", wrapped(&check.rule_text(rule), 16, WIDTH));
    }
    text += "\nSettled by the runner, for every check\n";
    for rule in registry::runner_rules() {
        let _ = writeln!(text, "  {:12}  {}", rule.verdict(), rule.id());
    }
    text += &probes(check);
    let _ = write!(text, "\nRemediation\n{}", para(&spec.remediation));
    let _ = write!(
        text,
        "\nKnown false results\n{}{}",
        para(&format!("A wrong pass: {}", spec.false_results.pass)),
        para(&format!("A wrong fail: {}", spec.false_results.fail))
    );
    if !spec.references.is_empty() {
        text += "\nReferences\n";
        spec.references.iter().for_each(|reference| text += &para(reference));
    }
    let _ = writeln!(text, "\nDecided in {}.", words::decided_in(check).join(" and "));
    text
}

fn para(text: &str) -> String {
    wrapped(text, 2, WIDTH) + "\n"
}

/// The probes in the order of the declaration; those that follow each other and weigh the same and
/// go to the same operations stand under one line that says so.
fn probes(check: &Check) -> String {
    let probes = &check.spec.probes;
    let ids = probes.iter().map(|probe| probe.id.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    let mut last = String::new();
    for probe in probes {
        let group = group(check, probe);
        if text.is_empty() {
            text += "\nProbes\n";
        }
        if group != last {
            let _ = writeln!(text, "  {group}");
            last = group;
        }
        let line = format!("    {:ids$}  {}", probe.id, shown(probe));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// How a probe weighs and where it goes: `core, to read, list`.
fn group(check: &Check, probe: &Probe) -> String {
    let mut parts = Vec::new();
    if probe.core {
        parts.push("core".to_owned());
    }
    parts.extend(probe.family.as_ref().map(|family| format!("family {family}")));
    let operations = words::operations(check, probe);
    if !operations.is_empty() {
        parts.push(format!("to {}", operations.join(", ")));
    }
    if probe.once {
        parts.push("once for the server".to_owned());
    }
    if probe.deep {
        parts.push("profile deep".to_owned());
    }
    if parts.is_empty() { "every tool".to_owned() } else { parts.join(", ") }
}

/// The input on one line, in quotes where its ends would not be seen.
fn shown(probe: &Probe) -> String {
    match words::input(probe) {
        None => "(made by the check)".to_owned(),
        Some(input) => crate::text::safe(&words::quoted_ends(&input), 120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_everything_that_decides() {
        for check in registry::checks() {
            let page = page(check);
            for rule in check.rules.iter().chain(registry::runner_rules()) {
                assert!(page.contains(&rule.id()), "{} {}", check.id(), rule.id());
            }
            for probe in &check.spec.probes {
                assert!(
                    page.contains(&format!("    {} ", probe.id)),
                    "{} {}",
                    check.id(),
                    probe.id
                );
            }
            assert!(page.ends_with(".\n") && page.contains("\nDecided in packs/"), "{page}");
            assert!(!page.contains('\u{1b}'), "{page}");
        }
    }

    #[test]
    fn a_rule_says_what_it_gives_and_what_to_do() {
        let check = registry::check("fs-path-escape").unwrap();
        let rule = registry::rule(check, "core-breached").unwrap();
        let page = rule_page(check, rule);
        assert!(page.starts_with("fs-path-escape/core-breached  fail\n"), "{page}");
        assert!(page.contains("component by component"), "{page}");
    }

    #[test]
    fn a_wrong_rule_is_answered_with_the_near_one() {
        let args = ExplainArgs { what: "fs-path-escape/core-breeched".into() };
        assert_eq!(main(&args).unwrap_err().help(), "did you mean `core-breached`?");
        let args = ExplainArgs { what: "fs-path-excape".into() };
        assert_eq!(main(&args).unwrap_err().help(), "did you mean `fs-path-escape`?");
    }
}
