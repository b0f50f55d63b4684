//! Formats, and the files a report is written to: looked at before the run, written after it.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::names;
use crate::error::Error;
use crate::render::{Format, LATER_FORMATS, Style, render};
use crate::report::Report;

/// The format of that name.
pub(super) fn format(word: &str) -> Result<Format, Error> {
    if LATER_FORMATS.contains(&word) {
        return Err(Error::NotInThisVersion {
            what: format!("the format `{word}`"),
            help: "the formats of this version are text, summary and json".into(),
        });
    }
    word.parse().map_err(|_| {
        names::unknown("format", word, Format::NAMES, "the formats are text, summary and json")
    })
}

/// A report in a format.
pub(super) fn rendered(format: Format, report: &Report, style: Style) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    render(format, report, style, &mut text).map_err(|error| Error::Internal {
        message: format!("failed to render the report: {error}"),
        help: "this is a fault of sealmark: report it with the command".into(),
    })?;
    Ok(text)
}

/// One `-o FORMAT=FILE`.
struct Output {
    format: Format,
    path: PathBuf,
    /// Whether looking at it made the file, which is then empty until it is written.
    made: bool,
}

/// The files of a run. One that was made and never written is removed again.
pub(super) struct Outputs(Vec<Output>);

impl Outputs {
    /// Reads every `FORMAT=FILE` and opens each file once, without changing what it holds.
    pub(super) fn checked(given: &[String]) -> Result<Self, Error> {
        let mut outputs = Self(Vec::new());
        for text in given {
            let Some((word, path)) = text.split_once('=').filter(|(_, path)| !path.is_empty())
            else {
                return Err(Error::usage(
                    format!("an output is no FORMAT=FILE: {}", names::quoted(text)),
                    "write it as `-o json=report.json`",
                ));
            };
            let (format, path) = (format(word)?, PathBuf::from(path));
            if outputs.0.iter().any(|output| output.path == path) {
                return Err(Error::usage(
                    format!("two outputs go to the file {}", names::quoted(&shown(&path))),
                    "give each format a file of its own",
                ));
            }
            let made = looked_at(&path).map_err(|error| failed(&path, &error))?;
            outputs.0.push(Output { format, path, made });
        }
        Ok(outputs)
    }

    /// Writes the report to every file, plain and as wide as a page.
    pub(super) fn write(mut self, report: &Report) -> Result<(), Error> {
        for output in &mut self.0 {
            let text = rendered(output.format, report, Style::default())?;
            fs::write(&output.path, text).map_err(|error| failed(&output.path, &error))?;
            output.made = false;
        }
        Ok(())
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        for output in self.0.iter().filter(|output| output.made) {
            let _ = fs::remove_file(&output.path);
        }
    }
}

/// Whether the file had to be made.
fn looked_at(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        // Opening a pipe would wait for its reader.
        Ok(about) if !about.is_file() && !about.is_dir() => Ok(false),
        Ok(_) => OpenOptions::new().append(true).open(path).map(|_| false),
        Err(_) => OpenOptions::new().append(true).create(true).open(path).map(|_| true),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Output { file: crate::text::safe(&shown(path), 200), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(given: &[String]) -> Result<Outputs, Error> {
        Outputs::checked(given)
    }

    #[test]
    fn a_file_that_cannot_be_written_is_found_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| format!("json={}", folder.path().join(name).display());
        let error = checked(&[path("none/report.json")]).err().unwrap();
        assert_eq!((error.exit_code(), error.kind()), (2, "output"));
        assert!(checked(&[format!("json={}", folder.path().display())]).is_err());
    }

    #[test]
    fn looking_leaves_no_file_and_changes_none() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "kept").unwrap();
        let given = [format!("json={}", new.display()), format!("text={}", old.display())];
        drop(checked(&given).unwrap());
        assert!(!new.exists());
        assert_eq!(fs::read_to_string(old).unwrap(), "kept");
    }

    #[test]
    fn what_is_no_output_says_how_to_write_one() {
        for (given, word) in [
            ("report.json", "json=report.json"),
            ("json=", "json=report.json"),
            ("jsno=a", "did you mean `json`?"),
            ("sarif=a", "text, summary and json"),
        ] {
            let error = checked(&[given.to_owned()]).err().unwrap();
            assert!(error.help().contains(word), "{given}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
