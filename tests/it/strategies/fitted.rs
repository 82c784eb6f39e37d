//! A user searches with a fitted memory model: it is verified with few probes where it holds, and dropped where it does
//! not.

use serde_json::{Value, json};

use crate::script::bench::Bench;

/// The simulated engine of transformers, which allocates memory as requests arrive, up to a cap of 12 GiB, and uses
/// about 1.5 GiB of the GPU besides. It is slow enough for its memory to be sampled.
const SETUP: &str = r#"import "std/engines" as engines;
    import "std/model_guided" as model_guided;
    import "std/search" as search;
    let map = boundary(#{ input: [128, 120000], output: [128, 4096] }, #{});
    let engine = engines::describe("transformers", #{ runtime: "sim", sim: #{ time_scale: 0.01 } });"#;

/// The result of a search, and the state of its map.
fn run(search: &str) -> Value {
    let script = format!(
        r"{SETUP}
        let asked = [];
        let probe = |p| {{ let answer = engine.probe(p); asked.push(#{{ point: p, verdict: answer.verdict, peak: answer.peak }}); answer }};
        let done = {search};
        #{{ done: done, asked: asked, coverage: map.coverage(), frontier: map.frontier(), failing: map.failing() }}"
    );
    Bench::script(&script).value()
}

#[test]
fn the_model_of_a_transformers_engine_is_verified_with_few_probes() {
    // 12 GiB of the allocator, 918,552,576 bytes of CUDA context, and 615 MiB of the driver.
    let limit: u64 = 12_884_901_888 + 918_552_576 + 615 * 1_048_576;
    let known = run(&format!(
        "model_guided::search(map, probe, #{{ memory_limit: {limit} }})"
    ));
    let adaptive = run("search::adaptive(map, probe, #{})");
    for (name, result) in [("limit known", &known), ("adaptive", &adaptive)] {
        let failed = result["asked"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["verdict"] != "ok")
            .count();
        eprintln!(
            "{name}: {} probes, {failed} failed, {} starts, {} {}, coverage {:.3}, {}",
            result["done"]["probes"],
            result["done"]["starts"],
            result["done"]["stopped"],
            result["done"]["verified"],
            result["coverage"].as_f64().unwrap(),
            result["done"]["predicted"]
        );
    }
    assert_eq!(known["done"]["stopped"], "verified", "{known}");
    assert_eq!(known["done"]["predicted"]["held"], json!(true));
    assert_eq!(known["done"]["verified"]["ends"], json!(2));
    assert_eq!(known["done"]["verified"]["middle"], json!(1));
    // Proves more than a search without the model, with about as many probes, because both sides are probed close to
    // the limit.
    assert!(known["done"]["probes"].as_i64().unwrap() <= 20, "{known}");
    assert!(known["coverage"].as_f64().unwrap() >= 0.99, "{known}");
}

/// Searches a box where a point takes `bytes`, its answer reports `says`, and 5 GB are available.
fn told(says: &str, options: &str) -> Value {
    let script = format!(
        r#"import "std/model_guided" as model_guided;
        let map = boundary(#{{ input: [128, 32768], output: [128, 32768] }}, #{{}});
        let bytes = |p| 2e9 + 65536.0 * (p.input + p.output);
        let count = 0;
        let probe = |p| {{
            count += 1;
            let bytes = bytes.call(p);
            if bytes <= 5e9 {{ #{{ verdict: "ok", peak: {says} }} }} else {{ "oom" }}
        }};
        let done = model_guided::search(map, probe, {options});
        for p in map.frontier() {{ assert(bytes.call(p) <= 5e9); }}
        for p in map.failing() {{ assert(bytes.call(p) > 5e9); }}
        #{{ done: done, coverage: map.coverage() }}"#
    );
    Bench::script(&script).value()
}

#[test]
fn true_peaks_are_verified_and_lying_or_flat_ones_are_searched_without() {
    let honest = told("bytes", "#{ memory_limit: 5e9 }");
    assert_eq!(honest["done"]["stopped"], "verified", "{honest}");
    assert!(honest["done"]["probes"].as_i64().unwrap() <= 20, "{honest}");
    let without_limit = told("bytes", "#{}");
    assert_eq!(without_limit["done"]["stopped"], "verified", "{without_limit}");
    // Constant peaks, no peaks, erratic peaks, and peaks with half the slope.
    let lies = ["4e9", "()", "2e9 + (count * 7 % 5) * 5e8", "1e9 + bytes / 2.0"];
    for says in lies {
        let result = told(says, "#{ memory_limit: 5e9 }");
        eprintln!(
            "{says}: {} probes, {}",
            result["done"]["probes"], result["done"]["predicted"]
        );
        assert_eq!(result["done"]["predicted"]["held"], json!(false), "{says}: {result}");
        assert_eq!(result["done"]["verified"], json!(null), "{says}: {result}");
        assert_eq!(result["done"]["stopped"], "coverage", "{says}: {result}");
        assert!(result["coverage"].as_f64().unwrap() >= 0.95, "{says}: {result}");
    }
}

#[test]
fn an_engine_that_takes_its_memory_beforehand_tells_no_model_but_reports() {
    let result = Bench::script(
        r#"import "std/engines" as engines;
        import "std/model_guided" as model_guided;
        let box = #{ input: [128, 8192], output: [128, 4096] };
        let engine = engines::describe("sim", #{ sim: #{ time_scale: 0.0 } });
        let map = boundary(box, #{});
        let alone = model_guided::search(map, |p| engine.probe(p), #{ max_probes: 12 });
        let map = boundary(box, #{});
        map.record(map.smallest(), engine.probe(map.smallest()));
        let reported = model_guided::search(map, |p| engine.probe(p), #{ tokens: engine.info().kv_tokens });
        #{ alone: alone, reported: reported }"#,
    );
    let result = result.value();
    let why = result["alone"]["predicted"]["why"].as_str().unwrap();
    assert!(why.contains("preallocates"), "{result}");
    assert_eq!(result["reported"]["stopped"], "verified", "{result}");
}
