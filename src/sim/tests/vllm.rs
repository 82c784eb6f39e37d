//! `llama-8b-h200-vllm`: eight measured starts, every number of the profile that is marked [fit], and 48 streams while
//! serving.

use regex::Regex;

use super::{data, off};
use crate::sim::options::{Options, Setup};
use crate::sim::profile::{MemoryProfile, Pool, Profile};
use crate::sim::scheduler::Request;
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

fn shipped() -> Pool {
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
            let mut stages = plan.stages.iter();
            stages
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
        scheduler.submit(Request {
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
