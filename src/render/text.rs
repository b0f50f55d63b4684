//! The report for people: what ran, each pack with its checks, each finding with what was seen,
//! the result, and what a letter says nothing about.

use super::{
    PROMISE, finding,
    page::{Page, Span},
    style::{BOLD, DIM, PLAIN, Style, of_letter, of_verdict, width},
    words,
};
use crate::{
    report::{CheckReport, InstanceInfo, PackReport, Report, RunKind, ToolInfo},
    text::safe,
    verdict::Verdict,
};

/// Lines of any list that are shown.
const LISTED: usize = 20;
/// Lines of a standard error stream that are shown.
const TAIL: usize = 20;
/// The column of values in the head and the foot.
const COLUMN: usize = 11;

pub(crate) fn text(report: &Report, style: Style) -> String {
    let mut page = Page::new(style);
    head(&mut page, report, style);
    if not_started(report) {
        trouble(&mut page, report);
    } else {
        for one in &report.packs {
            pack(&mut page, report, one, style);
        }
    }
    weakened(&mut page, report);
    result(&mut page, report);
    foot(&mut page, report);
    page.finish()
}

/// Whether no instance of the server started, so that no check says anything about it.
pub(crate) fn not_started(report: &Report) -> bool {
    let instances = &report.server.instances;
    !instances.is_empty() && instances.iter().all(|one| !one.started)
}

/// The published line of a pack, safe to show.
pub(crate) fn pack_line(pack: &PackReport) -> String {
    safe(&pack.line(), 400)
}

/// The line of a pack with its letter in colour.
fn lettered(pack: &PackReport) -> Vec<Span> {
    let line = pack_line(pack);
    let marked = pack.letter.and_then(|letter| {
        let start = line.find(" GRADE ")? + " GRADE ".len();
        let end = start + line[start..].find(" (").filter(|n| *n > 0)?;
        let end = if pack.capped { end + " (capped)".len() } else { end };
        Some((line.get(..start)?, line.get(start..end)?, line.get(end..)?, of_letter(letter)))
    });
    match marked {
        Some((before, letter, after, ink)) => {
            vec![Span::new(before, BOLD), Span::new(letter, ink), Span::plain(after)]
        }
        None => vec![Span::new(line, BOLD)],
    }
}

fn head(page: &mut Page, report: &Report, style: Style) {
    let kind = match report.run.kind {
        RunKind::Standard => "STANDARD",
        RunKind::Custom => "CUSTOM",
    };
    page.para(
        0,
        &[
            Span::new(words::name(&report.harness.name), BOLD),
            Span::plain(format!(
                " {} · methodology {} · ",
                words::name(&report.harness.version),
                words::name(&report.methodology)
            )),
            Span::new(kind, BOLD),
            Span::dim(format!(" · config {}", short_hash(&report.config.hash))),
        ],
    );
    page.blank();
    let server = &report.server;
    let named = match (server.name.as_str(), server.version.as_str()) {
        ("", _) => vec![Span::dim("did not say its name")],
        (name, version) => vec![
            Span::new(words::name(name), BOLD),
            Span::plain(format!(" {}", words::name(version))),
            Span::dim(protocol(report)),
        ],
    };
    page.row(0, COLUMN, "server", &named);
    if !server.command.is_empty() {
        page.command(0, COLUMN, "command", &words::server_command(report));
    }
    if !server.env.is_empty() {
        let env: Vec<String> = server
            .env
            .iter()
            .take(LISTED)
            .map(|(key, value)| format!("{}={}", words::name(key), words::name(value)))
            .collect();
        let more = server.env.len().saturating_sub(LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        page.row(0, COLUMN, "env", &[Span::plain(env.join(" ") + &more)]);
    }
    if !server.headers.is_empty() {
        let headers = words::list(server.headers.iter().map(String::as_str), LISTED);
        page.row(0, COLUMN, "headers", &[Span::plain(headers)]);
    }
    tools(page, report, style);
    let run = &report.run;
    let when = format!(
        "{} world, profile {}, {}, started {}",
        words::name(&run.world),
        words::name(&run.profile),
        words::duration(run.duration_ms),
        words::name(&run.started_at)
    );
    page.row(0, COLUMN, "run", &[Span::plain(when)]);
    for difference in run.differences.iter().take(LISTED) {
        page.row(0, COLUMN, "differs", &[Span::plain(words::sentence(difference))]);
    }
    if !run.completed && !not_started(report) {
        let text = "what was not reached is inconclusive, and a pack with a gap has no letter";
        let ink = of_verdict(Verdict::Inconclusive);
        page.row(0, COLUMN, "partial", &[Span::new("not completed: ", ink), Span::plain(text)]);
    }
}

fn protocol(report: &Report) -> String {
    let server = &report.server;
    match (server.protocol_version.as_str(), server.transport.as_str()) {
        ("", "") => String::new(),
        ("", transport) => format!(" · {}", words::name(transport)),
        (version, transport) => {
            format!(" · protocol {} over {}", words::name(version), words::name(transport))
        }
    }
}

fn short_hash(hash: &str) -> String {
    match hash.strip_prefix("sha256:") {
        Some(hex) => format!("sha256:{}", hex.chars().take(12).collect::<String>()),
        None => hash.chars().take(20).collect(),
    }
    .chars()
    .filter(|c| c.is_ascii_graphic())
    .collect()
}

fn tools(page: &mut Page, report: &Report, style: Style) {
    let tools = &report.tools;
    if tools.is_empty() {
        return;
    }
    let confirmed = tools.iter().filter(|tool| tool.confirmed_by.is_some()).count();
    let text = format!("{}, {confirmed} confirmed by a control", words::count(tools.len(), "tool"));
    page.row(0, COLUMN, "tools", &[Span::plain(text)]);
    if style.verbose > 0 {
        let names = tools.iter().map(|tool| width(&words::name(&tool.name))).max();
        let names = names.unwrap_or_default().min(30) + 2;
        for tool in tools {
            page.row(COLUMN, names, &words::name(&tool.name), &[Span::plain(placed(tool))]);
        }
        return;
    }
    let doubtful: Vec<_> = tools.iter().filter(|tool| tool.unconfirmed.is_some()).collect();
    for tool in doubtful.iter().take(5) {
        let why = words::sentence(tool.unconfirmed.as_deref().unwrap_or_default());
        let text = format!("{} has no working control: {why}", words::name(&tool.name));
        page.row(0, COLUMN, "", &[Span::dim(text)]);
    }
    if doubtful.len() > 5 {
        let more = words::count(doubtful.len() - 5, "more tool");
        page.row(0, COLUMN, "", &[Span::dim(format!("{more} without a working control"))]);
    }
}

/// Where a tool was placed and why, and why its control did not work.
fn placed(tool: &ToolInfo) -> String {
    let place = match (tool.class.as_str(), tool.operation.as_str()) {
        ("", "") => "not placed".to_owned(),
        (class, operation) => format!("{}/{}", words::name(class), words::name(operation)),
    };
    let because = words::sentence(&tool.because);
    match &tool.unconfirmed {
        Some(why) => format!("{place}: {because}; no working control: {}", words::sentence(why)),
        None => format!("{place}: {because}"),
    }
}

/// The one block of a server that did not start: why, its last words, what to try.
fn trouble(page: &mut Page, report: &Report) {
    page.section();
    let ink = of_verdict(Verdict::Fail);
    page.para(
        0,
        &[Span::new("The server did not start, so no check says anything about it.", ink)],
    );
    let mut told: Vec<(String, Vec<&InstanceInfo>)> = Vec::new();
    for one in &report.server.instances {
        let why = one.trouble.clone().unwrap_or_else(|| "no reason is known".into());
        match told.iter_mut().find(|(said, _)| *said == why) {
            Some((_, lanes)) => lanes.push(one),
            None => told.push((why, vec![one])),
        }
    }
    for (why, lanes) in told.iter().take(3) {
        page.blank();
        let lanes = words::list(lanes.iter().map(|one| one.lane.as_str()), 5);
        let mut lines = why.lines().filter(|line| !line.trim().is_empty());
        page.row(
            2,
            COLUMN - 2,
            "why",
            &[
                Span::plain(words::sentence(lines.next().unwrap_or("no reason is known"))),
                Span::dim(format!("  (start {lanes})")),
            ],
        );
        let rest: Vec<&str> = lines.collect();
        for line in &rest[rest.len().saturating_sub(TAIL)..] {
            page.row(2, COLUMN - 2, "", &[Span::dim(safe(line.trim_end(), 300))]);
        }
    }
    page.blank();
    if !report.server.command.is_empty() {
        page.command(2, COLUMN - 2, "try", &words::server_command(report));
    }
    let hint = "placeholders such as ${sandbox} stand for things made for each run; a first start \
                of npx or uvx downloads the package and may take longer than the start limit";
    page.row(2, COLUMN - 2, "help", &[Span::plain(hint)]);
}

fn pack(page: &mut Page, report: &Report, pack: &PackReport, style: Style) {
    page.section();
    page.hanging(0, 2, &lettered(pack));
    page.para(0, &[Span::dim(words::sentence(&pack.title))]);
    if let Some(cap) = words::cap(pack) {
        page.plain(0, &cap);
    }
    if pack.letter.is_some() && !pack.excluded.is_empty() {
        let excluded = words::list(pack.excluded.iter().map(String::as_str), LISTED);
        page.hanging(0, 2, &[Span::plain(format!("not scored: {excluded}"))]);
    }
    if pack.provisional {
        page.plain(0, "* provisional: a critical check is inconclusive");
    }
    if pack.candidate {
        page.plain(0, "candidate pack: not part of the standard profile");
    }
    if pack.letter.is_none() && style.verbose == 0 && all_na(pack) {
        return;
    }
    page.blank();
    table(page, &pack.checks);
    // What counts comes before what is only shown.
    for advisory in [false, true] {
        for verdict in [Verdict::Fail, Verdict::Part, Verdict::Inconclusive] {
            let mine =
                |check: &&CheckReport| check.verdict == verdict && check.advisory == advisory;
            for check in pack.checks.iter().filter(mine) {
                page.blank();
                match verdict {
                    Verdict::Inconclusive => finding::open(page, report, check, style),
                    _ => finding::finding(page, report, check, style),
                }
            }
        }
    }
    if style.verbose > 0 {
        let settled = |check: &&CheckReport| matches!(check.verdict, Verdict::Pass | Verdict::Na);
        for check in pack.checks.iter().filter(settled) {
            finding::lines(page, check);
        }
    }
}

fn all_na(pack: &PackReport) -> bool {
    pack.checks.iter().all(|check| check.verdict == Verdict::Na)
}

fn table(page: &mut Page, checks: &[CheckReport]) {
    const VERDICT: usize = 14;
    let widest = |of: fn(&CheckReport) -> String| {
        checks.iter().map(|check| width(&of(check))).max().unwrap_or_default()
    };
    let ids = widest(|check| words::name(&check.id)).min(40);
    let weights = widest(|check| words::weight(check).into());
    let rules = widest(rule);
    let one_line = 2 + VERDICT + ids + 2 + weights + 2 + rules <= page.width();
    for check in checks {
        let id = words::name(&check.id);
        let gap = |text: &str, to: usize| " ".repeat(to.saturating_sub(width(text)) + 2);
        let verdict = Span::new(format!("{:<VERDICT$}", check.verdict), of_verdict(check.verdict));
        let ink = if check.verdict == Verdict::Na { DIM } else { PLAIN };
        let weight = words::weight(check);
        if one_line {
            let text = format!("{id}{}", gap(&id, ids));
            let rest = format!("{weight}{}{}", gap(weight, weights), rule(check));
            page.para(2, &[verdict, Span::new(text, ink), Span::dim(rest)]);
        } else {
            page.para(2, &[verdict, Span::new(id, ink)]);
            page.para(2 + VERDICT, &[Span::dim(format!("{weight} · {}", rule(check)))]);
        }
    }
}

fn rule(check: &CheckReport) -> String {
    let candidate = if check.candidate { " (candidate)" } else { "" };
    format!("{}{candidate}", words::name(&check.rule))
}

/// What weakens the run, and what it left behind.
fn weakened(page: &mut Page, report: &Report) {
    let mut caveats: Vec<String> =
        report.caveats.iter().map(|caveat| words::sentence(caveat)).collect();
    if !not_started(report) {
        for one in &report.server.instances {
            let lane = words::name(&one.lane);
            if let Some(why) = &one.trouble {
                let why = words::sentence(why.lines().next().unwrap_or_default());
                caveats.push(format!("the server on lane {lane}: {why}"));
            }
            if one.restarts > 0 {
                let times = words::count(one.restarts as usize, "time");
                caveats.push(format!("the server on lane {lane} had to be restarted: {times}"));
            }
        }
    }
    bullets(page, "Caveats", &caveats);
    let left: Vec<String> = report.cleanup.left.iter().map(|path| words::sentence(path)).collect();
    bullets(page, "Left behind, to be removed by hand", &left);
    if left.is_empty() && !report.cleanup.removed {
        bullets(page, "Left behind", &["something could not be removed".into()]);
    }
}

fn bullets(page: &mut Page, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    page.heading(title);
    for line in lines.iter().take(LISTED) {
        page.row(2, 2, "-", &[Span::plain(line)]);
    }
    if lines.len() > LISTED {
        page.row(2, 2, "", &[Span::dim(format!("and {} more", lines.len() - LISTED))]);
    }
}

fn result(page: &mut Page, report: &Report) {
    page.heading("Result");
    for pack in &report.packs {
        page.hanging(2, 4, &lettered(pack));
        if let Some(cap) = words::cap(pack) {
            page.plain(4, &cap);
        }
        for check in pack.checks.iter().filter(|check| words::is_critical_part(check)) {
            page.para(4, &[Span::new(words::critical_part(check), of_verdict(Verdict::Part))]);
        }
    }
    let ink = of_verdict(if report.gate.met { Verdict::Pass } else { Verdict::Fail });
    page.hanging(2, 4, &[Span::new(words::gate(report), ink)]);
    for accepted in report.gate.accepted.iter().take(LISTED) {
        page.plain(4, &format!("accepted by the configuration: {}", words::sentence(accepted)));
    }
    let badge = match (&report.badge.why, report.badge.eligible) {
        (_, true) => "a badge may be made of this run".to_owned(),
        (Some(why), false) => format!("no badge: {}", words::sentence(why)),
        (None, false) => "no badge".to_owned(),
    };
    page.para(2, &[Span::dim(badge)]);
}

fn foot(page: &mut Page, report: &Report) {
    page.section();
    for sentence in PROMISE {
        page.plain(0, sentence);
    }
    let lines: Vec<String> = report
        .not_covered
        .iter()
        .map(|one| format!("{}: {}", words::sentence(&one.what), words::sentence(&one.why)))
        .collect();
    bullets(page, "Not covered", &lines);
}
