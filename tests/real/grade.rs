//! Runs sealmark on an installed server and compares what it decided.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use sealmark::{
    evidence::{Evidence, Kind, Outcome},
    report::{CheckReport, Report},
};
use serde_json::json;

use crate::table::{Target, split};

/// Seconds after which sealmark ends a run by itself; the slowest server takes 30.
const LONGEST: &str = "300";
/// How many lines of evidence of a check are shown.
const SHOWN: usize = 16;

/// One run.
pub(crate) struct Graded {
    exit: Option<i32>,
    report: Result<Report, String>,
}

/// Grades the server that is installed in `place`.
pub(crate) fn grade(target: &Target, place: &Path) -> Graded {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sealmark.yaml");
    let run = place.join(&target.run).display().to_string();
    let mut args = target.args.clone();
    let command = if run.ends_with(".js") {
        args.insert(0, run);
        "node".to_owned()
    } else {
        run
    };
    let server = json!({
        "command": command, "args": args, "env": target.env, "files": target.files
    });
    // JSON is YAML.
    fs::write(&file, json!({ "server": server, "packs": target.packs }).to_string()).unwrap();
    let record = folder.path().join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_sealmark-under-test"))
        .args(["run", "--quiet", "--format", "summary", "--fail-under", "A"])
        .args(["--timeout", LONGEST, "--output"])
        .arg(format!("json={}", record.display()))
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = fs::read_to_string(&record).unwrap_or_default();
    keep(&target.id, &json);
    let report = serde_json::from_str(&json).map_err(|error| format!("no record: {error}: {said}"));
    Graded { exit: output.status.code(), report }
}

/// With `KEEP=FOLDER` every record stays there, to be read by a person.
fn keep(id: &str, json: &str) {
    if let Some(folder) = std::env::var_os("KEEP") {
        fs::write(Path::new(&folder).join(format!("{id}.json")), json).unwrap();
    }
}

impl Graded {
    /// What is not as the table says, each with what it rests on.
    pub(crate) fn differences(&self, target: &Target) -> Vec<String> {
        let report = match &self.report {
            Ok(report) => report,
            Err(why) => return vec![format!("exit {:?}, {why}", self.exit)],
        };
        let mut differences = Vec::new();
        if self.exit != Some(target.exit) {
            differences.push(format!("exit {:?}, expected {}", self.exit, target.exit));
        }
        if !report.cleanup.removed {
            differences.push(format!("left behind: {:?}", report.cleanup.left));
        }
        let troubles: Vec<&str> =
            report.server.instances.iter().filter_map(|i| i.trouble.as_deref()).collect();
        match &target.trouble {
            Some(words) if !troubles.iter().any(|trouble| trouble.contains(words)) => {
                differences.push(format!("troubles {troubles:?}, expected {words:?}"));
            }
            None if !troubles.is_empty() => differences.push(format!("troubles {troubles:?}")),
            _ => {}
        }
        differences.extend(letters(target, report));
        for check in report.packs.iter().flat_map(|pack| &pack.checks) {
            let expected = target.expected(&check.id);
            if !expected.iter().any(|expected| fits(check, expected)) {
                differences.push(shown(check, &expected.join(" or ")));
            }
        }
        differences
    }
}

fn letters(target: &Target, report: &Report) -> Vec<String> {
    let had: BTreeMap<&str, String> = report
        .packs
        .iter()
        .map(|pack| {
            let letter = pack.letter.map_or_else(|| "-".to_owned(), |letter| letter.to_string());
            (pack.id.as_str(), letter)
        })
        .collect();
    let differs = |(pack, allowed): (&String, &String)| {
        let letter = had.get(pack.as_str()).map_or("none", String::as_str);
        let line = report.packs.iter().find(|one| one.id == *pack).map(|one| one.line());
        (!allowed.contains(letter)).then(|| {
            format!(
                "pack {pack} is {letter}, expected one of {allowed}: {}",
                line.unwrap_or_default()
            )
        })
    };
    target.letters.iter().filter_map(differs).collect()
}

fn fits(check: &CheckReport, expected: &str) -> bool {
    let (verdict, rule) = split(expected);
    check.verdict.word() == verdict && rule.is_none_or(|rule| check.rule == rule)
}

/// A check with the evidence that speaks: breaches first, then what is no evidence, then controls
/// that did not hold.
fn shown(check: &CheckReport, expected: &str) -> String {
    let mut text = format!(
        "{} is {}/{}, expected {expected}: {}",
        check.id, check.verdict, check.rule, check.rule_text
    );
    let mut lines: Vec<&Evidence> =
        check.evidence.iter().filter(|line| line.outcome != Outcome::Held).collect();
    lines.sort_by_key(|line| (!line.is_breached(), line.kind != Kind::Control));
    if lines.is_empty() {
        lines = check.evidence.iter().collect();
    }
    for line in lines.iter().take(SHOWN) {
        let facts: Vec<String> = line.facts.iter().map(|fact| format!("{:?}", fact.what)).collect();
        let _ = write!(
            text,
            "\n    {:?} {} {} {}/{} {:?} {:?} {:?} [{}] {:?} {:?}",
            line.kind,
            line.probe,
            line.tool.as_deref().unwrap_or("-"),
            line.lane,
            line.seq,
            line.outcome,
            line.why,
            line.reply,
            facts.join(", "),
            line.excerpt.chars().take(160).collect::<String>(),
            line.caveats,
        );
    }
    if lines.len() > SHOWN {
        let _ = write!(text, "\n    and {} more lines", lines.len() - SHOWN);
    }
    text
}
