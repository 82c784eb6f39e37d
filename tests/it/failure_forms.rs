//! Every way in which an engine can fail, through its real adapter: the simulated engine speaks its protocol and says its words.

use serde_json::{Value, json};

use super::sim::adapter::Probed;

/// PyTorch's message on a GPU.
const TORCH: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.50 GiB of which \
                     512.00 MiB is free. Including non-PyTorch memory, this process has 23.00 GiB memory in use. Of the allocated memory 20.00 GiB \
                     is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.";

/// What must come of a probe of 300 tokens in, 40 out.
#[derive(Debug)]
struct Form {
    /// The adapter.
    engine: &'static str,
    /// What is done wrong.
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

/// Probes, and gives the answer with what comes of a second probe.
fn probed(form: &Form) -> (Value, Value) {
    let sim = json!({ "time_scale": 0.0, "misbehave": form.misbehave });
    let probed = Probed::of(form.engine, json!({ "runtime": "sim", "sim": sim }));
    let ask = |timeout| probed.probe(300, 40, 1, Some(timeout));
    (ask(2.0), ask(2.0))
}

#[track_caller]
fn check(forms: &[Form]) {
    let mut wrong = Vec::new();
    for form in forms {
        let (answer, _) = probed(form);
        let evidence = &answer["evidence"];
        let told = (
            answer["verdict"].as_str(),
            answer["cause"].as_str(),
            evidence["phase"].as_str(),
        );
        if told != (Some(form.verdict), Some(form.cause), Some(form.phase))
            || evidence["survived"] != json!(form.survived)
        {
            wrong.push(format!("{form:?}\n{answer:#}"));
        }
        // Whatever is unclear, is shown; whatever is known, by its line.
        if evidence["log"].as_array().is_none_or(Vec::is_empty) && evidence["message"].is_null() {
            wrong.push(format!("no evidence: {form:?}\n{answer:#}"));
        }
        let fails = matches!(
            (form.verdict, form.cause),
            ("oom", _) | ("refused", "kv_cache" | "memory") | ("start_failed", "memory")
        );
        if (answer["moves"] == "fails") != fails {
            wrong.push(format!("it moves the boundary: {form:?}\n{answer:#}"));
        }
    }
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
        start(
            "vllm",
            "KV cache size",
            "Segmentation fault",
            ("start_failed", "exited"),
            "kv_cache",
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
            "tgi",
            "Shard ready",
            "Shard process was signaled to shutdown with signal 9",
            ("start_failed", "exited"),
            "profiling",
        ),
        start(
            "llamacpp",
            "",
            "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
            MEMORY,
            "weights",
        ),
        start(
            "llamacpp",
            "",
            "failed to open GGUF file 'x.gguf'",
            ("start_failed", "model"),
            "weights",
        ),
        start("transformers", "Loading", TORCH, MEMORY, "weights"),
    ]);
}

#[test]
fn a_gpu_runs_out_of_memory_in_a_request() {
    let oom = ("oom", "cuda");
    check(&[
        // One after another, it serves on.
        request("transformers", json!({ "message": TORCH }), oom, Some(true)),
        // Its thread is dead, its process is not.
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
    let mut forms = Vec::new();
    for engine in ["vllm", "tgi", "llamacpp", "transformers"] {
        for code in [0, 1, 134, 137, 139] {
            forms.push(request(engine, ends(code, false), died, Some(false)));
        }
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
    for engine in ["vllm", "tgi", "llamacpp", "transformers"] {
        let form = Form {
            engine,
            misbehave: json!({ "clip": 39 }),
            verdict: "short_output",
            cause: "clipped",
            phase: "request",
            survived: None,
        };
        // What the engine reports as its longest context explains it where that is just what was asked.
        let (answer, _) = probed(&form);
        let told = (answer["verdict"].as_str().unwrap(), answer["cause"].as_str().unwrap());
        assert!(
            [("short_output", "clipped"), ("refused", "length_limit")].contains(&told),
            "{engine}: {answer:#}"
        );
        assert_eq!(answer["moves"], "none", "{engine}: {answer:#}");
        assert_eq!(
            answer["evidence"]["attempts"], 1,
            "clipping is the same every time: {engine}"
        );
    }
}

#[test]
fn a_request_that_waits_for_ever_is_refused_where_metrics_show_it_and_else_a_timeout() {
    for (engine, verdict, cause) in [
        ("vllm", "refused", "kv_cache"),
        ("tgi", "refused", "kv_cache"),
        ("llamacpp", "refused", "kv_cache"),
        // It has no metrics.
        ("transformers", "timeout", "deadline"),
    ] {
        let probed = Probed::of(
            engine,
            json!({ "runtime": "sim", "sim": { "misbehave": { "starve": true } } }),
        );
        let answer = probed.probe(300, 40, 1, Some(2.5));
        assert_eq!(
            (&answer["verdict"], &answer["cause"]),
            (&json!(verdict), &json!(cause)),
            "{engine}: {answer:#}"
        );
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
        let sim = json!({ "time_scale": 0.0, "misbehave": { "fail_request": fails(then) } });
        let limits = json!({ "input": 4000, "output": 40 });
        let probed = Probed::of(engine, json!({ "runtime": "sim", "limits": limits, "sim": sim }));
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
