//! A few lines for a log: letters, gate, what was run. Nothing wraps.

use super::{
    style::{BOLD, DIM, PLAIN, Style, of_letter, of_verdict, paint},
    text::{not_started, pack_line},
    words,
};
use crate::{
    report::{Report, RunKind},
    verdict::Verdict,
};

pub(crate) fn summary(report: &Report, style: Style) -> String {
    let mut out = String::new();
    let mut line = |ink, text: &str| {
        out.push_str(&paint(style.colour, ink, text.trim_end_matches(' ')));
        out.push('\n');
    };
    if not_started(report) {
        let why = report.server.instances.iter().find_map(|one| one.trouble.as_deref());
        let why =
            words::name(why.and_then(|why| why.lines().next()).unwrap_or("no reason is known"));
        line(of_verdict(Verdict::Fail), &format!("server did not start: {why}"));
    } else if !report.run.completed {
        line(
            of_verdict(Verdict::Inconclusive),
            "run not completed: what was not reached is inconclusive",
        );
    }
    for pack in &report.packs {
        line(pack.letter.map_or(PLAIN, of_letter), &pack_line(pack));
        if let Some(cap) = words::cap(pack) {
            line(PLAIN, &format!("{}: {cap}", words::name(&pack.id)));
        }
        for check in pack.checks.iter().filter(|check| words::is_critical_part(check)) {
            line(of_verdict(Verdict::Part), &words::critical_part(check));
        }
    }
    line(BOLD, &words::gate(report));
    if !report.gate.accepted.is_empty() {
        let accepted = words::list(report.gate.accepted.iter().map(String::as_str), 20);
        line(PLAIN, &format!("accepted: {accepted}"));
    }
    let kind = match report.run.kind {
        RunKind::Standard => "STANDARD".to_owned(),
        RunKind::Custom => {
            let differences = report.run.differences.iter().map(String::as_str);
            format!("CUSTOM ({})", words::list(differences, 10))
        }
    };
    let (hash, methodology) = (words::name(&report.config.hash), words::name(&report.methodology));
    line(DIM, &format!("{kind} {hash} methodology {methodology}"));
    out
}
