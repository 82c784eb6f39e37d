//! A user draws pictures in a script, finds them in the run and in the report, and reads them as text in the terminal.

use std::fs;

use serde_json::Value;

use crate::support::Profiler;

const SCRIPT: &str = r#"
let sweep = [[1, 60.0], [8, 400.5], [64, 1833.0]];
print(plot::line(#{ title: "Throughput & more", x: "concurrency", y: "tokens/s", series: #{ "<b>vllm</b>": sweep }, log: ["x"] }));
print(plot::scatter(#{ title: "Scattered", series: #{ seen: sweep } }));
print(plot::bars(#{ title: "Bars", x: "engine", at: ["vllm", "tgi"], values: [3, 4.5] }));
print(plot::heat_map(#{ title: "Heat", value: "tokens/s", columns: [1, 2], rows: [1], values: [[5, 6]] }));
print(plot::bars(#{ title: "Not kept", at: ["here"], values: [1], keep: false }));
// The second of a name takes the place of the first.
print(plot::bars(#{ title: "Bars, again", name: "bars", at: ["vllm", "tgi"], values: [5, 6] }));
"#;

/// The pictures of a journal, in order.
fn pictures(folder: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let plots = events.filter(|event| event["event"] == "plot");
    plots.map(|event| event["value"].clone()).collect()
}

#[test]
fn a_picture_is_kept_and_told() {
    let run = Profiler::new()
        .file("draws.rhai", SCRIPT)
        .args(["run", "draws.rhai", "--out", "out"])
        .run()
        .success();
    let out = run.folder().join("out");
    let names: Vec<String> = pictures(&out)
        .iter()
        .map(|plot| plot["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["throughput-more", "scattered", "bars", "heat", "bars"]);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("Bars, again") && !page.contains(">Bars<"));
    assert!(!page.contains("<b>vllm</b>") && !page.contains("Not kept</"));
    // Each picture is drawn once for screens and once for phones.
    assert_eq!(page.matches("class=\"plot plot-wide\"").count(), 4);
    assert_eq!(page.matches("class=\"plot plot-narrow\"").count(), 4);
}

#[test]
fn a_misspelt_key_is_told_with_the_nearest_one() {
    let said = |call: &str, words: &str| {
        let run = Profiler::new()
            .file("draws.rhai", call)
            .args(["run", "draws.rhai"])
            .run();
        let _ = run.code(2).stderr(words);
    };
    said(r#"plot::line(#{ titel: "x", series: #{} })"#, "`title`?");
    said(
        r#"plot::bars(#{ title: "x", at: [1, 2], values: [1] })"#,
        "entries: 2, values: 1",
    );
    said(r#"plot::line(#{ title: "x", series: #{}, x: 3 })"#, "a label such as");
    said(
        r#"plot::scatter(#{ title: "x", name: "../x", series: #{} })"#,
        "cannot be named",
    );
}
