//! `search::follow`: what a rule of one's own gets for nothing.

use serde_json::{Value, json};

use crate::script::bench::Bench;

fn found(script: &str) -> Value {
    Bench::script(&format!(
        r#"import "std/search" as search;
        let map = boundary(#{{ input: [1, 1000], output: [1, 500] }}, #{{}});
        let truth = |p| if p.input + p.output <= 900 {{ "ok" }} else {{ "oom" }};
        {script}"#
    ))
    .value()
}

#[test]
fn a_rule_is_asked_round_by_round_and_says_why_it_ends() {
    let result = found(
        r#"let rounds = [];
        let done = search::follow(map, truth, #{ step: 50 }, #{ step: 100 }, |options, round| {
            rounds.push([options.step, round]);
            if round == 3 { return "far_enough"; }
            [#{ input: 300 + round, output: 100 + options.step * round }]
        });
        #{ done: done, rounds: rounds, points: map.points().map(|row| row.point) }"#,
    );
    assert_eq!(result["done"]["stopped"], "far_enough");
    assert_eq!(result["rounds"], json!([[50, 0], [50, 1], [50, 2], [50, 3]]));
    let corners = [
        json!({ "input": 1000, "output": 500 }),
        json!({ "input": 1, "output": 1 }),
    ];
    assert_eq!(result["points"].as_array().unwrap()[..2], corners);
    assert_eq!(result["points"][4], json!({ "input": 302, "output": 200 }));
}

#[test]
fn what_is_known_is_not_asked_again() {
    let result = found(
        r#"let done = search::follow(map, truth, #{}, #{}, |options, round| [#{ input: 200, output: 200 }]);
        #{ stopped: done.stopped, points: map.points().len() }"#,
    );
    assert_eq!(
        result,
        json!({ "stopped": "no_new_points", "points": 3 }),
        "a rule that never ends ends"
    );
}

#[test]
fn budgets_and_the_coverage_end_a_rule_too() {
    let endless = "|options, round| map.refine(1, 1.0)";
    let stopped = |options: &str| {
        found(&format!(
            "search::follow(map, truth, {options}, #{{}}, {endless}).stopped"
        ))
    };
    assert_eq!(stopped("#{ coverage: 0.8 }"), "coverage");
    assert_eq!(stopped("#{ max_probes: 5 }"), "max_probes");
    assert_eq!(stopped("#{ max_seconds: 0 }"), "max_seconds");
}

#[test]
fn an_unknown_option_is_held_against_both_kinds() {
    let script = r#"import "std/search" as search;
        let map = boundary(#{ input: [1, 9] }, #{});
        search::follow(map, |p| "ok", #{ stpe: 1 }, #{ step: 1 }, |options, round| "no");"#;
    let error = Bench::script(script).error();
    assert!(
        error.contains("there is no option `stpe`") && error.contains("`step`"),
        "{error}"
    );
}
