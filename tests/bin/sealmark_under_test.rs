//! The program under end-to-end test: sealmark itself, and hidden subcommands that only tests use.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use sealmark::{
    config,
    event::Events,
    run::{Request, run},
    standard::Names,
    world::{Launch, Run, env, shim},
};

fn main() -> ExitCode {
    if let Some(code) = shim::dispatch() {
        return code;
    }
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(word) if word == "__hold" => hold(arguments.collect()),
        Some(word) if word == "__record" => record(&arguments.collect::<Vec<_>>()),
        Some(word) if word == "__panic" => {
            sealmark::cli::install_panic_hook(false);
            panic!("planted")
        }
        _ => sealmark::cli::main(),
    }
}

/// `__hold PARENT LANES PROGRAM ARGUMENTS…` starts that server once in each of so many lanes of a
/// run below PARENT, says so on standard output (the root, then each process id), and waits to
/// be killed.
fn hold(arguments: Vec<OsString>) -> ExitCode {
    let [parent, lanes, program, rest @ ..] = arguments.as_slice() else {
        return ExitCode::FAILURE;
    };
    let lanes: usize = lanes.to_string_lossy().parse().expect("a number of lanes");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let run = Run::create_in(&PathBuf::from(parent)).expect("a run");
        let mut held = Vec::new();
        let mut line = vec![run.root().display().to_string()];
        for number in 0..lanes {
            let lane = run.lane(&format!("lane-{number}")).expect("a lane");
            let process = Launch {
                program: program.clone(),
                args: rest.to_vec(),
                env: env::build(&lane, None, env::Stage::Serve, &[]),
                cwd: lane.sandbox(),
                lane,
                supervisor: None,
                parting: None,
            }
            .start()
            .await
            .expect("a started server");
            line.push(process.pid().to_string());
            held.push(process);
        }
        #[expect(clippy::print_stdout, reason = "the test waits for this line")]
        {
            println!("{}", line.join(" "));
        }
        std::future::pending::<()>().await;
        drop(held);
    });
    ExitCode::SUCCESS
}

/// `__record -- COMMAND ARGUMENTS…` or `__record FILE` makes a whole run of that command or
/// configuration, writes its record as JSON to standard output, and how much memory it took at
/// most, as Linux counts it, to standard error.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "both are what tests read")]
fn record(arguments: &[OsString]) -> ExitCode {
    let words: Vec<String> =
        arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let read = match words.as_slice() {
        [dashes, command @ ..] if dashes == "--" => config::from_command(command),
        [file] => Names::of_registry().with(|known| config::load(Path::new(file), known)),
        _ => return ExitCode::FAILURE,
    };
    let (config, warnings) = match read {
        Ok(read) => read,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let request = Request { config, only: Vec::new(), warnings };
    let (_keep, interrupt) = tokio::sync::watch::channel(false);
    let report = runtime.block_on(run(request, Events::default(), interrupt)).expect("a run");
    println!("{}", serde_json::to_string(&report).expect("a record is JSON"));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    eprintln!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    ExitCode::SUCCESS
}
