//! Memory estimates without starting anything.

use rhai::Map;
use rhai::plugin::*;

use crate::script::engine_handle::EngineHandle;
use crate::script::estimate::{EstimateOptions, estimate_engine, estimate_model};
use crate::script::{Caught, host, to_script};

/// Memory estimates without starting anything.
#[export_module]
pub mod estimate {
    /// Estimates what a model needs from its architecture, as a map; all sizes in bytes. `model` is a folder with
    /// `config.json` below the script's folder or one permitted with `--allow mount=DIR`, or a model of the Hugging
    /// Face hub. Of weights, at most the headers are read. A resumed run replays the earlier result.
    ///
    /// Options: `input` (2048) and `output` (256), tokens of each sequence; `concurrency` (1), concurrent sequences;
    /// `dtype`, `quantization` and `kv_cache_dtype`, instead of the model's own; `tensor_parallel` (1), ranks that
    /// share each layer; `prefill_chunk`, tokens of one full prefill step (default: all input of one sequence);
    /// `gpu_memory`, bytes of each GPU, and `memory_fraction` (0.9), the share of it that may be used; `offline`
    /// (false), whether to use only local files: a folder, or the hub's cache.
    ///
    /// The result has `family`, `parameters`, `positions`, `weight_bytes`, `dtype`, `quantization`, `kv_cache_dtype`,
    /// `kv_bytes_per_token` (for a sequence shorter than every window), `kv_bytes_per_token_per_rank`,
    /// `state_bytes_per_sequence` (recurrent layers), `layers` (maps of `count`, `kv_bytes_per_token`, `window`,
    /// `state_bytes`), `total` and `ranks` (breakdowns: maps of `device`, `total` and `parts`, which are maps of
    /// `component`, `bytes`, `provenance`, `source`), `fits` (`()` without `gpu_memory`; otherwise a map of `budget`,
    /// `kv_bytes` (left for the KV cache), `tokens` (that it holds), `sequences` (concurrent, of that length),
    /// `longest` (single sequence) and `fits`), `notes` (what the numbers do not include) and `question` (the
    /// arguments).
    ///
    /// # Errors
    ///
    /// `usage` for an unknown model family or quantization, or heads that the ranks cannot share; `missing` if there is
    /// no such model, or the hub does not provide it; `not_allowed` for a folder elsewhere.
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
        let found = estimate_model(&host(&context), model, &EstimateOptions::from_options(options)?)?;
        Ok(to_script(&found)?)
    }

    /// Estimates the model of an engine, with the same options: the folder or hub model in its options; for an attached
    /// engine the model that it reports, unless its folder is given; for the simulated engine the model of its profile.
    ///
    /// # Errors
    ///
    /// As for a model by name; `missing` also if no model is given.
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
        let found = estimate_engine(&host(&context), &engine.0, &EstimateOptions::from_options(options)?)?;
        Ok(to_script(&found)?)
    }
}
