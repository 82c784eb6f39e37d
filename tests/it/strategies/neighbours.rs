//! A user searches with `std/neighbours`, the method of tgi-profiler, with fewer probes.

use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::{Profiler, killed_and_resumed};

/// A script over the box of tgi-profiler's command line; at most `truth` tokens fit.
fn found(truth: u32, script: &str) -> Value {
    Bench::script(&format!(
        r#"import "std/neighbours" as neighbours;
        let map = boundary(#{{ input: [2048, 32768], output: [512, 32768] }}, #{{}});
        let truth = |p| if p.input + p.output <= {truth} {{ "ok" }} else {{ "oom" }};
        {script}"#
    ))
    .value()
}

/// With the same grid and rounds, tgi-profiler starts 232 to 270 containers for the first limit and 45 to 56 for the
/// second.
#[test]
fn it_asks_a_fraction_of_what_the_predecessor_asks_and_proves_nothing_false() {
    for (truth, most) in [(45_000, 90), (20_000, 40)] {
        let result = found(
            truth,
            r#"let done = neighbours::search(map, |p| {
                assert(map.classify(p) == "unknown" && !map.recorded(p), `asked ${p} though it is known`);
                truth.call(p)
            }, #{ grid_size: 4, refinement_rounds: 6 });
            for p in map.frontier() { assert(truth.call(p) == "ok"); }
            for p in map.failing() { assert(truth.call(p) == "oom"); }
            done.points = map.points().len();
            done"#,
        );
        assert!(result["probes"].as_u64().unwrap() <= most, "{truth}: {result}");
        assert_eq!(result["probes"], result["points"], "{result}");
    }
}

#[test]
fn where_all_fits_or_nothing_does_the_corners_tell() {
    // That nothing fits is asked twice.
    for (verdict, probes) in [("ok", 1), ("oom", 3)] {
        let done = found(0, &format!(r#"neighbours::search(map, |p| "{verdict}", #{{}})"#));
        assert_eq!(
            (&done["probes"], &done["stopped"]),
            (&json!(probes), &json!("coverage"))
        );
    }
}

#[test]
fn a_failure_that_is_not_memory_moves_nothing() {
    let result = found(
        45_000,
        r#"let done = neighbours::search(map, |p| "error", #{ retries: 0 });
        #{ stopped: done.stopped, failing: map.failing() }"#,
    );
    assert_eq!(result, json!({ "stopped": "unanswered", "failing": [] }));
}

#[test]
fn the_same_seed_asks_the_same_points_and_another_one_others() {
    let asked = |seed: u32| {
        found(
            20_000,
            &format!(
                r#"neighbours::search(map, truth, #{{ grid_size: 4, refinement_rounds: 6, m_random: 9, seed: {seed} }});
                map.points().map(|row| row.point)"#
            ),
        )
    };
    assert_eq!(asked(1), asked(1));
    assert_ne!(asked(1), asked(2));
}

#[test]
fn more_rounds_prove_more_and_end() {
    let coverage = |rounds: u32| {
        let result = found(
            45_000,
            &format!(
                r#"let done = neighbours::search(map, truth, #{{ grid_size: 4, refinement_rounds: {rounds} }});
                #{{ coverage: map.coverage(), stopped: done.stopped }}"#
            ),
        );
        (result["coverage"].as_f64().unwrap(), result["stopped"].clone())
    };
    let (none, some, many) = (coverage(0), coverage(2), coverage(100));
    assert!(none.0 < some.0 && some.0 < many.0, "{none:?} {some:?} {many:?}");
    assert_eq!(
        (&none.1, &some.1),
        (&json!("refinement_rounds"), &json!("refinement_rounds"))
    );
    assert_eq!(many.1, "coverage");
    // A region that is narrow enough is not refined.
    let narrow = found(
        45_000,
        "neighbours::search(map, truth, #{ grid_size: 4, refinement_rounds: 50, m_random: 0, k_neighbors: 2, min_refinement_dist: 20000 }).stopped",
    );
    assert_eq!(narrow, "no_new_points");
}

#[test]
fn a_killed_search_ends_as_an_undisturbed_one() {
    let text = r#"import "std/neighbours" as neighbours;
        let map = boundary(#{ input: [2048, 32768], output: [512, 32768] }, #{});
        map.record(#{ input: 3000, output: 9000 }, "ok");
        let probe = |p| { sleep(0.01); if p.input + p.output <= 45000 { "ok" } else { "oom" } };
        let options = #{ grid_size: 4, refinement_rounds: 6, known: [#{ input: 3000, output: 9000 }] };
        let done = neighbours::search(map, probe, options);
        #{ frontier: map.frontier(), points: map.points().len(), probes: done.probes, stopped: done.stopped }"#;
    let undisturbed = Bench::script(text).value();
    let run = Profiler::new()
        .args(["run", "main.rhai", "--out", "killed"])
        .file("main.rhai", text);
    assert_eq!(killed_and_resumed(run, 25), undisturbed);
}

#[test]
fn a_misspelt_option_is_named_with_the_right_one() {
    let script = r#"import "std/neighbours" as neighbours;
        neighbours::search(boundary(#{ input: [1, 9] }, #{}), |p| "ok", #{ k_neighbours: 3 });"#;
    let error = Bench::script(script).error();
    assert!(error.contains("did you mean `k_neighbors`?"), "{error}");
}
