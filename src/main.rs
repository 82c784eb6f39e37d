//! The `profiler` binary: calls [`profiler::cli::main`], unless it was started by itself to render a chat template.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Also where the file was replaced meanwhile.
    profiler::runtime::set_supervisor("/proc/self/exe");
    let rendered = profiler::prompt::rendered_as_child(std::env::args_os().nth(1).as_deref());
    rendered.unwrap_or_else(|| profiler::cli::main(std::env::args_os()))
}
