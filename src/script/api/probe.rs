//! In-process probes: programs in Python that look from within. See stdlib/probes/README.md.

use rhai::Map;
use rhai::plugin::*;

use crate::script::engine_handle::EngineHandle;
use crate::script::{Caught, host, probe as probes, to_script};

/// In-process probes without an engine.
#[export_module]
pub mod probe {
    /// Runs an in-process probe in a process of its own, or with `image` in a container of its own, and gives the document that it prints.
    ///
    /// `name` is a shipped probe (`allocator`, `layers`, `trtllm_graphs`), or the path of your own (`"./mine.py"`, relative to the script).
    /// Options: `args` (a map by name, `#{ max_tokens: 5 }` for `--max-tokens 5`, or an array of strings), `python` (the interpreter;
    /// `python3`), `env`, `gpus` (indices or UUIDs), `timeout` (600 seconds); of a container also `image`, `mounts`, `shm_size`, `memory_limit`.
    ///
    /// # Errors
    ///
    /// `not_allowed` without `--allow process`, or the mounts' `--allow mount=DIR`; `missing` for an interpreter, a Python module or a
    /// GPU that is not there; `usage` when it would disturb an engine; `timeout`; `engine` when it fails, or prints something else.
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
        Ok(to_script(&probes::run_alone(&host(&context), name, given)?)?)
    }
}

/// In-process probes of an engine.
#[export_module]
pub mod methods {
    /// Runs an in-process probe inside the engine, or where it does not run in its place, and gives the document that it prints: figures
    /// in bytes, and what could not be found out `()`, with the reason in `unknown`.
    ///
    /// `name` is a shipped probe (`allocator`, `layers`, `trtllm_graphs`), or the path of your own (`"./mine.py"`, relative to the script).
    /// Options: `args` (a map by name, `#{ max_tokens: 5 }` for `--max-tokens 5`, or an array of strings), `python` (the interpreter;
    /// the engine's own, or `python3`), `env`, `timeout` (600 seconds). Secrets of the environment are kept from it. A probe that loads
    /// a model refuses to do so beside a serving engine, unless `args` has `second_copy: true`. On a resume the answer is that of the
    /// journal.
    ///
    /// # Errors
    ///
    /// `not_allowed` for your own program, or `env`, in a container, without `--allow exec`; `missing` for an interpreter, a Python module
    /// or a GPU that is not there, or an engine launched without `in_process: true`; `usage` for the simulated engine, and when it would
    /// disturb; `timeout`; `engine` when it fails, or prints something else.
    ///
    /// # Example
    ///
    /// ```rhai,needs-docker
    /// import "std/engines" as engines;
    /// let engine = engines::launch("vllm", #{ model: "meta-llama/Llama-3.1-8B-Instruct", in_process: true });
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
