//! The command line of sealmark.

use std::process::ExitCode;

fn main() -> ExitCode {
    sealmark::world::shim::dispatch().unwrap_or(ExitCode::SUCCESS)
}
