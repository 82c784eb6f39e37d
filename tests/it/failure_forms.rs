//! A user probes an engine through its real adapter while it fails in every known way; the simulated engine speaks its
//! protocol and prints its messages.

use profiler::engine::ProbeOptions;
use serde_json::{Value, json};

use super::sim::adapter::Probed;

/// The message of PyTorch on a GPU.
const TORCH: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.50 GiB of which \
                     512.00 MiB is free. Including non-PyTorch memory, this process has 23.00 GiB memory in use. Of the allocated memory 20.00 GiB \
                     is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.";

/// The engines that the simulated engine can stand in for.
const ENGINES: [&str; 7] = [
    "vllm",
    "sglang",
    "tensorrt_llm",
    "tgi",
    "llamacpp",
    "ollama",
    "transformers",
];

/// The expected answer to a probe of 300 input and 40 output tokens.
#[derive(Debug)]
struct Form {
    engine: &'static str,
    /// The misbehaviour of the simulated engine.
    misbehave: Value,
    verdict: &'static str,
    cause: &'static str,
    /// `evidence.phase`.
    phase: &'static str,
    /// `evidence.survived`.
    survived: Option<bool>,
}

fn start(
    engine: &'static str,
    after: &str,
    line: &str,
    (verdict, cause): (&'static str, &'static str),
    phase: &'static str,
) -> Form {
    Form {
        engine,
        misbehave: json!({ "fail_start": { "after": after, "log": [line] } }),
        verdict,
        cause,
        phase,
        survived: None,
    }
}

fn request(
    engine: &'static str,
    failed: Value,
    (verdict, cause): (&'static str, &'static str),
    survived: Option<bool>,
) -> Form {
    Form {
        engine,
        misbehave: json!({ "fail_request": failed }),
        verdict,
        cause,
        phase: "request",
        survived,
    }
}

/// The answer of an engine that fails in this form.
fn probed(form: &Form) -> Value {
    engine(form.engine, &form.misbehave).probe(300, 40, 1, Some(2.0))
}

/// An engine that misbehaves like this, with room for a longer request than the usual 300 + 40 tokens.
fn engine(name: &str, misbehave: &Value) -> Probed {
    let sim = json!({ "time_scale": 0.0, "misbehave": misbehave });
    Probed::of(
        name,
        json!({ "runtime": "sim", "limits": { "input": 4000, "output": 40 }, "sim": sim }),
    )
}

/// Describes the answer if it is not the expected one.
fn complaint(form: &Form) -> Option<String> {
    let answer = probed(form);
    let evidence = &answer["evidence"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = [&answer["verdict"], &answer["cause"], &evidence["phase"]].map(text);
    let right = told == [form.verdict, form.cause, form.phase] && evidence["survived"] == json!(form.survived);
    // A recognised failure shows its line, and an unclear one the end of the log.
    let shown = !evidence["message"].is_null() || evidence["log"].as_array().is_some_and(|log| !log.is_empty());
    let fails = matches!(
        (form.verdict, form.cause),
        ("oom", _) | ("refused", "kv_cache" | "memory") | ("start_failed", "memory")
    );
    let moves = (answer["moves"] == "fails") == fails;
    (!(right && shown && moves)).then(|| format!("{form:?}\n{answer:#}"))
}

#[track_caller]
fn check(forms: &[Form]) {
    // Every form has its own engine, and some of them wait for a deadline: they run in parallel.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = forms.iter().map(|form| scope.spawn(|| complaint(form))).collect();
        all.into_iter().filter_map(|one| one.join().unwrap()).collect()
    });
    assert!(
        wrong.is_empty(),
        "{} of {} wrong:\n{}",
        wrong.len(),
        forms.len(),
        wrong.join("\n")
    );
}

const MEMORY: (&str, &str) = ("start_failed", "memory");

#[test]
fn a_start_fails_in_a_phase() {
    check(&[
        start("vllm", "Initializing a V1", TORCH, MEMORY, "weights"),
        start("vllm", "Model loading took", TORCH, MEMORY, "profiling"),
        start("vllm", "KV cache size", TORCH, MEMORY, "kv_cache"),
        start(
            "vllm",
            "Graph capturing finished",
            "CUDA out of memory occurred when warming up sampler",
            MEMORY,
            "warm_up",
        ),
        start(
            "vllm",
            "Using max model len",
            "NCCL WARN Cuda failure 2 'out of memory'",
            MEMORY,
            "weights",
        ),
        start(
            "vllm",
            "Model loading took",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`",
            MEMORY,
            "profiling",
        ),
        start(
            "vllm",
            "Model loading took",
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
            MEMORY,
            "profiling",
        ),
        start("tgi", "Starting shard", TORCH, MEMORY, "weights"),
        start(
            "tgi",
            "Warming up model",
            "Not enough memory to handle 4096 prefill tokens.",
            MEMORY,
            "profiling",
        ),
        start(
            "llamacpp",
            "",
            "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
            MEMORY,
            "weights",
        ),
        start("transformers", "Loading", TORCH, MEMORY, "weights"),
    ]);
}

#[test]
fn a_gpu_runs_out_of_memory_in_a_request() {
    let oom = ("oom", "cuda");
    check(&[
        // It handles one request after another, and serves on.
        request("transformers", json!({ "message": TORCH }), oom, Some(true)),
        // The generation thread is dead, but the process lives.
        request(
            "transformers",
            json!({ "message": "x", "log": [format!("Error in generation loop: {TORCH}")], "then": "dead" }),
            oom,
            Some(false),
        ),
        request(
            "vllm",
            json!({ "message": "EngineDeadError", "log": [TORCH], "then": "exits", "ending": { "code": 0 } }),
            oom,
            Some(false),
        ),
        request(
            "vllm",
            json!({ "message": "EngineDeadError", "log": [TORCH], "then": "dead" }),
            oom,
            Some(false),
        ),
        request(
            "tgi",
            json!({ "message": format!("Request failed during generation: Server error: {TORCH}"), "then": "exits" }),
            oom,
            Some(false),
        ),
        // The launcher exits with the failed shard, a moment after the response 424.
        request(
            "tgi",
            json!({
                "status": 424, "then": "exits", "message": format!("Request failed during generation: Server error: {TORCH}"),
                "log": ["ERROR text_generation_launcher: Shard 0 crashed", "Error: ShardFailed"],
            }),
            oom,
            Some(false),
        ),
        request(
            "llamacpp",
            json!({ "log": ["CUDA error: out of memory"], "then": "exits", "ending": { "code": 134 } }),
            oom,
            Some(false),
        ),
    ]);
}

#[test]
fn a_process_dies_in_a_request() {
    let died = ("error", "died");
    let ends = |code: i32, oom_killed: bool| json!({ "after": 3, "then": "exits", "ending": { "code": code, "oom_killed": oom_killed } });
    let mut forms: Vec<Form> = [0, 1, 134, 139]
        .map(|code| request("vllm", ends(code, false), died, Some(false)))
        .into();
    for engine in ENGINES {
        forms.push(request(engine, ends(137, false), died, Some(false)));
        forms.push(request(engine, ends(137, true), ("oom", "host"), Some(false)));
    }
    check(&forms);
}

#[test]
fn what_is_unclear_is_an_error_and_what_is_dead_is_not_busy() {
    check(&[
        request(
            "vllm",
            json!({ "status": 500, "message": "Internal server error" }),
            ("error", "status"),
            Some(true),
        ),
        request(
            "vllm",
            json!({ "status": 503, "message": "?", "then": "dead" }),
            ("error", "dead"),
            Some(false),
        ),
        request(
            "vllm",
            json!({ "status": 503, "message": "?" }),
            ("error", "overloaded"),
            Some(true),
        ),
        request(
            "transformers",
            json!({ "status": 503, "message": "CB worker is dead and cannot accept request", "then": "dead" }),
            ("error", "dead"),
            Some(false),
        ),
        request(
            "tgi",
            json!({ "status": 424, "message": "Request failed during generation: 'NoneType'" }),
            ("error", "status"),
            Some(true),
        ),
        request(
            "llamacpp",
            json!({ "message": "Compute error." }),
            ("error", "engine"),
            Some(true),
        ),
        request(
            "llamacpp",
            json!({ "message": "Context size has been exceeded." }),
            ("refused", "kv_cache"),
            Some(true),
        ),
    ]);
}

#[test]
fn an_output_that_is_clipped_is_never_ok() {
    for name in ENGINES {
        let engine = engine(name, &json!({ "clip": 39 }));
        // For an engine that takes text, the first prompt may need a second attempt to hit its length.
        let _ = engine.probe(300, 40, 1, None);
        let answer = engine.probe(300, 40, 1, None);
        assert_eq!(
            (
                &answer["verdict"],
                &answer["cause"],
                &answer["moves"],
                &answer["output"]
            ),
            (&json!("short_output"), &json!("clipped"), &json!("none"), &json!(39)),
            "{name}: {answer:#}"
        );
        assert_eq!(
            answer["evidence"]["attempts"], 1,
            "clipping is the same every time: {name}"
        );
        // The request fills the length that the engine reports, so the clipped output is a length limit.
        if name == "vllm" || name == "tgi" {
            let answer = engine.probe(4000, 40, 1, None);
            assert_eq!(
                (&answer["verdict"], &answer["cause"]),
                (&json!("refused"), &json!("length_limit")),
                "{name}: {answer:#}"
            );
        }
    }
}

#[test]
fn a_request_that_waits_for_ever_is_refused_where_metrics_show_it_and_else_a_timeout() {
    let starved = |name, verdict, cause| Form {
        engine: name,
        misbehave: json!({ "starve": true }),
        verdict,
        cause,
        phase: "request",
        survived: None,
    };
    check(&[
        starved("vllm", "refused", "kv_cache"),
        starved("sglang", "refused", "kv_cache"),
        starved("tgi", "refused", "kv_cache"),
        starved("llamacpp", "refused", "kv_cache"),
        // Its metrics report each step, and a starved engine makes no step.
        starved("tensorrt_llm", "timeout", "deadline"),
        // These engines have no metrics.
        starved("transformers", "timeout", "deadline"),
        starved("ollama", "timeout", "deadline"),
    ]);
}

#[test]
fn requests_that_an_idle_engine_lets_wait_are_given_up_before_their_deadline() {
    for (name, concurrency) in [("vllm", 1), ("tgi", 3)] {
        let patience = ProbeOptions {
            timeout: Some(600.0),
            stall: Some(0.5),
            ..ProbeOptions::default()
        };
        let answer = engine(name, &json!({ "starve": true })).ask(300, 40, concurrency, patience);
        let evidence = &answer["evidence"];
        assert_eq!(
            (&answer["verdict"], &answer["cause"], &answer["moves"]),
            (&json!("refused"), &json!("kv_cache"), &json!("fails")),
            "{name}: {answer:#}"
        );
        assert_eq!(
            (
                &evidence["queue"]["running"],
                &evidence["queue"]["waiting"],
                &evidence["phase"]
            ),
            (&json!(0), &json!(concurrency), &json!("request")),
            "{name}: {answer:#}"
        );
        let said = format!("while {concurrency} of {concurrency} requests were queued");
        assert!(evidence["message"].as_str().unwrap().contains(&said), "{evidence:#}");
    }
}

#[test]
fn an_engine_that_survives_is_not_started_again_and_one_that_does_not_is() {
    let fails = |then: &str| json!({ "longer_than": 1000, "message": TORCH, "log": ["Traceback"], "then": then });
    for (engine, then, again) in [
        ("transformers", "lives", false),
        ("transformers", "dead", true),
        ("vllm", "dead", true),
        ("vllm", "exits", true),
    ] {
        let probed = self::engine(engine, &json!({ "fail_request": fails(then) }));
        let ask = |input| probed.probe(input, 40, 1, Some(5.0));
        assert_eq!(ask(300)["verdict"], "ok");
        let failed = ask(3000);
        assert_eq!(
            (&failed["verdict"], &failed["cause"]),
            (&json!("oom"), &json!("cuda")),
            "{failed:#}"
        );
        assert_eq!(failed["evidence"]["survived"], json!(!again), "{failed:#}");
        let gib = |figure: f64| json!((figure * 1_073_741_824.0_f64) as u64);
        let figures = &failed["evidence"]["allocations"][0];
        assert_eq!(
            (
                &figures["gpu"],
                &figures["tried"],
                &figures["total"],
                &figures["free"],
                &figures["reserved"]
            ),
            (&json!(0), &gib(1.5), &gib(23.5), &gib(0.5), &gib(1.0)),
            "{failed:#}"
        );
        let after = ask(300);
        assert_eq!(
            (&after["verdict"], &after["started"]),
            (&json!("ok"), &json!(again)),
            "{engine} {then}: {after:#}"
        );
    }
}
