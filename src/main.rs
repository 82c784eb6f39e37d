//! The `profiler` binary: calls [`profiler::cli::main`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // Also where the file was replaced meanwhile.
    profiler::own_program::set("/proc/self/exe");
    profiler::cli::main(std::env::args_os())
}
