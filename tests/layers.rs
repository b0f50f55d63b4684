//! Who may use whom, and what the methodology may not touch.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

/// Everything, for the command line.
const ALL: &str = "*";

/// What each module of `src/lib.rs` may use of the others. A module that stands in no row fails.
const MAY_USE: &[(&str, &[&str])] = &[
    // Words: no input, no output.
    ("evidence", &[]),
    ("letter", &[]),
    ("text", &[]),
    ("verdict", &["evidence"]),
    ("surface", &["evidence", "verdict"]),
    ("journal", &["evidence", "surface", "verdict"]),
    ("stage", &["check", "evidence", "journal", "surface", "verdict"]),
    ("check", &["evidence", "journal", "judges", "stage", "surface", "verdict"]),
    ("judges", &["check", "evidence", "verdict"]),
    ("grade", &["check", "letter", "verdict"]),
    ("classes", &["check"]),
    ("refusal", &["check", "evidence"]),
    ("hygiene", &["check", "evidence"]),
    ("canary", &["evidence", "journal"]),
    // The methodology.
    (
        "packs",
        &["check", "evidence", "hygiene", "journal", "judges", "stage", "surface", "verdict"],
    ),
    ("registry", &["check", "judges", "packs", "verdict"]),
    ("standard", &["check", "config", "registry"]),
    // The machine.
    ("config", &["letter", "text"]),
    ("world", &[]),
    ("target", &["check", "evidence", "journal", "world"]),
    ("mcp", &["canary", "evidence", "journal", "stage", "surface"]),
    ("discover", &["classes", "surface"]),
    ("plan", &["check", "config", "judges", "registry", "report", "standard"]),
    ("instance", &["canary", "config", "mcp", "text", "world"]),
    (
        "lane",
        &[
            "canary", "check", "classes", "config", "discover", "event", "evidence", "instance",
            "journal", "judges", "mcp", "plan", "refusal", "registry", "report", "stage",
            "surface", "target", "text", "verdict", "world",
        ],
    ),
    (
        "run",
        &[
            "canary", "check", "classes", "config", "discover", "event", "evidence", "grade",
            "instance", "journal", "judges", "lane", "letter", "plan", "registry", "report",
            "stage", "standard", "surface", "target", "text", "verdict", "world",
        ],
    ),
    // Results.
    ("report", &["check", "evidence", "letter", "verdict"]),
    ("event", &["report"]),
    (
        "render",
        &["check", "event", "evidence", "grade", "letter", "registry", "report", "text", "verdict"],
    ),
    (
        "docs",
        &[
            "check", "classes", "config", "evidence", "registry", "report", "standard", "text",
            "verdict",
        ],
    ),
    // The edge.
    ("error", &[]),
    ("cli", &[ALL]),
    ("testing", &[ALL]),
];

/// What a pack may not touch: it decides, it does not look.
const OUT_OF_REACH: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "std::time::Instant",
    "tokio",
    "super::super",
    "RuleDef::declare",
];

/// The longest file, in lines.
const LONGEST: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Every Rust file below a folder, from the root of the project.
fn rust_files(folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The module a file belongs to; `None` for the roots and for files of tests.
fn module(path: &str) -> Option<&str> {
    if path.starts_with("packs/") {
        return Some("packs");
    }
    let path = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let module = path.split('/').next()?;
    let is_test = path.split('/').skip(1).any(|part| part == "tests" || part.ends_with("_tests"));
    (!is_test && module != "lib" && module != "main").then_some(module)
}

/// The code without comments, texts and what stands under `#[cfg(test)]`.
fn code(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            skip_item(&mut lines);
            continue;
        }
        kept.push_str(&without_texts(line));
        kept.push('\n');
    }
    kept
}

/// Passes over the item that follows, which ends at a `;` or with its last brace.
fn skip_item<'a>(lines: &mut impl Iterator<Item = &'a str>) {
    let mut depth = 0_i32;
    for line in lines {
        let line = without_texts(line);
        if line.trim_start().starts_with("#[") {
            continue;
        }
        let opens = line.matches('{').count();
        depth += i32::try_from(opens).unwrap() - i32::try_from(line.matches('}').count()).unwrap();
        if depth <= 0 && (opens > 0 || line.contains(['}', ';'])) {
            return;
        }
    }
}

/// A line without what stands in quotes and behind `//`.
fn without_texts(line: &str) -> String {
    static TEXTS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)'"#).unwrap());
    let line = TEXTS.replace_all(line, "\"\"");
    line.split("//").next().unwrap_or_default().to_owned()
}

/// The modules named behind `crate::`, groups and nested groups included.
fn used(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, start) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + start.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(heads(group)),
            None => found.push(word(rest)),
        }
    }
    found.retain(|word| word.starts_with(|c: char| c.is_lowercase()));
    found
}

/// The first word of each member of a group, up to the brace that closes it.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut member, mut members) = (0_u32, String::new(), Vec::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => members.push(std::mem::take(&mut member)),
            _ => {}
        }
        if c != ',' || depth > 0 {
            member.push(c);
        }
    }
    members.push(member);
    members.iter().map(|member| word(member.trim_start())).filter(|word| !word.is_empty()).collect()
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// What a file does that it may not; `known` are the modules of the library.
fn violations(path: &str, text: &str, known: &[String]) -> Vec<String> {
    let Some(module) = module(path) else { return Vec::new() };
    let code = code(text);
    let mut found = Vec::new();
    match MAY_USE.iter().find(|(name, _)| *name == module) {
        None => found.push(format!("{path}: {module} has no row in MAY_USE")),
        Some((_, may)) if may.contains(&ALL) => {}
        Some((_, may)) => {
            let uses = used(&code);
            // Macros that the crate exports at its root are named behind `crate::` too.
            let foreign = uses.iter().filter(|used| known.contains(used) && *used != module);
            found.extend(
                foreign
                    .filter(|used| !may.contains(&used.as_str()))
                    .map(|used| format!("{path}: {module} may not use {used}")),
            );
        }
    }
    if module == "packs" {
        let spaceless: String = code.split_whitespace().collect();
        found.extend(
            OUT_OF_REACH
                .iter()
                .filter(|reach| spaceless.contains(*reach) || grouped(&code, reach))
                .map(|reach| format!("{path}: a pack may not reach {reach}")),
        );
    }
    if text.lines().count() > LONGEST {
        found.push(format!("{path}: longer than {LONGEST} lines"));
    }
    if code.contains("todo!") || code.contains("unimplemented!") {
        found.push(format!("{path}: something is left to do"));
    }
    found
}

/// Whether `std::x` is reached through `std::{…, x, …}`.
fn grouped(code: &str, reach: &str) -> bool {
    let Some(inner) = reach.strip_prefix("std::") else { return false };
    let first = inner.split("::").next().unwrap_or_default();
    let whole = !inner.contains("::");
    code.match_indices("std::{").any(|(at, start)| {
        let group = &code[at + start.len()..];
        let group = &group[..group.find(';').unwrap_or(group.len())];
        heads(group).iter().any(|head| head == first) && (whole || group.contains("Instant"))
    })
}

/// The modules `src/lib.rs` declares.
fn modules() -> Vec<String> {
    let declared = Regex::new(r"(?m)^(?:pub(?:\(crate\))? )?mod ([a-z_]+);").unwrap();
    declared.captures_iter(&read("src/lib.rs")).map(|found| found[1].to_owned()).collect()
}

#[test]
fn every_module_uses_only_what_it_may() {
    let known = modules();
    let mut found = Vec::new();
    for folder in ["src", "packs"] {
        for path in rust_files(folder) {
            found.extend(violations(&path, &read(&path), &known));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_declared_module_has_a_row() {
    for module in modules() {
        assert!(MAY_USE.iter().any(|(name, _)| *name == module), "{module} has no row in MAY_USE");
    }
}

#[test]
fn no_file_is_too_long_and_none_is_unfinished() {
    for path in ["src", "packs", "tests", "fixtures"].into_iter().flat_map(rust_files) {
        let text = read(&path);
        assert!(text.lines().count() <= LONGEST, "{path} is longer than {LONGEST} lines");
        let code = code(&text);
        let left = code.contains("todo!") || code.contains("unimplemented!");
        assert!(!left, "{path} is unfinished");
    }
}

#[test]
fn a_planted_violation_is_caught() {
    let known: Vec<String> =
        ["check", "config", "packs", "run", "letter", "grade"].map(str::to_owned).into();
    let caught = |path: &str, text: &str| violations(path, text, &known);
    for (path, text, word) in [
        ("src/letter.rs", "use crate::config;", "may not use config"),
        ("src/letter/part.rs", "fn f() -> crate::run::Run {}", "may not use run"),
        (
            "src/letter.rs",
            "use crate::{\n    check::{self, run},\n    grade,\n};",
            "may not use grade",
        ),
        ("packs/fs/x.rs", "use crate::{check::Check, run};", "may not use run"),
        ("packs/fs/x.rs", "let x = std::fs::read(y);", "std::fs"),
        ("packs/fs/x.rs", "use std::{collections::BTreeMap, net::TcpStream};", "std::net"),
        ("packs/fs/x.rs", "use std::{fmt, time::{Duration, Instant}};", "std::time::Instant"),
        ("packs/fs/x.rs", "use super::super::fs;", "super::super"),
        ("packs/fs/x.rs", "RuleDef::declare(a, b, c, d)", "RuleDef::declare"),
        ("src/new.rs", "", "has no row"),
        ("src/letter.rs", "todo!()", "left to do"),
        ("src/letter.rs", &"\n".repeat(601), "longer than"),
    ] {
        let found = caught(path, text);
        assert!(found.iter().any(|one| one.contains(word)), "{path}: {text}: {found:?}");
    }
}

#[test]
fn what_is_allowed_is_not_caught() {
    let known: Vec<String> =
        ["check", "config", "packs", "run", "letter"].map(str::to_owned).into();
    for (path, text) in [
        ("src/letter.rs", "// use crate::config;\nlet x = \"crate::config\"; // crate::run"),
        ("src/letter.rs", "#[cfg(test)]\nmod tests {\n    use crate::run;\n    fn f() {}\n}\n"),
        ("src/letter.rs", "#[cfg(test)]\nmod tests;\n"),
        ("src/letter/tests.rs", "use crate::run;"),
        ("src/cli/run.rs", "use crate::run;"),
        ("packs/fs/x.rs", "use std::{collections::BTreeMap, time::Duration};\nuse super::shown;"),
        ("packs/fs/x.rs", "use crate::check::Check;\n#[test]\nfn my_crate() {}"),
    ] {
        assert_eq!(violations(path, text, &known), Vec::<String>::new(), "{text}");
    }
}
