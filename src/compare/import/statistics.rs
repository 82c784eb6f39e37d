//! Reads results that have an object of statistics for each metric: AIPerf and genai-perf, GuideLLM, inference-perf, and
//! the report of trtllm-bench.
//!
//! Latencies become milliseconds. What these tools call the latency between tokens is the time of a request after its
//! first token, divided by the tokens after it: here TPOT.

use serde_json::{Map, Value};

use super::document::Node;
use crate::compare::{Case, ComparisonInput, Unit};

/// Where a tool has its figures.
struct Schema {
    /// Rates and counts: our name, the path, the unit.
    figures: &'static [(&'static str, &'static str, Unit)],
    /// Latencies: our name, the path of the object, milliseconds in its unit.
    latencies: &'static [(&'static str, &'static str, f64)],
    /// Statistics of a latency: our name, the path below.
    statistics: &'static [(&'static str, &'static str)],
}

const AIPERF: Schema = Schema {
    figures: &[
        ("request_throughput", "request_throughput.avg", Unit::RequestsPerSecond),
        ("request_goodput", "goodput.avg", Unit::RequestsPerSecond),
        (
            "output_throughput",
            "output_token_throughput.avg",
            Unit::TokensPerSecond,
        ),
        (
            "total_token_throughput",
            "total_token_throughput.avg",
            Unit::TokensPerSecond,
        ),
        ("completed", "request_count.avg", Unit::Count),
        ("failed", "error_request_count.avg", Unit::Count),
        ("duration", "benchmark_duration.avg", Unit::Seconds),
        ("total_input_tokens", "total_isl.avg", Unit::Tokens),
        ("total_output_tokens", "total_osl.avg", Unit::Tokens),
    ],
    latencies: &[
        ("ttft", "time_to_first_token", 1.0),
        ("tpot", "inter_token_latency", 1.0),
        ("itl", "inter_chunk_latency", 1.0),
        ("e2el", "request_latency", 1.0),
    ],
    statistics: &[
        ("mean", "avg"),
        ("median", "p50"),
        ("std", "std"),
        ("p90", "p90"),
        ("p95", "p95"),
        ("p99", "p99"),
    ],
};

const GUIDELLM: Schema = Schema {
    figures: &[
        (
            "request_throughput",
            "metrics.requests_per_second.successful.mean",
            Unit::RequestsPerSecond,
        ),
        (
            "output_throughput",
            "metrics.output_tokens_per_second.successful.mean",
            Unit::TokensPerSecond,
        ),
        (
            "total_token_throughput",
            "metrics.tokens_per_second.successful.mean",
            Unit::TokensPerSecond,
        ),
        (
            "mean_concurrency",
            "metrics.request_concurrency.successful.mean",
            Unit::Count,
        ),
        ("completed", "metrics.request_totals.successful", Unit::Count),
        ("failed", "metrics.request_totals.errored", Unit::Count),
    ],
    latencies: &[
        ("ttft", "metrics.time_to_first_token_ms.successful", 1.0),
        ("tpot", "metrics.inter_token_latency_ms.successful", 1.0),
        ("e2el", "metrics.request_latency.successful", 1000.0),
    ],
    statistics: &[
        ("mean", "mean"),
        ("median", "median"),
        ("std", "std_dev"),
        ("p90", "percentiles.p90"),
        ("p95", "percentiles.p95"),
        ("p99", "percentiles.p99"),
    ],
};

const INFERENCE_PERF: Schema = Schema {
    figures: &[
        (
            "request_throughput",
            "successes.throughput.requests_per_sec",
            Unit::RequestsPerSecond,
        ),
        (
            "input_throughput",
            "successes.throughput.input_tokens_per_sec",
            Unit::TokensPerSecond,
        ),
        (
            "output_throughput",
            "successes.throughput.output_tokens_per_sec",
            Unit::TokensPerSecond,
        ),
        (
            "total_token_throughput",
            "successes.throughput.total_tokens_per_sec",
            Unit::TokensPerSecond,
        ),
        ("completed", "successes.count", Unit::Count),
        ("failed", "failures.count", Unit::Count),
    ],
    latencies: &[
        ("ttft", "successes.latency.time_to_first_token", 1000.0),
        ("tpot", "successes.latency.time_per_output_token", 1000.0),
        ("itl", "successes.latency.inter_token_latency", 1000.0),
        ("e2el", "successes.latency.request_latency", 1000.0),
    ],
    statistics: &[
        ("mean", "mean"),
        ("median", "median"),
        ("p90", "p90"),
        ("p95", "p95"),
        ("p99", "p99"),
    ],
};

const TRTLLM: Schema = Schema {
    figures: &[
        (
            "request_throughput",
            "performance.request_throughput_req_s",
            Unit::RequestsPerSecond,
        ),
        (
            "output_throughput",
            "performance.system_output_throughput_tok_s",
            Unit::TokensPerSecond,
        ),
        (
            "total_token_throughput",
            "performance.system_total_throughput_tok_s",
            Unit::TokensPerSecond,
        ),
        ("completed", "request_info.num_requests", Unit::Count),
        ("mean_e2el_ms", "performance.avg_request_latency_ms", Unit::Milliseconds),
        ("mean_ttft_ms", "streaming_metrics.avg_ttft_ms", Unit::Milliseconds),
        ("mean_tpot_ms", "streaming_metrics.avg_tpot_ms", Unit::Milliseconds),
    ],
    latencies: &[],
    statistics: &[],
};

/// Milliseconds in a unit that a metric states.
fn milliseconds(unit: &str) -> Result<f64, String> {
    match unit {
        "ms" | "milliseconds" => Ok(1.0),
        "s" | "sec" | "seconds" => Ok(1000.0),
        "us" | "µs" | "microseconds" => Ok(1e-3),
        "ns" | "nanoseconds" => Ok(1e-6),
        other => Err(format!("a latency has the unit `{other}`, which is not known")),
    }
}

fn case(name: String, node: &Node, schema: &Schema) -> Result<Case, String> {
    let mut case = Case::new(name);
    for (name, path, unit) in schema.figures {
        case.metric(name, node.number(path)?, *unit);
    }
    for (latency, path, usual) in schema.latencies {
        let object = node.at(path);
        let factor = object.text("unit").map_or(Ok(*usual), |unit| milliseconds(&unit))?;
        for (statistic, below) in schema.statistics {
            let value = object.number(below)?.map(|value| value * factor);
            case.metric(&format!("{statistic}_{latency}_ms"), value, Unit::Milliseconds);
        }
    }
    Ok(case)
}

fn one(cases: Vec<Case>, tool: &str, version: Option<String>) -> ComparisonInput {
    let version = version.map_or_else(String::new, |version| format!(" {version}"));
    ComparisonInput {
        cases,
        notes: vec![format!("taken for a result of {tool}{version}")],
        ..ComparisonInput::default()
    }
}

/// The share of the output by which two counts may differ without a note.
const MISCOUNTED: f64 = 0.01;

pub(super) fn read_aiperf(file: &Node) -> Result<ComparisonInput, String> {
    let version = file.text("aiperf_version");
    let tool = if version.is_some() { "AIPerf" } else { "genai-perf" };
    aiperf(file, tool, version)
}

/// The tables that both write as CSV: statistics of each metric, then single figures. Their `Time to First Token (ms)` is
/// the `time_to_first_token` of the JSON.
pub(super) fn read_aiperf_tables(file: &Node) -> Result<ComparisonInput, String> {
    let mut metrics = Map::new();
    for row in file.objects()? {
        // A further table of AIPerf is about GPUs.
        let Some(title) = row.text("Metric").filter(|_| row.at("Endpoint").is_null()) else {
            continue;
        };
        let (name, unit) = title.rsplit_once(" (").unwrap_or((title.as_str(), ""));
        let name = match &*name.to_lowercase().replace([' ', '-'], "_") {
            "total_input_sequence_length" => "total_isl".to_owned(),
            "total_output_sequence_length" => "total_osl".to_owned(),
            name => name.to_owned(),
        };
        let statistics = row.entries().filter(|(column, _)| *column != "Metric");
        let mut metric: Map<String, Value> = statistics
            .map(|(column, cell)| {
                let column = if column == "Value" { "avg" } else { column };
                // genai-perf separates thousands.
                let cell = cell
                    .0
                    .as_str()
                    .map_or_else(|| cell.0.clone(), |text| text.replace(',', "").into());
                (column.to_owned(), cell)
            })
            .collect();
        metric.insert("unit".to_owned(), unit.trim_end_matches(')').into());
        metrics.insert(name, metric.into());
    }
    aiperf(&Node(&metrics.into()), "AIPerf or genai-perf", None)
}

fn aiperf(file: &Node, tool: &str, version: Option<String>) -> Result<ComparisonInput, String> {
    let mut input = one(vec![case("run".to_owned(), file, &AIPERF)?], tool, version);
    if file.at("is_complete").0 == false {
        let why = file
            .text("incomplete_reason")
            .unwrap_or_else(|| "it does not say why".to_owned());
        input.notes.push(format!("the run was not complete: {why}"));
    }
    let total = |name: &str| file.number_if_any(&format!("{name}.avg"));
    let counts = (total("total_osl"), total("total_usage_completion_tokens"));
    input.notes.extend(miscounted(
        tool,
        counts,
        "; `--use-server-token-count` takes the latter",
    ));
    Ok(input)
}

/// A note if a tool counted output tokens by itself, and otherwise than the server.
fn miscounted(tool: &str, (own, server): (Option<f64>, Option<f64>), remedy: &str) -> Option<String> {
    let (own, server) = (own?, server?);
    ((own - server).abs() > server * MISCOUNTED).then(|| {
        format!(
            "{tool} counted {own:.0} output tokens with a tokenizer of its own, and the server {server:.0}: throughput in tokens and TPOT are by \
             the former{remedy}"
        )
    })
}

pub(super) fn read_guidellm(file: &Node) -> Result<ComparisonInput, String> {
    let mut cases = Vec::new();
    for (index, benchmark) in file.at("benchmarks").objects()?.iter().enumerate() {
        if benchmark.at("metrics").is_null() {
            return Err(format!("its benchmark {} has no `metrics`", index + 1));
        }
        let strategy = ["config.strategy", "args.strategy", "scheduler.strategy"]
            .iter()
            .map(|path| benchmark.at(path))
            .find(|strategy| !strategy.is_null());
        let text = |key: &str| strategy.and_then(|strategy| strategy.text(key));
        let kind = text("type_").unwrap_or_else(|| format!("benchmark {}", index + 1));
        let setting = text("streams").map(|streams| format!(" concurrency={streams}"));
        let setting = setting.or(text("rate").map(|rate| format!(" request_rate={rate}")));
        cases.push(case(
            format!("{kind}{}", setting.unwrap_or_default()),
            benchmark,
            &GUIDELLM,
        )?);
    }
    Ok(one(cases, "GuideLLM", file.text("metadata.guidellm_version")))
}

pub(super) fn read_inference_perf(file: &Node) -> Result<ComparisonInput, String> {
    const TOOL: &str = "inference-perf";
    let mut input = one(vec![case("run".to_owned(), file, &INFERENCE_PERF)?], TOOL, None);
    let number = |path: &str| file.number_if_any(path);
    let per_second =
        number("successes.throughput.output_tokens_per_sec").zip(number("successes.throughput.requests_per_sec"));
    // The count that its figures are by, which may be either.
    let own = per_second.zip(number("successes.count"));
    let counts = (
        own.map(|((tokens, requests), count)| tokens / requests * count),
        number("successes.output_tokens.total"),
    );
    input.notes.extend(miscounted(
        TOOL,
        counts,
        "; `report.request_lifecycle.use_server_output_tokens` takes the latter",
    ));
    Ok(input)
}

pub(super) fn read_trtllm(file: &Node) -> Result<ComparisonInput, String> {
    let mut input = one(
        vec![case("run".to_owned(), file, &TRTLLM)?],
        "trtllm-bench",
        file.text("engine.version"),
    );
    input.model = file.text("engine.model");
    input.engine = Some("tensorrt_llm".to_owned());
    Ok(input)
}

/// llama-bench: tokens per second of prompts, of generation, or of both after each other.
pub(super) fn read_llama_bench(file: &Node) -> Result<ComparisonInput, String> {
    let rows = file.objects()?;
    let mut cases = Vec::new();
    for row in &rows {
        let (prompt, generated) = (row.count("n_prompt")?.unwrap_or(0), row.count("n_gen")?.unwrap_or(0));
        let depth = row.count("n_depth")?.filter(|depth| *depth > 0);
        let (name, metric) = match (prompt, generated) {
            (prompt, 0) => (format!("pp{prompt}"), "input_throughput"),
            (0, generated) => (format!("tg{generated}"), "output_throughput"),
            (prompt, generated) => (format!("pp{prompt}+tg{generated}"), "total_token_throughput"),
        };
        let mut case = Case::new(format!(
            "{name}{}",
            depth.map_or_else(String::new, |depth| format!(" depth={depth}"))
        ));
        case.metric(metric, row.number("avg_ts")?, Unit::TokensPerSecond);
        cases.push(case);
    }
    let first = rows.first();
    let mut input = one(
        cases,
        "llama-bench",
        first
            .and_then(|row| row.text("build_number"))
            .map(|build| format!("b{build}")),
    );
    input.model = first.and_then(|row| row.text("model_type"));
    input.engine = Some("llamacpp".to_owned());
    Ok(input)
}
