//! Recomputes the fits behind the shipped profiles from the measurements in `tests/data`, and compares the results with
//! the profiles.

use std::path::Path;

fn data(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

/// Relative error of `found`.
fn off(found: f64, measured: f64) -> f64 {
    (found / measured - 1.0).abs()
}

/// `llama-1b-12gib-transformers`: two lines fitted to the rows with batch size 1; batch size 8 is held out.
mod dynamic {
    use serde::Deserialize;

    use super::{data, off};
    use crate::sim::memory::DynamicMemory;
    use crate::sim::profile::{Dynamic, MemoryProfile, Profile};

    /// Batch size used for the fit; batch size 8 is only predicted.
    const FITTED: u64 = 1;

    #[derive(Deserialize)]
    struct Row {
        b: u64,
        i: u64,
        ok: bool,
        alloc: f64,
        res: f64,
        err: String,
    }

    fn rows() -> Vec<Row> {
        data("generate-1b-12gib-cap.jsonl")
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn shipped() -> Dynamic {
        match Profile::load("llama-1b-12gib-transformers").unwrap().memory {
            MemoryProfile::Dynamic(profile) => profile,
            other => panic!("not dynamic: {other:?}"),
        }
    }

    /// Intercept and slope with the smallest relative errors.
    fn line(points: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
        let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x, y) in points {
            let weight = 1.0 / (y * y);
            w += weight;
            wx += weight * x;
            wy += weight * y;
            wxx += weight * x * x;
            wxy += weight * x * y;
        }
        let slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
        ((wy - slope * wx) / w, slope)
    }

    #[test]
    fn the_shipped_numbers_are_the_fit() {
        let rows = rows();
        let fitted = || rows.iter().filter(|row| row.ok && row.b == FITTED);
        let (base, slope) = line(fitted().map(|row| ((row.b * row.i) as f64, row.alloc)));
        let (cached, cached_slope) = line(fitted().map(|row| ((row.b * row.i) as f64, row.res)));
        let shipped = shipped();
        assert!((base - shipped.base_bytes as f64).abs() < 1.0, "base {base}");
        assert!(
            (slope - shipped.prefill_bytes_per_token as f64).abs() < 0.001,
            "prefill {slope}"
        );
        assert!(
            (cached - base - shipped.cache_bytes as f64).abs() < 1.0,
            "cache {}",
            cached - base
        );
        assert!(
            (cached_slope / slope - shipped.cache_ratio).abs() < 1e-5,
            "ratio {}",
            cached_slope / slope
        );
    }

    #[test]
    fn allocated_and_reserved_are_within_three_percent_on_every_row_the_held_out_ones_too() {
        let memory = DynamicMemory::new(&shipped(), None);
        let mut held_out = 0;
        for row in rows().iter().filter(|row| row.ok) {
            let allocated = memory.prefill(row.b * row.i, 0);
            let reserved = memory.reserved_for(allocated);
            assert!(
                off(allocated as f64, row.alloc) < 0.03,
                "b {} i {}: allocated {allocated}",
                row.b,
                row.i
            );
            assert!(
                off(reserved as f64, row.res) < 0.03,
                "b {} i {}: reserved {reserved}",
                row.b,
                row.i
            );
            held_out += u32::from(row.b != FITTED);
        }
        assert_eq!(held_out, 9);
    }

    #[test]
    fn every_row_fits_or_fails_with_the_measured_message() {
        for row in rows() {
            let mut memory = DynamicMemory::new(&shipped(), None);
            let grown = memory.grow(memory.prefill(row.b * row.i, 0));
            assert_eq!(grown.is_ok(), row.ok, "b {} i {}", row.b, row.i);
            if let Err(oom) = grown {
                let message = oom.to_string();
                let words = |text: &str| text.chars().filter(|c| c.is_alphabetic()).take(180).collect::<String>();
                let units = |text: &str| words(&text.replace("MiB", "GiB"));
                assert_eq!(units(&message), units(&row.err), "message: {message}");
            }
        }
    }

    #[test]
    fn the_model_has_at_most_eight_parameters_and_the_context_that_failures_report() {
        let shipped = shipped();
        let fields = serde_json::to_value(&shipped).unwrap();
        // The device's two sizes are not parameters of the model; no row depends on them.
        let parameters = fields
            .as_object()
            .unwrap()
            .keys()
            .filter(|name| !["total_mib", "reserved_mib"].contains(&name.as_str()));
        assert!(parameters.count() <= 8);

        let pattern = regex::Regex::new(
            r"this process has ([\d.]+) GiB .* memory ([\d.]+) GiB is allocated by PyTorch, and ([\d.]+) (GiB|MiB)",
        )
        .unwrap();
        let contexts: Vec<f64> = rows()
            .iter()
            .filter_map(|row| {
                let found = pattern.captures(&row.err)?;
                let number = |at: usize| found[at].parse::<f64>().unwrap();
                let cached = if &found[4] == "MiB" {
                    number(3) / 1024.0
                } else {
                    number(3)
                };
                Some(number(1) - number(2) - cached)
            })
            .collect();
        let mean = contexts.iter().sum::<f64>() / contexts.len() as f64;
        assert_eq!(contexts.len(), 5);
        assert!(
            (mean - shipped.context_bytes as f64 / 1_073_741_824.0).abs() < 0.01,
            "context {mean} GiB"
        );
    }
}

/// `llama-8b-h200-vllm`: eight measured starts, every number of the profile that is marked [fit], and 48 streams during
/// serving.
mod vllm {
    use regex::Regex;

    use super::{data, off};
    use crate::sim::options::{Options, Setup};
    use crate::sim::profile::{MemoryProfile, PoolProfile, Profile};
    use crate::sim::scheduler::SequenceRequest;
    use crate::sim::start::{StartPlan, plan};

    /// A measured start. Sizes in MiB.
    struct Start {
        name: String,
        utilization: f64,
        max_model_len: i64,
        eager: bool,
        fp8: bool,
        ngram: u64,
        weights: f64,
        available: f64,
        kv_tokens: Option<f64>,
        longest: Option<f64>,
        graphs_estimated: Option<f64>,
        graphs: Option<f64>,
        used_weights: Option<f64>,
        used_peak: Option<f64>,
        used_ready: Option<f64>,
        used_serving: Option<f64>,
    }

    fn starts() -> Vec<Start> {
        let text = data("vllm-starts.csv");
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let names = lines.next().unwrap();
        lines
            .map(|cells| {
                let cell = |name: &str| cells[names.iter().position(|column| *column == name).unwrap()];
                let number = |name: &str| cell(name).parse::<f64>().ok();
                let gib = |name: &str| number(name).map(|size| size * 1024.0);
                Start {
                    name: cell("start").to_owned(),
                    utilization: number("utilization").unwrap(),
                    max_model_len: cell("max_model_len").parse().unwrap(),
                    eager: cell("eager") == "true",
                    fp8: cell("kv_dtype") == "fp8",
                    ngram: cell("ngram").parse().unwrap(),
                    weights: gib("weights_gib").unwrap(),
                    available: gib("available_gib").unwrap(),
                    kv_tokens: number("kv_tokens"),
                    longest: number("longest"),
                    graphs_estimated: gib("graphs_estimated_gib"),
                    graphs: gib("graphs_gib"),
                    used_weights: number("used_weights_mib"),
                    used_peak: number("used_peak_mib"),
                    used_ready: number("used_ready_mib"),
                    used_serving: number("used_serving_mib"),
                }
            })
            .collect()
    }

    fn start(name: &str) -> Start {
        starts().into_iter().find(|start| start.name == name).unwrap()
    }

    fn shipped() -> PoolProfile {
        match Profile::load("llama-8b-h200-vllm").unwrap().memory {
            MemoryProfile::Pool(pool) => pool,
            other => panic!("not a pool: {other:?}"),
        }
    }

    fn simulated(start: &Start) -> StartPlan {
        let options = Options {
            max_model_len: Some(start.max_model_len),
            gpu_memory_utilization: Some(start.utilization),
            enforce_eager: Some(start.eager),
            kv_cache_dtype: start.fp8.then(|| "fp8".to_owned()),
            num_speculative_tokens: Some(start.ngram),
            ..Options::default()
        };
        let setup = Setup::new(Profile::load("llama-8b-h200-vllm").unwrap(), &options).unwrap();
        plan(&setup, "http://127.0.0.1:8000").unwrap()
    }

    fn log(plan: &StartPlan) -> String {
        let lines: Vec<_> = plan.stages.iter().flat_map(|stage| stage.lines.clone()).collect();
        lines.join("\n")
    }

    fn number_in_log(log: &str, pattern: &str) -> f64 {
        let found = Regex::new(pattern)
            .unwrap()
            .captures(log)
            .unwrap_or_else(|| panic!("no `{pattern}` in:\n{log}"));
        found[1].replace(',', "").parse().unwrap()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn the_shipped_numbers_are_the_fit() {
        let (pool, starts) = (shipped(), starts());
        let device = pool.total_mib - pool.reserved_mib;
        // Budget minus weights and KV cache.
        let rest = |start: &Start| start.utilization * device - start.available - start.weights;
        let weights = start("eager").weights;
        let plain: Vec<f64> = starts
            .iter()
            .filter(|start| start.eager && !start.fp8)
            .map(rest)
            .collect();
        let activation = mean(&plain);
        let compile = rest(&start("default")) - activation;
        let ngram = start("ngram");
        let estimated = ngram.graphs_estimated.unwrap();
        let context = start("small").used_weights.unwrap() - pool.reserved_mib - weights;
        let kept = |start: &Start| {
            let kv = start.kv_tokens.unwrap() * pool.kv.bytes_per_token as f64 / 1_048_576.0;
            start.used_ready.unwrap() - pool.reserved_mib - context - weights - kv - start.graphs.unwrap_or(0.0)
        };
        let small = start("small");
        let fit = [
            ("weights", weights, pool.weights_mib),
            ("context", context, pool.context_mib),
            ("activation", activation, pool.activation_mib),
            ("compile", compile, pool.compile_mib),
            ("graphs", start("default").graphs.unwrap(), pool.graphs_mib),
            (
                "warm-up, eager",
                mean(&[kept(&start("eager")), kept(&small)]),
                pool.warm_up_eager_mib,
            ),
            ("warm-up, graphs", kept(&start("default")), pool.warm_up_graphs_mib),
            (
                "serving",
                small.used_serving.unwrap() - small.used_ready.unwrap(),
                pool.serving_mib,
            ),
            ("fp8", start("fp8kv").weights - weights, pool.fp8_mib),
            (
                "ngram activation",
                rest(&ngram) - activation - compile - estimated,
                pool.speculation.unwrap().activation_mib,
            ),
            (
                "ngram graphs, estimated",
                estimated,
                pool.speculation.unwrap().graphs_estimated_mib,
            ),
            (
                "ngram graphs",
                ngram.graphs.unwrap(),
                pool.speculation.unwrap().graphs_mib,
            ),
        ];
        assert_eq!(plain.len(), 5);
        let wrong: Vec<_> = fit
            .iter()
            .filter(|(_, fit, shipped)| (fit - shipped).abs() > 0.01)
            .collect();
        assert!(wrong.is_empty(), "name, fit, shipped: {wrong:?}");
    }

    #[test]
    fn tokens_and_used_memory_of_every_start_come_out_within_one_percent() {
        let mut compared = 0;
        for start in starts() {
            let plan = simulated(&start);
            let log = log(&plan);
            let mut check = |what: &str, found: f64, measured: f64| {
                compared += 1;
                assert!(
                    off(found, measured) < 0.01,
                    "{}: {what} {found}, measured {measured}",
                    start.name
                );
            };
            let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
            let stage_with = |words: &str| {
                plan.stages
                    .iter()
                    .find(|stage| stage.lines.iter().any(|line| line.contains(words)))
                    .unwrap()
            };
            if let Some(tokens) = start.kv_tokens {
                check(
                    "KV tokens",
                    number_in_log(&log, r"GPU KV cache size: ([\d,]+) tokens"),
                    tokens,
                );
                let concurrency = number_in_log(&log, r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x");
                let longest = start.longest.unwrap_or(start.max_model_len as f64);
                check("concurrency", concurrency, tokens / longest);
            }
            if let Some(used) = start.used_weights {
                check("used with weights", mib(stage_with("Model loading took").used), used);
            }
            if let Some(used) = start.used_peak {
                check("used at the peak", mib(stage_with("Available KV").used), used);
            }
            if let Some(used) = start.used_ready {
                check("used when ready", mib(plan.stages.last().unwrap().used), used);
            }
            if let (Some(used), Ok(serving)) = (start.used_serving, &plan.end) {
                check("used while serving", mib(serving.limits.memory.used_serving), used);
            }
            // A budget that is too small is near zero, so it is compared in GiB as logged.
            let available = number_in_log(&log, r"Available KV cache memory: (-?[\d.]+) GiB");
            assert!(
                (available - start.available / 1024.0).abs() < 0.02,
                "{}: available {available}",
                start.name
            );
        }
        assert_eq!(compared, 24);
    }

    #[test]
    fn failed_starts_fail_with_the_engines_message_and_estimate() {
        for start in starts() {
            let plan = simulated(&start);
            let log = log(&plan);
            let serves = plan.end.is_ok();
            assert_eq!(serves, !start.name.starts_with("too"), "{}:\n{log}", start.name);
            match start.name.as_str() {
                "toolow" => assert!(log.contains("No available memory for the cache blocks"), "{log}"),
                "toolong" => {
                    let pattern = r"To serve at least one request with the models?'s max seq len \((\d+)\), \(?([\d.]+) GiB KV cache is needed, which is larger than the available KV cache memory \(([\d.]+) GiB\)";
                    let found = Regex::new(pattern).unwrap().captures(&log).unwrap();
                    assert_eq!((&found[1], &found[2], &found[3]), ("131072", "16.0", "7.73"));
                    let longest = number_in_log(&log, r"the estimated maximum model length is (\d+)");
                    assert!(off(longest, start.longest.unwrap()) < 0.01, "{longest}");
                }
                "autolen" => {
                    let length = number_in_log(&log, r"Auto-fit max_model_len: reduced from 131072 to (\d+) to fit");
                    assert!(off(length, start.longest.unwrap()) < 0.01, "{length}");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn forty_eight_streams_take_as_long_preempt_and_fill_the_cache_as_measured() {
        let options = Options {
            max_model_len: Some(8192),
            gpu_memory_utilization: Some(0.16),
            enforce_eager: Some(true),
            ..Options::default()
        };
        let setup = Setup::new(Profile::load("llama-8b-h200-vllm").unwrap(), &options).unwrap();
        let Ok(serving) = plan(&setup, "").unwrap().end else {
            panic!("does not start")
        };
        let mut scheduler = serving.scheduler;
        for id in 0..48 {
            scheduler.submit(SequenceRequest {
                id,
                rows: 1,
                input: 6000,
                output: 512,
                cached: 0,
            });
        }
        let mut fullest: f64 = 0.0;
        while scheduler.step().is_some() {
            fullest = fullest.max(scheduler.store().usage().unwrap());
        }
        let counters = scheduler.counters();
        assert_eq!((counters.prompt_tokens, counters.generated_tokens), (288_000, 24_576));
        assert!((3..=7).contains(&counters.preemptions), "measured 5: {counters:?}");
        assert!(
            fullest > 0.97,
            "97 % was seen at the moments that were logged: {fullest}"
        );
        assert!(off(counters.steps as f64, 2574.0) < 0.01, "{counters:?}");
        assert!(off(counters.seconds, 34.3) < 0.01, "{counters:?}");
    }
}

/// `falcon-h1-h100-vllm`: two measured starts, and 32 points of the eager one.
mod hybrid {
    use super::{data, off};
    use crate::sim::options::{Options, Setup};
    use crate::sim::profile::Profile;
    use crate::sim::scheduler::SequenceRequest;
    use crate::sim::start::{StartPlan, plan};

    fn start(length: i64, sequences: u64, eager: bool) -> StartPlan {
        let options = Options {
            max_model_len: Some(length),
            max_num_seqs: Some(sequences),
            gpu_memory_utilization: Some(0.15),
            enforce_eager: Some(eager),
            ..Options::default()
        };
        plan(
            &Setup::new(Profile::load("falcon-h1-h100-vllm").unwrap(), &options).unwrap(),
            "",
        )
        .unwrap()
    }

    fn has_lines(plan: &StartPlan, lines: &[&str]) {
        let log: Vec<_> = plan.stages.iter().flat_map(|stage| stage.lines.clone()).collect();
        let log = log.join("\n");
        for line in lines {
            assert!(log.contains(line), "{line}:\n{log}");
        }
    }

    #[test]
    fn its_starts_say_what_the_real_ones_said() {
        let eager = start(8256, 191, true);
        has_lines(
            &eager,
            &[
                "Model loading took 3.7 GiB",
                "Setting attention block size to 1568 tokens",
                "Available KV cache memory: 7.38 GiB",
                "GPU KV cache size: 241,782 tokens",
                "Maximum concurrency for 8,256 tokens per request: 29.29x",
            ],
        );
        let ready = eager.stages.last().unwrap().used as f64 / 1_048_576.0;
        assert!(off(ready, 13_174.8) < 0.01, "{ready}");
        let graphs = start(576, 1024, false);
        assert!(graphs.end.is_err());
        has_lines(
            &graphs,
            &[
                "Available KV cache memory: 6.87 GiB",
                "GPU KV cache size: 55,008 tokens",
                "Maximum concurrency for 576 tokens per request: 95.50x",
                "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (191).",
            ],
        );
        assert!(start(576, 191, false).end.is_ok());
    }

    #[test]
    fn every_point_fits_or_fails_as_measured() {
        let file = data("falcon-h1-h100.csv");
        let rows: Vec<Vec<&str>> = file.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 32);
        for row in rows {
            let number = |at: usize| row[at].parse::<u64>().unwrap();
            let mut scheduler = start(8256, 191, true).end.unwrap().scheduler;
            for id in 0..number(0) {
                scheduler.submit(SequenceRequest {
                    id,
                    rows: 1,
                    input: number(1),
                    output: number(2),
                    cached: 0,
                });
            }
            while scheduler.step().is_some() {}
            let most = scheduler.take_peaks().running as u64;
            let fits = most == number(0) && scheduler.counters().preemptions == 0;
            assert_eq!(fits, row[3] == "ok", "{row:?}: {most} ran");
        }
    }
}
