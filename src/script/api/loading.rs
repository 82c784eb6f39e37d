//! Load on an engine: many requests over time.

use rhai::Map;
use rhai::plugin::*;

use crate::script::engine_handle::EngineHandle;
use crate::script::{Caught, host, options, to_script};

/// Load on an engine: many requests over time.
#[export_module]
pub mod loading {
    /// Puts a load on the engine, which is started where needed, and tells what came of it, in figures.
    ///
    /// **When requests come**: exactly one of
    /// `concurrency` (closed loop: so many at once, each followed by the next as it ends), with `ramp` (0: seconds over which the slots are opened);
    /// `rate` (open loop: requests a second, whether others have ended or not), with `arrivals` (`"poisson"`, `"constant"` or `"gamma"`) and
    /// `burstiness` (of `"gamma"`: the shape of the gaps, whose mean stays 1 / rate; 1 is Poisson, less comes in bursts. vLLM's bench, whose definition this is, then
    /// stretches all gaps to a total of requests / rate; that is not done here), and `max_concurrency` (one that is due then waits, and its response time says so);
    /// `steps` (an array of `#{ rate, seconds }`, 0 being a pause, or of `#{ concurrency, seconds }`);
    /// `trace` (a file of one JSON object a line: `at` in seconds, `input`, `output`; or as Mooncake has it, `timestamp` in milliseconds, `input_length`,
    /// `output_length`; or as BurstGPT, `Timestamp` in seconds, `Request tokens`, `Response tokens`, also as CSV).
    ///
    /// **How long they are**: `input` and `output`, in tokens: an int, `#{ uniform: [lo, hi] }`, `#{ normal: #{ mean, std, min, max } }` or
    /// `#{ lognormal: #{ median, sigma, min, max } }` (`min` is 1 and `max` what one of a thousand exceeds, unless given; what falls outside is drawn anew). Or `prompts` (a file: a
    /// prompt a line, or JSON lines with `prompt` and perhaps `output`, `output_len` or `max_tokens`), sent in turn as they are; `input` is then the
    /// longest prompt in tokens, where no tokenizer can count. No two prompts begin alike, unless `shared_prefix` (tokens) says so.
    ///
    /// **When it is over**: `requests` (then those under way end), `duration` (seconds, after which they are cut off),
    /// `precision: #{ metric, statistic, within }`: once half the 95 % interval of `metric` (`"ttft_ms"`, `"tpot_ms"`, `"itl_ms"`, `"e2el_ms"`) is no more than the share
    /// `within` of its `statistic` (`"mean"`, `"median"`, `"p50"`, `"p90"`, `"p95"`, `"p99"`), by batch means, looked at each time that a quarter more have ended; with neither of the other
    /// two, 600 seconds end it. Steps and traces end by themselves; prompts are each sent once, unless something else is said.
    ///
    /// **Also**: `warmup: #{ requests }` or `#{ seconds }`: issued first and in no figure; nothing is drained, the measured part begins with the request
    /// after it, and `requests` and `duration` count from there. `repeats` (1): as often, each with the next seed. `seed` (the run's). `timeout` (seconds that
    /// each request may take). `stall` (20: seconds after which it is given up where nothing runs and all waits, by the engine's metrics). `slo: #{ ttft_ms, tpot_ms, e2el_ms, itl_ms }`. `price_per_hour` (of all devices together). `metrics_hz` (10).
    ///
    /// The answer has, of the measured part: `issued` = `completed` + `failed` + `cut_off`; `duration`, `request_throughput`,
    /// `input_throughput`, `output_throughput`, `total_token_throughput` (a second); `ttft_ms`, `tpot_ms`, `itl_ms`, `e2el_ms` from when requests were
    /// sent, each a map of `mean`, `median`, `std`, `p50`, `p90`, `p95`, `p99`, `p99_9` and `ci` (95 % intervals), `()` where the sample cannot support the figure; `response` (the
    /// same from when they were due), `adjusted` (requests without an answer count as infinite), `steady`, `goodput`, `tokens`, `client`, `failures` (by
    /// form); what was seen meanwhile: `kv_usage`, `running`, `waiting`, `in_flight`, `preemptions`, `prefix_hits`, `memory`, `power`, `energy_wh`, `cost`, `counted`, `timeline`;
    /// and `stopped` (`"requests"`, `"duration"`, `"precision"`, `"arrivals"`, `"died"`, `"given_up"` where nothing came of it any more: the engine stalled, nobody listened, or 10,000 requests in a row failed), `seed`, `number` (of the load in the run), `records` (its file in the run's folder: a line a
    /// request), `warmup` (its accounts), `precision` (`#{ metric, statistic, within, reached, width }`), `repeats` (`#{ runs, each }`: of several, the rest of the answer is of all of them, one after
    /// the other), `died` (`#{ verdict, cause, message, log, exit_code, oom_killed }` where the engine died: what was measured until then is told),
    /// `warnings`. Keys are always there, `()` where there is nothing to tell.
    ///
    /// A script has no files of its own: a trace or prompts are read where the user named the file on the command line, in any parameter, or
    /// allowed its folder with `--allow mount=DIR`.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong option or file; `not_allowed` for a file that the user did not name; `engine` when no start serves such requests. What the
    /// engine does to requests is no error, but told in the answer.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::launch("sim", #{});
    /// let load = engine.load(#{ concurrency: 2, requests: 6, input: 128, output: 8 });
    /// assert(load.issued == 6 && load.completed == 6 && load.ttft_ms.p99 == ());
    /// let open = engine.load(#{ rate: 50, requests: 10, warmup: #{ requests: 2 }, input: #{ uniform: [64, 128] }, output: 4 });
    /// assert(open.issued == 10 && open.warmup.issued == 2 && open.stopped == "requests");
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn load(context: NativeCallContext, engine: &mut EngineHandle, given: Map) -> Caught<Dynamic> {
        host(&context).meter.reset();
        Ok(to_script(&engine.0.load(&options(given)?)?)?)
    }
}
