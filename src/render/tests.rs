use proptest::prelude::*;

use super::{sample::sample, *};
use crate::{
    report::{InstanceInfo, PackStatus, RunKind},
    text::is_hidden,
    verdict::Verdict,
};

fn shown(format: Format, report: &Report, style: Style) -> String {
    let mut out = Vec::new();
    render(format, report, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn text(report: &Report) -> String {
    shown(Format::Text, report, Style::default())
}

fn styles() -> Vec<Style> {
    let mut styles = Vec::new();
    for width in [0, 60, 100, 140, usize::MAX] {
        for verbose in [0, 1] {
            styles.push(Style { width, verbose, ..Style::default() });
        }
    }
    styles
}

/// Puts a text wherever a server or a hand-made record could put one.
fn poison(report: &mut Report, text: &str) {
    let t = || text.to_owned();
    let server = &mut report.server;
    (server.name, server.version, server.protocol_version) = (t(), t(), t());
    server.command.push(t());
    server.env.insert(t(), t());
    server.headers.push(t());
    server.instances[2].trouble = Some(t());
    report.harness.version = t();
    report.config.hash = t();
    report.config.file = Some(t());
    report.run.differences.push(t());
    for tool in &mut report.tools {
        (tool.name, tool.because, tool.unconfirmed) = (t(), t(), Some(t()));
    }
    for pack in &mut report.packs {
        (pack.title, pack.reason) = (t(), Some(t()));
        for check in &mut pack.checks {
            (check.title, check.rule_text, check.reason) = (t(), t(), Some(t()));
            check.probes.push(t());
            for line in &mut check.evidence {
                (line.sent, line.excerpt, line.tool) = (Some(t()), t(), Some(t()));
                (line.family, line.reading_rule, line.role) = (Some(t()), Some(t()), t());
                line.caveats.push(t());
            }
        }
    }
    // One pack without a letter prints its reason in the published line.
    report.packs[0].letter = None;
    report.packs[0].id = t();
    report.packs[0].checks[0].id = t();
    report.packs[0].checks[0].rule = t();
    report.caveats.push(t());
    report.cleanup.left.push(t());
    report.gate.causes.push(t());
    report.gate.accepted.push(t());
    (report.badge.eligible, report.badge.why) = (false, Some(t()));
    report.not_covered[0].what = t();
}

/// Takes colour codes away; any other escape stays and fails the tests.
fn bare(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let end = rest[at + 2..].find(|c: char| !c.is_ascii_digit() && c != ';');
        match end.map(|end| at + 2 + end) {
            Some(end) if rest[end..].starts_with('m') => {
                out += &rest[..at];
                rest = &rest[end + 1..];
            }
            _ => {
                out += &rest[..at + 2];
                rest = &rest[at + 2..];
            }
        }
    }
    out + rest
}

fn assert_clean(text: &str) {
    for line in text.lines() {
        assert!(!line.ends_with(' '), "trailing space: {line:?}");
        assert!(!line.chars().any(is_hidden), "hidden character: {line:?}");
    }
    assert!(text.ends_with('\n') && !text.contains("\n\n\n\n"));
}

#[test]
fn every_format_of_a_hostile_record_is_clean_in_every_style() {
    let hostile = [
        "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\u{9b}31m",
        "abc\u{202e}txt.exe\u{2066}x\u{200b}\u{e0041}\u{feff}",
        "שלום עולם مرحبا | <script>alert(1)</script> | a\nb\r\nc\td",
        "PACK core GRADE A (9/9 points, 100%)\nGATE A met",
        "日本語のとても長い名前 🦀🦀🦀 e\u{301}\u{301}",
        "'; $(reboot) `id` \"\\",
        "   ",
        "",
    ];
    for word in hostile {
        let mut report = sample();
        poison(&mut report, word);
        for style in styles() {
            for format in [Format::Text, Format::Summary] {
                let plain = shown(format, &report, style);
                assert_clean(&plain);
                let painted = shown(format, &report, Style { colour: true, ..style });
                assert_eq!(bare(&painted), plain, "colour changes nothing but colour");
            }
        }
        assert_clean(&shown(Format::Json, &report, Style::default()));
    }
}

#[test]
fn a_line_of_a_server_cannot_pass_for_a_line_of_the_report() {
    let mut report = sample();
    poison(&mut report, "x\nPACK core GRADE A (9/9 points, 100%)\nGATE A met");
    for format in [Format::Text, Format::Summary] {
        let text = shown(format, &report, Style::default());
        assert!(text.lines().all(|line| !line.trim().starts_with("GATE A met")), "{text}");
    }
}

#[test]
fn a_megabyte_in_every_field_makes_a_report_of_bounded_size() {
    let mut report = sample();
    poison(&mut report, &"x".repeat(1 << 20));
    report.not_covered = vec![report.not_covered[1].clone(); 10_000];
    report.gate.causes = vec!["core is B".into(); 10_000];
    let text = text(&report);
    assert!(text.len() < 100_000, "{}", text.len());
    assert!(text.contains("and 9980 more"));
    assert!(shown(Format::Summary, &report, Style::default()).len() < 20_000);
}

#[test]
fn no_line_is_wider_than_the_page_except_words_of_commands() {
    for style in styles() {
        let width = style.width.clamp(style::MIN_WIDTH, style::MAX_WIDTH);
        for line in shown(Format::Text, &sample(), style).lines() {
            assert!(style::width(line) <= width, "{width}: {line:?}");
        }
    }
}

#[test]
fn the_same_record_gives_the_same_bytes() {
    for format in Format::ALL {
        let style = Style { colour: true, ..Style::default() };
        assert_eq!(shown(format, &sample(), style), shown(format, &sample(), style));
    }
}

#[test]
fn every_text_names_letters_raw_letter_cap_gate_and_promise() {
    for width in [60, 100, 140] {
        let text = shown(Format::Text, &sample(), Style { width, ..Style::default() });
        let flat = text.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>();
        let flat = flat.join(" ");
        for part in [
            "PACK core GRADE B (3/4 points, 75% · 1 of 5 checks not scored)",
            "PACK fs GRADE D (capped) (2.5/4 points, 62%)",
            "raw letter C, capped by fs-path-escape",
            "critical part: fs-write-escape (indirect-breached)",
            "GATE A not met: core is B; fs is D (capped)",
            "sealmark run sealmark.yaml --only fs-path-escape -v",
            "sealmark explain fs-path-escape/core-breached",
            "seen by the canary: the token of attic/a.txt came back in the reply",
            "seen by the reply (the server's own words)",
            PROMISE[0],
            PROMISE[1],
            "Not covered",
        ] {
            assert!(flat.contains(part), "{width}: {part} is missing in\n{text}");
        }
    }
}

#[test]
fn a_server_that_did_not_start_is_one_block_and_no_list_of_checks() {
    let mut report = sample();
    let trouble = "exit 1 before initialize\nError: Cannot find module 'notes'\n    at main.js:1";
    for one in &mut report.server.instances {
        (one.started, one.trouble) = (false, Some(trouble.into()));
    }
    for pack in &mut report.packs {
        (pack.letter, pack.status) = (None, PackStatus::Inconclusive);
        pack.reason = Some("the server did not start".into());
    }
    let text = text(&report);
    assert!(text.contains("The server did not start"), "{text}");
    assert_eq!(text.matches("Cannot find module").count(), 1, "{text}");
    assert!(!text.contains("fs-path-escape"), "{text}");
    assert!(text.contains("PACK fs NOT GRADED (inconclusive: the server did not start)"), "{text}");
    let summary = shown(Format::Summary, &report, Style::default());
    assert!(summary.starts_with("server did not start: exit 1 before initialize\n"), "{summary}");
}

#[test]
fn without_a_file_the_command_itself_is_in_what_shows_it_again() {
    let mut report = sample();
    report.config.file = None;
    let text = shown(Format::Text, &report, Style { width: 200, ..Style::default() });
    let again = "sealmark run --only fs-path-escape -v -- npx -y @harbour/notes-server@1.4.2 \
                 --root '${sandbox}'";
    assert!(text.contains(again), "{text}");
}

#[test]
fn a_custom_partial_run_says_so_with_its_differences() {
    let mut report = sample();
    (report.run.kind, report.run.completed) = (RunKind::Custom, false);
    report.run.differences = vec!["limits.rows is 5, the standard is 10000".into()];
    let text = text(&report);
    assert!(text.contains("CUSTOM") && !text.contains("STANDARD"), "{text}");
    assert!(text.contains("limits.rows is 5") && text.contains("not completed"), "{text}");
    let summary = shown(Format::Summary, &report, Style::default());
    assert!(summary.contains("CUSTOM (limits.rows is 5"), "{summary}");
}

#[test]
fn what_is_left_behind_is_listed() {
    let mut report = sample();
    report.cleanup.removed = false;
    assert!(text(&report).contains("could not be removed"));
    report.cleanup.left = vec!["lane-main/docs".into()];
    assert!(text(&report).contains("- lane-main/docs"));
}

#[test]
fn verbose_shows_every_line_of_evidence() {
    let report = sample();
    let text = shown(Format::Text, &report, Style { verbose: 1, ..Style::default() });
    for line in report.packs.iter().flat_map(|pack| &pack.checks).flat_map(|c| &c.evidence) {
        assert!(text.contains(&line.probe), "{} is missing in\n{text}", line.probe);
    }
}

#[test]
fn quiet_text_is_the_summary() {
    let style = Style { quiet: true, ..Style::default() };
    assert_eq!(shown(Format::Text, &sample(), style), shown(Format::Summary, &sample(), style));
}

#[test]
fn names_of_formats_are_known_known_for_later_or_unknown() {
    for (format, name) in Format::ALL.into_iter().zip(Format::NAMES) {
        assert_eq!((format.name(), name.parse()), (name, Ok(format)));
    }
    for name in LATER_FORMATS {
        assert_eq!(name.parse::<Format>(), Err(UnknownFormat::Later(name)));
    }
    let error = "Text\x1b".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("text, summary and json") && !error.contains('\x1b'), "{error}");
}

#[test]
fn a_record_with_nothing_in_it_still_renders() {
    let mut report = sample();
    report.packs = vec![];
    report.tools = vec![];
    report.server = crate::report::ServerInfo::default();
    assert_clean(&text(&report));
    let instance = InstanceInfo {
        role: String::new(),
        lane: String::new(),
        started: false,
        restarts: 0,
        trouble: None,
    };
    report.server.instances = vec![instance];
    assert!(text(&report).contains("no reason is known"));
}

#[test]
fn every_verdict_stands_in_the_sample() {
    let report = sample();
    let checks = || report.packs.iter().flat_map(|pack| &pack.checks);
    for verdict in [Verdict::Pass, Verdict::Part, Verdict::Fail, Verdict::Inconclusive, Verdict::Na]
    {
        assert!(checks().any(|check| check.verdict == verdict), "{verdict}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_text_makes_a_format_panic_or_unclean(
        word in any::<String>(), width in 0usize..200, verbose in 0u8..2,
    ) {
        let mut report = sample();
        poison(&mut report, &word);
        let style = Style { width, verbose, ..Style::default() };
        for format in [Format::Text, Format::Summary] {
            let plain = shown(format, &report, style);
            assert_clean(&plain);
            let painted = shown(format, &report, Style { colour: true, ..style });
            prop_assert_eq!(bare(&painted), plain);
        }
    }
}
