//! The program `sealmark`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sealmark::cli::main()
}
