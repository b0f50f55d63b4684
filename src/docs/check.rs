//! The page of a check.

use super::{WRITTEN, cell, code, words};
use crate::{
    check::Check,
    registry,
    verdict::{RuleDef, Verdict},
};
use std::fmt::Write as _;

/// `docs/checks/<id>.md`.
pub(super) fn page(check: &Check) -> String {
    let spec = &*check.spec;
    let mut text = format!("# {}\n\n{WRITTEN}\n**{}**\n\n", check.id(), spec.title.trim());
    let _ = writeln!(text, "{}\n", flat(&spec.question));
    text += "| | |\n|---|---|\n";
    for (name, value) in facts(check) {
        let _ = writeln!(text, "| {name} | {} |", cell(&value));
    }
    let _ =
        write!(text, "\n## Scope\n\n{}: {}\n", words::measures(spec.measures), flat(&spec.scope));
    text += "\n## Rules\n\nExactly one of them gives the verdict.\n";
    for rule in check.rules {
        let _ = writeln!(
            text,
            "\n### {}\n\n**{}** · {}",
            rule.id(),
            rule.verdict(),
            flat(&check.rule_text(rule))
        );
    }
    text += "\n## Rules of the runner\n\nSettled before any of the above, for every check.\n\n";
    text += "| rule | verdict | |\n|---|---|---|\n";
    for rule in registry::runner_rules() {
        let id = rule.id();
        let _ = writeln!(
            text,
            "| <a id=\"{id}\"></a>{id} | {} | {} |",
            rule.verdict(),
            cell(&rule.text())
        );
    }
    text += &probes(check);
    let _ = writeln!(text, "\n## Remediation\n\n{}", flat(&spec.remediation));
    let _ = writeln!(
        text,
        "\n## Known false results\n\n- A wrong pass: {}\n- A wrong fail: {}",
        flat(&spec.false_results.pass),
        flat(&spec.false_results.fail)
    );
    if !spec.references.is_empty() {
        text += "\n## References\n\n";
        for reference in &spec.references {
            let _ = writeln!(text, "- {}", flat(reference));
        }
    }
    let files: Vec<String> =
        words::decided_in(check).iter().map(|file| format!("[{file}](../../{file})")).collect();
    text + &format!("\nDecided in {}.\n", files.join(" and "))
}

/// The rows at the head of the page.
fn facts(check: &Check) -> Vec<(&'static str, String)> {
    let spec = &*check.spec;
    let observers: Vec<String> = spec
        .observers
        .iter()
        .map(|&seen_by| format!("{} ({})", words::observer(seen_by), words::observer_sees(seen_by)))
        .collect();
    let mut facts = vec![
        ("Pack", format!("[{0}](../packs/{0}.md)", check.pack)),
        ("Severity", words::severity(spec)),
        ("Since", spec.since.clone()),
        ("Collects", words::collects(&check.collect).to_owned()),
        ("Lane", words::lane(spec.lane).to_owned()),
        ("Decided by", observers.join(", else ")),
    ];
    if !spec.held_by.is_empty() {
        let held: Vec<&str> = spec.held_by.iter().map(|&reply| words::reply(reply)).collect();
        facts.push(("Holds when the reply reads", held.join(", ")));
    }
    if !spec.tools.is_empty() {
        facts.push(("Operations", spec.tools.join(", ")));
    }
    if spec.deep {
        facts.push(("Profile", "deep only".to_owned()));
    }
    facts
}

fn probes(check: &Check) -> String {
    let spec = &*check.spec;
    if spec.probes.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n## Probes\n\n`core` probes decide a fail alone; of the others two families must be breached.\n\n\
         | probe | core | family | operations | input |\n|---|---|---|---|---|\n",
    );
    for probe in &spec.probes {
        let input = match words::input(probe) {
            Some(input) => code(&visible(&words::quoted_ends(&input))).replace('|', "\\|"),
            None => "made by the check".to_owned(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            probe.id,
            if probe.core { "core" } else { "" },
            probe.family.as_deref().unwrap_or_default(),
            words::operations(check, probe).join(", "),
            input,
        );
    }
    text
}

/// A text on one line: control characters escaped, and long input cut at 160 characters.
fn visible(text: &str) -> String {
    crate::text::safe(text, 160)
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the reader of a verdict by this rule does next.
pub fn what_to_do(check: &Check, rule: &RuleDef) -> String {
    let spec = &*check.spec;
    match rule.verdict() {
        Verdict::Pass => {
            format!("Nothing. What a pass does not say: {}", flat(&spec.false_results.pass))
        }
        Verdict::Part | Verdict::Fail => format!(
            "{} If the report is wrong: {} A known failure can be accepted until a date with \
             `accept` in the configuration.",
            flat(&spec.remediation),
            flat(&spec.false_results.fail)
        ),
        Verdict::Inconclusive if words::is_runner_rule(rule) => {
            "The report says why. Most often the server needs other arguments, environment or \
             time: see docs/troubleshooting.md."
                .to_owned()
        }
        Verdict::Inconclusive => {
            "No probe showed enough. Where a tool was not found or its control did not work, name \
             its class and arguments under `tools` in the configuration."
                .to_owned()
        }
        Verdict::Na => {
            "Nothing: the question does not arise for this server or configuration.".to_owned()
        }
    }
}
