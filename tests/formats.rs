//! One record in every format, each kept in a file of its own. `SNAPSHOTS=overwrite` writes them
//! anew.

use sealmark::{
    render::{self, Format, Style, sample::sample},
    report::Report,
};
use snapbox::{Data, IntoData, assert_data_eq, data::DataFormat, file};

fn shown(format: Format, report: &Report, style: Style) -> Data {
    let mut out = Vec::new();
    render::render(format, report, style, &mut out).expect("writing to memory cannot fail");
    String::from_utf8(out).expect("every format is UTF-8").into_data().is(DataFormat::Text).raw()
}

/// The sample without a started server.
fn not_started() -> Report {
    let mut report = sample();
    let trouble = "exit 1 before initialize\nError: Cannot find module '@harbour/notes-server'\n    \
                   at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)";
    for one in &mut report.server.instances {
        (one.started, one.restarts, one.trouble) = (false, 0, Some(trouble.into()));
    }
    (report.server.name, report.server.version) = (String::new(), String::new());
    (report.tools, report.caveats, report.gate.accepted) = (vec![], vec![], vec![]);
    for pack in &mut report.packs {
        pack.status = sealmark::report::PackStatus::Inconclusive;
        (pack.letter, pack.raw_letter, pack.capped) = (None, None, false);
        pack.reason = Some("the server did not start".into());
        pack.checks.clear();
    }
    report.gate.causes = vec!["nothing could be graded".into()];
    report.badge = sealmark::report::Badge { eligible: false, why: Some("no letter".into()) };
    report.run.completed = false;
    report
}

#[test]
fn text_at_the_usual_width() {
    assert_data_eq!(
        shown(Format::Text, &sample(), Style::default()),
        file!["formats/text.txt": Text].raw()
    );
}

#[test]
fn text_at_the_least_width() {
    let style = Style { width: 60, ..Style::default() };
    assert_data_eq!(
        shown(Format::Text, &sample(), style),
        file!["formats/text-60.txt": Text].raw()
    );
}

#[test]
fn text_with_all_evidence() {
    let style = Style { verbose: 1, ..Style::default() };
    assert_data_eq!(
        shown(Format::Text, &sample(), style),
        file!["formats/text-verbose.txt": Text].raw()
    );
}

#[test]
fn text_of_a_server_that_did_not_start() {
    assert_data_eq!(
        shown(Format::Text, &not_started(), Style::default()),
        file!["formats/text-not-started.txt": Text].raw()
    );
}

#[test]
fn summary() {
    assert_data_eq!(
        shown(Format::Summary, &sample(), Style::default()),
        file!["formats/summary.txt": Text].raw()
    );
}

#[test]
fn the_record_itself_which_reads_back() {
    assert_data_eq!(
        shown(Format::Json, &sample(), Style::default()),
        file!["../fixtures/reports/sample.json": Text].raw()
    );
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/reports/sample.json");
    let text = std::fs::read_to_string(file).expect("the stored record is there");
    assert_eq!(render::read(&text).expect("the stored record reads"), sample());
}
