//! In-process probes: Python programs that run inside an engine. See stdlib/probes/README.md.

use rhai::Map;
use rhai::plugin::*;

use crate::script::handles::EngineHandle;
use crate::script::{Caught, host, probe as probes, to_script};

/// In-process probes without an engine.
#[export_module]
pub mod probe {
    /// Runs an in-process probe in its own process, or with `image` in its own container, and returns the document that
    /// it prints.
    ///
    /// `name` is a shipped probe (`allocator`, `layers`, `trtllm_graphs`), or the path of your own (`"./mine.py"`,
    /// relative to the script). Options: `args` (a map by name, `#{ max_tokens: 5 }` for `--max-tokens 5`, or an array
    /// of strings), `python` (the interpreter; `python3`), `env`, `gpus` (indices or UUIDs), `timeout` (600 seconds);
    /// for a container also `image`, `mounts`, `shm_size`, `memory_limit`.
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow process`, or `--allow mount=DIR` for mounts; `missing` if an interpreter, a
    /// Python module or a GPU is not available; `usage` if it would disturb an engine; `timeout`; `engine` if it fails,
    /// or prints something else.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try {
    ///     let counters = probe::run("allocator", #{});
    /// } catch (e) {
    ///     assert(e.kind == "missing");
    /// }
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn run(context: NativeCallContext, name: &str, options: Map) -> Caught<Dynamic> {
        let given = crate::script::options(options)?;
        Ok(to_script(&probes::run_standalone(&host(&context), name, given)?)?)
    }
}

/// In-process probes of an engine.
#[export_module]
pub mod methods {
    /// Runs an in-process probe inside the engine, or in its place if it is not running, and returns the document that
    /// it prints: values in bytes, and `()` for unknown ones, with the reason in `unknown`.
    ///
    /// `name` is a shipped probe (`allocator`, `layers`, `trtllm_graphs`), or the path of your own (`"./mine.py"`,
    /// relative to the script). Options: `args` (a map by name, `#{ max_tokens: 5 }` for `--max-tokens 5`, or an array
    /// of strings), `python` (the interpreter; the engine's own, or `python3`), `env`, `timeout` (600 seconds). Secrets
    /// of the environment are not passed to it. A probe that loads a model refuses to do so next to a serving engine,
    /// unless `args` has `second_copy: true`. A resumed run replays the earlier answer.
    ///
    /// # Errors
    ///
    /// `not_allowed` for your own program, or `env`, in a container, without `--allow exec`; `missing` if an
    /// interpreter, a Python module or a GPU is not available, or the engine was launched without `in_process: true`;
    /// `usage` for the simulated engine, and if it would disturb; `timeout`; `engine` if it fails, or prints something
    /// else.
    ///
    /// # Example
    ///
    /// ```rhai,needs-docker
    /// import "std/engines" as engines;
    /// let engine = engines::launch("vllm", #{ model: "Qwen/Qwen3-8B", in_process: true });
    /// engine.start();
    /// for process in engine.run_probe("allocator", #{}).processes {
    ///     for gpu in process.devices { print(`${gpu.reserved} bytes reserved, ${gpu.allocated} of them allocated`); }
    /// }
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn run_probe(
        context: NativeCallContext,
        engine: &mut EngineHandle,
        name: &str,
        options: Map,
    ) -> Caught<Dynamic> {
        let host = host(&context);
        let given = crate::script::options(options)?;
        Ok(to_script(&engine.0.run_probe(&probes::program(&host, name)?, &given)?)?)
    }
}
