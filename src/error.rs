//! What can go wrong for the user, and the exit code of each.

use std::fmt;

use serde_json::{Value, json};

/// Every graded pack met the gate.
pub const MET: u8 = 0;
/// A graded pack is below the gate.
pub const NOT_MET: u8 = 1;
/// The command line or the configuration is wrong, or an output cannot be written.
pub const USAGE: u8 = 2;
/// No instance of the server could be started and initialised.
pub const NOT_STARTED: u8 = 3;
/// The server ran, and no pack could be graded.
pub const NOTHING_GRADED: u8 = 4;
/// A fault of sealmark or of the machine it runs on (`EX_SOFTWARE` of sysexits.h).
pub const INTERNAL: u8 = 70;
/// The run was interrupted, or its time was over (128 + SIGINT, as shells count).
pub const INTERRUPTED: u8 = 130;

/// Every exit code with its sentence, in order.
pub const EXIT_CODES: [(u8, &str); 7] = [
    (MET, "Every graded pack met the gate."),
    (NOT_MET, "A graded pack is below the gate."),
    (USAGE, "The command line or the configuration is wrong, or an output cannot be written."),
    (NOT_STARTED, "No instance of the server could be started and initialised."),
    (NOTHING_GRADED, "The server ran, and no pack could be graded."),
    (INTERNAL, "A fault of sealmark or of the machine it runs on."),
    (INTERRUPTED, "The run was interrupted, or --timeout was over."),
];

/// What ended a command. No field holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The command line asks for something that does not exist or does not fit.
    Usage {
        /// What is wrong, a lowercase fragment.
        message: String,
        /// What to write instead.
        help: String,
    },
    /// The command line asks for something of a later version.
    NotInThisVersion {
        /// What was asked for, as it was written.
        what: String,
        /// What there is instead.
        help: String,
    },
    /// The configuration is wrong.
    Configuration {
        /// What is wrong, a lowercase fragment.
        message: String,
        /// The file as it was named, or `command line`.
        file: String,
        /// The line from 1; 0 when the error has no place in the text.
        line: u32,
        /// The column from 1; 0 when the error has no place in the text.
        column: u32,
        /// What to write instead.
        help: String,
        /// Message, place, line and help as people read them.
        shown: String,
    },
    /// An output cannot be written.
    Output {
        /// The file, or `standard output`.
        file: String,
        /// What the system says.
        why: String,
    },
    /// No instance of the server could be started and initialised.
    NotStarted {
        /// Why, in one line.
        why: String,
    },
    /// The run was interrupted before it was finished.
    Interrupted {
        /// By what.
        by: Interruption,
    },
    /// The machine does not let the harness work, or the harness is wrong.
    Internal {
        /// What happened, a lowercase fragment.
        message: String,
        /// What to do about it.
        help: String,
    },
}

/// What interrupted a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// SIGINT or SIGTERM.
    Signal,
    /// The time of `--timeout`, in seconds.
    Timeout(u64),
}

impl Error {
    /// A wrong command line.
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: help.into() }
    }

    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. }
            | Self::NotInThisVersion { .. }
            | Self::Configuration { .. }
            | Self::Output { .. } => USAGE,
            Self::NotStarted { .. } => NOT_STARTED,
            Self::Interrupted { .. } => INTERRUPTED,
            Self::Internal { .. } => INTERNAL,
        }
    }

    /// The word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Usage { .. } => "usage",
            Self::NotInThisVersion { .. } => "not-in-this-version",
            Self::Configuration { .. } => "configuration",
            Self::Output { .. } => "output",
            Self::NotStarted { .. } => "not-started",
            Self::Interrupted { .. } => "interrupted",
            Self::Internal { .. } => "internal",
        }
    }

    /// What went wrong, without a place and without help.
    pub fn message(&self) -> String {
        match self {
            Self::Usage { message, .. }
            | Self::Configuration { message, .. }
            | Self::Internal { message, .. } => message.clone(),
            Self::NotInThisVersion { what, .. } => format!("{what} is not in this version"),
            Self::Output { file, why } => format!("failed to write {file}: {why}"),
            Self::NotStarted { why } => format!("no instance of the server started: {why}"),
            Self::Interrupted { by: Interruption::Signal } => "the run was interrupted".to_owned(),
            Self::Interrupted { by: Interruption::Timeout(seconds) } => {
                format!("the {seconds} s of --timeout are over")
            }
        }
    }

    /// What to do about it: one line.
    pub fn help(&self) -> &str {
        match self {
            Self::Usage { help, .. }
            | Self::NotInThisVersion { help, .. }
            | Self::Configuration { help, .. }
            | Self::Internal { help, .. } => help,
            Self::Output { .. } => "name a file in a directory that exists and may be written to",
            Self::NotStarted { .. } => "start the command by hand with the same environment",
            Self::Interrupted { .. } => "what was finished is in the report",
        }
    }

    /// One object for programs: `{"error":{…}}`.
    pub fn json(&self) -> Value {
        let (file, line, column) = match self {
            Self::Configuration { file, line: 0, .. } => (Some(file), None, None),
            Self::Configuration { file, line, column, .. } => {
                (Some(file), Some(*line), Some(*column))
            }
            Self::Output { file, .. } => (Some(file), None, None),
            _ => (None, None, None),
        };
        json!({"error": {
            "kind": self.kind(),
            "message": self.message(),
            "file": file,
            "line": line,
            "column": column,
            "help": self.help(),
            "exitCode": self.exit_code(),
        }})
    }
}

impl fmt::Display for Error {
    /// As people read it: `error: …`, the place where there is one, `help: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration { shown, .. } => write!(f, "error: {shown}"),
            _ => write!(f, "error: {}\nhelp: {}", self.message(), self.help()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_codes_do_not_move() {
        assert_eq!(EXIT_CODES.map(|(code, _)| code), [0, 1, 2, 3, 4, 70, 130]);
    }

    #[test]
    fn an_error_for_programs_is_one_line_with_every_key() {
        let error = Error::usage("two\nlines", "fix \"it\"");
        let line = error.json().to_string();
        assert!(!line.contains('\n'), "{line}");
        let keys: Vec<String> = error.json()["error"]
            .as_object()
            .map(|map| map.keys().cloned().collect())
            .unwrap_or_default();
        assert_eq!(keys, ["kind", "message", "file", "line", "column", "help", "exitCode"]);
    }

    #[test]
    fn a_place_that_is_none_is_null_for_programs() {
        let error = Error::Configuration {
            message: "there is no such file".into(),
            file: "a.yaml".into(),
            line: 0,
            column: 0,
            help: "name another".into(),
            shown: String::new(),
        };
        assert_eq!(error.json()["error"]["file"], "a.yaml");
        assert!(error.json()["error"]["line"].is_null());
    }
}
