//! The command line: one short file per command.

mod args;
mod describe;
mod explain;
mod list;
mod names;
mod out;
mod panic;
mod run;
mod schema;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::{FromArgMatches, error::ContextValue};

use self::args::{COMMANDS, Cli, Command, LATER_COMMANDS};
pub use self::panic::install as install_panic_hook;
use crate::error::{Error, MET, USAGE};

/// The whole program: reads the arguments of the process, does what they ask, and says how it went.
pub fn main() -> ExitCode {
    // A supervisor must be one before anything else opens a file or starts a thread.
    if let Some(code) = crate::world::shim::dispatch() {
        return code;
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let json = wants_json(&arguments);
    panic::install(json);
    ExitCode::from(match dispatch(arguments) {
        Ok(code) => code,
        Err(error) => {
            out::complain(&error, json);
            error.exit_code()
        }
    })
}

/// The reference of every command, as `docs/cli.md`.
pub fn reference() -> String {
    let mut root = args::command().term_width(80);
    root.build();
    let mut text = String::from(
        "# Command line\n\n<!-- Written from the program by `UPDATE=1 cargo test --test generated`. -->\n",
    );
    let mut section = |command: &mut clap::Command, title: &str| {
        let help = command.render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _ = writeln!(text, "\n## {title}\n\n```text\n{}\n```", lines.join("\n").trim_end());
    };
    section(&mut root, "sealmark");
    for name in COMMANDS.iter().filter(|name| **name != "help") {
        if let Some(command) = root.find_subcommand_mut(name) {
            section(command, &format!("sealmark {name}"));
        }
    }
    text += "\n## Exit codes\n\n| code | meaning |\n|---|---|\n";
    for (code, sentence) in crate::error::EXIT_CODES {
        let _ = writeln!(text, "| {code} | {sentence} |");
    }
    text += "\nWhen several apply: 130, 70, 2, 3, 1, 4, 0, in this order.\n";
    text
}

fn dispatch(arguments: Vec<OsString>) -> Result<u8, Error> {
    let matches = match args::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return refused(&error),
    };
    let cli = Cli::from_arg_matches(&matches).map_err(|error| usage(&error))?;
    match cli.command {
        Command::Run(args) => run::main(*args),
        Command::Explain(args) => explain::main(&args),
        Command::ListChecks(args) => list::main(&args),
        Command::Describe(args) => describe::main(&args),
        Command::Schema(args) => schema::main(&args),
        Command::Other(words) => Err(no_such_command(&words)),
    }
}

/// Help and version are no errors; everything else is.
fn refused(error: &clap::Error) -> Result<u8, Error> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed standard output is the reader's choice.
            let _ = error.print();
            Ok(MET)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Ok(USAGE)
        }
        _ => Err(usage(error)),
    }
}

/// An error of clap in the words of this program.
fn usage(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let message = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let near = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(near)) => Some(near.as_str()),
        _ => None,
    };
    let help = match (near, error.kind()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, ErrorKind::UnknownArgument) => {
            "see `sealmark run --help`; the server's own command goes behind `--`".to_owned()
        }
        _ => "see `--help` of the command".to_owned(),
    };
    Error::usage(crate::text::safe(&message, 300), crate::text::safe(&help, 300))
}

fn no_such_command(words: &[OsString]) -> Error {
    let word = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    if LATER_COMMANDS.contains(&word.as_str()) {
        return Error::NotInThisVersion {
            what: format!("the command `{word}`"),
            help: "`sealmark --help` lists the commands there are".into(),
        };
    }
    names::unknown(
        "command",
        &word,
        COMMANDS,
        "to grade a server that a command starts, write `sealmark run -- COMMAND…`",
    )
}

/// Whether errors are meant for a program. Looked at before the arguments are read, because reading
/// them may be what fails.
fn wants_json(arguments: &[OsString]) -> bool {
    let words: Vec<&str> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let own = words.split(|word| *word == "--").next().unwrap_or_default();
    own.contains(&"--format=json") || own.windows(2).any(|pair| pair == ["--format", "json"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(argv: &[&str]) -> Error {
        let argv = ["sealmark"].iter().chain(argv).map(OsString::from).collect();
        dispatch(argv).unwrap_err()
    }

    #[test]
    fn a_command_of_a_later_version_says_so() {
        for word in LATER_COMMANDS {
            let error = error(&[word, "--some", "thing"]);
            assert_eq!(error.message(), format!("the command `{word}` is not in this version"));
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn an_unknown_command_gets_a_suggestion_or_the_way_to_run_it() {
        assert_eq!(error(&["lst-checks"]).help(), "did you mean `list-checks`?");
        assert!(error(&["npx", "-y", "x"]).help().contains("sealmark run -- COMMAND…"));
    }

    #[test]
    fn a_mistyped_option_is_suggested_and_a_foreign_one_shown_its_place() {
        assert_eq!(error(&["run", "--pakc", "fs"]).help(), "did you mean `--pack`?");
        let foreign = error(&["run", "npx", "-y", "x"]);
        assert!(foreign.help().contains("behind `--`"), "{foreign}");
        assert!(!foreign.message().contains('\n'), "{foreign}");
    }

    #[test]
    fn json_is_wanted_only_by_an_option_of_our_own() {
        let wants =
            |argv: &[&str]| wants_json(&argv.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(wants(&["sealmark", "run", "--format", "json"]));
        assert!(wants(&["sealmark", "run", "--format=json", "--", "x"]));
        assert!(!wants(&["sealmark", "run", "--", "x", "--format", "json"]));
    }
}
