//! A user probes the simulated engine from a script, through its shipped adapter.

use std::sync::Arc;

use profiler::boundary::Point;
use profiler::engine::{Context, Pool, ProbeOptions};
use profiler::run::Run;
use profiler::runtime::Permits;
use profiler::script::{self, Host, Settings};
use profiler::task::Tasks;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// An engine from `engines::describe(name, options)`.
pub struct Probed {
    engine: Pool,
    _runtime: Runtime,
}

impl Probed {
    fn new(options: Value) -> Self {
        Self::of("sim", options)
    }

    /// Launches the engine with the shipped adapter of this name.
    pub fn of(name: &str, options: Value) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let tasks = Tasks::new(runtime.handle().clone());
        let run = Arc::new(Run::ephemeral("test"));
        let settings = Settings {
            max_memory: Some(u64::MAX),
            ..Settings::default()
        };
        let host = Arc::new(Host::new(
            tasks.clone(),
            Arc::clone(&run),
            Permits::default(),
            Arc::default(),
            settings,
        ));
        let context = Context {
            tasks,
            run,
            permits: Permits::default(),
            services: Arc::clone(&host.services),
            prompt_cache: Arc::default(),
            axes: Arc::new(|| None),
            gpus: Arc::new(|_| Ok(None)),
            home: std::env::temp_dir(),
            seed: 7,
            shared_gpu: false,
            wait: None,
            dry_run: false,
        };
        let engine = Pool::describe(
            &context,
            &script::adapter(&host, name).unwrap(),
            vec![serde_json::from_value(options).unwrap()],
        )
        .unwrap();
        Self {
            engine,
            _runtime: runtime,
        }
    }

    pub fn probe(&self, input: i64, output: i64, concurrency: i64, timeout: Option<f64>) -> Value {
        let options = ProbeOptions {
            timeout,
            retries: Some(0),
            ..ProbeOptions::default()
        };
        self.ask(input, output, concurrency, options)
    }

    pub fn ask(&self, input: i64, output: i64, concurrency: i64, options: ProbeOptions) -> Value {
        let point = Point::default()
            .with("input", input)
            .with("output", output)
            .with("concurrency", concurrency);
        self.engine.probe(&point, options).unwrap()
    }

    #[track_caller]
    fn assert(&self, (input, output, concurrency): (i64, i64, i64), verdict: &str, cause: Option<&str>) {
        let answer = self.probe(input, output, concurrency, None);
        assert_eq!(
            (answer["verdict"].as_str(), answer["cause"].as_str()),
            (Some(verdict), cause),
            "{answer:#}"
        );
    }
}

#[test]
fn the_default_profile_answers_on_both_sides_of_its_boundary() {
    let probed = Probed::new(json!({}));
    probed.assert((128, 128, 1), "ok", None);
    probed.assert((4256, 4096, 1), "ok", None);
    probed.assert((4257, 4096, 1), "start_failed", Some("memory"));
    probed.assert((8192, 160, 1), "ok", None);
    let answer = probed.probe(1000, 50, 1, None);
    assert_eq!(
        (&answer["input"], &answer["output"]),
        (&json!(1000), &json!(50)),
        "{answer:#}"
    );
}

#[test]
fn every_shipped_profile_serves_through_the_adapter() {
    for profile in profiler::sim::names() {
        let probed = Probed::new(json!({ "profile": profile, "sim": { "time_scale": 0.0 } }));
        probed.assert((300, 40, 1), "ok", None);
    }
}

#[test]
fn several_at_once_are_resident_where_the_cache_holds_them_and_not_where_it_does_not() {
    // Slow enough that concurrent streams overlap as a client sees them, even on a busy machine.
    let probed = Probed::new(json!({ "sim": { "time_scale": 0.1 } }));
    probed.assert((200, 300, 8), "ok", None);
    // Sixteen times 600 tokens exceed 8,352.
    let answer = probed.probe(400, 200, 16, None);
    assert!(
        ["preempted", "queued"].contains(&answer["verdict"].as_str().unwrap()),
        "{answer:#}"
    );
}

#[test]
fn a_dynamic_engine_runs_out_of_memory_and_the_cause_is_cuda() {
    let probed = Probed::new(json!({ "profile": "llama-1b-12gib-transformers", "sim": { "time_scale": 0.0 } }));
    probed.assert((32_768, 8, 1), "ok", None);
    probed.assert((98_304, 8, 1), "oom", Some("cuda"));
    probed.assert((512, 8, 1), "ok", None);
}

#[test]
fn misbehaviour_is_never_called_memory() {
    let table = [
        (json!({ "die_mid_stream": 3 }), "error"),
        (json!({ "end_early": 5 }), "short_output"),
        (json!({ "error_then_done": 5 }), "error"),
        (json!({ "two_tokens": true }), "ok"),
        (json!({ "refuse_429": 1 }), "error"),
        (json!({ "hang": 3 }), "timeout"),
    ];
    for (misbehave, verdict) in table {
        let probed = Probed::new(json!({ "sim": { "misbehave": misbehave } }));
        let answer = probed.probe(100, 20, 1, Some(1.0));
        assert_eq!(answer["verdict"], verdict, "{misbehave}: {answer:#}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    let probed = Probed::new(json!({ "quantization": "awq" }));
    let point = Point::default().with("input", 10).with("output", 10);
    let fault = probed.engine.probe(&point, ProbeOptions::default()).unwrap_err();
    assert!(fault.message.contains("`quantization`"), "{}", fault.message);
}
