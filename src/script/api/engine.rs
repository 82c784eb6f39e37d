//! Engines under test: describe, probe, watch, stop. `std/engines` is the usual way to them.

use rhai::Map;
use rhai::plugin::*;

use crate::engine::{Limits, LimitsOption, ProbeOptions, SendOptions, Wire};
use crate::fault::{Fault, Result};
use crate::script::engine_handle::{EngineHandle, point};
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
    pub fn describe(context: NativeCallContext, name: &str, options: Map) -> Caught<EngineHandle> {
        Ok(EngineHandle::describe(&host(&context), name, options)?)
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
    pub fn start(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<bool> {
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
    pub fn stop(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<()> {
        host(&context).meter.reset();
        Ok(engine.0.stop()?)
    }

    /// Puts one point to the engine, which is started where needed, and tells what became of it.
    ///
    /// A point is `#{ input, output, concurrency }`, in tokens and requests at once (1 without it). The answer is `#{ point, verdict,
    /// cause, moves, evidence, input, output, ttft_ms, tpot_ms, itl_ms, e2el_ms, peak, series, started, starts, seconds, gpus, report }`: `verdict` is one
    /// of `ok`, `oom`, `refused`, `preempted`, `queued`, `start_failed`, `timeout`, `short_output`, `error`; `moves` is `fits`, `fails` or `none`;
    /// `input` and `output` are the engine's own counts; `peak` is memory in bytes; `series` is `[seconds, bytes]` pairs; `starts` counts those that
    /// were tried for it, `seconds` is what it all took, `gpus` how many the engine holds; `report` is what the engine itself says of its bounds, which proves nothing: `#{
    /// tokens (of its KV cache), block (tokens of a block), longest (input and output), longest_input }`; what is
    /// unknown is `()`. What the engine does is never an error but a verdict.
    ///
    /// `cause` says why: of `oom` `cuda`, `host` (the kernel's word), `allocator`; of `refused` `kv_cache`, `memory`, `length_limit`; of `start_failed`
    /// `memory`, `port`, `model`, `exited`, …; of `short_output` `end_of_text` or `clipped` (cut, and no bound that the engine reports explains it);
    /// of `error` `died`, `dead` (its process lives and serves no more), `overloaded`, …
    ///
    /// `evidence` shows it: `message` (one sentence), `log` (the line that says so, else the end of the log), `phase` (how far the engine was: `weights`,
    /// `profiling`, `kv_cache`, `graph_capture`, `warm_up` of a start, else `request`), `allocations` (of each GPU the last allocation that failed, where its
    /// allocator gave figures: `#{ gpu, tried, total, free, process, allowed, allocated, reserved }`, bytes), `survived` (whether the engine served again
    /// without a start), `exit_code`, `oom_killed` (by the kernel), `http_status`, `finish`, `excess` (tokens beyond the output asked), `completed`, `issued` and
    /// `attempts`, `queue` (the fullest that its metrics showed: `#{ running, waiting, kv_usage, preemptions }`), `memory` (bytes when it was over), `limits` (of
    /// the start).
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
    pub fn probe(context: NativeCallContext, engine: &mut EngineHandle, point: Map) -> Caught<Dynamic> {
        ask(&context, engine, point, ProbeOptions::default())
    }

    /// Puts one point to the engine, with options: `timeout` (seconds that each request may take; without it ten times what such
    /// a request usually takes, at least a minute), `stall` (20 seconds: how long the engine may run nothing while every unfinished request
    /// waits, by its own metrics; then they are given up), `retries` (3: of a text that ended early, or an overloaded engine),
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
    pub fn probe_with(
        context: NativeCallContext,
        engine: &mut EngineHandle,
        point: Map,
        options: Map,
    ) -> Caught<Dynamic> {
        let options = crate::script::options(options)?;
        ask(&context, engine, point, options)
    }

    /// Sends one prompt, a text or an array of token ids, and tells what came back: `#{ complete, input, output, finish, error, http_status,
    /// ttft_ms, tpot_ms, e2el_ms }`. 16 tokens are generated. The engine is started where needed.
    ///
    /// # Errors
    ///
    /// `usage` for ids where the engine takes none; `engine` when no start serves the request.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// assert(engine.send([11, 12, 13]).input == 3);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn send(context: NativeCallContext, engine: &mut EngineHandle, prompt: Dynamic) -> Caught<Dynamic> {
        deliver(&context, engine, &prompt, SendOptions::default())
    }

    /// Sends one prompt with options: `output` (16: tokens to generate), `timeout` (600: seconds).
    ///
    /// # Errors
    ///
    /// `usage` for ids where the engine takes none, or a wrong option; `engine` when no start serves the request.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// assert(engine.send("a few words", #{ output: 4 }).output == 4);
    /// ```
    #[rhai_fn(name = "send", return_raw, volatile)]
    pub fn send_with(
        context: NativeCallContext,
        engine: &mut EngineHandle,
        prompt: Dynamic,
        options: Map,
    ) -> Caught<Dynamic> {
        let options = crate::script::options(options)?;
        deliver(&context, engine, &prompt, options)
    }

    /// What a start would need, and whether it is here; starts nothing and pulls nothing. An engine that was attached to is asked whether it is ready.
    ///
    /// The answer is `#{ runtime, simulated, image, image_here, command, devices, missing, withheld }`: `image` would be pulled where `image_here` is false, and both are
    /// `()` without Docker; `command` is that of a process; `devices` are its GPUs, `#{ id, name, total }` each, in bytes, `[]` where none is seen; `missing` lists what keeps
    /// it from starting, `#{ kind, message, hint }` each, what the user did not allow included; `withheld` what it would start without.
    ///
    /// # Errors
    ///
    /// None for what is missing.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let needs = engines::launch("sim", #{}).needs();
    /// assert(needs.simulated && needs.missing == [] && needs.devices[0].total > 0);
    /// let needs = engines::launch("sim", #{ profile: "no-such-profile" }).needs();
    /// assert(needs.missing[0].kind == "usage");
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn needs(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.needs()?)?)
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
    pub fn memory(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.memory())?)
    }

    /// Memory by the stages of the engine's newest start, measured while it runs: `#{ source, baseline, loaded, warmed, peak, after }`,
    /// each stage `()` until it is reached.
    ///
    /// `baseline` is before the start; `loaded` ready and idle, before the first request; `warmed` when the first request was answered
    /// whole (the first `ok` probe, or `load` or `send` with a complete answer, ends the warm-up); `peak` the most since the start; `after`
    /// after the stop, once memory has come back (5 seconds at most). An engine that was attached to has neither `baseline` nor `after`; a probe that a resumed
    /// run finds in its journal starts no engine, and so has no stages.
    ///
    /// A stage is `#{ sum, max, mean, std, ours, others, per_gpu, processes, over_time }` in bytes: `sum`, `max`, `mean` and `std` (of all of
    /// them, not of a sample) are over the GPUs of the engine, by everybody. `per_gpu` lists `#{ id, name, used, total, ours, others,
    /// unattributed, provenance }`: what the engine's own processes hold, what others hold (never counted as ours), and what no process
    /// accounts for. `provenance` is `"measured"` where the driver tells by process, and `"computed"` where `ours` is what came on top of the
    /// baseline (in a container the driver often names no process) or what changed since the processes were looked at, ten times a second.
    /// `processes` lists `#{ pid, name, device, used, ours }`. `over_time` is `#{ seconds, looks, lowest, mean, std, highest }` of the sum, for
    /// `loaded` while idle, for `warmed` from the first request on, for `peak` since the start; `()` for a single moment. What is unknown is `()`.
    ///
    /// The same is in `memory/` of the run's folder as JSON, beside the series of memory, power and processes.
    ///
    /// # Errors
    ///
    /// `missing` when Docker does not answer any more.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// assert(engine.usage().loaded == ());
    /// engine.probe(#{ input: 100, output: 4 });
    /// let usage = engine.usage();
    /// assert(usage.baseline.sum < usage.loaded.sum && usage.loaded.sum <= usage.peak.sum);
    /// assert(usage.peak.ours + usage.baseline.sum == usage.peak.sum);
    /// engine.stop();
    /// assert(engine.usage().after.sum == usage.baseline.sum);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn usage(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.usage()?)?)
    }

    /// The state of the engine's queue now, and what it counted since its start: `#{ running, waiting, kv_usage, preemptions, prefix_queries,
    /// prefix_hits, prompt_tokens, generated_tokens, finished }`, `kv_usage` from 0 to 1, `()` where it is unknown. What was looked up in the
    /// prefix cache and found there is in tokens, of TensorRT-LLM in blocks; `finished` counts requests by how they ended.
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
    pub fn metrics(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
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
    pub fn info(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.info())?)
    }

    /// Every fact that the running engine told of itself, by name, sizes in bytes: `#{ kv_bytes: [#{ value, origin, text, line, rank, device,
    /// before, after }], … }`, in the order in which they were told; `#{}` where it does not run.
    ///
    /// Each is told with its place: `origin` is `log` or the path of a page; `text` is the log line, the line of the metrics page, or the pointer
    /// into the information page; `line` is the number of the log line, `rank` the tensor-parallel rank that wrote it, and `device` the
    /// device that it names, each `()` where there is none. `before` and `after` are bytes in use by device id in the last look before the line came
    /// and in the first one after it, `()` where memory was not watched then: that is how memory can be told apart by what the
    /// engine did. What the adapter's `facts()` names is what there is.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// engine.start();
    /// let pool = engine.facts().kv_bytes[0];
    /// assert(pool.value > 0 && pool.origin == "log" && pool.text.contains("KV cache"));
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn facts(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.facts())?)
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
    pub fn logs(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
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
    pub fn logs_last(context: NativeCallContext, engine: &mut EngineHandle, options: Map) -> Caught<Dynamic> {
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
    pub fn flags(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
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
    pub fn flags_for(context: NativeCallContext, engine: &mut EngineHandle, limits: Map) -> Caught<Dynamic> {
        host(&context).meter.reset();
        let limits: LimitsOption = options(limits)?;
        Ok(to_script(&engine.0.flags(Some(Limits::from(limits)))?)?)
    }
}

fn ask(context: &NativeCallContext, engine: &EngineHandle, map: Map, options: ProbeOptions) -> Caught<Dynamic> {
    host(context).meter.reset();
    Ok(to_script(&engine.0.probe(&point(map)?, options)?)?)
}

fn deliver(
    context: &NativeCallContext,
    engine: &EngineHandle,
    prompt: &Dynamic,
    options: SendOptions,
) -> Caught<Dynamic> {
    host(context).meter.reset();
    Ok(to_script(&engine.0.send(&wire(prompt)?, options)?)?)
}

fn wire(prompt: &Dynamic) -> Result<Wire> {
    if let Ok(text) = prompt.as_immutable_string_ref() {
        return Ok(Wire::Text(text.to_string()));
    }
    let wrong = || Fault::usage("a prompt is a text, or an array of token ids");
    let ids = prompt.as_array_ref().map_err(|_| wrong())?;
    let id = |id: &Dynamic| id.as_int().ok().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong);
    ids.iter().map(id).collect::<Result<_>>().map(Wire::Tokens)
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

fn newest(context: &NativeCallContext, engine: &EngineHandle, options: Last) -> Caught<Dynamic> {
    host(context).meter.reset();
    Ok(to_script(&engine.0.logs(options.last))?)
}
