//! What a model needs, before anything is started.

use rhai::Map;
use rhai::plugin::*;

use crate::script::engine_handle::EngineHandle;
use crate::script::estimating::{Asked, of_engine, of_model};
use crate::script::{Caught, host, to_script};

/// What a model needs, before anything is started.
#[export_module]
pub mod estimate {
    /// What a model needs by its architecture, as a map; all sizes in bytes. `model` is a folder with `config.json` below the script's
    /// folder or one that the user allowed with `--allow mount=DIR`, or a model of the Hugging Face hub. Of weights at most the headers
    /// are read. A resumed run gets what it got before.
    ///
    /// Options: `input` (2048) and `output` (256), tokens of each sequence; `concurrency` (1), sequences held at once; `dtype`,
    /// `quantization` and `kv_cache_dtype`, in place of the model's own; `tensor_parallel` (1), ranks that share each layer;
    /// `prefill_chunk`, tokens of one full step of the prefill (all input of one sequence); `gpu_memory`, bytes of each GPU, and
    /// `memory_fraction` (0.9), the share of it that may be used; `offline` (false), whether only this machine is looked at: a folder, or what the
    /// hub's cache holds.
    ///
    /// The result has `family`, `parameters`, `positions`, `weight_bytes`, `dtype`, `quantization`, `kv_cache_dtype`, `kv_bytes_per_token` (of
    /// a sequence shorter than every window), `kv_bytes_per_token_per_rank`, `state_bytes_per_sequence` (recurrent layers), `layers` (maps of
    /// `count`, `kv_bytes_per_token`, `window`, `state_bytes`), `total` and `ranks`: breakdowns, maps of `device`, `total` and `parts`
    /// (maps of `component`, `bytes`, `provenance`, `source`); `fits`, `()` without `gpu_memory`, else a map of `budget`, `kv_bytes` (left for
    /// the KV cache), `tokens` (that it holds), `sequences` (of that length at once), `longest` (single sequence) and `fits`; `notes`, what is
    /// not in the figures; `question`, what was asked for.
    ///
    /// # Errors
    ///
    /// `usage` for a family of models or a quantization that is not known, or heads that the ranks cannot share; `missing` when there is no
    /// such model, or the hub does not give it; `not_allowed` for a folder elsewhere.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try {
    ///     let needed = estimate("./my-model", #{ input: 8192, concurrency: 16, gpu_memory: 80 * 1024 * 1024 * 1024 });
    ///     print(`${needed.kv_bytes_per_token} bytes a token, ${needed.fits.sequences} sequences at once`);
    /// } catch (e) {
    ///     assert(e.kind == "missing");
    /// }
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn estimate(context: NativeCallContext, model: &str, options: Map) -> Caught<Dynamic> {
        let found = of_model(&host(&context), model, &Asked::of_script(options)?)?;
        Ok(to_script(&found)?)
    }

    /// The same for the model of an engine, with the same options: the folder or the hub's model that its options name; of one that was attached to
    /// the model that it says it serves, unless its folder is named; of the simulated engine the model that its profile stands for.
    ///
    /// # Errors
    ///
    /// As there; `missing` too where no model is named.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// let needed = estimate(engine, #{ input: 512, output: 64, offline: true });
    /// assert(needed.kv_bytes_per_token == 131072);
    /// ```
    #[rhai_fn(name = "estimate", return_raw, volatile)]
    pub fn estimate_of_engine(context: NativeCallContext, engine: &mut EngineHandle, options: Map) -> Caught<Dynamic> {
        let found = of_engine(&host(&context), &engine.0, &Asked::of_script(options)?)?;
        Ok(to_script(&found)?)
    }
}
