//! The command line as clap reads it. Nothing here touches the world, and no other file names clap
//! types beside [`command`].

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};

/// What `--version` says behind the name.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (methodology 0.3-draft)");

/// Commands of the design that come later.
pub(crate) const LATER_COMMANDS: [&str; 8] =
    ["init", "doctor", "compare", "report", "scan", "posture", "completions", "man"];

/// Every command of this version, for suggestions.
pub(crate) const COMMANDS: [&str; 6] =
    ["run", "explain", "list-checks", "describe", "schema", "help"];

/// Grade an MCP server by what it does
///
/// sealmark starts the server under test, calls its tools with fixed probes, looks at targets it
/// owns instead of believing replies, and gives a letter per pack of checks.
#[derive(Debug, Parser)]
#[command(
    name = "sealmark",
    version = VERSION,
    subcommand_required = true,
    arg_required_else_help = true,
    allow_external_subcommands = true,
    max_term_width = 100,
    after_help = "Begin with: sealmark run -- npx -y @scope/server@1.2.3 '${sandbox}'"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Explain(ExplainArgs),
    ListChecks(ListArgs),
    Describe(DescribeArgs),
    Schema(SchemaArgs),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// Grade a server
///
/// The server is that of a configuration file, or a command behind `--`. Progress goes to standard
/// error, the report to standard output.
#[derive(Debug, Args)]
#[command(
    override_usage = "sealmark run [OPTIONS] [CONFIG]\n       sealmark run [OPTIONS] -- COMMAND…"
)]
pub(crate) struct RunArgs {
    /// The configuration [default: sealmark.yaml]
    #[arg(value_name = "CONFIG", hide_short_help = true)]
    pub(crate) config: Option<PathBuf>,

    /// The command that starts the server
    ///
    /// Everything behind `--` is the command and its arguments. `${sandbox}` and the other
    /// placeholders work in them; quote them, so that the shell leaves them alone.
    #[arg(last = true, value_name = "COMMAND", hide_short_help = true)]
    pub(crate) command: Vec<String>,

    /// Only these packs, separated by commas
    ///
    /// The run stays STANDARD: a letter depends on its own pack alone.
    #[arg(long, value_name = "PACKS", value_delimiter = ',', help_heading = "Checks")]
    pub(crate) pack: Vec<String>,

    /// Only this check, without a letter; repeatable
    ///
    /// The run is CUSTOM.
    #[arg(long, value_name = "CHECK", help_heading = "Checks")]
    pub(crate) only: Vec<String>,

    /// How much is asked: standard, ci or deep
    ///
    /// `ci` also counts a pack that cannot be graded as a failure of the gate. `deep` sends longer
    /// probes and makes the run CUSTOM.
    #[arg(long, value_name = "PROFILE", help_heading = "Checks")]
    pub(crate) profile: Option<String>,

    /// The lowest letter that meets the gate, A to F
    ///
    /// Every graded pack must meet it, or the exit code is 1. A provisional A* does not meet A.
    #[arg(long, value_name = "LETTER", help_heading = "Checks")]
    pub(crate) fail_under: Option<String>,

    /// A bound on the whole run, in seconds
    ///
    /// When it is over, the server is ended as on Ctrl-C, what is finished is reported, and the
    /// exit code is 130.
    #[arg(long, value_name = "SECS", help_heading = "Checks")]
    pub(crate) timeout: Option<String>,

    /// A Postgres you control, for the seed database of pack db
    ///
    /// `postgres://superuser:password@host:port/database`. The database sealmark_seed and the roles
    /// sm_* are made there and removed at the end. Without it an installed Postgres is started for
    /// the run, or one is fetched and kept in the user's cache.
    #[arg(
        long,
        value_name = "URL",
        env = "SEALMARK_PG",
        hide_env_values = true,
        hide_short_help = true,
        help_heading = "Checks"
    )]
    pub(crate) pg: Option<String>,

    /// Start no Postgres and fetch none
    ///
    /// Without --pg the placeholders of the database are then empty, and pack db is not graded.
    #[arg(long, hide_short_help = true, help_heading = "Checks")]
    pub(crate) no_embedded: bool,

    /// What is printed: text (the default), summary or json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_default_value = true,
        help_heading = "Output"
    )]
    pub(crate) format: String,

    /// Also write the report in a format to a file; repeatable
    ///
    /// Whether the file can be written is looked at before the run.
    #[arg(short, long, value_name = "FORMAT=FILE", help_heading = "Output")]
    pub(crate) output: Vec<String>,

    /// Print without colours, as with NO_COLOR
    #[arg(long, help_heading = "Output")]
    pub(crate) no_color: bool,

    /// No progress and no warnings on standard error
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Show more evidence; twice, all of it
    #[arg(short, long, action = ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,

    #[command(flatten)]
    pub(crate) later: Later,
}

/// Options of the design that come later: read, so that the answer is not "unexpected argument".
#[derive(Debug, Args)]
pub(crate) struct Later {
    #[arg(long, hide = true, num_args = 0..=1)]
    from: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1)]
    server: Option<Option<String>>,
    #[arg(long, hide = true)]
    sealed: bool,
    #[arg(long, hide = true, num_args = 0..=1)]
    baseline: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1)]
    replay: Option<Option<String>>,
}

impl Later {
    /// The first of them that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        [
            (self.from.is_some(), "--from"),
            (self.server.is_some(), "--server"),
            (self.sealed, "--sealed"),
            (self.baseline.is_some(), "--baseline"),
            (self.replay.is_some(), "--replay"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// Print the page of a check, or of one of its rules
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The check, or the rule that gave a verdict
    #[arg(value_name = "CHECK[/RULE]")]
    pub(crate) what: String,
}

/// List the checks of this version
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only this pack
    #[arg(long, value_name = "PACK")]
    pub(crate) pack: Option<String>,

    /// text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: String,
}

/// Print the whole registry for programs
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// json or yaml
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub(crate) format: String,
}

/// Print the JSON Schema of the configuration or of the report
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// config or report
    #[arg(value_name = "WHICH")]
    pub(crate) which: String,
}

/// The command line as a clap value.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short_help(of: Option<&str>) -> String {
        let mut root = command().term_width(80);
        root.build();
        match of {
            Some(name) => root.find_subcommand_mut(name).unwrap().render_help().to_string(),
            None => root.render_help().to_string(),
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn short_help_fits_one_screen() {
        for of in [None, Some("run"), Some("explain"), Some("list-checks"), Some("describe")] {
            let text = short_help(of);
            assert!(text.lines().count() <= 24, "{of:?}: {} lines", text.lines().count());
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{of:?}: {line}");
            }
        }
    }

    #[test]
    fn what_comes_later_is_read_and_not_shown() {
        let argv = ["sealmark", "run", "--from", "mcp.json", "--server", "x"];
        let cli = Cli::try_parse_from(argv).unwrap();
        let Command::Run(run) = cli.command else { panic!("run is read as run") };
        assert_eq!(run.later.given(), Some("--from"));
        let help = short_help(Some("run"));
        assert!(!help.contains("--from") && !help.contains("--sealed"), "{help}");
    }

    #[test]
    fn the_version_names_the_methodology() {
        assert!(VERSION.ends_with(&format!("(methodology {})", crate::registry::METHODOLOGY)));
    }

    #[test]
    fn the_listed_commands_are_those_that_exist() {
        let mut root = command();
        root.build();
        let names: Vec<String> =
            root.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        assert_eq!(names, COMMANDS);
    }
}
