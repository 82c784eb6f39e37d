//! Adapters that a user would write, each for a simulated engine at another place: in the program itself, in a process,
//! in a container.

use super::image;

/// The functions taken from the shipped adapter.
const COMMON: &str = r#"
import "std/engines/sim" as sim;
fn ready(engine) { sim::ready(engine) }
fn request(point) { sim::request(point) }
fn facts() { sim::facts() }
fn failures() { sim::failures() }
fn flags(limits) { sim::flags(limits) }
"#;

/// Runs in the program itself. One second of model time takes `scale` seconds.
pub fn in_process(scale: f64) -> String {
    format!(
        "{COMMON}
fn launch(options) {{
    let launch = sim::launch(options);
    launch.sim.options.time_scale = {scale:?};
    launch
}}"
    )
}

/// A native process; `further` is a Rhai array of arguments.
pub fn process(scale: f64, further: &str) -> String {
    process_of(env!("CARGO_BIN_EXE_profiler"), scale, further)
}

/// A native process of the `profiler` at this path.
pub fn process_of(program: &str, scale: f64, further: &str) -> String {
    format!(
        r#"{COMMON}
fn launch(options) {{
    let serve = options.limits;
    #{{
        command: ["{program}", "sim", "--profile", "llama-8b-24gb-vllm", "--port", "{{port}}", "--time-scale", "{scale:?}",
            "--max-model-len", `${{serve.total}}`, "--max-num-seqs", `${{serve.concurrency}}`] + {further},
        stop_grace: options.stop_grace,
    }}
}}"#
    )
}

/// A container; `further` is a Rhai array of arguments.
pub fn container(scale: f64, further: &str) -> String {
    let image = image::sim();
    format!(
        r#"{COMMON}
fn launch(options) {{
    let serve = options.limits;
    #{{
        image: "{image}",
        port: 8000,
        args: ["--profile", "llama-8b-24gb-vllm", "--time-scale", "{scale:?}",
            "--max-model-len", `${{serve.total}}`, "--max-num-seqs", `${{serve.concurrency}}`] + {further},
        stop_grace: options.stop_grace,
    }}
}}"#
    )
}

/// The living processes that carry the mark of a run.
pub fn processes_of(run: &str) -> Vec<u32> {
    let mark = format!("PROFILER_RUN={run}");
    processes("environ", |entry| entry == mark.as_bytes())
}

/// True if a living process has this argument.
pub fn runs(argument: &str) -> bool {
    !processes("cmdline", |entry| entry == argument.as_bytes()).is_empty()
}

/// The processes with a matching entry in `list`, a file below `/proc/PID`.
fn processes(list: &str, wanted: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            std::fs::read(format!("/proc/{pid}/{list}"))
                .is_ok_and(|entries| entries.split(|byte| *byte == 0).any(&wanted))
        })
        .collect()
}
