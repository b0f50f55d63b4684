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
    target::postgres::{Postgres, ProvideError, Role, Wish},
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
        Some(word) if word == "__postgres" => postgres(&arguments.collect::<Vec<_>>()),
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
    let (mut config, warnings) = match read {
        Ok(read) => read,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    config.pg = std::env::var("SEALMARK_PG").ok().map(config::DatabaseUrl);
    let request = Request { config, only: Vec::new(), warnings };
    let (_keep, interrupt) = tokio::sync::watch::channel(false);
    let report = runtime.block_on(run(request, Events::default(), interrupt)).expect("a run");
    println!("{}", serde_json::to_string(&report).expect("a record is JSON"));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    eprintln!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    ExitCode::SUCCESS
}

/// `__postgres PARENT hold|leave|drop fetch|stay [URL]` provides a seed database to a run below
/// PARENT, lets the roles in, and says so in one line: root, origin, version, what each role counts
/// in `orders`, milliseconds. Then it waits to be killed, closes, or only drops what it has. What
/// cannot be provided is said on standard error: exit code 3, or 2 for a wrong URL.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "both are what tests read")]
fn postgres(arguments: &[OsString]) -> ExitCode {
    let words: Vec<String> =
        arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let [parent, then, fetch, rest @ ..] = words.as_slice() else { return ExitCode::FAILURE };
    let wish = Wish { given: rest.first().cloned(), fetch: fetch == "fetch" };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let run = Run::create_in(Path::new(parent)).expect("a run");
    let began = std::time::Instant::now();
    let provided =
        runtime.block_on(Postgres::provide_telling(&run, &wish, |line| eprintln!("{line}")));
    let postgres = match provided {
        Ok(postgres) => postgres,
        Err(ProvideError::Unavailable(reason)) => {
            eprintln!("{}\n{}", reason.why, reason.help);
            return ExitCode::from(3);
        }
        Err(ProvideError::Usage(why, help)) => {
            eprintln!("{why}\n{help}");
            return ExitCode::from(2);
        }
    };
    let taken = began.elapsed().as_millis();
    let mut line =
        vec![run.root().display().to_string(), postgres.origin().into(), postgres.version().into()];
    runtime.block_on(async {
        for role in Role::ALL {
            let session = postgres.session(role).await.expect("a session");
            let row = session.query_one("SELECT count(*) FROM orders", &[]).await.expect("a row");
            line.push(row.get::<_, i64>(0).to_string());
        }
    });
    line.push(taken.to_string());
    println!("{}", line.join(" "));
    match then.as_str() {
        "hold" => runtime.block_on(std::future::pending::<()>()),
        "leave" => {
            for left in runtime.block_on(postgres.close()) {
                eprintln!("{left}");
            }
        }
        _ => drop(postgres),
    }
    ExitCode::SUCCESS
}
