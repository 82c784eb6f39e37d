//! A user scores the shipped strategies on known limits, and none of them calls an unsafe point safe.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::Profiler;

fn scoreboard(truths: &str) -> Profiler {
    Profiler::new()
        .arg("run")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/scoreboard.rhai"))
        .arg("--set")
        .arg(format!("truths={truths}"))
}

/// The strategies of the standard library, recognized by their common parameters. A strategy with its own module is
/// called `search`. `verify_report` is left out, because it does not search.
fn shipped() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stdlib");
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "rhai") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let module = file.file_stem().unwrap().to_str().unwrap();
        let functions = text
            .lines()
            .filter_map(|line| line.strip_prefix("fn ")?.strip_suffix("(map, probe, options) {"));
        let functions = functions.filter(|name| *name != "verify_report");
        names.extend(functions.map(|name| if name == "search" { module } else { name }.to_owned()));
    }
    names.sort();
    names
}

#[test]
fn no_strategy_calls_safe_what_is_not() {
    let run = scoreboard(r#"["prefill", "everything", "nothing"]"#)
        .args(["--json", "--out", "out"])
        .run()
        .success();
    let document = run.json();
    // With fifteen boundaries, the page shows the script's own picture and takes none of them for the answer.
    let page = std::fs::read_to_string(run.folder().join("out/report.html")).unwrap();
    assert!(page.contains("<h1>15 boundaries: scoreboard</h1>"), "{page:.3000}");
    assert!(page.contains("Probes until 95 % of what fits is proven") && !page.contains("Boundary 13"));
    let groups = document["result"].as_array().unwrap();
    assert_eq!(groups.len(), 3);
    for group in groups {
        let rows = group["rows"].as_array().unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row["strategy"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            shipped(),
            "a strategy that ships is missing in benches/scoreboard.rhai"
        );
        for row in rows {
            let told = format!("{}: {row}", group["name"]);
            assert_eq!(row["false_safe"], 0, "{told}");
            assert!(
                row["ended"]["starts"].as_u64() <= row["ended"]["probes"].as_u64(),
                "{told}"
            );
            if group["name"] == "everything" {
                // `adaptive` asks for the deciding answer twice.
                let probes = if row["strategy"] == "adaptive" { 2 } else { 1 };
                assert_eq!(
                    (&row["ended"]["probes"], &row["ended"]["share"]),
                    (&json!(probes), &json!(1.0)),
                    "{told}"
                );
            }
            if group["name"] == "nothing" {
                assert!(row["ended"]["probes"].as_u64().unwrap() <= 4, "{told}");
            }
            if group["name"] == "prefill" && row["strategy"] == "adaptive" {
                let proven = row["proven"].as_array().unwrap();
                assert_eq!(proven.len(), 3, "{told}");
                assert!(proven.is_sorted_by_key(|mark| mark["probes"].as_u64()), "{told}");
                // Each failing point kills the engine, and the next probe restarts it.
                assert!(
                    row["ended"]["starts"].as_u64() <= row["ended"]["deaths"].as_u64().map(|deaths| deaths + 1),
                    "{told}"
                );
            }
        }
    }
    assert_eq!(groups[0]["least"], json!([1, 1, 1]));
    assert_eq!(
        (&groups[1]["least"], &groups[2]["least"]),
        (&json!([1, 1, 1]), &json!([0, 0, 0]))
    );
}

#[test]
fn the_table_fits_a_page_and_an_engine_that_lives_starts_once() {
    let shown = scoreboard(r#"["budget_45000"]"#)
        .args(["--set", r#"strategies=["adaptive"]"#])
        .run()
        .success()
        .stdout;
    assert!(shown.contains("least ") && shown.contains("  adaptive "), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    let document = scoreboard(r#"["budget_45000"]"#)
        .args(["--set", r#"strategies=["adaptive"]"#, "--json"])
        .run()
        .success()
        .json();
    let row: &Value = &document["result"][0]["rows"][0];
    assert_eq!(
        (&document["result"][0]["least"][1], &row["ended"]["starts"]),
        (&json!(7), &json!(1)),
        "{row}"
    );
    let verified = &document["result"][0]["verified"];
    assert_eq!(
        (&verified["held"], &verified["places"]),
        (&json!(true), &json!(3)),
        "{verified}"
    );
    assert!(
        verified["probes"].as_u64().unwrap() <= 8 && verified["starts"].as_u64().unwrap() <= 2,
        "{verified}"
    );
}

#[test]
fn an_unknown_truth_is_named_with_the_known_ones() {
    let outcome = scoreboard(r#"["budgets"]"#).run().code(2);
    assert!(
        outcome.stderr.contains("there is no truth `budgets`") && outcome.stderr.contains("budget_45000"),
        "{}",
        outcome.stderr
    );
}
