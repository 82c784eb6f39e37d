//! Engines under test: describe, probe, watch, stop. `std/engines` is the usual way to them.

use rhai::Map;
use rhai::plugin::*;

use crate::engine::{Limits, LimitsOption, ProbeOptions};
use crate::script::engine_handle::{Handle, point};
use crate::script::{Caught, host, options, to_script};

/// Engines by their adapters.
#[export_module]
pub mod engine {
    /// Describes an engine by its adapter's name, or the path of your own adapter, and starts nothing. `std/engines` is built on it.
    ///
    /// Options: see `engines::launch`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown adapter, an unknown or wrong option, or an adapter that does not keep its contract.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let engine = engine::describe("sim", #{});
    /// engine.info().engine == "sim"
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn describe(context: NativeCallContext, name: &str, options: Map) -> Caught<Handle> {
        Ok(Handle::describe(&host(&context), name, options)?)
    }

    /// Whether a GPU is there that an engine can use: what `auto` asks.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let name = if engine::gpu_usable() { "vllm" } else { "sim" };
    /// assert(name == "vllm" || name == "sim");
    /// ```
    #[rhai_fn(volatile)]
    pub fn gpu_usable() -> bool {
        crate::telemetry::gpus().is_ok_and(|gpus| !gpus.is_empty())
    }
}

/// What scripts do with an engine.
#[export_module]
pub mod methods {
    /// Starts the engine, unless it runs, with limits that cover the whole box of the newest boundary where memory allows.
    /// True when it had to be started. The first probe does the same.
    ///
    /// # Errors
    ///
    /// `engine` when it does not become ready; `missing` when Docker, an image, a GPU or an address that was named is not there.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{ limits: #{ input: 1024, output: 256 } });
    /// assert(engine.start());
    /// assert(!engine.start());
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn start(context: NativeCallContext, engine: &mut Handle) -> Caught<bool> {
        host(&context).meter.reset();
        Ok(engine.0.start()?)
    }

    /// Ends the engine, unless it was attached to. The next probe starts it again.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// engine.stop();
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn stop(context: NativeCallContext, engine: &mut Handle) -> Caught<()> {
        host(&context).meter.reset();
        Ok(engine.0.stop()?)
    }

    /// Puts one point to the engine, which is started where needed, and tells what became of it.
    ///
    /// A point is `#{ input, output, concurrency }`, in tokens and requests at once (1 without it). The answer is `#{ point, verdict,
    /// cause, moves, evidence, input, output, ttft_ms, tpot_ms, itl_ms, e2el_ms, peak, series, started, seconds }`: `verdict` is one
    /// of `ok`, `oom`, `refused`, `preempted`, `queued`, `start_failed`, `timeout`, `short_output`, `error`; `moves` is `fits`, `fails` or `none`;
    /// `input` and `output` are the engine's own counts; `peak` is memory in bytes; `series` is `[seconds, bytes]` pairs; what is
    /// unknown is `()`. What the engine does is never an error but a verdict.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong point; `missing` when something that the engine needs is not there.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// let answer = engine.probe(#{ input: 512, output: 64 });
    /// assert(answer.verdict == "ok" && answer.input == 512 && answer.output == 64);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn probe(context: NativeCallContext, engine: &mut Handle, point: Map) -> Caught<Dynamic> {
        ask(&context, engine, point, ProbeOptions::default())
    }

    /// Puts one point to the engine, with options: `timeout` (seconds that each request may take; without it ten times what such
    /// a request usually takes, at least a minute), `retries` (3: of a text that ended early, or an overloaded engine),
    /// `output_tolerance` (0: tokens that may be missing from an `ok`), `overload` (`fails`: whether `preempted` and `queued` count as
    /// fitting in `moves`).
    ///
    /// # Errors
    ///
    /// `usage` for a wrong point or option; `missing` when something that the engine needs is not there.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// let answer = engine.probe(#{ input: 512, output: 64 }, #{ timeout: 30, retries: 0 });
    /// assert(answer.verdict == "ok");
    /// ```
    #[rhai_fn(name = "probe", return_raw, volatile)]
    pub fn probe_with(context: NativeCallContext, engine: &mut Handle, point: Map, options: Map) -> Caught<Dynamic> {
        let options = crate::script::options(options)?;
        ask(&context, engine, point, options)
    }

    /// Memory in use now: `#{ used, total, source, per_gpu, processes }` in bytes; `source` is `nvml`, `amd`, `host` or `sim`; `()` where
    /// the engine does not run, or nothing of it can be seen from here.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.memory().used > 0);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn memory(context: NativeCallContext, engine: &mut Handle) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.memory())?)
    }

    /// The state of the engine's queue now: `#{ running, waiting, kv_usage, preemptions }`, `kv_usage` from 0 to 1, `()` where it is
    /// unknown.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.metrics().running == 0);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn metrics(context: NativeCallContext, engine: &mut Handle) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.metrics()?)?)
    }

    /// What is known of the engine: `#{ engine, version, model, max_model_len, kv_tokens, simulated }`, lengths in tokens; `()` where it does
    /// not tell, or does not run yet.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.info().simulated && engine.info().kv_tokens > 0);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn info(context: NativeCallContext, engine: &mut Handle) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.info())?)
    }

    /// The newest 200 lines that the running engine wrote, oldest first. The whole log is in the run's folder.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.logs().len() > 0);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn logs(context: NativeCallContext, engine: &mut Handle) -> Caught<Dynamic> {
        newest(&context, engine, Last::default())
    }

    /// The newest lines that the running engine wrote, `last` of them (200), oldest first.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.logs(#{ last: 1 }).len() == 1);
    /// ```
    #[rhai_fn(name = "logs", return_raw, volatile)]
    pub fn logs_last(context: NativeCallContext, engine: &mut Handle, options: Map) -> Caught<Dynamic> {
        let options = crate::script::options(options)?;
        newest(&context, engine, options)
    }

    /// The flags to paste into a production command line, for the limits that the engine runs with.
    ///
    /// # Errors
    ///
    /// `usage` when it does not run, and no limits were given to `launch`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{ limits: #{ input: 1024, output: 256 } });
    /// assert(engine.flags().len() > 0);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn flags(context: NativeCallContext, engine: &mut Handle) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.flags(None)?)?)
    }

    /// The flags to paste into a production command line, for `#{ input, output, total, concurrency }` in tokens and sequences;
    /// `total` is input + output without it, `concurrency` 1.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("vllm", #{ model: "meta-llama/Llama-3.1-8B-Instruct" });
    /// assert(engine.flags(#{ input: 4096, output: 512 }).contains("--max-model-len=4608"));
    /// ```
    #[rhai_fn(name = "flags", return_raw, volatile)]
    pub fn flags_for(context: NativeCallContext, engine: &mut Handle, limits: Map) -> Caught<Dynamic> {
        host(&context).meter.reset();
        let limits: LimitsOption = options(limits)?;
        Ok(to_script(&engine.0.flags(Some(Limits::from(limits)))?)?)
    }
}

fn ask(context: &NativeCallContext, engine: &Handle, map: Map, options: ProbeOptions) -> Caught<Dynamic> {
    host(context).meter.reset();
    Ok(to_script(&engine.0.probe(&point(map)?, options)?)?)
}

/// How many lines.
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Last {
    last: usize,
}

impl Default for Last {
    fn default() -> Self {
        Self { last: 200 }
    }
}

fn newest(context: &NativeCallContext, engine: &Handle, options: Last) -> Caught<Dynamic> {
    host(context).meter.reset();
    Ok(to_script(&engine.0.logs(options.last))?)
}
