//! Creates the two runs that a user compares, with the program itself.

use crate::support::{Outcome, Profiler};

/// Runs a search on the simulated engine with this share of its memory; `confirm` is the option of the search.
#[track_caller]
pub(super) fn searched(memory: f64, confirm: u64, out: &str) -> Outcome {
    let script = format!(
        r#"import "std/engines" as engines;
        import "std/search" as search;
        let map = boundary(#{{ input: [128, 8192], output: [128, 4096] }}, #{{}});
        let engine = engines::describe("sim", #{{ memory_fraction: {memory}, sim: #{{ time_scale: 0.0 }} }});
        search::adaptive(map, |point| engine.probe(point), #{{ confirm: {confirm} }});
        report(map)"#
    );
    kept(&script, out)
}

/// Runs a load on the simulated engine at this time scale.
#[track_caller]
pub(super) fn loaded(scale: f64, repeats: usize) -> Outcome {
    let script = format!(
        r#"import "std/engines" as engines;
        let engine = engines::describe("sim", #{{ limits: #{{ input: 64, output: 16, concurrency: 2 }}, sim: #{{ time_scale: {scale}, gather_ms: 0 }} }});
        for repeat in 0..{repeats} {{ engine.load(#{{ concurrency: 2, requests: 8, input: 64, output: 16 }}); }}
        0"#
    );
    kept(&script, "r")
}

/// Runs a script that records a boundary from these points and answers; no engine is simulated.
#[track_caller]
pub(super) fn drawn(axes: &str, points: &[(u64, u64, &str)]) -> Outcome {
    let records = points
        .iter()
        .map(|(input, output, answer)| format!(r#"map.record(#{{ input: {input}, output: {output} }}, "{answer}");"#));
    let records: String = records.collect();
    kept(
        &format!("let map = boundary({axes}, #{{}}); {records} report(map); 0"),
        "r",
    )
}

/// Like `drawn`, for a run that was killed after these points.
#[track_caller]
pub(super) fn cut_off(axes: &str, points: &[(u64, u64, &str)]) -> Outcome {
    let records = points
        .iter()
        .map(|(input, output, answer)| format!(r#"map.record(#{{ input: {input}, output: {output} }}, "{answer}");"#));
    let records: String = records.collect();
    let script = format!("let map = boundary({axes}, #{{}}); {records} throw \"over\"");
    let profiler = Profiler::new().file("s.rhai", script);
    let outcome = profiler.args(["run", "s.rhai", "--out", "r"]).run();
    let manifest = outcome.folder().join("r/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    assert!(text.contains("\"status\": \"failed\""), "{text}");
    std::fs::write(&manifest, text.replace("\"failed\"", "\"running\"")).unwrap();
    outcome
}

#[track_caller]
fn kept(script: &str, out: &str) -> Outcome {
    let profiler = Profiler::new().file("s.rhai", script);
    let outcome = profiler.args(["run", "s.rhai", "--out", out]).run();
    // The exit status is 1 if nothing fits.
    let nothing_fits = outcome.code == Some(1);
    if nothing_fits { outcome } else { outcome.success() }
}

/// Runs `profiler compare` on the runs in the folders `r` of both outcomes.
pub(super) fn compare(before: &Outcome, after: &Outcome, further: &[&str]) -> Outcome {
    let profiler = Profiler::new().env("COLUMNS", "160").arg("compare");
    let profiler = profiler.arg(before.folder().join("r")).arg(after.folder().join("r"));
    profiler.args(further).run()
}
