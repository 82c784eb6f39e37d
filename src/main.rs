//! The `profiler` binary: calls [`profiler::cli::main`].

use std::process::ExitCode;

fn main() -> ExitCode {
    profiler::cli::main(std::env::args_os())
}
