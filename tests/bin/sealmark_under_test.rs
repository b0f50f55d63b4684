//! The program under end-to-end test: sealmark itself, and hidden subcommands that only tests use.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use sealmark::world::{Launch, Run, env, shim};

fn main() -> ExitCode {
    if let Some(code) = shim::dispatch() {
        return code;
    }
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(word) if word == "__hold" => hold(arguments.collect()),
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
