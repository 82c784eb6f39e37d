//! Engines under test: describe, probe, monitor, stop. Scripts usually use `std/engines`.

use rhai::plugin::*;
use rhai::{Array, FnPtr, Map};
use serde_json::Value;

use super::boundary::to_point;
use super::jobs::strings;
use crate::boundary::Point;
use crate::engine::{Limits, LimitsOption, await_reachable, engine_flag, known_flags};
use crate::fault::{Fault, Result};
use crate::prompt::Content;
use crate::run::for_engine;
use crate::script::host::{EngineHandle, Host, LogOptions, TrialOptions};
use crate::script::signature::misspelt_axis;
use crate::script::suggest::suggest;
use crate::script::{Caught, begin_call, from_script, options, to_script};

/// Engines by their adapters, for `std/engines`, which scripts usually use instead.
#[export_module]
pub mod described {
    /// Describes an engine by its adapter's name or the path of a user's adapter, without starting it. Used by
    /// `std/engines`.
    ///
    /// Options: see `engines::describe`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown adapter, an unknown or wrong option, or an adapter that violates its contract.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let engine = host::engine("sim", #{});
    /// engine.info().engine == "sim"
    /// ```
    #[rhai_fn(return_raw)]
    pub fn engine(context: NativeCallContext, name: &str, options: Map) -> Caught<EngineHandle> {
        Ok(EngineHandle::describe(&begin_call(&context), name, [options])?)
    }

    /// Describes several engines as one; their options differ only in GPUs or URL. `probe` uses the first idle engine,
    /// so several points can be probed at the same time (`in_parallel`); every other method uses the first engine. Used
    /// by `std/engines`.
    ///
    /// # Errors
    ///
    /// As `host::engine`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let engine = host::engines("sim", [#{}, #{}]);
    /// engine.info().engine == "sim"
    /// ```
    #[rhai_fn(return_raw)]
    pub fn engines(context: NativeCallContext, name: &str, all: Array) -> Caught<EngineHandle> {
        let maps: std::result::Result<Vec<Map>, _> = all.into_iter().map(Dynamic::try_cast_result).collect();
        let maps = maps.map_err(|_| Fault::usage("the options of each engine are a map"))?;
        Ok(EngineHandle::describe(&begin_call(&context), name, maps)?)
    }
}

/// Servers that run already.
#[export_module]
pub mod server {
    /// Checks that a server accepts connections at an address; with `--wait`, waits until it does. Does not check what
    /// it serves.
    ///
    /// # Errors
    ///
    /// `missing` if nothing answers there; `usage` for an invalid URL; `not_allowed` for a remote address that the user
    /// did not name.
    ///
    /// # Example
    ///
    /// ```rhai
    /// try {
    ///     server::check_url("http://127.0.0.1:1");
    /// } catch (problem) {
    ///     assert(problem.kind == "missing" && problem.message.contains("connection refused"));
    /// }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn check_url(context: NativeCallContext, url: &str) -> Caught<()> {
        let host = begin_call(&context);
        let Host {
            permits,
            tasks,
            run,
            settings,
            ..
        } = &*host;
        Ok(await_reachable(url, permits, tasks, run, settings.wait)?)
    }

    /// Fetches a page of a running server: `#{ status, body, refusal, remedy }`. `status` is 0 if nothing answers
    /// within five seconds. For a status other than success, `refusal` explains it in one sentence; `remedy` says what
    /// to do if trying again would not help. Otherwise both are `()`. `key` names the environment variable that holds
    /// the server's API key; `""` means `OPENAI_API_KEY`.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid URL or path; `not_allowed` for a remote address or a key that the user did not name.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(server::page("http://127.0.0.1:1", "/v1/models", "").status == 0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn page(context: NativeCallContext, url: &str, path: &str, key: &str) -> Caught<Dynamic> {
        Ok(page_of(&context, url, path, key, false)?)
    }

    /// As `page`, but waits up to `--wait` for a server that is still loading (503) or that says when to retry (429
    /// with `Retry-After`).
    ///
    /// # Errors
    ///
    /// As `page`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(server::await_page("http://127.0.0.1:1", "/v1/models", "").status == 0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn await_page(context: NativeCallContext, url: &str, path: &str, key: &str) -> Caught<Dynamic> {
        Ok(page_of(&context, url, path, key, true)?)
    }
}

/// Methods of engines.
#[export_module]
pub mod methods {
    /// Starts the engine unless it is running. The start limits cover the range of the latest boundary if memory
    /// allows. Returns whether it had to be started. The first probe does the same.
    ///
    /// # Errors
    ///
    /// `engine` if it does not become ready for lack of memory; `start_failed` if it fails for another reason;
    /// `missing` if Docker, an image, a GPU or a given address is not available.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{ limits: #{ input: 1024, output: 256 } });
    /// assert(engine.start());
    /// assert(!engine.start());
    /// ```
    #[rhai_fn(return_raw)]
    pub fn start(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<bool> {
        begin_call(&context);
        Ok(crate::engine::start(engine.0.first())?)
    }

    /// Stops the engine, unless this program only attached to it. The next probe starts it again.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// engine.stop();
    /// ```
    #[rhai_fn(return_raw)]
    pub fn stop(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<()> {
        begin_call(&context);
        Ok(engine.0.stop()?)
    }

    /// True if the running engine can serve a point without a restart: it is healthy, and its start limits cover the
    /// point's lengths and concurrency. `()` before the first start, and with the option `isolate`, where every point is
    /// a start.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid point.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{ limits: #{ input: 1024, output: 256 } });
    /// assert(engine.serves(#{ input: 1000, output: 100 }) == ());
    /// engine.start();
    /// assert(engine.serves(#{ input: 1000, output: 100 }) && !engine.serves(#{ input: 2000, output: 100 }));
    /// ```
    #[rhai_fn(return_raw)]
    pub fn serves(context: NativeCallContext, engine: &mut EngineHandle, point: Map) -> Caught<Dynamic> {
        let requested = Limits::of_point(&super::point(&point)?)?;
        begin_call(&context);
        let serves = crate::engine::serves(engine.0.first(), requested);
        Ok(serves.map_or(Dynamic::UNIT, Dynamic::from))
    }

    /// Tests one point on the engine, which is started if necessary, and returns the result.
    ///
    /// A point is `#{ input, output, concurrency }`, in tokens and concurrent requests (default 1). The answer is `#{
    /// id, point, verdict, cause, moves, evidence, input, output, ttft_ms, tpot_ms, itl_ms, e2el_ms, peak, series,
    /// started, starts, seconds, gpus, report }`. `id` is the answer's number in the run. Pass the answer to
    /// `map.record` with its `id`: the journal then stores it once, and a resumed run knows that it was recorded.
    /// `verdict` is one of `ok`, `oom`, `refused`, `preempted`, `queued`, `start_failed`, `not_sent`, `timeout`,
    /// `short_output`, `error`. `moves` is `fits`, `fails`, `bounds` (for `not_sent`) or `none`. `input` and `output`
    /// are the engine's own token counts. `counted` is present only if no prompt of exactly the requested length could
    /// be made; it is `#{ input }`, the length for which the verdict holds, at most 1 % or 8 tokens off. `peak` is
    /// memory in bytes; `series` lists `[seconds, bytes]` pairs. `starts` is the number of attempted starts, `seconds`
    /// the total time, `gpus` the number of GPUs of the engine. `report` holds the limits that the engine itself
    /// reports, which prove nothing: `#{ tokens (KV cache size), block (tokens per block), longest (input and output),
    /// longest_input }`. With the option `isolate` of `engines::describe`, `isolated` is the memory before the start:
    /// `#{ seconds (waited for it), above (bytes above the baseline), back }`. Unknown values are `()`. Failures of the engine are verdicts, not errors, with one exception:
    /// if the first start fails for a reason other than memory or a length limit, every point would fail. The error is
    /// then `start_failed`, with the engine's last log lines.
    ///
    /// `cause` is the reason. For `oom`: `cuda`, `host` (reported by the kernel), `allocator`. For `refused`:
    /// `kv_cache`, `memory`, `length_limit`. For `start_failed`: `memory`, `length_limit`, and, if an earlier start
    /// served, `port`, `exited`, …. For `not_sent` (the engine's own report rules the point out): `memory`,
    /// `length_limit`. For `short_output`: `end_of_text` or `clipped` (cut off, and no reported limit explains it). For
    /// `queued`: `kv_cache`, `admission` (the engine admits no more), `overloaded`. For `error`: `died`, `stopped` (by
    /// something other than this program), `dead` (its process runs but does not respond), `overloaded`, `not_resident`
    /// (all requests were served, but early ones ended before late ones were admitted, so memory was not tested), ….
    /// `std/failures` lists the known causes.
    ///
    /// `evidence` has the details: `message` (one sentence), `remedy` (what to change, in the flags of the engine),
    /// `limit` (`#{ concurrency, by: "state_slots" }`: the sequences for whose recurrent state there is room, if a start
    /// failed for more), `log` (the relevant line, or the end of the log), `phase`
    /// (during a start: `weights`, `profiling`, `kv_cache`, `graph_capture`, `warm_up`; otherwise `request`),
    /// `allocations` (the last failed allocation of each GPU, if its allocator reported numbers:
    /// `#{ gpu, tried, total, free, process, allowed, allocated, reserved }`, bytes), `survived` (whether the engine
    /// served again without a restart), `exit_code`, `oom_killed` (by the kernel), `http_status`, `finish`, `excess`
    /// (tokens beyond the requested output), `completed`, `issued` and `attempts`, `rejected` and `waited` (the number
    /// of requests that the server temporarily rejected and that were sent again, and the seconds waited for it;
    /// present only if there were any), `reported` (for `not_sent`: the most tokens that fit, by the engine's own
    /// report), `queue` (the fullest state in its metrics: `#{ running, waiting, kv_usage, preemptions }`), `memory`
    /// (bytes at the end), `limits` (of the start).
    ///
    /// # Errors
    ///
    /// `usage` for an invalid point; `missing` if something that the engine needs is not available.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// let answer = engine.probe(#{ input: 512, output: 64 });
    /// assert(answer.verdict == "ok" && answer.input == 512 && answer.output == 64);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn probe(context: NativeCallContext, engine: &mut EngineHandle, point: Map) -> Caught<Dynamic> {
        probe_with(context, engine, point, Map::new())
    }

    /// Tests one point on the engine, with options: `timeout` (seconds per request; by default ten times the usual
    /// duration, at least a minute), `stall` (20: seconds without a running request, by the engine's metrics, after
    /// which all waiting requests are cancelled), `retries` (3, or the value given at launch: after an output that ended early, or
    /// if the engine is overloaded), `output_tolerance` (0, or the value given at launch if that is larger: output tokens, or a
    /// share of them such as `"5%"`, that may be missing from an `ok`), `overload` (`fails`: how `preempted` and `queued` count in `moves`).
    ///
    /// # Errors
    ///
    /// `usage` for an invalid point or option; `missing` if something that the engine needs is not available.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// let answer = engine.probe(#{ input: 512, output: 64 }, #{ timeout: 30, retries: 0 });
    /// assert(answer.verdict == "ok");
    /// ```
    #[rhai_fn(name = "probe", return_raw)]
    pub fn probe_with(
        context: NativeCallContext,
        engine: &mut EngineHandle,
        point: Map,
        options: Map,
    ) -> Caught<Dynamic> {
        begin_call(&context);
        let engine = &engine.0;
        let options = crate::script::options(options)?;
        Ok(to_script(&engine.probe(&super::point(&point)?, options)?)?)
    }

    /// Sends one prompt, a text or an array of token ids, and returns the response: `#{ complete, input, output,
    /// finish, error, http_status, ttft_ms, tpot_ms, e2el_ms }`. 16 tokens are generated. The engine is started if
    /// necessary.
    ///
    /// # Errors
    ///
    /// `usage` for token ids if the engine accepts none; `engine` if no start can serve the request.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// assert(engine.send([11, 12, 13]).input == 3);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn send(context: NativeCallContext, engine: &mut EngineHandle, prompt: Dynamic) -> Caught<Dynamic> {
        send_with(context, engine, prompt, Map::new())
    }

    /// Sends one prompt, with options: `output` (16: tokens to generate), `timeout` (600: seconds).
    ///
    /// # Errors
    ///
    /// `usage` for token ids if the engine accepts none, or an invalid option; `engine` if no start can serve the
    /// request.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// assert(engine.send("a few words", #{ output: 4 }).output == 4);
    /// ```
    #[rhai_fn(name = "send", return_raw)]
    pub fn send_with(
        context: NativeCallContext,
        engine: &mut EngineHandle,
        prompt: Dynamic,
        options: Map,
    ) -> Caught<Dynamic> {
        begin_call(&context);
        let engine = engine.0.first();
        let options = crate::script::options(options)?;
        Ok(to_script(&crate::engine::send(engine, &wire(&prompt)?, options)?)?)
    }

    /// Whether the engine's adapter asks for log-probabilities, as `answer` needs.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// assert(engines::describe("sim", #{}).answers() && !engines::describe("ollama", #{ model: "m" }).answers());
    /// ```
    pub fn answers(engine: &mut EngineHandle) -> bool {
        engine.0.first().adapter.answers()
    }

    /// Asks for the tokens that the engine generates after a prompt, a text or an array of token ids, each the most likely
    /// one, with their log-probabilities: `#{ prompt, tokens, logprobs, top }`. With the option `tokens`, an array of
    /// ids, those are scored instead, each after the prompt and the ones before it. The engine is started if necessary.
    ///
    /// `prompt` has the ids of the prompt, `[]` if the server does not tell them; `tokens` the ids of the tokens, or
    /// their texts where the server tells no ids; `logprobs` the natural logarithm of each one's probability, before
    /// temperature and other sampling; `top` the most likely token in the place of each, `[]` if it is not told. The
    /// adapter's `answer(engine, request)` says how the server is asked.
    ///
    /// Further options: `output` (16: most tokens to generate), `timeout` (600: seconds of each request).
    ///
    /// # Errors
    ///
    /// `usage` if the adapter asks for no log-probabilities, or the server cannot score given tokens; `engine` if no start
    /// serves the request, or the answer is of something else; `script` if the server refuses it.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// let said = engine.answer("a few words", #{ output: 4 });
    /// assert(said.tokens.len() == 4 && said.logprobs.all(|value| value <= 0.0));
    /// let scored = engine.answer(said.prompt, #{ tokens: said.tokens });
    /// assert(scored.top == said.tokens && scored.logprobs == said.logprobs);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn answer(
        context: NativeCallContext,
        engine: &mut EngineHandle,
        prompt: Dynamic,
        options: Map,
    ) -> Caught<Dynamic> {
        begin_call(&context);
        let options = crate::script::options(options)?;
        let prompt = wire(&prompt)?;
        Ok(to_script(&crate::engine::answer(engine.0.first(), &prompt, &options)?)?)
    }

    /// Lists the requirements of a start and whether they are met, without starting or pulling anything. For an
    /// attached engine, checks that it is ready.
    ///
    /// The answer is `#{ runtime, simulated, image, image_here, command, devices, missing, withheld }`. If `image_here`
    /// is false, a start would pull `image`; both are `()` without Docker. `command` is the command line of the runtime
    /// `process`. `devices` lists the GPUs as `#{ id, name, total }`, `total` in bytes; `[]` if there are none.
    /// `missing` lists everything that prevents a start, including permissions, as `#{ kind, message, hint }`;
    /// `withheld` lists what the engine would have to do without.
    ///
    /// # Errors
    ///
    /// Missing requirements are part of the answer, not errors.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let needs = engines::describe("sim", #{}).needs();
    /// assert(needs.simulated && needs.missing == [] && needs.devices[0].total > 0);
    /// let needs = engines::describe("sim", #{ profile: "no-such-profile" }).needs();
    /// assert(needs.missing[0].kind == "usage");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn needs(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        begin_call(&context);
        Ok(to_script(&crate::engine::needs(engine.0.first())?)?)
    }

    /// Current memory use in bytes: `#{ used, total, source, per_gpu, processes }`. `source` is `nvml`, `amd`, `host`
    /// or `sim`. `()` if the engine is not running or cannot be observed from this machine.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.memory().used > 0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn memory(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        begin_call(&context);
        Ok(to_script(&crate::engine::memory(engine.0.first()))?)
    }

    /// Memory by stage of the engine's latest start, measured while it runs:
    /// `#{ source, baseline, loaded, warmed, peak, after }`. A stage is `()` until the engine reaches it.
    ///
    /// `baseline` is before the start; `loaded` is ready and idle, before the first request; `warmed` is after the
    /// first complete response (the first `ok` probe, or a complete answer of `load` or `send`, ends the warm-up);
    /// `peak` is the maximum since the start; `after` is after the stop, when memory has been freed (at most 5
    /// seconds). An attached engine has neither `baseline` nor `after`. A probe that a resumed run replays from its
    /// journal starts no engine, so there are no stages.
    ///
    /// A stage is `#{ sum, max, mean, std, ours, others, per_gpu, processes, over_time }` in bytes. `sum`, `max`,
    /// `mean` and `std` (population) are over the GPUs of the engine, for all processes. `per_gpu` lists `#{ id, name,
    /// used, total, ours, others, unattributed, provenance }`: memory of the engine's own processes, of other
    /// processes, and memory that belongs to no known process. `provenance` is `"measured"` if the driver reports
    /// memory per process. It is `"computed"` if `ours` is the increase over the baseline (in a container the driver
    /// often reports no process), or includes the change since processes were last sampled, ten times a second.
    /// `processes` lists `#{ pid, name, device, used, ours }`. `over_time` is `#{ seconds, samples, lowest, mean, std,
    /// highest }` of the sum (`samples` is their number), for `loaded` while idle, for `warmed` from the first
    /// request on, for `peak` since the start; `()` for a single moment. Unknown values are `()`.
    ///
    /// The same data is in `memory/` of the run's folder as JSON, with the series of memory, power and processes.
    ///
    /// # Errors
    ///
    /// `missing` if the Docker daemon does not respond.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// assert(engine.usage().loaded == ());
    /// engine.probe(#{ input: 100, output: 4 });
    /// let usage = engine.usage();
    /// assert(usage.baseline.sum < usage.loaded.sum && usage.loaded.sum <= usage.peak.sum);
    /// assert(usage.peak.ours + usage.baseline.sum == usage.peak.sum);
    /// engine.stop();
    /// assert(engine.usage().after.sum == usage.baseline.sum);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn usage(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        begin_call(&context);
        Ok(to_script(&crate::engine::usage(engine.0.first())?)?)
    }

    /// The current state of the engine's queue, and its counters since the start: `#{ running, waiting, kv_usage,
    /// preemptions, prefix_queries, prefix_hits, drafted, accepted, prompt_tokens, generated_tokens, finished
    /// }`. `kv_usage` is 0 to 1. Unknown values are `()`. Prefix cache queries and hits are in tokens, for TensorRT-LLM
    /// in blocks; `finished` counts requests by finish reason.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.metrics().running != ());
    /// ```
    #[rhai_fn(return_raw)]
    pub fn metrics(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        begin_call(&context);
        Ok(to_script(&crate::engine::metrics(engine.0.first())?)?)
    }

    /// Properties of the engine: `#{ engine, version, model, max_model_len, kv_tokens, simulated }`. Lengths are in
    /// tokens; `model` is the name that requests use. If the server lists only one model, under another name, that name
    /// is `listed`. A value is `()` if the engine does not report it or is not running yet.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.info().simulated && engine.info().kv_tokens > 0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn info(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        begin_call(&context);
        Ok(to_script(&crate::engine::info(engine.0.first()))?)
    }

    /// All facts that the running engine reported, by name, oldest first, sizes in bytes: `#{ kv_bytes: [#{ value,
    /// origin, text, line, rank, device, before, after }], … }`; `#{}` if it is not running.
    ///
    /// `origin` is `log` or the path of a page; `text` is the log line, the line of the metrics page, or the pointer
    /// into the information page; `line` is the number of the log line, `rank` the tensor-parallel rank that wrote it,
    /// and `device` the device that it names; these may be `()`. `before` and `after` are bytes in use by device id in
    /// the last memory sample before the line and the first one after it, `()` if memory was not sampled then; their
    /// difference shows how much memory the step took. The names are those of the adapter's `facts()`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// engine.start();
    /// let pool = engine.facts().kv_bytes[0];
    /// assert(pool.value > 0 && pool.origin == "log" && pool.text.contains("KV cache"));
    /// ```
    #[rhai_fn(return_raw)]
    pub fn facts(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        begin_call(&context);
        Ok(to_script(&crate::engine::facts(engine.0.first()))?)
    }

    /// The latest 200 log lines of the running engine, oldest first. The whole log is in the run's folder.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.logs().len() > 0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn logs(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        logs_last(context, engine, Map::new())
    }

    /// The latest log lines of the running engine, oldest first; `last` (200) is their number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// engine.probe(#{ input: 100, output: 4 });
    /// assert(engine.logs(#{ last: 1 }).len() == 1);
    /// ```
    #[rhai_fn(name = "logs", return_raw)]
    pub fn logs_last(context: NativeCallContext, engine: &mut EngineHandle, options: Map) -> Caught<Dynamic> {
        begin_call(&context);
        let engine = engine.0.first();
        let options: LogOptions = crate::script::options(options)?;
        Ok(to_script(&crate::engine::logs(engine, options.last.unwrap_or(LINES)))?)
    }

    /// The command line flags for production, for the limits that the engine runs with.
    ///
    /// # Errors
    ///
    /// `usage` if it is not running and no limits were given at its launch.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{ limits: #{ input: 1024, output: 256 } });
    /// assert(engine.flags().len() > 0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn flags(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        begin_call(&context);
        Ok(to_script(&crate::engine::flags(engine.0.first(), None)?)?)
    }

    /// The command line flags for production, for `#{ input, output, total, concurrency }` in tokens and sequences. The
    /// default of `total` is input + output, that of `concurrency` is 1.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("vllm", #{ model: "Qwen/Qwen3-8B" });
    /// assert(engine.flags(#{ input: 4096, output: 512 }).contains("--max-model-len=4608"));
    /// ```
    #[rhai_fn(name = "flags", return_raw)]
    pub fn flags_for(context: NativeCallContext, engine: &mut EngineHandle, limits: Map) -> Caught<Dynamic> {
        begin_call(&context);
        let engine = engine.0.first();
        let limits: LimitsOption = options(limits)?;
        Ok(to_script(&crate::engine::flags(engine, Some(Limits::from(limits)))?)?)
    }

    /// The launch settings that a search may choose, as the engine's adapter states them: an array of
    /// `#{ name, flag, also, off, option, kind, values, usual, cost, kv, spare, excludes }`, empty if it states none.
    /// `std/tune/settings` reads them.
    ///
    /// `flag` sets it (`off` turns a switch off, `also` are its other spellings), or the launch option `option` does. `kind` is `count`, `share`,
    /// `switch`, `choice` (of `values`), `word` or `speculation` (maps as that option of `engines::describe` takes them); `values` are what a search tries, `[]` if only what the user names; `usual` is the engine's default, `()` if that depends on model
    /// and device. `cost` is `restart` or `cold_restart`. `kv` and `spare` say whether a larger value leaves `more`,
    /// `less` or the `same` memory for the KV cache and for steps. `excludes` are combinations that the engine refuses,
    /// `#{ value, setting, than, most }`: `setting` below the setting `than` (or `total`, input and output together), or
    /// above `most`, while this one is `value` (`()`: whatever it is; of a speculation, its method, or `on`).
    ///
    /// # Errors
    ///
    /// `usage` for an adapter whose table is wrong.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let table = engines::describe("vllm", #{ model: "Qwen/Qwen3-8B" }).tunable();
    /// assert(table.find(|one| one.name == "max_num_seqs").flag == "--max-num-seqs");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn tunable(context: NativeCallContext, engine: &mut EngineHandle) -> Caught<Dynamic> {
        begin_call(&context);
        Ok(to_script(&engine.0.first().adapter.tunable()?)?)
    }

    /// Checks the launch options by the adapter, and words of the engine's command line against what its program prints
    /// with `--help`, which is asked twice and may take a minute each time: whether the words could be checked. An engine
    /// in a container, one that runs already and a simulated one are not asked, and a dry run asks none. Words without
    /// two dashes are left out; without any, only the options are checked.
    ///
    /// # Errors
    ///
    /// `usage` for an option that the adapter does not take, and for a flag that the program does not have, with the
    /// nearest one that it has; errors of a start for what keeps it from being asked.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// assert(!engines::describe("sim", #{}).check_flags(["--max-num-seqs=64"]));
    /// ```
    #[rhai_fn(return_raw)]
    pub fn check_flags(context: NativeCallContext, engine: &mut EngineHandle, words: Array) -> Caught<bool> {
        let host = begin_call(&context);
        let words = strings(words, "check_flags")?;
        let flags: Vec<_> = words.iter().filter_map(|word| engine_flag(word)).collect();
        if host.settings.dry_run {
            return Ok(false);
        }
        let known = known_flags(engine.0.first(), &flags)?;
        if known.is_empty() {
            return Ok(false);
        }
        // Python's parsers take the beginning of a flag too, if no other begins so.
        let is_known = |flag: &String| {
            known.contains(flag) || known.iter().filter(|name| name.starts_with(flag.as_str())).count() == 1
        };
        if let Some(flag) = flags.iter().find(|flag| !is_known(flag)) {
            let fault = Fault::usage(format!("the installed engine has no flag `{flag}`"));
            let names = known.iter().map(String::as_str);
            return Err(suggest(fault, flag, names, "its `--help` lists those that it has").into());
        }
        Ok(true)
    }

    /// Measures one start of an experiment, or replays it from the journal. `measure` is called with the engine and
    /// returns a value that can be recorded; `what` distinguishes this start from others of the same engine. Loads and
    /// probes inside belong to the trial: if the run is killed, the whole trial is measured again. A dry run does not
    /// call `measure` and returns `()`.
    ///
    /// # Errors
    ///
    /// Errors thrown by `measure`; `usage` if it returns a function, a handle or a non-finite number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// let load = #{ concurrency: 2, requests: 4, input: 128, output: 8 };
    /// let seen = engine.trial(#{ repeat: 0 }, |engine| engine.load(load).completed);
    /// assert(seen == 4);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn trial(context: NativeCallContext, engine: &mut EngineHandle, what: Map, measure: FnPtr) -> Caught<Dynamic> {
        trial_with(context, engine, what, measure, Map::new())
    }

    /// Measures one start of an experiment as above. Options: `in_parts` (false): if the run is killed, a resume takes
    /// the answers of probes and loads inside, and repeats only the others, on a new start of the engine; `number`: of
    /// engines that are measured at the same time (`in_parallel`), which one this is, from 1.
    ///
    /// # Errors
    ///
    /// As above; `usage` for an unknown option.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// let point = #{ input: 64, output: 4 };
    /// let seen = engine.trial(#{ repeat: 0 }, |engine| engine.probe(point).verdict, #{ in_parts: true });
    /// assert(seen == "ok");
    /// ```
    #[rhai_fn(name = "trial", return_raw)]
    pub fn trial_with(
        context: NativeCallContext,
        engine: &mut EngineHandle,
        what: Map,
        measure: FnPtr,
        given: Map,
    ) -> Caught<Dynamic> {
        begin_call(&context);
        let what = from_script(&Dynamic::from(what))?;
        let TrialOptions { in_parts, number } = options(given)?;
        let handle = engine.clone();
        let trial = || {
            crate::engine::trial(engine.0.first(), &what, in_parts, || -> Caught<Value> {
                let measured: Dynamic = measure.call_within_context(&context, (handle,))?;
                Ok(from_script(&measured)?)
            })
        };
        let answer = match number {
            Some(number) => for_engine(number, trial),
            None => trial(),
        };
        Ok(to_script(&answer?)?)
    }

    /// Runs a load on the engine, which is started if necessary, and returns its statistics.
    ///
    /// **Arrivals**: exactly one of `concurrency` (closed loop: this many concurrent requests; each slot sends the next
    /// request when one ends), with `ramp` (0: seconds over which the slots start); `rate` (open loop: requests per
    /// second, independent of completions), with `arrivals` (`"poisson"`, `"constant"` or `"gamma"`), `burstiness` (for
    /// `"gamma"`: the shape of the inter-arrival times, whose mean stays 1 / rate; 1 is Poisson, less is burstier, as
    /// defined by vLLM's bench, but without its rescaling to a total of requests / rate), and `max_concurrency`
    /// (further requests wait, and their response time includes the wait); `steps` (an array of `#{ rate, seconds }`,
    /// where 0 is a pause, or of `#{ concurrency, seconds }`); `trace` (a file with one JSON object per line: `at` in
    /// seconds, `input`, `output`; or a trace of Mooncake, Qwen-Bailian, BurstGPT or Azure's LLM inference as published,
    /// recognised by its fields or columns; requests that had failed when it was recorded are left out).
    ///
    /// **Lengths**: `input` and `output`, in tokens: an int, `#{ uniform: [lo, hi] }`,
    /// `#{ normal: #{ mean, std, min, max } }` or `#{ lognormal: #{ median, sigma, min, max } }` (by default `min` is 1
    /// and `max` the 99.9th percentile; values outside are drawn again). Or `prompts` (a file with a prompt per line,
    /// or JSON objects, a line each or in an array, with `prompt`, ShareGPT's `conversations` or OpenAI's `messages`, and
    /// optionally `output`, `output_len` or `max_tokens`), sent in order, and again from the first after the last. A
    /// load goes on in the file where the last one of this engine ended, so that it finds none of its prompts in the
    /// prefix cache; `prompts_from` is another number to begin with, from 0. A trial begins at the first prompt, unless
    /// the engine is attached. `input` is then the longest prompt in tokens, if no tokenizer is available. No two
    /// prompts share a prefix, unless `shared_prefix` (tokens) is given.
    ///
    /// **End**: `requests` (then those in flight finish), `duration` (seconds, after which requests are cut off),
    /// `precision: #{ metric, statistic, within }`: ends when half the 95 % interval of `metric` (`"ttft_ms"`,
    /// `"tpot_ms"`, `"itl_ms"`, `"e2el_ms"`) is at most the share `within` of its `statistic` (`"mean"`, `"median"`,
    /// `"p50"`, `"p90"`, `"p95"`, `"p99"`), by batch means, checked whenever the number of completed requests has grown
    /// by a quarter; without the other two, it ends after 600 seconds. Steps and traces end by themselves. By default
    /// each prompt of a file is sent once.
    ///
    /// **Also**: `warmup: #{ requests }` or `#{ seconds }`: sent first and not part of the statistics; nothing is
    /// drained, the measured part starts with the next request, and `requests` and `duration` count from there.
    /// `repeats` (1): number of repetitions, each with the next seed. `seed` (default: the run's). `timeout` (seconds
    /// per request). `stall` (20: seconds after which the load is given up if nothing runs and everything waits, by the
    /// engine's metrics). `slo: #{ ttft_ms, tpot_ms, e2el_ms, itl_ms }`. `price_per_hour` (of all devices together).
    /// `metrics_hz` (10). `output_tolerance` (the engine's: tokens, or a share such as `"5%"`, that may
    /// be missing from an answer without a warning).
    ///
    /// In a closed loop, a request that the server rejects (429 or 503) is sent again, after the time that the server asks
    /// for or else after a growing one; its latencies count from the attempt that was accepted. After 60 seconds without
    /// an accepted request the load is given up. In an open loop, it has failed.
    ///
    /// The answer has, for the measured part: `issued` = `completed` + `failed` + `cut_off`; `short` (completed with fewer
    /// tokens than requested), `rejected` (times), `waited` (seconds in all, after rejections); `duration`,
    /// `request_throughput`, `input_throughput`, `output_throughput`, `total_token_throughput` (per second; of the steady
    /// part, if the end of `duration` cut requests off); `ttft_ms`, `tpot_ms`, `itl_ms` (by event; where events say that
    /// they carry several tokens, also `token_itl_ms`, by token), `e2el_ms`, measured from the time when requests were sent, each a map of `mean`, `median`,
    /// `std`, `p90`, `p95`, `p99`, `p99_9`, `ci` (95 % intervals, `()` where the sample is too small) and `thin` (by
    /// percentile: true if the sample is too small; draw no conclusions from such a percentile; `levels::row` returns all
    /// of this as a flat map); `first_visible_ms` (from sending to the first text that a user sees, after thoughts),
    /// `unmeasured` (the latencies that cannot be measured here, each with the reason: where all text comes at once, or
    /// where it is not known how many tokens an event carried); `response` (the same, measured from the time when requests were due), `adjusted` (failed
    /// requests count as infinite), `steady`, `goodput`, `tokens`, `client`, `failures` (by form); what was observed
    /// during the load: `kv_usage`, `running`, `waiting`, `in_flight`, `preemptions`, `prefix_hits`, `accepted_drafts` (share of speculated tokens), `memory`, `power`,
    /// `energy_wh`, `cost`, `counted`, `timeline`; and `stopped` (`"requests"`, `"duration"`, `"precision"`,
    /// `"arrivals"`, `"died"`, or `"given_up"`: the engine stalled, nothing listened, every request was rejected for 60
    /// seconds, or 10,000 in a row failed), `seed`, `number` (of the load in the run), `records` (its file in the run's folder: a line per
    /// request), `warmup` (its counts), `precision` (`#{ metric, statistic, within, reached, width }`), `repeats`
    /// (`#{ runs, each }`: with several, the rest of the answer combines all of them), `died`
    /// (`#{ verdict, cause, message, log, exit_code, oom_killed }` if the engine died: the answer covers the time until
    /// then), `warnings` (maps of `code`, `message` and `value`, the size of the effect). All keys are always present,
    /// `()` without a value.
    ///
    /// A trace or prompt file is read only if the command line names it to a shipped script, in any parameter, or if
    /// `--allow mount=PATH` allows it.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid option or file; `not_allowed` for a file that the user did not permit; `engine` if no
    /// start can serve such requests; `missing` for more concurrent requests of that length than this machine can hold, or
    /// if something that the engine needs is not available. Failures of requests are part of the answer, not errors.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// let load = engine.load(#{ concurrency: 2, requests: 6, input: 128, output: 8 });
    /// assert(load.issued == 6 && load.completed == 6 && load.ttft_ms.thin.p99 && load.ttft_ms.ci.p99 == ());
    /// let open = engine.load(#{ rate: 50, requests: 10, warmup: #{ requests: 2 }, input: #{ uniform: [64, 128] }, output: 4 });
    /// assert(open.issued == 10 && open.warmup.issued == 2 && open.stopped == "requests");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn load(context: NativeCallContext, engine: &mut EngineHandle, given: Map) -> Caught<Dynamic> {
        begin_call(&context);
        Ok(to_script(&crate::engine::load(engine.0.first(), &options(given)?)?)?)
    }

    /// Checks options of `engine.load`, and reads the files that they name, without starting anything: where a start comes
    /// before the first load.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid option or file; `not_allowed` for a file that the user did not permit.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// engine.check_load(#{ concurrency: 2, requests: 6, input: 128, output: 8 });
    /// ```
    #[rhai_fn(return_raw)]
    pub fn check_load(context: NativeCallContext, engine: &mut EngineHandle, given: Map) -> Caught<()> {
        begin_call(&context);
        Ok(crate::engine::check_load(engine.0.first(), &options(given)?)?)
    }
}

fn page_of(context: &NativeCallContext, url: &str, path: &str, key: &str, wait: bool) -> Result<Dynamic> {
    let key = Some(key).filter(|key| !key.is_empty());
    crate::script::adapter::page(&begin_call(context), url, path, key, wait)
}

/// A point for an engine.
fn point(map: &Map) -> Result<Point> {
    match map.keys().find_map(|name| misspelt_axis(name)) {
        Some(fault) => Err(fault),
        None => to_point(map),
    }
}

fn wire(prompt: &Dynamic) -> Result<Content> {
    if let Ok(text) = prompt.as_immutable_string_ref() {
        return Ok(Content::Text(text.to_string()));
    }
    let wrong = || Fault::usage("a prompt is a text, or an array of token ids");
    let ids = prompt.as_array_ref().map_err(|_| wrong())?;
    let id = |id: &Dynamic| id.as_int().ok().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong);
    ids.iter().map(id).collect::<Result<_>>().map(Content::Tokens)
}

/// Lines of `logs` without options.
const LINES: usize = 200;
