//! The result file of `vllm bench serve`.

use serde_json::{Value, json};

use crate::compare::{LoadMetric, Unit};
use crate::load::stats::{EvaluatedRequest, LoadStats, Settings};
use crate::load::{LoadAnswer, RequestRecord};

/// A load's result in the layout of `vllm bench serve --save-result --save-detailed`, version 0.33.0
/// (`vllm/benchmarks/serve.py`), with `--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles
/// 50,90,95,99,99.9`. Pure.
///
/// Keys and formulas are vLLM's; these values differ:
/// - Values that were not measured are `null`, where vLLM writes 0: latencies if nothing completed, times and tokens of
///   failed requests, `rtfx` (speech only), percentiles that the sample cannot support.
/// - A request is complete when it has the requested number of tokens. `failed` counts all others, including
///   requests cut off at the end, which vLLM does not have.
/// - `queue_times` are from when a request was due until it was sent. In a closed loop it is due when a slot is
///   free; vLLM counts from the start of the load.
/// - `max_concurrent_requests` is the number of concurrent requests; vLLM 0.33.0 counts requests within the
///   same second, later versions count as here. In `max_output_tokens_per_s`, an event with several tokens
///   counts each of them, not as one.
///
/// Its members are the metadata of a load. `None`: unknown or not applicable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VllmBench {
    /// The date, as `20261121-033000`.
    pub date: String,
    /// The engine or its protocol, called backend in vLLM.
    pub backend: String,
    /// The model.
    pub model: Option<String>,
    /// The tokenizer of the prompts.
    pub tokenizer: Option<String>,
    /// The arrival process.
    pub arrivals: Traffic,
    /// Maximum number of concurrent requests.
    pub max_concurrency: Option<u64>,
    /// Whether the engine was simulated: then the document says so, in a key that vLLM does not have.
    pub simulated: bool,
}

/// The arrival process, in vLLM's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Traffic {
    /// Closed loop: `request_rate` is `inf`.
    #[default]
    Closed,
    /// Requests per second with gamma-distributed inter-arrival times; burstiness 1 is Poisson, `None` is
    /// constant.
    Rate(f64, Option<f64>),
    /// A trace or rate steps: no single rate.
    Other,
}

impl VllmBench {
    /// The document of a load. Its lists have one entry per request, in seconds.
    pub fn document(&self, records: &[RequestRecord], settings: &Settings, figures: &LoadStats) -> Value {
        let mut measured = EvaluatedRequest::all(records, settings);
        measured.retain(|request| !request.record.warmup);
        let completed = || measured.iter().filter(|request| request.completed());
        let input: u64 = completed().map(|request| request.input).sum();
        let output: u64 = completed().filter_map(|request| request.output).sum();
        let list = |of: &dyn Fn(&EvaluatedRequest<'_>, &RequestRecord) -> Value| {
            Value::Array(measured.iter().map(|request| of(request, request.record)).collect())
        };
        let seconds = |milliseconds: Option<f64>| json!(milliseconds.map(|milliseconds| milliseconds / 1e3));
        let (rate, burstiness) = match self.arrivals {
            Traffic::Closed => (json!("inf"), Value::Null),
            // Python's infinity is not JSON: a string, as for the rate.
            Traffic::Rate(rate, burstiness) => (
                json!(rate),
                burstiness.map_or(json!("inf"), |burstiness| json!(burstiness)),
            ),
            Traffic::Other => (Value::Null, Value::Null),
        };
        let mut document = json!({
            "date": self.date,
            "endpoint_type": self.backend,
            "backend": self.backend,
            "label": null,
            "model_id": self.model,
            "tokenizer_id": self.tokenizer,
            "num_prompts": figures.issued,
            "request_rate": rate,
            "burstiness": burstiness,
            "max_concurrency": self.max_concurrency,
            "duration": figures.duration,
            "completed": figures.completed,
            "failed": figures.failed + figures.cut_off,
            "total_input_tokens": input,
            "total_output_tokens": output,
            "request_throughput": figures.rates.request_throughput,
            "request_goodput": figures.goodput.as_ref().and_then(|goodput| goodput.counts.request_throughput),
            "output_throughput": figures.rates.output_throughput,
            "total_token_throughput": figures.rates.total_token_throughput,
            "input_lens": list(&|request, _| json!(request.input)),
            "output_lens": list(&|request, _| json!(request.output.filter(|_| request.completed()))),
            "ttfts": list(&|_, record| seconds(record.ttft_ms(record.sent))),
            "itls": list(&|_, record| record.itl_ms.iter().map(|gap| f64::from(*gap) / 1e3).collect()),
            "latencies": list(&|request, record| seconds(record.e2el_ms(record.sent).filter(|_| request.completed()))),
            "start_times": list(&|_, record| json!(record.sent.as_secs_f64())),
            "queue_times": list(&|_, record| json!(record.sent.saturating_sub(record.scheduled).as_secs_f64())),
            "generated_texts": list(&|_, record| json!(record.text)),
            "errors": list(&|request, _| json!(request.error())),
            "max_output_tokens_per_s": figures.max_output_tokens_per_s,
            "max_concurrent_requests": figures.max_concurrent_requests,
            "rtfx": null,
        });
        if self.simulated {
            document["simulated"] = true.into();
        }
        let stats = figures.clone();
        let load = LoadAnswer {
            stats,
            ..LoadAnswer::default()
        };
        let is_ours = |name: &str| ["first_visible", "token_itl"].iter().any(|ours| name.contains(ours));
        for metric in LoadMetric::all()
            .iter()
            .filter(|metric| metric.unit == Unit::Milliseconds && !is_ours(&metric.name))
        {
            document[metric.name.replace("p99_9", "p99.9")] = json!(metric.value(&load));
        }
        for latency in ["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"] {
            document[format!("p50_{latency}")] = document[format!("median_{latency}")].clone();
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::load::stats::{Slo, TargetConcurrency};
    use crate::load::{Counts, Failure, FailureForm, RequestOutcome};

    /// The keys of a file that vLLM 0.33.0 wrote with these options and `--goodput`.
    const KEYS: &str = "date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency duration \
        completed failed total_input_tokens total_output_tokens request_throughput request_goodput output_throughput total_token_throughput \
        input_lens output_lens ttfts itls latencies start_times queue_times generated_texts errors max_output_tokens_per_s \
        max_concurrent_requests rtfx";

    fn record(index: u64) -> RequestRecord {
        let at = |ms: u64| Duration::from_millis(index * 100 + ms);
        RequestRecord {
            index,
            warmup: false,
            input: 100,
            output: 3,
            scheduled: at(0),
            sent: at(5),
            first_byte: Some(at(55)),
            first_token: Some(at(55)),
            last_token: Some(at(85)),
            ended: at(86),
            itl_ms: vec![10.0, 20.0],
            events: 3,
            tokens_seen: None,
            counts: Counts {
                input: Some(100),
                output: Some(3),
            },
            text: Some("a b c".to_owned()),
            finish: Some("length".to_owned()),
            outcome: RequestOutcome::Completed,
            ..RequestRecord::default()
        }
    }

    fn document(records: &[RequestRecord]) -> Value {
        let settings = Settings {
            target: TargetConcurrency::Closed { concurrency: 1 },
            slo: Some(Slo {
                ttft_ms: Some(60.0),
                ..Slo::default()
            }),
            exact: true,
            ..Settings::default()
        };
        let bench = VllmBench {
            date: "20261121-033000".to_owned(),
            backend: "vllm".to_owned(),
            model: Some("a/b".to_owned()),
            max_concurrency: Some(1),
            ..VllmBench::default()
        };
        bench.document(records, &settings, &LoadStats::from_records(records, &settings))
    }

    fn load() -> Vec<RequestRecord> {
        let mut records: Vec<RequestRecord> = (0..10).map(record).collect();
        let refused = &mut records[8];
        (refused.first_token, refused.last_token, refused.itl_ms) = (None, None, Vec::new());
        refused.counts = Counts::default();
        refused.outcome = RequestOutcome::Failed(Failure {
            form: FailureForm::Status(429),
            message: "too many".to_owned(),
        });
        records[9].outcome = RequestOutcome::CutOff;
        records
    }

    #[test]
    fn the_keys_are_those_of_vllm() {
        let document = document(&load());
        let keys: BTreeSet<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected: BTreeSet<String> = KEYS.split_whitespace().map(str::to_owned).collect();
        for metric in ["ttft", "tpot", "itl", "e2el"] {
            for figure in ["mean", "median", "std", "p50", "p90", "p95", "p99", "p99.9"] {
                expected.insert(format!("{figure}_{metric}_ms"));
            }
        }
        assert_eq!(keys, expected.iter().map(String::as_str).collect());
    }

    #[test]
    fn what_nobody_measured_is_null() {
        let document = document(&load());
        assert_eq!(
            (&document["completed"], &document["failed"], &document["num_prompts"]),
            (&json!(8), &json!(2), &json!(10))
        );
        assert_eq!(
            (&document["total_input_tokens"], &document["total_output_tokens"]),
            (&json!(800), &json!(24))
        );
        assert_eq!(
            (&document["ttfts"][8], &document["latencies"][8]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(
            (&document["ttfts"][9], &document["latencies"][9]),
            (&json!(0.05), &Value::Null)
        );
        assert_eq!(
            (&document["errors"][7], &document["errors"][8]),
            (&json!(""), &json!("status_429: too many"))
        );
        assert!(document["errors"][9].as_str().unwrap().contains("cut off"));
        assert_eq!(document["itls"][0], json!([0.01, 0.02]));
        assert_eq!(
            (&document["queue_times"][1], &document["start_times"][1]),
            (&json!(0.005), &json!(0.105))
        );
        assert_eq!(
            (&document["p99_ttft_ms"], &document["rtfx"]),
            (&json!(50.0), &Value::Null)
        );
        let nothing = super::tests::document(&[]);
        assert!(nothing["mean_ttft_ms"].is_null() && nothing["request_throughput"].is_null());
    }

    #[test]
    fn our_reader_reads_it_back() {
        let document = document(&load());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.json");
        std::fs::write(&path, document.to_string()).unwrap();
        let input = crate::compare::import::read(&path).unwrap();
        assert_eq!((input.format, input.model.as_deref()), ("vllm bench", Some("a/b")));
        let case = &input.cases[0];
        assert_eq!(case.name, "concurrency=1");
        let figure = |name: &str| {
            let named = case.figures.iter().find(|figure| figure.name == name);
            named.unwrap_or_else(|| panic!("no {name}")).value
        };
        for name in [
            "completed",
            "failed",
            "duration",
            "output_throughput",
            "request_goodput",
            "mean_tpot_ms",
            "p50_e2el_ms",
        ] {
            let (got, written) = (figure(name), document[name].as_f64().unwrap());
            assert!((got - written).abs() < 1e-9, "{name}: {got} is not {written}");
        }
        assert!(
            input
                .notes
                .iter()
                .any(|note| note.contains("2 requests of a run failed")),
            "{:?}",
            input.notes
        );
    }
}
