//! The tables beside this file: read, compared, rewritten.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("matrix").join(name)
}

/// Compares a table with its file, or rewrites the file with `UPDATE=1`. Adds to `wrong` what
/// differs, line by line.
pub(crate) fn compare(name: &str, found: &str, wrong: &mut String) {
    if std::env::var_os("UPDATE").is_some() {
        return fs::write(file(name), found).unwrap();
    }
    let written = fs::read_to_string(file(name)).unwrap_or_default();
    if written == found {
        return;
    }
    writeln!(wrong, "tests/matrix/{name}").unwrap();
    for line in written.lines().filter(|line| !found.lines().any(|other| other == *line)) {
        writeln!(wrong, "  written  {line}").unwrap();
    }
    for line in found.lines().filter(|line| !written.lines().any(|other| other == *line)) {
        writeln!(wrong, "  found    {line}").unwrap();
    }
}

/// Rules that no run reaches, as `check/rule`, with the reason.
pub(crate) fn unreached() -> BTreeMap<String, String> {
    let text = fs::read_to_string(file("unreached.txt")).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (rule, reason) = line.split_once(' ').unwrap_or((line, ""));
            assert!(reason.trim().ends_with('.'), "unreached.txt gives no reason for {rule}");
            (rule.to_owned(), reason.trim().to_owned())
        })
        .collect()
}
