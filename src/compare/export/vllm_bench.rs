//! The result file of `vllm bench serve`.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::compare::{LoadMetric, Unit};
use crate::load::stats::{EvaluatedRequest, LoadStats, Settings};
use crate::load::{LoadAnswer, RequestRecord};
use crate::run::hide;

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
    /// The document of a load. Its lists have one entry per request, in seconds. It is made while it is written, as the
    /// values of a large load would take a gigabyte; secrets in its texts are hidden.
    pub fn document<'a>(
        &'a self,
        records: &'a [RequestRecord],
        settings: &Settings,
        figures: &'a LoadStats,
    ) -> impl Serialize + 'a {
        let mut measured = EvaluatedRequest::all(records, settings);
        measured.retain(|request| !request.record.warmup);
        Document {
            bench: self,
            measured,
            figures,
        }
    }
}

struct Document<'a> {
    bench: &'a VllmBench,
    measured: Vec<EvaluatedRequest<'a>>,
    figures: &'a LoadStats,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (bench, figures) = (self.bench, self.figures);
        let completed = || self.measured.iter().filter(|request| request.completed());
        let input: u64 = completed().map(|request| request.input).sum();
        let output: u64 = completed().filter_map(|request| request.output).sum();
        let (rate, burstiness) = match bench.arrivals {
            Traffic::Closed => (json!("inf"), Value::Null),
            // Python's infinity is not JSON: a string, as for the rate.
            Traffic::Rate(rate, burstiness) => (
                json!(rate),
                burstiness.map_or(json!("inf"), |burstiness| json!(burstiness)),
            ),
            Traffic::Other => (Value::Null, Value::Null),
        };
        let text = |text: &Option<String>| text.as_deref().map(|text| hide(text).into_owned());
        let seconds = |milliseconds: Option<f64>| milliseconds.map(|milliseconds| milliseconds / 1e3);
        let goodput = figures.goodput.as_ref();
        let mut all = serializer.serialize_map(None)?;
        all.serialize_entry("date", &bench.date)?;
        all.serialize_entry("endpoint_type", &bench.backend)?;
        all.serialize_entry("backend", &bench.backend)?;
        all.serialize_entry("label", &())?;
        all.serialize_entry("model_id", &text(&bench.model))?;
        all.serialize_entry("tokenizer_id", &text(&bench.tokenizer))?;
        all.serialize_entry("num_prompts", &figures.issued)?;
        all.serialize_entry("request_rate", &rate)?;
        all.serialize_entry("burstiness", &burstiness)?;
        all.serialize_entry("max_concurrency", &bench.max_concurrency)?;
        all.serialize_entry("duration", &figures.duration)?;
        all.serialize_entry("completed", &figures.completed)?;
        all.serialize_entry("failed", &(figures.failed + figures.cut_off))?;
        all.serialize_entry("total_input_tokens", &input)?;
        all.serialize_entry("total_output_tokens", &output)?;
        all.serialize_entry("request_throughput", &figures.rates.request_throughput)?;
        all.serialize_entry(
            "request_goodput",
            &goodput.and_then(|goodput| goodput.counts.request_throughput),
        )?;
        all.serialize_entry("output_throughput", &figures.rates.output_throughput)?;
        all.serialize_entry("total_token_throughput", &figures.rates.total_token_throughput)?;
        let each = self.measured.as_slice();
        all.serialize_entry("input_lens", &list(each, |request| request.input))?;
        let output = |request: &EvaluatedRequest<'_>| request.output.filter(|_| request.completed());
        all.serialize_entry("output_lens", &list(each, output))?;
        let ttft = |request: &EvaluatedRequest<'_>| seconds(request.record.ttft_ms(request.record.sent));
        all.serialize_entry("ttfts", &list(each, ttft))?;
        all.serialize_entry("itls", &list(each, |request| Gaps(&request.record.itl_ms)))?;
        let latency = |request: &EvaluatedRequest<'_>| {
            let whole = request.record.e2el_ms(request.record.sent);
            seconds(whole.filter(|_| request.completed()))
        };
        all.serialize_entry("latencies", &list(each, latency))?;
        let sent = |request: &EvaluatedRequest<'_>| request.record.sent.as_secs_f64();
        all.serialize_entry("start_times", &list(each, sent))?;
        let queued = |request: &EvaluatedRequest<'_>| {
            let record = request.record;
            record.sent.saturating_sub(record.scheduled).as_secs_f64()
        };
        all.serialize_entry("queue_times", &list(each, queued))?;
        all.serialize_entry("generated_texts", &list(each, |request| text(&request.record.text)))?;
        all.serialize_entry("errors", &list(each, |request| hide(&request.error()).into_owned()))?;
        all.serialize_entry("max_output_tokens_per_s", &figures.max_output_tokens_per_s)?;
        all.serialize_entry("max_concurrent_requests", &figures.max_concurrent_requests)?;
        all.serialize_entry("rtfx", &())?;
        if bench.simulated {
            all.serialize_entry("simulated", &true)?;
        }
        let load = LoadAnswer {
            stats: figures.clone(),
            ..LoadAnswer::default()
        };
        let is_ours = |name: &str| ["first_visible", "token_itl"].iter().any(|ours| name.contains(ours));
        for metric in LoadMetric::all()
            .iter()
            .filter(|metric| metric.unit == Unit::Milliseconds && !is_ours(&metric.name))
        {
            let value = metric.value(&load);
            all.serialize_entry(&metric.name.replace("p99_9", "p99.9"), &value)?;
            if let Some(latency) = metric.name.strip_prefix("median_") {
                all.serialize_entry(&format!("p50_{latency}"), &value)?;
            }
        }
        all.end()
    }
}

/// A value of each request.
fn list<'a, T: Serialize, F: Fn(&'a EvaluatedRequest<'a>) -> T>(
    each: &'a [EvaluatedRequest<'a>],
    of: F,
) -> List<'a, F> {
    List(each, of)
}

struct List<'a, F>(&'a [EvaluatedRequest<'a>], F);

impl<'a, T: Serialize, F: Fn(&'a EvaluatedRequest<'a>) -> T> Serialize for List<'a, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(&self.1))
    }
}

/// Milliseconds, written in seconds.
struct Gaps<'a>(&'a [f32]);

impl Serialize for Gaps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|gap| f64::from(*gap) / 1e3))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::load::stats::{Slo, TargetConcurrency};
    use crate::load::{Counts, FailureForm, RequestOutcome};

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
            finish: Some("length".into()),
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
        let figures = LoadStats::from_records(records, &settings);
        serde_json::to_value(bench.document(records, &settings, &figures)).unwrap()
    }

    fn load() -> Vec<RequestRecord> {
        let mut records: Vec<RequestRecord> = (0..10).map(record).collect();
        let refused = &mut records[8];
        (refused.first_token, refused.last_token, refused.itl_ms) = (None, None, Vec::new());
        refused.counts = Counts::default();
        refused.outcome = RequestOutcome::failed(FailureForm::Status(429), "too many");
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
