//! The `profiler` binary: calls [`profiler::cli::main`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // Also finds the program if its file was replaced in the meantime.
    profiler::own_program::set("/proc/self/exe");
    profiler::cli::main(std::env::args_os())
}
