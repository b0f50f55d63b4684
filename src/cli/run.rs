//! `sealmark run`: from the arguments to a run, its report and an exit code.

mod interrupt;
mod output;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::mpsc;

use self::interrupt::Interrupts;
use self::output::Outputs;
use super::args::RunArgs;
use super::names;
use super::out;
use crate::config::{
    Config, ConfigError, DatabaseUrl, Limits, Profile, Warning, from_command, load,
};
use crate::error::{self, Error, Interruption};
use crate::event::Events;
use crate::letter::Letter;
use crate::registry;
use crate::render::{Format, Style, live};
use crate::report::{PackStatus, Report};
use crate::run::{Request, RunError, run};
use crate::standard::Names;

/// The configuration that is taken when none is named.
const DEFAULT_FILE: &str = "sealmark.yaml";

pub(crate) fn main(args: RunArgs) -> Result<u8, Error> {
    if let Some(option) = args.later.given() {
        return Err(Error::NotInThisVersion {
            what: format!("the option {option}"),
            help: "`sealmark run --help` lists the options there are".into(),
        });
    }
    let format = output::format(&args.format)?;
    let timeout = args.timeout.as_deref().map(interrupt::seconds).transpose()?;
    let (mut config, warnings) = configuration(&args)?;
    adjust(&mut config, &args)?;
    let outputs = Outputs::checked(&args.output)?;
    if !args.quiet {
        warnings.iter().for_each(warn);
    }
    let request = Request { config, only: args.only.clone(), warnings };
    let (report, interruption) = conduct(request, &args, timeout)?;

    let style = Style {
        colour: !args.no_color && coloured(&io::stdout()),
        width: columns(),
        verbose: args.verbose,
        quiet: args.quiet,
    };
    outputs.write(&report)?;
    out::print(&output::rendered(format, &report, style)?)?;
    if format == Format::Json
        && let Some(error) = as_error(&report, interruption)
    {
        out::complain(&error, true);
    }
    Ok(exit_code(&report, interruption))
}

/// The configuration of the file or of the command, as it stands there.
fn configuration(args: &RunArgs) -> Result<(Config, Vec<Warning>), Error> {
    let read = match (&args.config, args.command.as_slice()) {
        (Some(_), [_, ..]) => {
            return Err(Error::usage(
                "a configuration and a command at once",
                "leave one out: `sealmark run CONFIG`, or `sealmark run -- COMMAND…`",
            ));
        }
        (None, command @ [_, ..]) => from_command(command),
        (None, []) if !Path::new(DEFAULT_FILE).exists() => {
            return Err(Error::usage(
                format!("there is no {DEFAULT_FILE} here, and no command is given"),
                "write `sealmark run CONFIG` with a file, or `sealmark run -- npx -y \
                 @scope/server@1.2.3 '${sandbox}'` with a command",
            ));
        }
        (file, []) => {
            let file = file.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
            Names::of_registry().with(|known| load(file, known))
        }
    };
    read.map_err(Error::from)
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Configuration {
            shown: error.to_string(),
            message: error.message,
            file: error.file,
            line: error.place.line,
            column: error.place.column,
            help: error.help,
        }
    }
}

/// What the options change about the configuration.
fn adjust(config: &mut Config, args: &RunArgs) -> Result<(), Error> {
    if let Some(word) = &args.profile {
        config.profile = profile(word)?;
        let standard = Limits::default().probe_string;
        config.limits.probe_string = match (config.profile, config.limits.probe_string) {
            (Profile::Deep, length) if length == standard => Limits::DEEP_PROBE_STRING,
            (Profile::Standard | Profile::Ci, Limits::DEEP_PROBE_STRING) => standard,
            (_, length) => length,
        };
    }
    config.pg = args.pg.clone().map(DatabaseUrl);
    config.embedded = !args.no_embedded;
    if let Some(word) = &args.fail_under {
        config.fail_under = word.parse().map_err(|_| {
            let letters = Letter::ALL.map(Letter::as_str).join(", ");
            let help = format!("the letters are {letters}");
            names::unknown("letter", word, Letter::ALL.map(Letter::as_str), help)
        })?;
    }
    let mut packs = Vec::new();
    for id in args.pack.iter().map(|id| id.trim()) {
        let id = names::pack(id)?.id.to_owned();
        if !packs.contains(&id) {
            packs.push(id);
        }
    }
    if !packs.is_empty() {
        config.packs = Some(packs.clone());
    }
    let mut only = Vec::new();
    for id in &args.only {
        let check = names::check(id)?;
        if !packs.is_empty() && !packs.iter().any(|id| id == check.pack) {
            return Err(Error::usage(
                format!(
                    "the check `{id}` belongs to pack `{}`, which --pack leaves out",
                    check.pack
                ),
                "add it to --pack, or leave --pack out: --only names its pack by itself",
            ));
        }
        only.push(check.pack);
    }
    if !only.is_empty() && packs.is_empty() {
        let of_only = registry::packs().iter().map(|pack| pack.id).filter(|id| only.contains(id));
        config.packs = Some(of_only.map(str::to_owned).collect());
    }
    Ok(())
}

fn profile(word: &str) -> Result<Profile, Error> {
    match word {
        "standard" => Ok(Profile::Standard),
        "ci" => Ok(Profile::Ci),
        "deep" => Ok(Profile::Deep),
        _ => {
            let known = ["standard", "ci", "deep"];
            let help = "the profiles are standard, ci and deep";
            Err(names::unknown("profile", word, known, help))
        }
    }
}

fn warn(warning: &Warning) {
    out::tell(&format!("warning: {}\n  help: {}", warning.what, warning.help));
}

/// Runs, with progress on standard error, until the report is there.
fn conduct(
    request: Request,
    args: &RunArgs,
    timeout: Option<u64>,
) -> Result<(Report, Option<Interruption>), Error> {
    let internal = |what: String| Error::Internal {
        message: what,
        help: "look at free space, permissions and limits of processes and open files".into(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| internal(format!("failed to start the runtime: {error}")))?;
    let (sender, receiver) = mpsc::channel();
    let progress = live::follow(
        receiver,
        live::Live {
            terminal: io::stderr().is_terminal(),
            colour: !args.no_color && coloured(&io::stderr()),
            quiet: args.quiet,
            width: columns(),
        },
    );
    let done = runtime.block_on(async {
        let interrupts = Interrupts::watch(timeout)
            .map_err(|error| internal(format!("failed to watch for signals: {error}")))?;
        let report =
            run(request, Events::to(sender), interrupts.receiver()).await.map_err(|error| {
                match error {
                    RunError::Usage { why, help } => Error::usage(why, help),
                    error => internal(error.to_string()),
                }
            })?;
        Ok((report, interrupts.first()))
    });
    runtime.shutdown_background();
    // The sender is gone, so the thread ends; what it drew last is wiped then.
    let _ = progress.join();
    done
}

/// Columns of the terminal that standard error or standard output is, else 100.
fn columns() -> usize {
    terminal_size::terminal_size().map_or(100, |(terminal_size::Width(width), _)| width.into())
}

/// Whether a stream takes colours: a terminal, and NO_COLOR, CLICOLOR and TERM do not forbid it.
fn coloured(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// The exit code of a report. What a run could not do outranks what it found (methodology 10).
fn exit_code(report: &Report, interruption: Option<Interruption>) -> u8 {
    if let Some(error) = as_error(report, interruption) {
        error.exit_code()
    } else if !report.gate.met {
        error::NOT_MET
    } else if !report.packs.iter().any(|pack| pack.status == PackStatus::Graded) {
        error::NOTHING_GRADED
    } else {
        error::MET
    }
}

/// Why the report is not that of a whole run, if it is not.
fn as_error(report: &Report, interruption: Option<Interruption>) -> Option<Error> {
    if let Some(by) = interruption.filter(|_| !report.run.completed) {
        return Some(Error::Interrupted { by });
    }
    let instances = &report.server.instances;
    // Without any instance none was needed: then nothing is graded, and that is the answer.
    if instances.is_empty() || instances.iter().any(|instance| instance.started) {
        return None;
    }
    let trouble = instances.iter().find_map(|instance| instance.trouble.as_deref());
    let why = trouble.and_then(|text| text.lines().next()).unwrap_or("no reason is known");
    Some(Error::NotStarted { why: crate::text::safe(why, 200) })
}

#[cfg(test)]
mod tests;
