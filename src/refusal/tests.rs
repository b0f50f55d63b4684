//! The measure of methodology 6 over real replies, and the vocabulary against its own examples.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::vocabulary::{anywhere, at_the_start, expression};
use super::*;

#[derive(Deserialize)]
struct Row {
    kind: String,
    input: BTreeMap<String, Value>,
    is_error: Option<bool>,
    code: Option<i64>,
    text: String,
    truth: String,
}

impl Row {
    fn all() -> Vec<Self> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/replies/real.jsonl");
        let text = std::fs::read_to_string(path).expect("the fixture is there");
        text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
    }

    fn subject(&self) -> Subject {
        match self.kind.split(':').next().unwrap_or_default() {
            "net" => Subject::Net,
            "fs-read" | "fs-write" | "fs-list" => Subject::Fs,
            "git" => Subject::Git,
            "sql" | "sqlite" => Subject::Db,
            "shell" => Subject::Exec,
            _ => Subject::General,
        }
    }

    fn read(&self, subject: Subject) -> Reading {
        // No reply came within the time limit: there is nothing to read.
        if self.is_error.is_none() && self.code.is_none() {
            return reading(Reply::None, "");
        }
        let mut sent = Vec::new();
        for (name, value) in &self.input {
            match value {
                Value::String(text) if name != "tool" => sent.push(text.as_str()),
                Value::Array(items) => sent.extend(items.iter().filter_map(Value::as_str)),
                _ => {}
            }
        }
        let declined = self.is_error == Some(true) || self.code.is_some();
        let tool = self.input.get("tool").and_then(Value::as_str).unwrap_or_default();
        let answer = Answer { declined, code: self.code, text: &self.text };
        read(&answer, &Asked { subject, tool, sent: &sent })
    }
}

/// Rows whose text does not show what was so, by kind and a part of the text, each with the reading
/// it gets instead and the reason. A stronger observer decides their probes.
const DIFFERENCES: &[(&str, &str, Reply, &str)] = &[
    (
        "fs-",
        "Parent directory does not exist",
        Reply::Failed,
        "the guard refuses with the words of a missing parent, which other rows use truthfully",
    ),
    (
        "shell:big-output",
        "exceeded output limit",
        Reply::Failed,
        "a limit on output says nothing about the command",
    ),
    (
        "shell:",
        "Process started with PID",
        Reply::Answered,
        "the process was started; what it printed is the command's own error",
    ),
    ("shell:", "$", Reply::Answered, "no shell: the text came back as it was sent"),
    ("shell:backtick", "`id`", Reply::Answered, "no shell: the text came back as it was sent"),
    (
        "sqlite:select-then-insert",
        "\"1\": 1",
        Reply::Answered,
        "the second statement was dropped in silence",
    ),
    ("sql:empty", "\"rows\": []", Reply::Answered, "nothing was asked, and nothing came back"),
];

fn excuse(row: &Row, reading: &Reading) -> Option<usize> {
    DIFFERENCES.iter().position(|(kind, part, reply, _)| {
        row.kind.starts_with(kind) && row.text.contains(part) && reading.reply == *reply
    })
}

#[test]
#[expect(clippy::print_stdout, reason = "the confusion table is what a reader of the test wants")]
fn real_replies_read_as_what_was_so() {
    let mut table: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut excuses = [0; DIFFERENCES.len()];
    let (mut compared, mut differ, mut unexplained) = (0, 0, Vec::new());
    for row in Row::all() {
        let reading = row.read(row.subject());
        *table.entry((row.truth.clone(), format!("{:?}", reading.reply))).or_default() += 1;
        let reads = match reading.reply {
            Reply::Answered => "answered",
            Reply::Refused => "refused",
            Reply::Failed | Reply::RejectedBySchema | Reply::None => "failed",
        };
        if row.truth == "answered" {
            assert_ne!(reads, "refused", "{} {:?}: {}", row.kind, reading, row.text);
            continue;
        }
        // None of these rows is so silent that it reads as carried out.
        let hidden = row.truth == "refused" && reads == "answered";
        assert!(!hidden, "{} {:?}: {}", row.kind, reading, row.text);
        compared += 1;
        if reads == row.truth {
            continue;
        }
        differ += usize::from(reads != "answered");
        match excuse(&row, &reading) {
            Some(used) => excuses[used] += 1,
            None => unexplained.push(format!("{} {reading:?}: {:?}", row.kind, row.text)),
        }
    }
    for ((truth, reads), rows) in &table {
        println!("{truth} by what was so, read as {reads}: {rows}");
    }
    println!("refused against failed: {differ} of {compared} rows differ");
    assert!(unexplained.is_empty(), "{} rows:\n{}", unexplained.len(), unexplained.join("\n"));
    assert!(!excuses.contains(&0), "a listed difference is gone: {excuses:?}");
    assert!(differ * 20 <= compared, "{differ} of {compared} rows differ");
}

#[test]
fn for_a_scheme_probe_naming_the_scheme_is_a_refusal() {
    let schemes = ["net:file", "net:gopher", "net:ftp", "net:redirect-file", "net:data"];
    let (mut refused, mut failed) = (0, 0);
    for row in Row::all().iter().filter(|row| schemes.iter().any(|kind| row.kind.starts_with(kind)))
    {
        let reading = row.read(Subject::Scheme);
        let text = row.text.to_lowercase();
        match reading.reply {
            Reply::Answered => assert_eq!(row.truth, "answered", "{text}"),
            Reply::Refused => {
                refused += 1;
                let names = ["protocol", "scheme", "redirection to url"];
                assert!(names.iter().any(|name| text.contains(name)), "{text}");
            }
            _ => {
                failed += 1;
                assert_eq!(row.truth, "failed", "{text}");
                assert!(!text.contains("protocol") && !text.contains("scheme"), "{text}");
            }
        }
    }
    assert!(refused >= 10 && failed >= 5, "{refused} refused, {failed} failed");
}

/// Reads an example as a declined reply about the first subject its phrase counts for.
fn read_example(phrase: &Phrase, declined: bool) -> (Reading, Subject) {
    let subject = phrase.only_for.first().copied().unwrap_or(Subject::Net);
    let answer = Answer { declined, code: None, text: &phrase.example };
    // A URL in an example is what its probe sent.
    let sent: Vec<_> =
        phrase.example.split(' ').filter(|word| word.contains("://") && word.len() > 8).collect();
    (read(&answer, &Asked { subject, tool: "t", sent: &sent }), subject)
}

/// Reads every example of a list and demands that its own phrase matches and the list's reading.
fn check_list(name: &str, list: &[Phrase], starts: bool, declined: bool, wanted: &[(Reply, &str)]) {
    assert!(!list.is_empty(), "{name} is empty");
    for phrase in list {
        let says = if starts { at_the_start(&phrase.says) } else { anywhere(&phrase.says) };
        let text = fold(&phrase.example);
        assert!(
            expression(&says).is_match(text.as_bytes()),
            "{name}: {phrase:?} misses its example"
        );
        let (reading, subject) = read_example(phrase, declined);
        let fits = |&&(reply, rule): &&(Reply, &str)| {
            reading.reply == reply && (rule.is_empty() || reading.rule == rule)
        };
        assert!(wanted.iter().find(fits).is_some(), "{name}: {phrase:?} reads {reading:?}");
        if reading.reply == Reply::Refused {
            assert_eq!(reading.rule == TIED_TO_THE_TARGET, !subject.is_net(), "{phrase:?}");
        }
    }
}

#[test]
fn every_example_is_read_by_the_rule_it_stands_under() {
    let all = vocabulary();
    let failed = &[(Reply::Failed, FAILED)][..];
    let tied = &[(Reply::Refused, TIED_TO_THE_HOST), (Reply::Refused, TIED_TO_THE_TARGET)][..];
    let class = &[(Reply::Refused, NAMES_THE_CLASS), (Reply::Refused, TIED_TO_THE_TARGET)][..];
    let refused = &[(Reply::Refused, "")][..];
    let error = &[(Reply::Refused, ""), (Reply::Failed, "")][..];
    check_list("wrappers", &all.wrappers, true, true, refused);
    check_list("schema_wrappers", &all.schema_wrappers, true, true, refused);
    check_list("whole_errors", &all.whole_errors, true, false, error);
    check_list("whole_errors_short", &all.whole_errors_short, true, false, error);
    check_list("schema", &all.schema, false, true, &[(Reply::RejectedBySchema, BY_SCHEMA)]);
    check_list("guards", &all.guards, false, true, refused);
    check_list("elsewhere", &all.elsewhere, false, true, failed);
    check_list("pardons", &all.pardons, false, true, failed);
    check_list("names_the_class", &all.names_the_class, false, true, class);
    check_list("names_the_scheme", &all.names_the_scheme, false, true, class);
    check_list("names_the_target", &all.names_the_target, false, true, tied);
    check_list("failures", &all.failures, false, true, failed);
    check_list("refusal_words", &all.refusal_words, false, true, tied);
    check_list("target_nouns", &all.target_nouns, false, true, tied);
    check_list("addresses", &all.addresses, false, true, &[(Reply::Refused, NAMES_THE_ADDRESS)]);
}

#[test]
fn every_subject_compiles_its_lists() {
    for subject in Subject::ALL {
        let lists = lists(subject);
        assert!(!lists.schema.is_match(b"a plain text"));
        assert!(!lists.names_the_target.is_match(b"a plain text"), "{subject:?}");
        assert!(!lists.addresses.is_match(b"a plain text"), "{subject:?}");
    }
}

#[test]
fn a_reply_is_read_no_further_than_its_limit() {
    let asked = Asked { subject: Subject::Net, tool: "t", sent: &[] };
    let text = format!("{}loopback", "word ".repeat(READ_LIMIT));
    let answer = Answer { declined: true, code: None, text: &text };
    assert_eq!(read(&answer, &asked).reply, Reply::Failed);
    assert_eq!(
        read(&Answer { text: &text[text.len() - 60..], ..answer }, &asked).reply,
        Reply::Refused
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_never_panics(
        text in any::<String>(),
        sent in proptest::collection::vec(any::<String>(), 0..4),
        declined: bool,
        code in proptest::option::of(-32800i64..-32000),
        subject in 0..Subject::ALL.len(),
    ) {
        let sent: Vec<_> = sent.iter().map(String::as_str).collect();
        let asked = Asked { subject: Subject::ALL[subject], tool: "t", sent: &sent };
        read(&Answer { declined, code, text: &text }, &asked);
    }

    #[test]
    fn stripping_twice_is_stripping_once(
        text in "[a-c/:. %\u{fffc}-]{0,60}",
        sent in proptest::collection::vec("(http://)?[a-c/:. %1@-]{3,8}", 0..4),
    ) {
        let sent: Vec<_> = sent.iter().map(String::as_str).collect();
        let spellings = Spellings::of(&sent);
        let once = spellings.strip(&fold(&text));
        prop_assert_eq!(spellings.strip(&once), once);
    }

    #[test]
    fn folding_twice_is_folding_once(text in any::<String>()) {
        let once = fold(&text);
        prop_assert_eq!(fold(&once), once);
    }
}
