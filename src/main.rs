//! The binary: hands over to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    profiler::cli::main(std::env::args_os())
}
