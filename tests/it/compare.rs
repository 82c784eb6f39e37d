//! A user runs `profiler compare`: runs against estimates, figures of a calculator and files of other tools, and as a
//! check in CI.

mod gate;
pub mod markdown;
mod two_runs;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::import::fixture;
use crate::support::{Outcome, Profiler};

const GIB: u64 = 1 << 30;

/// The weights of Llama-3.1-8B in bytes: 8,030,261,248 parameters of 2 bytes.
const WEIGHTS: u64 = 16_060_522_496;

/// The KV cache of one of its tokens in bytes: 32 layers, 8 KV heads of 128, keys and values of 2 bytes.
const TOKEN: u64 = 131_072;

/// A run with a breakdown into these parts, plus 1 GiB that nothing explains. Its folder is removed when the outcome is
/// dropped.
fn run(parts: &[(&str, u64)]) -> Outcome {
    let pool = parts.iter().any(|(name, _)| *name == "kv_pool");
    let outer = parts.iter().filter(|(name, _)| !pool || *name != "kv_used");
    let total = outer.map(|(_, bytes)| bytes).sum::<u64>() + GIB;
    let parts = parts.iter().map(|(name, bytes)| {
        let within = if pool && *name == "kv_used" {
            r#", within: "kv_pool""#
        } else {
            ""
        };
        format!(r#"#{{ component: "{name}", bytes: {bytes}, provenance: "measured", source: "by hand"{within} }}"#)
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    script(&format!(
        r#"breakdown::note("peak", #{{ devices: [#{{ device: "gpu0", total: {total}, parts: [{parts}] }}] }}); 0"#
    ))
}

#[track_caller]
fn script(text: &str) -> Outcome {
    let profiler = Profiler::new().file("s.rhai", text);
    profiler.args(["run", "s.rhai", "--out", "r"]).run().success()
}

/// Runs `profiler compare` on that run, with Llama-3.1-8B in the folder `llama`.
fn compare(run: &Outcome, further: &[&str]) -> Outcome {
    let config = format!(
        "{}/tests/data/shapes/llama-3.1-8b.config.json",
        env!("CARGO_MANIFEST_DIR")
    );
    Profiler::new()
        .file("llama/config.json", std::fs::read(config).unwrap())
        .env("COLUMNS", "160")
        .arg("compare")
        .arg(run.folder().join("r"))
        .args(further)
        .run()
}

#[track_caller]
fn row<'a>(document: &'a Value, term: &str) -> &'a Value {
    let rows = document["cases"][0]["rows"].as_array().unwrap();
    rows.iter()
        .find(|row| row["term"] == term)
        .unwrap_or_else(|| panic!("no `{term}` in {rows:#?}"))
}

fn assumptions(document: &Value) -> Vec<&str> {
    let found = document["cases"][0]["explanations"].as_array().unwrap().iter();
    found.map(|found| found["assumption"].as_str().unwrap()).collect()
}

fn llama() -> Outcome {
    run(&[
        ("weights", WEIGHTS),
        ("kv_used", 2304 * TOKEN),
        ("activations", GIB),
        ("cuda_graphs", GIB / 2),
        ("other_tenants", GIB),
    ])
}

/// The case with that metric in the comparison of two runs, as JSON.
#[track_caller]
fn compared(folders: [PathBuf; 2], case: &str, metric: &str) -> Value {
    let outcome = Profiler::new()
        .arg("compare")
        .args(&folders)
        .arg("--json")
        .run()
        .success();
    let document = outcome.json();
    let findings = document["findings"].as_array().unwrap();
    let is_it = |one: &&Value| one["case"] == case && one["name"] == metric;
    findings
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("no {metric} of {case} in {document:#}"))
        .clone()
}

#[test]
fn searches_of_settings_are_compared_by_the_defaults_and_by_what_they_recommend() {
    let run = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/runs").join(name);
    let name = "the defaults concurrency=64 input=1024 output=1024";
    let found = compared(
        ["vllm-tune-64-cut", "vllm-random-64"].map(run),
        name,
        "steady_output_throughput",
    );
    // Three starts, five loads in all; and one.
    assert!((found["before"].as_f64().unwrap() - 6602.5).abs() < 0.1, "{found}");
    assert!(found["after"].as_f64().unwrap() > 6600.0, "{found}");
    assert!(found["intervals"][0].is_array(), "{found}");
    let found = compared(
        ["vllm-tune-1", "vllm-tune-1"].map(run),
        "recommended input=8192 output=1024",
        "mean_tpot_ms",
    );
    assert_eq!(found["verdict"], "same", "{found}");
}

#[test]
fn qualities_are_compared_by_agreement_and_nats() {
    let quality = |agreement: f64, nats: f64| {
        script(&format!(
            "#{{ agreement: {agreement}, difference: {nats}, tokens: 1024, usual: #{{ difference: 0.001 }} }}"
        ))
    };
    let (fine, alike, coarse) = (quality(0.99, 0.01), quality(0.988, 0.0105), quality(0.9, 0.1));
    let verdict = |other: &Outcome, metric: &str| {
        let folders = [&fine, other].map(|run| run.folder().join("r"));
        compared(folders, "answers", metric)["verdict"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for metric in ["agreement", "nats_per_token"] {
        assert_eq!(verdict(&coarse, metric), "worse", "{metric}");
        assert_eq!(verdict(&alike, metric), "not significant", "{metric}");
    }
}

#[test]
fn figures_of_a_calculator_beside_what_was_measured() {
    let run = llama();
    let figures = "weights=13.5,kv=0.4GB,activations=1,overhead=2.4";
    let document = compare(&run, &["--with", figures, "--json"]).success().json();
    let weights = row(&document, "weights");
    assert_eq!(weights["measured"], WEIGHTS);
    assert_eq!(weights["said"], 14_495_514_624_u64);
    assert_eq!(
        weights["difference"],
        14_495_514_624_i64 - i64::try_from(WEIGHTS).unwrap()
    );
    let percent = |term| row(&document, term)["percent"].as_f64().unwrap();
    assert!(
        (percent("weights") + 9.744_44).abs() < 1e-3,
        "too low is below zero: {}",
        percent("weights")
    );
    assert!(
        (percent("kv") - 32.454_87).abs() < 1e-3,
        "too high is above zero: {}",
        percent("kv")
    );
    assert_eq!(percent("activations"), 0.0);
    // Expected within 2, 15, 30 and 40 %: far beyond, beyond twice, within, and within twice.
    for (term, mark) in [
        ("weights", "poor"),
        ("kv", "poor"),
        ("activations", "good"),
        ("overhead", "fair"),
    ] {
        assert_eq!(row(&document, term)["mark"], mark, "{term}");
    }
    assert!(
        (percent("overhead") - 60.0).abs() < 1e-6,
        "graphs and what is unexplained, without other tenants"
    );
    assert_eq!(
        row(&document, "total")["measured"],
        WEIGHTS + 2304 * TOKEN + GIB + GIB / 2 + GIB
    );
    assert_eq!(document["exceeded"], Value::Array(Vec::new()));
    let text = compare(&run, &["--with", figures]).success();
    let text = text
        .stdout("-9.7 %")
        .stdout("+32.5 %")
        .stdout("figures without a unit are read as GiB: weights, activations, overhead");
    let _ = text.nowhere("MiB");
}

#[test]
fn a_threshold_is_an_exit_status() {
    let run = llama();
    let with = |figures: &str, above: &str| compare(&run, &["--with", figures, "--fail-above", above]);
    let _ = with("weights=13.5,activations=1", "10").success();
    let outcome = with("weights=13.5,activations=1", "9").code(4);
    let _ = outcome
        .stdout("component")
        .stdout("thresholds: 1 exceeded")
        .stderr("thresholds exceeded: weights of peak -9.7 % (*=±9%)");
    let _ = compare(&run, &["--with", "weights=13.5", "--threshold", "weights=+-9%"])
        .code(4)
        .stderr("weights of peak -9.7 % (weights=+-9%)");
    let json = compare(&run, &["--with", "weights=13.5", "--fail-above", "9%", "--json"]).code(4);
    assert_eq!(json.json()["exceeded"][0], "weights of peak -9.7 % (*=±9%)");
    let _ = with("runtime_context=1", "1000")
        .code(2)
        .stderr("could never be exceeded");
    let _ = with("weights=13.5", "many").code(2).stderr("a number of percent");
    let _ = with("weights=13.5", "-1").code(2);
}

#[test]
fn a_threshold_may_be_on_chosen_components() {
    let run = llama();
    let figures = "weights=14.9,activations=7,cuda_graphs=0.5";
    let with = |only: &str| compare(&run, &["--with", figures, "--fail-above", "5", "--only", only]);
    let _ = with("weights,cuda_graphs").success();
    let _ = with("weights,activations")
        .code(4)
        .stderr("activations of peak +600.0 %");
    let _ = with("weights,kv_used").success().stdout("1 within, 1 not compared");
    let strict = ["--with", figures, "--fail-above", "5", "--only", "kv_used", "--strict"];
    let _ = compare(&run, &strict).code(4).stderr("kv_used of peak");
    let other = self::run(&[("weights", WEIGHTS), ("activations", 7 * GIB)]);
    let other = other.folder().join("r");
    let beside = |only: &str| compare(&run, &[other.to_str().unwrap(), "--fail-above", "5", "--only", only]);
    let _ = beside("weights").success();
    let _ = beside("activations").code(4).stderr("activations of peak +600.0 %");
    let _ = beside("nothing").code(2).stderr("`nothing`");
    let _ = compare(&run, &["--with", figures, "--only", "weights"])
        .code(2)
        .stderr("--fail-above");
}

#[test]
fn what_an_estimate_assumes_is_named() {
    let text = compare(&llama(), &["--with", "estimate", "--model", "llama"]).success();
    let _ = text
        .stdout("runtime_context is an assumption: as one H200 had it")
        .stdout("activations are estimated for a step of all 2048 input tokens");
}

#[test]
fn an_estimate_of_the_same_model_agrees() {
    let run = llama();
    let document = compare(&run, &["--with", "estimate", "--model", "llama", "--json"])
        .success()
        .json();
    assert_eq!(row(&document, "weights")["percent"], 0.0);
    assert_eq!(row(&document, "kv_used")["percent"], 0.0, "2048 tokens in and 256 out");
    assert_eq!(document["cases"][0]["with"]["facts"]["kv_heads"], 8);
    let unknown = compare(&run, &["--with", "estimate"]).code(2);
    let _ = unknown.stderr("does not name its model").stderr("--model");
    let _ = compare(&run, &["--with", "estimate", "--model", "./nowhere"])
        .code(3)
        .stderr("./nowhere");
}

#[test]
fn the_errors_of_an_estimate_are_summed_up_over_several_measurements() {
    let runs = [10, 8, 4].map(|gib| run(&[("weights", gib * GIB)]));
    let others: Vec<_> = runs[1..]
        .iter()
        .map(|run| run.folder().join("r").display().to_string())
        .collect();
    let _ = compare(&runs[0], &[&others[0], &others[1], "--with", "weights=8"])
        .success()
        .stdout("how far the estimate is from 3 measurements")
        .stdout("+26.7 %")
        .stdout("20.0 %")
        .stdout("+100.0 %");
    let _ = compare(&runs[0], &["--with", "weights=8"])
        .success()
        .nowhere("how far the estimate is");
}

#[test]
fn an_estimate_is_of_the_tokens_that_the_pool_holds() {
    let run = script(&format!(
        r#"import "std/engines" as engines;
        let engine = engines::describe("sim", #{{ profile: "llama-8b-24gb-vllm" }});
        engine.start();
        let tokens = engine.info().kv_tokens;
        let part = |name, bytes| #{{ component: name, bytes: bytes, provenance: "measured", source: "by hand" }};
        let used = part.call("kv_used", 1000 * {TOKEN});
        used.within = "kv_pool";
        let parts = [part.call("weights", {WEIGHTS}), part.call("kv_pool", tokens * {TOKEN}), used];
        breakdown::note("peak", #{{ devices: [#{{ total: {WEIGHTS} + tokens * {TOKEN} + {GIB}, parts: parts }}] }});
        tokens"#
    ));
    let tokens: u64 = run.stdout.trim().lines().last().unwrap().parse().unwrap();
    let document = compare(&run, &["--with", "estimate", "--model", "llama", "--json"])
        .success()
        .json();
    let pool = row(&document, "kv_pool");
    assert_eq!(
        (pool["said"].as_u64(), &pool["percent"]),
        (Some(tokens * TOKEN), &Value::from(0.0))
    );
    assert_eq!(row(&document, "kv_used")["said"], 1000 * TOKEN);
    assert_eq!(document["simulated"], true);
    assert!(assumptions(&document).is_empty());
    let _ = compare(&run, &["--with", "estimate", "--model", "llama"])
        .success()
        .stdout("SIMULATED");
}

#[test]
fn the_wrong_assumption_is_named_with_the_figures_that_show_it() {
    let run = llama();
    let named = |figures: &str| {
        let document = compare(&run, &["--with", figures, "--model", "llama", "--json"])
            .success()
            .json();
        assumptions(&document)
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(named("kv=1207959552B"), ["gqa"]);
    assert_eq!(named("kv=603979776B"), ["kv_dtype"]);
    assert_eq!(named("weights=32121044992B"), ["weight_dtype"]);
    assert_eq!(named("weights=16.06"), ["gb_gib"]);
    assert_eq!(named("activations=32"), ["all_layers_at_once"]);
    assert!(
        named("weights=14,kv=0.35,activations=0.7").is_empty(),
        "nothing explains these"
    );
    let text = compare(&run, &["--with", "kv=1207959552B", "--model", "llama"]).success();
    let _ = text.stdout("32 query heads share 8 KV heads").stdout("4.00 times");
}

#[test]
fn a_profile_of_llm_sizer_beside_an_estimate() {
    let compare = |name: &str, further: &[&str]| {
        let config = format!(
            "{}/tests/data/shapes/llama-3.1-8b.config.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let profiler = Profiler::new().file("llama/config.json", std::fs::read(config).unwrap());
        profiler.arg("compare").arg(fixture(name)).args(further).run()
    };
    // The file's KV cache counts 32 heads where the model has 8: four times our figure for the same tokens.
    let estimate = ["--with", "estimate", "--model", "llama", "--json"];
    let document = compare("llm-sizer-3.0.json", &estimate).success().json();
    let pool = row(&document, "kv_pool")["percent"].as_f64().unwrap();
    assert!(pool.abs() < 0.1, "102.52 GiB hold 839,872 tokens of 128 KiB: {pool}");
    assert_eq!(row(&document, "kv_used")["said"], 16_384 * TOKEN);
    assert_eq!(assumptions(&document), ["gqa"], "of the profile, not of the estimate");
    // The measured total is impossible, so the check must not pass silently.
    let text = std::fs::read_to_string(fixture("llm-sizer-3.0.json")).unwrap();
    let idle = text.replace("\"total_measured_gb\": 124.83", "\"total_measured_gb\": 0.44");
    let gate = Profiler::new()
        .file("idle.json", idle)
        .args(["compare", "idle.json", "--with", "overhead=0", "--fail-above", "100000"])
        .run()
        .code(4);
    let _ = gate
        .stdout("weights_above_peak")
        .stderr("weights_above_peak of input=1024");
    let _ = compare("vllm-bench-run.json", &["--with", "estimate"])
        .code(2)
        .stderr("nothing to compare");
}

#[test]
fn runs_and_files_side_by_side() {
    let (a, b) = (
        llama(),
        run(&[("weights", WEIGHTS), ("kv_used", 4608 * TOKEN), ("activations", GIB)]),
    );
    let b = b.folder().join("r");
    let other = b.to_str().unwrap();
    let text = compare(&a, &[other])
        .success()
        .stdout("weights")
        .stdout("+100.0 %")
        .stdout("[2]");
    let _ = text.stdout("total used");
    let document = compare(&a, &[other, "--json"]).success().json();
    assert_eq!(document["inputs"].as_array().unwrap().len(), 2);
    let findings = document["findings"].as_array().unwrap();
    let finding = |name: &str| findings.iter().find(|finding| finding["name"] == name).unwrap();
    assert_eq!(finding("kv_used")["percent"], 100.0);
    assert_eq!(finding("cuda_graphs")["verdict"], "not compared", "only one has it");
    let three = Profiler::new().env("COLUMNS", "60").arg("compare");
    let three = three.arg(a.folder().join("r")).args([other, other]).run().success();
    let _ = three.stdout("[2] against [1]").stdout("[3] against [1]");
    let _ = compare(&a, &[other, "--fail-above", "50"])
        .code(4)
        .stderr("kv_used of peak +100.0 %");
    let _ = compare(&a, &[other, "--fail-above", "100"]).success();
    let _ = compare(&a, &["--with", other]).success().stdout("the estimate is too ");
    let _ = compare(&a, &[]).code(2).stderr("nothing to compare with");
}

#[test]
fn a_boundary_of_ours_beside_that_of_tgi_profiler() {
    let run = script(
        r#"let map = boundary(#{ input: [2048, 32768], output: [512, 32768] }, #{});
        map.record(#{ input: 2050, output: 12000 }, "ok"); map.record(#{ input: 2050, output: 20000 }, "oom"); report(map); 0"#,
    );
    let file = fixture("tgi-profiler.json");
    let text = compare(&run, &[&file])
        .success()
        .stdout("largest input + output that fits")
        .stdout("14050 tokens");
    let _ = text.stdout("12949 tokens").stdout("not significant");
    let sweep = fixture("vllm-bench-summary.json");
    let both = Profiler::new()
        .args(["compare", &fixture("vllm-bench-run.json"), &sweep])
        .run()
        .success();
    let _ = both
        .stdout("output_throughput")
        .stdout("18.500 tokens/s  not significant")
        .stdout("only")
        .stdout("concurrency=128");
    let nothing = Profiler::new()
        .args(["compare", &file, &sweep, "--fail-above", "5"])
        .run()
        .code(2);
    let _ = nothing.stderr("no figure");
}

#[test]
fn wrong_usage_says_what_can_be_written() {
    let run = llama();
    let refused = |with: &str| compare(&run, &["--with", with]).code(2);
    let _ = refused("weigths=1").stderr("`weights`?");
    let _ = refused("weights=1,weights=2").stderr("given twice");
    let _ = refused("weights=NaN")
        .stderr("`weights`: `NaN` is no size")
        .stderr("13.5GB");
    let _ = refused("nonsense").stderr("--with FILE");
    let _ = compare(&run, &["nowhere"]).code(2).stderr("`nowhere`");
    let help = Profiler::new().args(["compare", "--help"]).run().success();
    let _ = help
        .stdout("--fail-above")
        .stdout("(13.5GB, 600MiB)")
        .stdout("status 4");
}
