//! A user opens runs recorded on H200 machines, and this version still reports what was found then.

use std::collections::BTreeMap;
use std::path::PathBuf;

use profiler::run::RecordedRun;
use serde_json::Value;

use crate::support::{Outcome, Profiler};

const GIB: f64 = 1_073_741_824.0;

fn folder(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/data/runs", name].iter().collect()
}

#[track_caller]
fn shown(name: &str) -> Outcome {
    Profiler::new().arg("show").arg(folder(name)).run().success()
}

/// The events of a run's journal.
fn events(name: &str) -> impl Iterator<Item = Value> {
    let journal = std::fs::read_to_string(folder(name).join("journal.jsonl")).unwrap();
    let lines: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines.into_iter()
}

/// The recorded points of a run, each with its verdict and cause.
fn answers(name: &str) -> Vec<Value> {
    events(name).filter(|event| event["event"] == "point").collect()
}

/// The answers to a script's probes, which it need not record as points.
fn probed(name: &str) -> Vec<Value> {
    let probes = events(name).filter(|event| event["event"] == "done" && event["kind"] == "probe");
    probes.map(|event| event["answer"].clone()).collect()
}

/// The verdict of each probed value of an axis.
fn verdicts(name: &str, axis: &str) -> BTreeMap<u64, String> {
    let answers = answers(name).into_iter().map(|answer| {
        let verdict = answer["verdict"].as_str().unwrap().to_owned();
        (answer["point"][axis].as_u64().unwrap(), verdict)
    });
    answers.collect()
}

/// The parts of a breakdown, in GiB.
#[track_caller]
fn parts(breakdown: &Value) -> BTreeMap<String, f64> {
    let parts = breakdown["parts"].as_array().unwrap().iter().map(|part| {
        let name = part["component"].as_str().unwrap().to_owned();
        (name, part["bytes"].as_f64().unwrap() / GIB)
    });
    parts.collect()
}

fn result(name: &str) -> Value {
    Profiler::new()
        .args(["show", "--json"])
        .arg(folder(name))
        .run()
        .success()
        .json()["result"]
        .clone()
}

#[test]
fn each_script_says_first_what_it_found_on_a_real_engine() {
    let found = [
        (
            "vllm-not-reached",
            "limit not reached: everything up to input=126976 output=4096 fits",
        ),
        (
            "vllm-default",
            "input + output ≤ 62,864 tokens (KV cache): fits up to 62,832 (tested); the engine reports 62,864; nothing above was sent",
        ),
        (
            "vllm-how-many",
            "concurrency ≤ 372 at input=2000 output=500 (KV cache); 393 fails",
        ),
        (
            "vllm-slo",
            "up to 40 concurrent requests meet TPOT <= 20 ms, TTFT <= 500 ms",
        ),
        (
            "vllm-sweep",
            "saturates at 64 concurrent requests: 5,179 output tokens/s",
        ),
        (
            "sglang-sweep",
            "saturates at 64 concurrent requests: 5,148 output tokens/s",
        ),
        ("vllm-batch", "4 of 4 configurations were measured"),
        ("vllm-kv-cache", "KV cache full for 7.86 s, 21.2 % of the time"),
        (
            "vllm-bisect",
            "concurrency × (input + output) ≤ 63,344 tokens (KV cache); 64,000 fails",
        ),
        (
            "vllm-model-guided",
            "concurrency × (input + output) ≤ 63,344 tokens (KV cache), confirmed to ±1,264",
        ),
        (
            "vllm-grid",
            "concurrency × (input + output) ≤ 22,630 tokens (KV cache), confirmed to ±553 (the engine reports 23,248)",
        ),
        (
            "vllm-neighbours",
            "input + output ≤ 23,248 tokens (KV cache): fits up to 21,687 (tested); the engine reports 23,248; 33,024 fails",
        ),
        (
            "vllm-kv-dtype",
            "kv_cache_dtype=fp8: seen, but not judged: 2.0x KV tokens (446848 against 223680)",
        ),
        (
            "vllm-13b-fp8-verified",
            "concurrency × (input + output) ≤ 24,800 tokens (KV cache), confirmed to ±608",
        ),
        (
            "vllm-8b-verified",
            "concurrency × (input + output) ≤ 48,736 tokens (KV cache), confirmed to ±864",
        ),
        (
            "vllm-hybrid-verified",
            "at least 32 concurrent requests of 1,024 + 128 tokens (62 predicted), 17 concurrent requests of 16,384 + 128 tokens; no single formula agrees with every answer",
        ),
        (
            "vllm-sglang",
            "no difference in throughput seen between sglang and vllm",
        ),
        (
            "docker-three-engines",
            "no difference in throughput seen between sglang and vllm; transformers is up to 96 ± 63 % slower than vllm at 1 to 8 concurrent requests",
        ),
        (
            "docker-sglang",
            "input + output ≤ 116,214 tokens (KV cache), confirmed to ±32",
        ),
        ("docker-profile", "1 of 1 configurations were measured"),
        (
            "vllm-tune-64-cut",
            "not saturated up to 64 concurrent requests: 6,585 output tokens/s, mean TTFT 815 ms",
        ),
        (
            "vllm-tune-64",
            "7128 steady output tokens/s per GPU at 64 concurrent requests, 7.42 % more than the defaults (at least 6.28 %)",
        ),
        ("vllm-quality", "kv_cache_dtype=fp8: 98.7 % of 1024 tokens agree"),
        (
            "vllm-quality-e5m2",
            "kv_cache_dtype=fp8_e5m2: 96.3 % of 1024 tokens agree",
        ),
        ("vllm-tune-1", "the defaults are as good: 196 output tokens/s per GPU"),
        ("vllm-random-64", "best of 7"),
        (
            "vllm-26-longest",
            "input + output ≤ 108,672 tokens (KV cache): fits up to 108,640 (tested); the engine reports 108,672",
        ),
        (
            "vllm-26-memory",
            "memory of vllm: KV cache 55.8 GiB of 70.6 GiB used; weights 13.5 GiB",
        ),
        (
            "vllm-26-load",
            "not saturated up to 64 concurrent requests: 3,217 output tokens/s",
        ),
        (
            "vllm-tensor-parallel",
            "tensor_parallel=2: seen, but not judged: 2.5x KV tokens (519392 against 204416) and 4.20 GiB more",
        ),
        (
            "transformers-two-lengths",
            "a request of 80,512 + 469 tokens; no single formula",
        ),
    ];
    for (name, finding) in found {
        let text = shown(name).nowhere("SIMULATED").stdout;
        let first = text.lines().next().unwrap_or_default();
        assert!(first.contains(finding), "{name}\n{text}");
    }
}

/// The server reports a configured capacity that did not fit in memory, so no KV cache is shown as left.
#[test]
fn what_did_not_hold_is_no_room() {
    shown("tgi-oom")
        .stdout("GPU memory: 290.6 MiB unused at concurrency=8 input=4160 output=96")
        .nowhere("of 400,000 tokens left");
    shown("sglang-longest").stdout("KV cache: 2 of 70,875 tokens left");
}

#[test]
fn the_longest_context_that_vllm_answers_is_found_to_the_token() {
    shown("vllm-longest")
        .stdout("input=63265 output=64")
        .nowhere("SIMULATED");
    let asked = verdicts("vllm-longest", "input");
    assert_eq!(asked[&63_265], "ok");
    // Within the 63,344 tokens that the engine claims, yet the request would wait forever.
    assert_eq!(asked[&63_266], "refused");
    assert_eq!(asked[&63_280], "refused");
    assert_eq!(asked[&63_297], "not_sent");
}

#[test]
fn the_search_over_concurrency_agrees_with_asking_every_one() {
    shown("vllm-concurrency").stdout("concurrency ≤ 29 at input=2000 output=128 (KV cache); 30 fails");
    let searched = verdicts("vllm-concurrency", "concurrency");
    let direct = verdicts("vllm-concurrency-direct", "concurrency");
    assert!(searched.len() == 7 && direct.len() == 24);
    for (concurrency, verdict) in &direct {
        let expected = if *concurrency <= 29 { "ok" } else { "preempted" };
        assert_eq!(verdict, expected, "{concurrency}");
    }
    for (concurrency, verdict) in &searched {
        assert_eq!(direct.get(concurrency).unwrap_or(verdict), verdict, "{concurrency}");
    }
    assert!(searched.contains_key(&29) && searched.contains_key(&30));
}

#[test]
fn the_boundary_of_concurrency_and_length_is_where_vllm_says() {
    shown("vllm-capacity")
        .stdout("concurrency × (input + output) ≤ 223,200 tokens (KV cache)")
        .nowhere("predicts")
        .stdout("26 concurrent requests of 8,192 + 256 tokens")
        .stdout("at 2 ends and in the middle, 21 probes, 1 engine start");
    let answers = answers("vllm-capacity");
    assert_eq!(answers.len(), 21);
    for event in answers {
        let side = |name: &str| event["point"][name].as_u64().unwrap();
        let tokens = side("concurrency") * (side("input") + side("output"));
        // The KV cache capacity that the server reports.
        let expected = if tokens <= 223_200 { "ok" } else { "preempted" };
        assert_eq!(event["verdict"], expected, "{}", event["point"]);
    }
}

/// The limit equals the KV cache that vLLM reports, whichever strategy finds it, and every failure has KV cache as its
/// cause.
#[test]
fn strategies_agree_on_what_the_kv_cache_holds() {
    let runs = [
        ("vllm-bisect", 23, 63_344),
        ("vllm-model-guided", 7, 63_344),
        ("vllm-grid", 23, 23_248),
        ("vllm-13b-fp8-verified", 8, 24_800),
    ];
    for (name, probes, tokens) in runs {
        let answers = answers(name);
        assert_eq!(answers.len(), probes, "{name}");
        for answer in answers {
            let side = |name: &str| answer["point"][name].as_u64().unwrap();
            // The last token is generated but not cached. The rest occupies whole blocks.
            let each = (side("input") + side("output") - 1).next_multiple_of(16);
            let fits = side("concurrency") * each <= tokens;
            assert_eq!(answer["verdict"] == "ok", fits, "{name}: {}", answer["point"]);
            assert!(fits || answer["cause"] == "kv_cache", "{name}: {answer}");
        }
    }
}

/// An independent client sent the same points to the same server and got the same verdicts: beside a hybrid model, and
/// beside an engine in a container that somebody else started.
#[test]
fn an_independent_client_agrees_near_the_limit() {
    for name in ["vllm-hybrid-points", "docker-8b-points"] {
        let checked = std::fs::read(folder(name).join("check.json")).unwrap();
        let checked: Vec<Value> = serde_json::from_slice(&checked).unwrap();
        let answers = probed(name);
        assert_eq!((checked.len(), answers.len()), (20, 20), "{name}");
        for row in checked {
            let side = |index: usize| &row["point"][index];
            let is_it = |point: &Value| {
                (&point["concurrency"], &point["input"], &point["output"]) == (side(0), side(1), side(2))
            };
            let answer = answers.iter().find(|answer| is_it(&answer["point"])).unwrap();
            assert_eq!(answer["verdict"] == "ok", row["fits"] == true, "{name}: {row}");
        }
    }
}

/// The engine reports its blocks as requests of the longest length: 233 requests of 256 + 200 tokens by its tokens, 234 by
/// its blocks. The report is verified none the less.
#[test]
fn one_request_more_than_reported_does_not_disprove_a_report() {
    let search = &result("docker-8b-concurrency")["search"];
    assert_eq!(search["verified"]["by"], "report", "{search}");
    assert_eq!(
        (&search["probes"], &search["starts"]),
        (&12.into(), &1.into()),
        "{search}"
    );
    let asked = answers("docker-8b-concurrency");
    let of_shortest = asked.iter().filter(|answer| answer["point"]["input"] == 256);
    let verdicts: BTreeMap<_, _> = of_shortest
        .map(|answer| {
            (
                answer["point"]["concurrency"].as_u64().unwrap(),
                answer["verdict"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(verdicts, BTreeMap::from([(233, "ok"), (234, "ok"), (241, "preempted")]));
}

/// Attention and Mamba-2 in every layer, in Docker: blocks of 1,568 tokens and one block of state for each sequence, from
/// one pool of 294. An independent client asked twelve points next to that limit of the same engine.
#[test]
fn the_law_of_a_hybrid_model_in_docker_is_found_and_an_independent_client_agrees() {
    let search = &result("docker-falcon-h1")["search"];
    assert_eq!(
        search["verified"]["formula"], "concurrency × (⌈(input + output) / 1,568⌉ + 1) ≤ 294",
        "{search}"
    );
    assert_eq!(search["probes"], 13, "{search}");
    let fits = |point: &Value| {
        let side = |name: &str| point[name].as_u64().unwrap();
        // The last token is generated but not cached.
        let blocks = (side("input") + side("output") - 1).div_ceil(1_568) + 1;
        side("concurrency") * blocks <= 294
    };
    for answer in answers("docker-falcon-h1") {
        assert_eq!(answer["verdict"] == "ok", fits(&answer["point"]), "{answer}");
    }
    let checked = std::fs::read(folder("docker-falcon-h1").join("check.json")).unwrap();
    let checked: Vec<Value> = serde_json::from_slice(&checked).unwrap();
    assert_eq!(checked.len(), 12);
    for row in checked {
        assert_eq!(row["fits"], fits(&row["point"]), "{row}");
    }
}

/// vLLM chooses the longest context that fits: no start is lost to one that cannot.
#[test]
fn the_longest_context_in_docker_takes_one_start() {
    shown("docker-8b-one-start")
        .stdout("input + output ≤ 108,672 tokens (KV cache), confirmed to ±32")
        .stdout("1 engine start");
}

#[test]
fn the_memory_of_an_engine_is_the_same_in_docker_and_as_a_process() {
    let [docker, process] = ["docker-8b-memory", "process-8b-memory"].map(|name| parts(&result(name)["all"]));
    assert!(docker.keys().eq(process.keys()) && docker.len() >= 5, "{docker:?}");
    for (component, gib) in &docker {
        let other = process[component];
        assert!(
            (gib - other).abs() <= 0.01 * other.max(1.0),
            "{component}: {gib} and {other}"
        );
    }
}

/// `search.parallel=2`: two engines, each on its own GPU.
#[test]
fn two_engines_find_the_frontier_of_one() {
    let [one, two] = ["vllm-one-engine", "vllm-two-engines"].map(|name| {
        RecordedRun::read(&folder(name)).unwrap().boundaries[0]
            .rebuild()
            .unwrap()
    });
    assert_eq!(one.frontier().unwrap(), two.frontier().unwrap());
    assert_eq!(one.failing().unwrap(), two.failing().unwrap());
}

/// One load ran three times on one H100: alone, and while a fleet ran it on the machine's other GPU too.
#[test]
fn a_load_beside_another_one_on_its_own_gpu_is_as_alone() {
    let compared = Profiler::new()
        .args(["compare", "--json"])
        .args(["vllm-load-alone", "vllm-load-of-two"].map(folder))
        .run()
        .success();
    let compared = compared.json();
    let findings = compared["findings"].as_array().unwrap();
    for name in ["output_throughput", "median_ttft_ms", "median_tpot_ms", "median_itl_ms"] {
        let of_name = findings.iter().filter(|one| one["name"] == name);
        let verdicts: Vec<&Value> = of_name.map(|one| &one["verdict"]).collect();
        assert_eq!(
            verdicts, ["not significant"; 2],
            "{name}, at 8 and 32 concurrent requests"
        );
    }
}

/// Real out-of-memory failures on two axes: no fitting point is harder than a failing one.
#[test]
fn out_of_memory_of_transformers_is_monotone_in_both_lengths() {
    let answers = answers("transformers-two-lengths");
    let (fits, fails): (Vec<&Value>, Vec<&Value>) = answers.iter().partition(|answer| answer["verdict"] == "ok");
    assert!(
        fits.len() >= 5 && fails.len() >= 5,
        "{} and {}",
        fits.len(),
        fails.len()
    );
    for fail in &fails {
        assert_eq!((&fail["verdict"], &fail["cause"]), (&"oom".into(), &"cuda".into()));
        let harder = |fit: &&&Value| {
            ["input", "output"]
                .iter()
                .all(|axis| fit["point"][axis].as_u64() >= fail["point"][axis].as_u64())
        };
        assert_eq!(fits.iter().find(harder), None, "harder than {}", fail["point"]);
    }
}

/// In Docker too, where the server survives: what failed first was asked before what fitted.
#[test]
fn transformers_in_docker_runs_out_of_memory_and_goes_on() {
    let asked = verdicts("docker-transformers", "input");
    let expected = [
        (131_008, "oom"),
        (40_000, "ok"),
        (75_794, "oom"),
        (52_964, "ok"),
        (64_000, "ok"),
    ];
    assert_eq!(asked.len(), expected.len(), "{asked:?}");
    for (input, verdict) in expected {
        assert_eq!(asked[&input], verdict, "{input}");
    }
    shown("docker-transformers").stdout("1 engine start");
}

/// `transformers serve` answers one request at a time: four at once wait for each other.
#[test]
fn transformers_in_docker_serves_one_request_at_a_time() {
    let levels = &result("docker-transformers-throughput")["workloads"][0]["levels"];
    let figure = |level: usize, name: &str| levels[level][name].as_f64().unwrap();
    let rate = figure(1, "output_throughput") / figure(0, "output_throughput");
    let latency = figure(1, "mean_e2el_ms") / figure(0, "mean_e2el_ms");
    assert!(
        (0.95..1.05).contains(&rate) && (3.5..4.5).contains(&latency),
        "{rate} {latency}"
    );
}

#[test]
fn a_load_of_vllm_in_docker_grows_with_its_concurrency() {
    let levels = result("docker-8b-throughput")["workloads"][0]["levels"].clone();
    let rates = levels
        .as_array()
        .unwrap()
        .iter()
        .map(|level| level["output_throughput"].as_f64().unwrap());
    let rates: Vec<f64> = rates.collect();
    assert!(
        rates.len() == 3 && rates.is_sorted() && rates[2] > 10.0 * rates[0],
        "{rates:?}"
    );
}

#[test]
fn sglang_answers_all_that_its_cache_holds_but_two_tokens() {
    shown("sglang-longest")
        .stdout("70,874 fails (the engine reports 70,875)")
        .stdout("input=70809 output=64")
        .nowhere("SIMULATED");
    let asked = verdicts("sglang-longest", "input");
    // The KV cache has 70,875 tokens.
    assert_eq!([&asked[&70_809], &asked[&70_810]], ["ok", "refused"]);
    let together = verdicts("sglang-concurrency", "concurrency");
    assert_eq!([&together[&33], &together[&34]], ["ok", "queued"]);
}

#[test]
fn the_memory_of_sglang_is_explained_but_for_less_than_half_a_gib() {
    let parts = parts(&result("sglang-breakdown")["all"]);
    assert!(parts["unexplained"].abs() < 0.5, "{parts:?}");
    assert!((parts["weights"] - 13.55).abs() < 0.01 && (parts["kv_pool"] - 111.66).abs() < 0.01);
}

#[test]
fn a_sweep_over_sglang_tells_its_knee_and_its_preemptions() {
    shown("sglang-sweep")
        .stdout("knee at concurrency 64: 5148 output tokens/s")
        .stdout("preemption from concurrency 128 on, not at 64");
}

#[test]
fn a_cuda_oom_within_a_request_is_found_and_survived() {
    shown("transformers-12gib").stdout("(input=78202 output=64 fitted, less 5 %)");
    let asked = verdicts("transformers-12gib", "input");
    assert!(asked[&78_202] == "ok" && asked[&79_217] == "oom");
    let run = RecordedRun::read(&folder("transformers-12gib")).unwrap();
    let answers: Vec<Value> = run.boundaries[0]
        .points
        .iter()
        .map(|(_, answer)| answer.value())
        .collect();
    assert_eq!(answers.iter().filter(|answer| answer["started"] == true).count(), 1);
    for answer in answers.iter().filter(|answer| answer["verdict"] == "oom") {
        assert_eq!(answer["cause"], "cuda");
        assert_eq!(answer["evidence"]["survived"], true);
        assert_eq!(answer["evidence"]["phase"], "request");
        assert!(!answer["evidence"]["allocations"].as_array().unwrap().is_empty());
    }
}

#[test]
fn the_memory_of_vllm_is_explained_but_for_less_than_half_a_gib() {
    let breakdown = result("vllm-breakdown");
    let parts = parts(&breakdown["all"]);
    assert!(parts["unexplained"].abs() < 0.5, "{parts:?}");
    assert!((parts["weights"] - 13.54).abs() < 0.01 && (parts["kv_pool"] - 111.13).abs() < 0.01);
    let outermost: f64 = parts
        .iter()
        .filter(|(name, _)| *name != "kv_used")
        .map(|(_, gib)| gib)
        .sum();
    assert!((outermost - breakdown["all"]["total"].as_f64().unwrap() / GIB).abs() < 1e-6);
}

#[test]
fn two_gpus_are_told_apart() {
    for name in ["vllm-two-gpus", "docker-two-gpus"] {
        let two = result(name);
        let each = two["per_gpu"].as_array().unwrap();
        assert_eq!(each.len(), 2);
        for gpu in each {
            let parts = parts(gpu);
            assert!((parts["weights"] - 6.8).abs() < 0.01, "{name}: {parts:?}");
            assert!(parts["unexplained"].abs() < 0.5, "{name}: {parts:?}");
        }
        let sum: u64 = each.iter().map(|gpu| gpu["total"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), two["all"]["total"].as_u64());
    }
}

/// `device_map` is auto: the layers of a model that one GPU would hold are spread over both.
#[test]
fn transformers_spreads_a_model_over_two_gpus() {
    let memory = std::fs::read_to_string(folder("transformers-two-gpus").join("memory/engine-1.csv")).unwrap();
    let mut rows = csv::Reader::from_reader(memory.as_bytes());
    let used: Vec<[u64; 2]> = rows
        .records()
        .map(|row| [5, 6].map(|column| row.as_ref().unwrap()[column].parse().unwrap()))
        .collect();
    for gpu in [0, 1] {
        let most = used.iter().map(|both| both[gpu]).max().unwrap();
        assert!(most as f64 > GIB, "{gpu}: {most}");
    }
}

#[test]
fn the_memory_of_transformers_on_two_gpus_adds_up() {
    let found = result("transformers-memory-two-gpus");
    for gpu in found["per_gpu"].as_array().unwrap() {
        let parts = parts(gpu);
        assert!((parts["weights"] - 1.03).abs() < 0.01, "{parts:?}");
        assert!(parts["unexplained"].abs() < 0.01, "{parts:?}");
    }
}

#[test]
fn the_layers_of_a_model_on_a_gpu_add_up() {
    let found = result("transformers-layers");
    let layers = found["layers"].as_array().unwrap();
    let weights: u64 = layers
        .iter()
        .map(|layer| layer["parameter_bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(Some(weights), found["parameter_bytes"].as_u64());
    assert_eq!(
        layers
            .iter()
            .filter(|layer| layer["type"] == "LlamaDecoderLayer")
            .count(),
        32
    );
    let on_gpu = |row: &&Value| row["device_us"].as_f64().is_some_and(|time| time > 0.0);
    assert!(found["operations"].as_array().unwrap().iter().filter(on_gpu).count() > 10);
    // Keys and values of 4,096 and then 4,097 tokens, of 128 KiB each.
    let cached = &found["generated"]["kv_bytes"];
    assert_eq!(cached[1].as_u64().unwrap() - cached[0].as_u64().unwrap(), 128 << 10);
}

#[test]
fn the_kv_cache_and_the_graphs_of_vllm_in_docker_are_measured() {
    shown("docker-kv-cache").stdout("128.04 KiB a token");
    let graphs = result("docker-cuda-graphs");
    let rate = |setting: bool| {
        let trials = graphs["trials"].as_array().unwrap();
        let of = |trial: &&Value| {
            graphs["settings"][trial["setting"].as_u64().unwrap() as usize]["options"]["cuda_graphs"] == setting
        };
        trials.iter().find(of).unwrap()["figures"]["output_throughput"]
            .as_f64()
            .unwrap()
    };
    assert!(rate(true) > 3.0 * rate(false));
    let slo = result("docker-slo");
    assert_eq!((&slo["meets"], &slo["fails"]), (&Value::from(256), &Value::Null));
}

#[test]
fn an_estimate_of_the_architecture_comes_near_what_vllm_measured() {
    let config = include_str!("../data/shapes/llama-8b-shape.config.json");
    let compared = Profiler::new()
        .file("shape/config.json", config)
        .arg("compare")
        .arg(folder("vllm-breakdown"))
        .args(["--with", "estimate", "--model", "shape", "--json"])
        .run()
        .success()
        .json();
    let off = |component: &str| {
        let rows = compared["cases"][0]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["term"] == component).unwrap();
        row["percent"].as_f64().unwrap()
    };
    assert!(off("weights").abs() < 1.0, "{compared}");
    assert!(off("kv_pool").abs() < 0.1, "{compared}");
}

#[test]
fn what_tensor_parallel_adds_is_measured_against_one_gpu() {
    let script = r#"
        let p = params(#{ one: param(#{}, "the breakdown on one GPU"), two: param(#{}, "the breakdown on two") });
        breakdown::note("vllm", #{ devices: p.two.per_gpu, one_gpu: p.one.all })
    "#;
    let given = serde_json::json!({ "one": result("vllm-one-gpu"), "two": result("vllm-two-gpus") });
    let found = Profiler::new()
        .file("adds.rhai", script)
        .file("given.json", given.to_string())
        .args(["run", "adds.rhai", "--params", "given.json", "--json"])
        .run()
        .success()
        .json();
    let adds = found["result"]["overhead"]["bytes"].as_f64().unwrap() / GIB;
    // 21.47 GiB beside the KV cache on two GPUs, 16.97 on one.
    assert!((adds - 4.50).abs() < 0.01, "{adds}");
}

/// Mean, minimum and maximum of a column, over the rows of one client at one concurrency.
fn of_client(rows: &[Vec<String>], client: &str, concurrency: &str, column: usize) -> (f64, f64, f64) {
    let values: Vec<f64> = rows
        .iter()
        .filter(|row| row[0] == client && row[1] == concurrency)
        .map(|row| row[column].parse().unwrap())
        .collect();
    let mean = values.iter().sum::<f64>() / f64::from(u32::try_from(values.len()).unwrap());
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (mean, least, values.iter().copied().fold(0.0, f64::max))
}

/// Three clients measured the same loads on the same real vLLM (`tests/data/sweep-h200`), as the README reports.
#[test]
fn loads_agree_with_vllms_own_bench() {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data/sweep-h200/three-clients.csv"]
        .iter()
        .collect();
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Vec<String>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect();
    for concurrency in ["1", "2", "4", "8", "16", "32", "64", "128", "256"] {
        // Output throughput, mean TPOT and mean end-to-end latency.
        for column in [2, 4, 5] {
            let (ours, ..) = of_client(&rows, "profiler", concurrency, column);
            let (theirs, ..) = of_client(&rows, "vllm-rs", concurrency, column);
            assert!(
                (ours / theirs - 1.0).abs() < 0.03,
                "{concurrency}, column {column}: {ours} and {theirs}"
            );
        }
    }
}
