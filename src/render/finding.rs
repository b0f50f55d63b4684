//! One check that did not simply pass: what was asked, what was seen, how to see it again.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    page::{Page, Span},
    style::{BOLD, PLAIN, Style, of_verdict},
    words,
};
use crate::{
    check::Measures,
    evidence::{Evidence, Fact, Kind, Observer, Outcome, Reply, What},
    registry,
    report::{CheckReport, Report},
    text::safe,
    verdict::Verdict,
};

/// Probes named in one finding.
const NAMED: usize = 5;
/// Lines of evidence shown whole without `-v`.
const SHOWN: usize = 2;
/// Lines of evidence shown for one check with `-v`; the record has all.
const VERBOSE: usize = 200;
/// Facts shown for one line.
const FACTS: usize = 6;
/// The column of values, from the indent of a finding.
const COLUMN: usize = 11;

/// A fail or a part.
pub(crate) fn finding(page: &mut Page, report: &Report, check: &CheckReport, style: Style) {
    head(page, check);
    page.plain(4, &words::sentence(&check.rule_text));
    let decided = words::list(check.probes.iter().map(String::as_str), NAMED);
    if !decided.is_empty() {
        page.row(4, COLUMN, "because", &[Span::plain(decided)]);
    }
    if check.scope == Measures::DatabaseControl {
        page.row(4, COLUMN, "scope", &[Span::plain("database-control, tested through the server")]);
    }
    if style.verbose == 0 {
        let lines = strongest(check);
        let more = lines.len().saturating_sub(SHOWN);
        for line in lines.into_iter().take(SHOWN) {
            page.blank();
            evidence(page, line, 4);
        }
        if more > 0 {
            page.blank();
            let text = format!("and {} like these, shown with -v", words::count(more, "more line"));
            page.para(4, &[Span::dim(text)]);
        }
    } else {
        everything(page, check);
    }
    page.blank();
    let remedy = registry::check(&check.id).map(|known| known.spec.remediation.clone());
    if let Some(remedy) = remedy {
        page.row(
            4,
            COLUMN,
            "to fix",
            &[Span::plain(words::sentence(words::first_sentence(&remedy)))],
        );
    }
    again(page, report, check);
}

/// An inconclusive check: shorter, since nothing was established.
pub(crate) fn open(page: &mut Page, report: &Report, check: &CheckReport, style: Style) {
    head(page, check);
    page.plain(4, &words::sentence(&check.rule_text));
    if let Some(reason) = &check.reason {
        page.row(4, COLUMN, "reason", &[Span::plain(words::sentence(reason))]);
    }
    let decided = words::list(check.probes.iter().map(String::as_str), NAMED);
    if !decided.is_empty() {
        page.row(4, COLUMN, "because", &[Span::plain(decided)]);
    }
    if style.verbose > 0 {
        everything(page, check);
        page.blank();
    } else {
        let mut reasons: BTreeMap<_, usize> = BTreeMap::new();
        for why in check.evidence.iter().filter_map(|line| line.why) {
            *reasons.entry(why).or_default() += 1;
        }
        for (why, n) in reasons {
            let text = format!("{} of {}: {}", n, check.evidence.len(), words::why(why));
            page.row(4, COLUMN, "why", &[Span::plain(text)]);
        }
    }
    again(page, report, check);
}

/// With `-v`, the lines of a check that needs no explanation.
pub(crate) fn lines(page: &mut Page, check: &CheckReport) {
    page.blank();
    head(page, check);
    if let Some(reason) = &check.reason {
        page.plain(4, &words::sentence(reason));
    }
    everything(page, check);
}

fn head(page: &mut Page, check: &CheckReport) {
    let mut mark = if words::is_critical_part(check) {
        "critical part".to_owned()
    } else {
        words::weight(check).to_owned()
    };
    if check.candidate {
        mark += ", candidate";
    }
    page.hanging(
        2,
        4,
        &[
            Span::new(check.verdict.word().to_uppercase(), of_verdict(check.verdict)),
            Span::plain("  "),
            Span::new(words::name(&check.id), BOLD),
            Span::dim(format!("  {mark} · {}", words::name(&check.rule))),
        ],
    );
    page.plain(4, &words::sentence(&check.title));
}

fn again(page: &mut Page, report: &Report, check: &CheckReport) {
    let only = format!("--only {}", words::quoted(&check.id));
    let again = words::sealmark(report, "run", &[only, "-v".into()]);
    page.command(4, COLUMN, "see again", &again);
    let rule = words::quoted(&format!("{}/{}", check.id, check.rule));
    page.command(4, COLUMN, "read more", &["sealmark".into(), "explain".into(), rule]);
}

/// The lines that decided, the strongest witness first, then core probes, then in order of time.
fn strongest(check: &CheckReport) -> Vec<&Evidence> {
    let breached = matches!(check.verdict, Verdict::Fail | Verdict::Part);
    let mut lines: Vec<&Evidence> = check
        .evidence
        .iter()
        .filter(|line| check.probes.contains(&line.probe))
        .filter(|line| !breached || line.is_breached())
        .collect();
    let witness = |line: &Evidence| line.verified_by.first().copied().unwrap_or(Observer::Reply);
    lines.sort_by_key(|line| (witness(line), Reverse(line.core), line.lane.clone(), line.seq));
    // Another probe says more than the same one on another tool.
    let mut named: Vec<&str> = Vec::new();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for line in lines {
        if named.contains(&line.probe.as_str()) {
            second.push(line);
        } else {
            named.push(&line.probe);
            first.push(line);
        }
    }
    first.append(&mut second);
    first
}

/// Every line: breaches whole, the others in one row each.
fn everything(page: &mut Page, check: &CheckReport) {
    page.blank();
    for line in check.evidence.iter().take(VERBOSE) {
        if line.is_breached() {
            page.blank();
            evidence(page, line, 4);
            page.blank();
        } else {
            short(page, line);
        }
    }
    if check.evidence.len() > VERBOSE {
        let more = words::count(check.evidence.len() - VERBOSE, "more line");
        page.para(4, &[Span::dim(format!("{more} in the JSON record"))]);
    }
}

fn outcome(line: &Evidence) -> (&'static str, Verdict) {
    match line.outcome {
        Outcome::Held => ("held", Verdict::Pass),
        Outcome::Breached => ("breached", Verdict::Fail),
        Outcome::None => ("none", Verdict::Inconclusive),
    }
}

fn short(page: &mut Page, line: &Evidence) {
    let (word, colour) = outcome(line);
    let control = if line.kind == Kind::Control { "control " } else { "" };
    let tool = line.tool.as_deref().map(|tool| format!(" on {}", words::name(tool)));
    let text = format!("  {control}{}{}", words::name(&line.probe), tool.unwrap_or_default());
    let mut said: Vec<String> = Vec::new();
    if line.reply != Reply::None || line.why.is_none() {
        said.push(words::reading(line));
    }
    said.extend(line.why.map(|why| words::why(why).to_owned()));
    said.extend(words::seen_by(line));
    said.extend(line.caveats.iter().take(FACTS).map(|caveat| words::sentence(caveat)));
    page.para(
        4,
        &[
            Span::new(format!("{word:<8}"), of_verdict(colour)),
            Span::plain(text),
            Span::dim(format!("  {}", said.join(", "))),
        ],
    );
}

/// One line of evidence whole.
fn evidence(page: &mut Page, line: &Evidence, indent: usize) {
    let mut place: Vec<String> = Vec::new();
    if let Some(tool) = &line.tool {
        place.push(format!("tool {}", words::name(tool)));
    }
    if line.role != "default" {
        place.push(format!("role {}", words::name(&line.role)));
    }
    place.extend(line.family.as_deref().map(|family| format!("family {}", words::name(family))));
    place.extend(line.core.then(|| "core probe".to_owned()));
    page.para(
        indent,
        &[Span::new(words::name(&line.probe), BOLD), Span::dim(format!("  {}", place.join(", ")))],
    );
    let indent = indent + 2;
    let column = COLUMN - 2;
    if let Some(sent) = line.sent.as_deref().filter(|sent| !sent.is_empty()) {
        page.row(indent, column, "sent", &[Span::plain(safe(sent, 300))]);
    }
    let figures = figures(line);
    let mut reply = vec![Span::plain(words::reading(line))];
    if !line.excerpt.is_empty() {
        reply.push(Span::plain(": "));
        reply.push(Span::new(safe(&line.excerpt, 300), PLAIN));
    }
    if !figures.is_empty() {
        reply.push(Span::dim(format!("  ({figures})")));
    }
    page.row(indent, column, "reply", &reply);
    witnesses(page, line, indent, column);
    if let Some(why) = line.why {
        page.row(indent, column, "but", &[Span::plain(words::why(why))]);
    }
    for caveat in line.caveats.iter().take(FACTS) {
        page.row(indent, column, "caveat", &[Span::plain(words::sentence(caveat))]);
    }
}

/// Who saw what: first what the outcome rests on, then what else was seen.
fn witnesses(page: &mut Page, line: &Evidence, indent: usize, column: usize) {
    let rests = |fact: &&Fact| line.verified_by.contains(&fact.by);
    // That the server lived on goes without saying where something else was seen.
    let telling = |fact: &&Fact| fact.what != What::Alive(true) || line.facts.len() == 1;
    let facts = line.facts.iter().filter(rests).chain(line.facts.iter().filter(|f| !rests(f)));
    let facts = facts.filter(telling);
    let mut told: Vec<Observer> = Vec::new();
    for fact in facts.take(FACTS) {
        let label = match (rests(&fact), told.contains(&fact.by)) {
            (_, true) => "",
            (true, false) => "seen by",
            (false, false) => "also",
        };
        let text = match fact.what {
            What::Figure { .. } => words::fact(fact),
            _ => format!("{}: {}", words::witness(line, fact.by), words::fact(fact)),
        };
        told.push(fact.by);
        page.row(indent, column, label, &[Span::plain(text)]);
    }
    if line.facts.len() > FACTS {
        let more = words::count(line.facts.len() - FACTS, "more fact");
        page.row(indent, column, "", &[Span::dim(format!("{more} in the JSON record"))]);
    }
    for by in line.verified_by.iter().filter(|by| !told.contains(by)) {
        page.row(indent, column, "seen by", &[Span::plain(words::witness(line, *by))]);
    }
}

fn figures(line: &Evidence) -> String {
    let measured = &line.measured;
    let mut parts: Vec<String> = Vec::new();
    parts.extend(measured.rows.map(|n| format!("{n} rows")));
    parts.extend(measured.bytes.map(|n| format!("{n} bytes")));
    parts.extend(measured.seconds.map(|s| words::duration((s.clamp(0.0, 1e9) * 1000.0) as u64)));
    parts.join(", ")
}
