//! A user runs the strategies of `std/search`; closures stand in for an engine.

use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::{Profiler, killed_and_resumed};

/// The value of a script that has `search`, the default box as `map`, and an empty list `asked`.
fn found(script: &str) -> Value {
    Bench::script(&on_the_default_box(script)).value()
}

fn on_the_default_box(script: &str) -> String {
    format!(
        r#"import "std/search" as search;
        let map = boundary(#{{ input: [128, 8192], output: [128, 4096] }}, #{{}});
        let asked = [];
        {script}"#
    )
}

#[test]
fn every_strategy_finds_a_true_boundary_within_its_probes() {
    for (truth, most) in [
        ("p.input + p.output <= 8000", 60),
        ("p.input * p.output <= 4000000", 120),
        ("p.input <= 5000", 60),
        (
            "p.input <= 5000 && p.output <= 1000 || p.input <= 2000 && p.output <= 3000",
            100,
        ),
        ("true", 2),
        ("false", 4),
    ] {
        for strategy in ["adaptive", "bisect", "grid"] {
            let result = found(&format!(
                r#"
                let done = search::{strategy}(map, |p| {{
                    // Known answers are asked for only in the end, just inside the boundary. Only an answer that decides
                    // alone is asked for twice.
                    let is_end = [map.smallest(), map.largest()].contains(p);
                    if map.classify(p) != "unknown" {{ assert(is_end || map.to_confirm(3).contains(p), `asked ${{p}} though it is known`); }}
                    assert(is_end || !map.recorded(p), `asked ${{p}} twice`);
                    if {truth} {{ "ok" }} else {{ "oom" }}
                }}, #{{ proof: "coverage" }});
                for p in map.frontier() {{ assert({truth}, `${{p}} was called fitting`); }}
                for p in map.failing() {{ assert(!({truth}), `${{p}} was called failing`); }}
                done.coverage = map.coverage();
                done.points = map.points().len();
                done"#
            ));
            let told = format!("{strategy} on {truth}: {result}");
            assert!(result["probes"].as_u64().unwrap() <= most, "{told}");
            // The easiest point is asked twice before it is recorded that nothing fits.
            let repeated = u64::from(truth == "false");
            assert_eq!(
                result["probes"].as_u64().unwrap(),
                result["points"].as_u64().unwrap() + repeated,
                "{told}"
            );
            assert_eq!(result["starts"], 0, "{told}");
            assert!(result["seconds"].as_f64().unwrap() >= 0.0, "{told}");
            if strategy == "adaptive" {
                assert_eq!(result["stopped"], "coverage", "{told}");
                assert!(result["coverage"].as_f64().unwrap() >= 0.95, "{told}");
            }
        }
    }
}

#[test]
fn several_engines_need_hardly_more_probes_than_one() {
    let result = found(
        r#"let limits = [
            [#{ input: [2048, 32768], output: [512, 32768] }, |p| p.input <= 12000],
            [#{ input: [128, 131072], output: [16, 2048] }, |p| p.input + p.output <= 75700],
            [#{ input: #{ range: [128, 131072], scale: "log" } }, |p| p.input <= 30000],
        ];
        limits.map(|limit| [1, 4].map(|parallel| {
            let fits = limit[1];
            search::adaptive(boundary(limit[0], #{}), |p| if fits.call(p) { "ok" } else { "oom" }, #{ parallel: parallel }).probes
        }))"#,
    );
    // Over all limits: which answers have come when a point is chosen, and so the probes of one limit, is a matter of time.
    let limits = result.as_array().unwrap();
    let [one, four] = [0, 1].map(|index| limits.iter().map(|probes| probes[index].as_f64().unwrap()).sum::<f64>());
    assert!(four <= 1.4 * one, "{result}");
}

#[test]
fn one_axis_is_bisected() {
    let result = found(
        r#"let map = boundary(#{ concurrency: [1, 256] }, #{ coverage: 1.0 });
        let done = search::adaptive(map, |p| if p.concurrency <= 77 { "ok" } else { "queued" }, #{ coverage: 1.0 });
        #{ frontier: map.frontier(), probes: done.probes, gap: map.gap() }"#,
    );
    assert_eq!(result["frontier"], json!([{ "concurrency": 77 }]));
    // Four probes up to 256, eight bisections, and one check that the point just below holds.
    assert!(result["probes"].as_u64().unwrap() <= 13, "{result}");
    assert_eq!(result["gap"], json!({ "concurrency": 0 }));
}

#[test]
fn an_axis_whose_large_values_get_no_answer_still_finds_a_fit() {
    for (axis, most) in [("[1, 8000]", 500), (r#"#{ range: [1, 8000], scale: "log" }"#, 40)] {
        for name in ["input", "concurrency"] {
            // One request in flight is the only one that is answered where the concurrency is searched.
            let most = if name == "input" { most } else { 3 };
            let result = found(&format!(
                r#"let map = boundary(#{{ {name}: {axis} }}, #{{}});
                let done = search::adaptive(map, |p| {{
                    asked.push(p.{name});
                    if p.{name} <= {most} {{ "ok" }} else {{ "timeout" }}
                }}, #{{ retries: 0 }});
                #{{ asked: asked, fits: map.frontier().len() }}"#
            ));
            assert_eq!(result["fits"], 1, "{name}: {axis}, {result}");
        }
    }
    let nothing = found(
        r#"let map = boundary(#{ concurrency: [1, 8000] }, #{});
        let done = search::adaptive(map, |p| { asked.push(p.concurrency); "timeout" }, #{ retries: 0 });
        #{ asked: asked, stopped: done.stopped }"#,
    );
    assert_eq!(nothing, json!({ "asked": [4, 1], "stopped": "unanswered" }));
    let once = found(
        r#"let map = boundary(#{ concurrency: #{ range: [1, 1000], scale: "log" } }, #{});
        search::adaptive(map, |p| {
            asked.push(p.concurrency);
            if p.concurrency == 4 { "timeout" } else if p.concurrency <= 10 { "ok" } else { "oom" }
        }, #{ retries: 0 });
        #{ first: asked.extract(0, 3), fits: map.frontier() }"#,
    );
    assert_eq!(
        once,
        json!({ "first": [4, 1, 16], "fits": [{ "concurrency": 10 }] }),
        "not half of the range"
    );
}

#[test]
fn a_probe_that_failed_leaves_nothing_in_flight() {
    let result = found(
        r#"let probe = |p| if p.input + p.output <= 6000 { "ok" } else { "oom" };
        let undisturbed = search::adaptive(boundary(#{ input: [128, 8192], output: [128, 4096] }, #{}), probe, #{});
        try { search::adaptive(map, |p| { throw "no engine"; }, #{}); } catch { }
        [undisturbed.probes, search::adaptive(map, probe, #{}).probes]"#,
    );
    assert_eq!(result[0], result[1], "{result}");
    // The strategy itself goes on after the error.
    let result = found(
        r#"import "std/search/steps" as steps;
        let map = boundary(#{ input: [1, 100] }, #{});
        let search = steps::begin(map, |p| {
            asked.push(p.input);
            if asked.len() == 1 { throw "no engine"; }
            if p.input <= 70 { "ok" } else { "oom" }
        }, #{});
        try { steps::probe(search, #{ input: 50 }); } catch { }
        let done = steps::prove_for(search, (), 1);
        #{ stopped: done.stopped, fits: map.frontier()[0].input >= 60 }"#,
    );
    assert_eq!(result, json!({ "stopped": "coverage", "fits": true }));
}

#[test]
fn a_misspelt_option_is_named_with_the_right_one() {
    for strategy in ["adaptive", "bisect", "grid"] {
        let script = format!(r#"search::{strategy}(map, |p| "ok", #{{ max_prboes: 3 }})"#);
        let error = Bench::script(&on_the_default_box(&script)).error();
        assert!(
            error.contains("there is no option `max_prboes`") && error.contains("`max_probes`"),
            "{error}"
        );
    }
    let error = Bench::script(&on_the_default_box(
        r#"search::grid(map, |p| "ok", #{ retries: "many" })"#,
    ))
    .error();
    assert!(error.contains("option `retries` takes a"), "{error}");
}

#[test]
fn a_point_that_errs_is_asked_again_and_then_passed_by() {
    let result = found(
        r#"let bad = map.largest();
        let times = 0;
        let done = search::adaptive(map, |p| {
            if p == bad { times += 1; return "error"; }
            if p.input + p.output <= 6000 { "ok" } else { "oom" }
        }, #{ retries: 2 });
        #{ times: times, stopped: done.stopped, bad: map.points()[0] }"#,
    );
    assert_eq!(result["times"], 3);
    assert_eq!(result["stopped"], "verified");
    assert_eq!(
        (&result["bad"]["verdict"], &result["bad"]["moves"]),
        (&json!("error"), &json!("none"))
    );
}

#[test]
fn an_answer_that_comes_at_the_second_try_counts() {
    let result = found(
        r#"let map = boundary(#{ input: [1, 100] }, #{});
        let first = true;
        search::adaptive(map, |p| {
            if first { first = false; return #{ verdict: "timeout", started: true }; }
            #{ verdict: "ok", started: false }
        }, #{})"#,
    );
    assert_eq!((&result["probes"], &result["starts"]), (&json!(3), &json!(1)));
    assert_eq!(result["stopped"], "coverage");
}

#[test]
fn where_nothing_answers_the_search_gives_up() {
    for verdict in [
        r#""error""#,
        r#""timeout""#,
        r#"#{ verdict: "start_failed", cause: "image" }"#,
    ] {
        for strategy in ["adaptive", "bisect", "grid"] {
            let result = found(&format!(
                "let done = search::{strategy}(map, |p| {verdict}, #{{ retries: 1 }});
                #{{ done: done, volume: map.volume() }}"
            ));
            assert_eq!(result["done"]["stopped"], "unanswered", "{result}");
            assert_eq!(result["done"]["probes"], 6, "{result}");
            assert_eq!(
                (&result["volume"]["fits"], &result["volume"]["fails"]),
                (&json!(0), &json!(0))
            );
        }
    }
}

#[test]
fn budgets_end_a_search() {
    let sum = r#"|p| #{ verdict: if p.input + p.output <= 6000 { "ok" } else { "oom" }, started: true }"#;
    for strategy in ["adaptive", "bisect", "grid"] {
        let result = found(&format!("search::{strategy}(map, {sum}, #{{ max_probes: 7 }})"));
        assert_eq!(
            (&result["stopped"], &result["probes"]),
            (&json!("max_probes"), &json!(7))
        );
        let result = found(&format!("search::{strategy}(map, {sum}, #{{ max_starts: 5 }})"));
        assert_eq!(result["stopped"], "max_starts", "{result}");
        let result = found(&format!("search::{strategy}(map, {sum}, #{{ max_seconds: 0 }})"));
        assert_eq!(
            (&result["stopped"], &result["probes"]),
            (&json!("max_seconds"), &json!(0))
        );
    }
    // A living engine needs no start, so the limit on starts does not end the search.
    let result = found(
        r#"let started = false;
        search::adaptive(map, |p| {
            let first = !started;
            started = true;
            #{ verdict: if p.input <= 3000 { "ok" } else { "refused" }, started: first }
        }, #{ max_starts: 1 })"#,
    );
    assert_eq!((&result["stopped"], &result["starts"]), (&json!("coverage"), &json!(1)));
}

#[test]
fn a_grid_pass_asks_only_what_is_unknown() {
    let result = found(
        r#"map.record(#{ input: 4160, output: 2112 }, "ok");
        search::grid(map, |p| {
            asked.push(p);
            if p.input + p.output <= 7000 { "ok" } else { "oom" }
        }, #{ grid_size: 3, refinement_rounds: 0 });
        #{ asked: asked, stopped: "" }"#,
    );
    let asked = result["asked"].as_array().unwrap();
    assert!(!asked.contains(&json!({ "input": 4160, "output": 2112 })));
    assert!(
        !asked.contains(&json!({ "input": 128, "output": 128 })),
        "it follows: {result}"
    );
    assert!(asked.len() <= 8, "{result}");
}

#[test]
fn a_length_limit_is_not_called_memory() {
    let result = found(
        r#"let done = search::adaptive(map, |p| {
            if p.input + p.output > 4096 { return #{ verdict: "refused", cause: "length_limit" }; }
            "ok"
        }, #{});
        #{ done: done, volume: map.volume(), clipped: map.clipped().len(), failing: map.failing() }"#,
    );
    assert_eq!(result["done"]["stopped"], "verified", "{result}");
    assert_eq!(
        (&result["failing"], &result["volume"]["fails"]),
        (&json!([]), &json!(0))
    );
    assert!(
        result["clipped"].as_u64().unwrap() > 3 && result["volume"]["clipped"].as_u64().unwrap() > 0,
        "{result}"
    );
}

#[test]
fn a_short_output_proves_what_was_produced() {
    let result = found(
        r#"map.record(#{ input: 4000, output: 4000 }, #{ verdict: "short_output", output: 300 });
        #{ frontier: map.frontier(), asked: map.classify(#{ input: 4000, output: 4000 }), moves: map.points()[0].moves }"#,
    );
    assert_eq!(
        result,
        json!({ "frontier": [{ "input": 4000, "output": 300 }], "asked": "unknown", "moves": "none" })
    );
}

#[test]
fn what_a_probe_asked_again_by_itself_is_not_asked_again_by_the_search() {
    let asked = found(
        r#"let asked = 0;
        search::adaptive(map, |p| { asked += 1; #{ verdict: "short_output", evidence: #{ attempts: 4 } } }, #{});
        asked"#,
    );
    assert_eq!(asked, json!(3));
}

/// The modules of `std/search`.
const PARTS: [&str; 4] = ["search", "search/steps", "search/options", "search/choose"];

/// The text of one module.
fn text(name: &str) -> String {
    std::fs::read_to_string(format!("{}/stdlib/{name}.rhai", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// A module's text, with imports of `std/search` replaced by imports of the copies.
fn local(name: &str, text: &str) -> String {
    let up = if name.contains('/') { "../" } else { "./" };
    text.replace("import \"std/search", &format!("import \"{up}search"))
}

#[test]
fn a_changed_rule_for_the_next_point_asks_other_points() {
    let choose = text("search/choose");
    let rule = "|at| at.chance * at.fits + at.settles";
    let mine = "|at| at.chance";
    assert!(choose.contains(rule), "the rule for the next point has moved");
    let script = r#"import "./search" as search;
        let map = boundary(#{ input: [128, 8192], output: [128, 4096] }, #{});
        let asked = [];
        let done = search::adaptive(map, |p| { asked.push(p); if p.input + p.output <= 6000 { "ok" } else { "oom" } }, #{ max_probes: 6, proof: "coverage" });
        #{ asked: asked, stopped: done.stopped }"#;
    // The layout that `profiler fork --strategy` writes.
    let found = |rule: &str, mine: &str| {
        let files: Vec<_> = PARTS
            .iter()
            .map(|name| (format!("{name}.rhai"), local(name, &text(name).replace(rule, mine))))
            .collect();
        let mut bench = vec![("main.rhai", script)];
        bench.extend(files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
        Bench::new(&bench).value()
    };
    let (shipped, changed) = (found(rule, rule), found(rule, mine));
    let asked = |found: &Value| found["asked"].as_array().unwrap().clone();
    assert_eq!(asked(&shipped)[0], asked(&changed)[0], "the first one stays");
    assert_ne!(asked(&shipped), asked(&changed));
    // A rule that proposes only known points, or none before enough is proven, ends the search with an explanation.
    for stuck in ["[map.largest()]", "[]"] {
        let whole = format!("map.refine(count, options.coverage, {rule})");
        assert!(choose.contains(&whole));
        let stuck = found(&whole, stuck);
        assert_eq!(asked(&stuck).len(), 1, "{stuck}");
        assert_eq!(stuck["stopped"], "no_new_points");
    }
}

#[test]
fn three_axes_with_tolerance_are_searched_too() {
    let result = found(
        r#"let map = boundary(#{ input: [128, 2048], output: [128, 2048], concurrency: [1, 64] }, #{});
        let truth = |p| (p.input + p.output) * p.concurrency <= 40000;
        let done = search::adaptive(map, |p| if truth.call(p) { "ok" } else { "preempted" }, #{ coverage: 0.7 });
        for p in map.frontier() { assert(truth.call(p)); }
        done"#,
    );
    assert_eq!(result["stopped"], "coverage", "{result}");
}

/// Checks nine rays at equal angles over two axes, as the README promises; the search itself draws others. On
/// each, the gap between the known fitting and the known failing point is at most the tolerance.
#[test]
fn a_tolerance_holds_on_nine_rays_however_the_search_ends() {
    let report = r#", report: #{ tokens: 8010, block: 1 }"#;
    let jump = "(p.input <= 5000 && p.output <= 1000 || p.input <= 2000 && p.output <= 3000)";
    for (truth, report, options, tolerance, ended) in [
        ("p.input + p.output <= 8010", report, "#{}", 1, "verified"),
        ("p.input + p.output <= 8010", report, "#{}", 100, "verified"),
        // The engine reserves two tokens.
        ("p.input + p.output <= 8008", report, "#{}", 1, "verified"),
        ("p.input + p.output <= 8010", "", "#{}", 1, "verified"),
        ("p.input + p.output <= 8010", "", "#{}", 16, "verified"),
        (
            "3 * p.input + p.output <= 9000",
            "",
            "#{ proof: \"coverage\" }",
            16,
            "coverage",
        ),
        (jump, report, "#{}", 4, "verified"),
        (
            "p.input + p.output <= 8010",
            report,
            "#{ launch_axes: [\"input\"] }",
            4,
            "verified",
        ),
        ("p.input + p.output <= 8010", report, "#{ parallel: 3 }", 2, "verified"),
        (
            "p.input + p.output <= 8010",
            "",
            "#{ refinement_rounds: 3 }",
            4,
            "refinement_rounds",
        ),
    ] {
        let result = found(&format!(
            r#"let axis = |range| #{{ range: range, tolerance: {tolerance} }};
            let map = boundary(#{{ input: axis.call([128, 8192]), output: axis.call([128, 4096]) }}, #{{}});
            let done = search::adaptive(map, |p| #{{ verdict: if {truth} {{ "ok" }} else {{ "oom" }}{report} }}, {options});
            let wide = 0;
            for ray in 0..9 {{
                let angle = 3.141592653589793 / 2.0 * ray / 8.0;
                let most = max(sin(angle), cos(angle));
                let at = |share| #{{
                    input: 128 + (8064 * cos(angle) / most * share + 1e-6).floor().to_int(),
                    output: 128 + (3968 * sin(angle) / most * share + 1e-6).floor().to_int(),
                }};
                let fits = ();
                // A ray has a step for each token of its longer side.
                let steps = max(8064 * cos(angle) / most, 3968 * sin(angle) / most).round();
                for step in 0..=steps.to_int() {{
                    let point = at.call(step / steps);
                    let class = map.classify(point);
                    if class == "fits" {{ fits = point; }}
                    if class == "fails" {{ wide = max(wide, max(point.input - fits.input, point.output - fits.output)); break; }}
                }}
            }}
            #{{ stopped: done.stopped, probes: done.probes, wide: wide, within: done.verified?.within }}"#
        ));
        let told = format!("{truth}{report}, {options}, {tolerance}: {result}");
        assert_eq!(result["stopped"], ended, "{told}");
        // From one step to the next, one axis or both move by a token.
        assert!(result["wide"].as_i64().unwrap() <= tolerance, "{told}");
        for (_, within) in result["within"].as_object().into_iter().flatten() {
            assert!(within.as_i64().unwrap() <= tolerance.max(64), "{told}");
        }
        assert!(result["probes"].as_u64().unwrap() <= 120, "{told}");
    }
}

#[test]
fn a_tolerance_on_one_axis_is_the_distance_between_what_fits_and_what_fails() {
    for (axes, quantity, truth) in [
        ("input: axis", "input", "p.input <= 5001"),
        ("input: axis, output: [64, 64]", "input", "p.input + p.output <= 5001"),
        (
            "input: [500, 500], concurrency: axis",
            "concurrency",
            "p.concurrency <= 777",
        ),
    ] {
        for report in ["", ", report: #{ tokens: 5001 }"] {
            for tolerance in [1, 9, 200] {
                let result = found(&format!(
                    r#"let axis = #{{ range: [1, 9000], tolerance: {tolerance} }};
                    let map = boundary(#{{ {axes} }}, #{{}});
                    search::adaptive(map, |p| #{{ verdict: if {truth} {{ "ok" }} else {{ "queued" }}{report} }}, #{{}});
                    map.failing()[0].{quantity} - map.frontier()[0].{quantity}"#
                ));
                let told = format!("{axes}, {truth}{report}, {tolerance}: {result}");
                assert!(result.as_i64().unwrap() <= tolerance, "{told}");
            }
        }
    }
}

/// More axes mean fewer points in a list.
#[test]
fn more_points_than_a_list_holds_are_not_listed() {
    let error = Bench::script(
        r#"let one = [1, 1];
        let map = boundary(#{ a: [1, 1000000], b: one, c: one, d: one, e: one, f: one, g: one, h: one }, #{});
        let at = #{ a: 0, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1 };
        for n in 1..=153847 { at.a = n; map.record(at, "ok"); }
        map.points()"#,
    )
    .error();
    let message = "153847 points are too many for a list, which can hold 153846";
    assert!(error.contains(message), "{error}");
}

#[test]
fn the_shipped_scripts_search_with_any_engine() {
    // An engine that holds 6000 tokens, as scripts see it.
    let engines = r#"import "std/engines" as real;
    fn parameters() { real::parameters() }
    fn probe(p) { #{ verdict: if p.input + p.output <= 6000 { "ok" } else { "oom" }, started: false } }"#;
    for script in ["adaptive", "grid", "bisect", "neighbours"] {
        let text = std::fs::read_to_string(format!("{}/scripts/{script}.rhai", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let own = text
            .replace("\"std/engines\"", "\"./engines\"")
            .replace(
                "settle(p)",
                "settle(p + #{ input: [128, 8192], output: [128, 4096], engine: \"sim\" })",
            )
            .replace("setup.engine.probe", "engines::probe");
        let result = Bench::new(&[("main.rhai", &own), ("engines.rhai", engines)]).value();
        let frontier = result["frontier"].as_array().unwrap();
        assert!(frontier.len() >= 3, "{result}");
        for point in frontier {
            assert!(point["input"].as_i64().unwrap() + point["output"].as_i64().unwrap() <= 6000);
        }
    }
}

#[test]
fn a_killed_search_ends_as_an_undisturbed_one() {
    let script = r#"import "std/search" as search;
        let map = boundary(#{ input: [128, 8192], output: [128, 4096] }, #{});
        let probe = |p| { sleep(0.01); if p.input + p.output <= 6000 { "ok" } else { "oom" } };
        let done = STRATEGY;
        #{ frontier: map.frontier(), points: map.points().len(), probes: done.probes, stopped: done.stopped }"#;
    for strategy in [
        "search::adaptive(map, probe, #{ coverage: 0.9 })",
        "search::grid(map, probe, #{ grid_size: 5 })",
        "search::bisect(map, probe, #{})",
    ] {
        let text = script.replace("STRATEGY", strategy);
        let undisturbed = Bench::script(&text).value();
        let run = Profiler::new()
            .args(["run", "main.rhai", "--out", "killed"])
            .file("main.rhai", &text);
        assert_eq!(killed_and_resumed(run, 12), undisturbed, "{strategy}");
    }
}

#[test]
fn what_the_engine_reports_is_verified_from_both_sides() {
    for (tokens, most) in [(45_000, 8), (20_000, 8), (70_000, 1), (1_000, 3)] {
        let result = found(&format!(
            r#"let map = boundary(#{{ input: [2048, 32768], output: [512, 32768] }}, #{{}});
            let starts = 0;
            let done = search::verify_report(map, |p| {{
                starts += 1;
                let fits = p.input + p.output <= {tokens};
                #{{ verdict: if fits {{ "ok" }} else {{ "refused" }}, started: starts == 1, report: #{{ tokens: {tokens}, block: 16 }} }}
            }}, #{{}});
            let ends = [#{{ input: 32768, output: 512 }}, #{{ input: 2048, output: 32768 }}];
            #{{ done: done, gaps: done.predicted.places.map(|p| {{
                min(map.bracket(p.point, "output").width, map.bracket(p.point, "input").width)
            }}) }}"#
        ));
        let done = &result["done"];
        assert_eq!(
            (&done["stopped"], &done["predicted"]["held"]),
            (&json!("verified"), &json!(true)),
            "{result}"
        );
        assert!(
            done["probes"].as_u64().unwrap() <= most && done["starts"] == 1,
            "{result}"
        );
        if most > 3 {
            let certificate = json!({ "by": "report", "ends": 2, "middle": 1, "not_sent": 0, "within": { "input": 64, "output": 64 }, "probes": done["probes"] });
            assert_eq!(done["verified"], certificate, "{result}");
            assert_eq!(done["predicted"]["verified"], 3, "{result}");
            let gaps = result["gaps"].as_array().unwrap();
            assert!(gaps.iter().all(|gap| gap.as_u64().unwrap() <= 64), "{result}");
        }
    }
}

#[test]
fn an_axis_of_one_value_is_not_searched() {
    let found = |input: &str, output: &str, tokens: u64| {
        found(&format!(
            r#"let map = boundary(#{{ input: {input}, output: {output}, concurrency: [1, 128] }}, #{{}});
            search::adaptive(map, |p| #{{
                verdict: if p.concurrency * (p.input + p.output) <= {tokens} {{ "ok" }} else {{ "preempted" }},
                report: #{{ tokens: {tokens} }}
            }}, #{{}})"#
        ))
    };
    // The ranges of a run on a real vLLM that holds 223,000 tokens.
    let done = found("[128, 8192]", "[256, 256]", 223_000);
    assert!(done["probes"].as_u64().unwrap() <= 24, "{done}");
    let verified = &done["verified"];
    assert_eq!(
        (&verified["ends"], &verified["middle"]),
        (&json!(2), &json!(1)),
        "{done}"
    );
    let done = found("[2000, 2000]", "[128, 128]", 70_875);
    assert!(done["probes"].as_u64().unwrap() <= 4, "{done}");
    let verified = &done["verified"];
    assert_eq!(
        (&verified["ends"], &verified["middle"]),
        (&json!(1), &json!(0)),
        "{done}"
    );
}

#[test]
fn where_the_report_is_wrong_the_search_finds_the_boundary_without() {
    for (said, truth) in [(5000, 8000), (9000, 4000)] {
        let result = found(&format!(
            r#"let done = search::adaptive(map, |p| #{{
                verdict: if p.input + p.output <= {truth} {{ "ok" }} else {{ "refused" }}, report: #{{ tokens: {said} }}
            }}, #{{}});
            for p in map.frontier() {{ assert(p.input + p.output <= {truth}); }}
            for p in map.failing() {{ assert(p.input + p.output > {truth}); }}
            done"#
        ));
        assert_eq!(result["stopped"], "verified", "{result}");
        assert_eq!(
            (&result["predicted"]["held"], &result["predicted"]["verified"]),
            (&json!(false), &json!(0)),
            "{result}"
        );
        assert_eq!(result["verified"]["by"], "fitted", "a lie is certified: {result}");
        assert!(result["probes"].as_u64().unwrap() <= 30, "{result}");
    }
    let unused = found(
        r#"search::adaptive(map, |p| #{ verdict: "ok", report: #{ tokens: 10 } }, #{ use_report: false }).predicted == ()"#,
    );
    assert_eq!(unused, json!(true));
}

#[test]
fn a_limit_with_jumps_ends_with_its_budget_unverified() {
    let done = found(
        r#"let map = boundary(#{ input: [64, 8192], output: [512, 4096] }, #{});
        let fits = |p| if p.input <= 2000 { p.output <= 3800 } else if p.input <= 2900 { p.output <= 2900 }
            else if p.input <= 3700 { p.output <= 2300 } else if p.input <= 5100 { p.output <= 1500 } else { p.input <= 6400 && p.output <= 700 };
        let done = search::adaptive(map, |p| if fits.call(p) { "ok" } else { "oom" }, #{});
        for p in map.frontier() { assert(fits.call(p), `${p} was called fitting`); }
        done"#,
    );
    assert_eq!(
        (&done["stopped"], &done["probes"], &done["verified"]),
        (&json!("max_probes"), &json!(60), &json!(null)),
        "{done}"
    );
    let told = done["not_verified"].as_str().unwrap();
    assert!(told.contains("no limit was verified within 60 probes"), "{told}");
}

#[test]
fn a_report_that_is_right_is_not_refuted_where_little_of_the_range_fits() {
    let result = found(
        r#"let map = boundary(#{ input: [1024, 65536], output: [16, 2048] }, #{});
        let probe = |p| #{ verdict: if p.input + p.output <= 3000 { "ok" } else { "refused" }, report: #{ tokens: 3000 } };
        search::verify_report(map, probe, #{}).predicted.held"#,
    );
    assert_eq!(result, json!(true));
}

#[test]
fn a_workload_that_is_named_is_probed_for_itself() {
    let many = ", concurrency: [1, 64]";
    let rows = [
        ("", "()", json!(["fits"])),
        ("", "#{ tokens: 9000 }", json!(["fits"])),
        (many, "#{ tokens: 9000 }", json!(["fits", "fails"])),
    ];
    for (axes, report, proven) in rows {
        let result = found(&format!(
            r#"let map = boundary(#{{ input: [128, 8192], output: [128, 4096]{axes} }}, #{{}});
                let done = search::adaptive(map, |p| {{
                    let fits = (p.input + p.output) * (p.get("concurrency") ?? 1) <= 9000;
                    #{{ verdict: if fits {{ "ok" }} else {{ "refused" }}, report: {report} }}
                }}, #{{ workload: #{{ input: 1000, output: 300 }} }});
                let chat = #{{ input: 1000, output: 300 }};
                let asked = if "concurrency" in map.axes() {{ [chat + #{{ concurrency: 6 }}, chat + #{{ concurrency: 7 }}] }} else {{ [chat] }};
                #{{ done: done, proven: asked.map(|point| map.classify(point)) }}"#
        ));
        assert_eq!(result["done"]["stopped"], "verified", "{report}: {result}");
        assert_eq!(result["proven"], proven, "{report}: {result}");
        assert_eq!(
            result["done"]["verified"]["workload"]["input"], 1000,
            "{report}: {result}"
        );
    }
}

#[test]
fn a_budget_of_gpu_seconds_counts_every_gpu() {
    let result = found(
        r#"search::adaptive(map, |p| #{
            verdict: if p.input + p.output <= 6000 { "ok" } else { "oom" }, starts: 1, seconds: 30, gpus: 2
        }, #{ max_gpu_seconds: 300 })"#,
    );
    assert_eq!(
        (&result["stopped"], &result["probes"]),
        (&json!("max_gpu_seconds"), &json!(5)),
        "{result}"
    );
    assert_eq!(
        (&result["gpu_seconds"], &result["seconds"]),
        (&json!(300.0), &json!(150.0))
    );
}

#[test]
fn points_that_share_a_launch_are_asked_together() {
    let changes = |options: &str| {
        let result = found(&format!(
            r#"let map = boundary(#{{ input: [128, 8192], fraction: #{{ range: [0.5, 0.9], easier: "up", tolerance: 0.1 }} }}, #{{}});
            let at = (); let changes = 0;
            search::adaptive(map, |p| {{
                if p.fraction != at {{ changes += 1; at = p.fraction; }}
                if p.input <= 9000 * (p.fraction - 0.3) {{ "ok" }} else {{ "oom" }}
            }}, {options});
            changes"#
        ));
        result.as_u64().unwrap()
    };
    let (grouped, mixed) = (
        changes("#{ launch_axes: [\"fraction\"] }"),
        changes("#{ proof: \"coverage\" }"),
    );
    assert!(grouped * 2 <= mixed, "{grouped} {mixed}");
}

/// Compares the estimate in the journal at half time with the cost of the remaining search: 60 s for a start, 2 s for a
/// request. The ends of the range are a factor of 2.25 apart.
#[test]
fn the_time_left_is_of_the_right_size_halfway() {
    for (truth, fails, options) in [
        ("p.input + p.output <= 8000", "refused", "#{}"),
        ("p.input + p.output <= 3000", "refused", "#{}"),
        ("p.input * p.output <= 4000000", "refused", "#{}"),
        // Budgets that end the search long before a limit is verified.
        ("p.input * p.output <= 4000000", "oom", "#{ max_starts: 6 }"),
        ("p.input * p.output <= 4000000", "refused", "#{ refinement_rounds: 8 }"),
        (
            "p.input * p.output <= 4000000",
            "refused",
            "#{ proof: \"verified\", coverage: 0.5 }",
        ),
    ] {
        let script = format!(
            r#"import "std/search" as search;
            let map = boundary(#{{ input: [128, 8192], output: [128, 4096] }}, #{{}});
            let down = true;
            search::adaptive(map, |p| {{
                let fits = {truth};
                let started = down;
                down = !fits && "{fails}" == "oom";
                #{{ verdict: if fits {{ "ok" }} else {{ "{fails}" }}, started: started, seconds: if started {{ 62.0 }} else {{ 2.0 }} }}
            }}, {options})"#
        );
        let outcome = Profiler::new()
            .file("main.rhai", &script)
            .args(["run", "main.rhai", "--out", "run", "--json"])
            .run()
            .success();
        let total = outcome.json()["result"]["seconds"].as_f64().unwrap();
        let journal = std::fs::read_to_string(outcome.folder().join("run/journal.jsonl")).unwrap();
        let mut spent = 0.0;
        let mut told = Vec::new();
        for line in journal.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            match line["event"].as_str().unwrap() {
                "point" => spent += line["answer"]["spent"]["seconds"].as_f64().unwrap(),
                "progress" => told.push((line["seconds_left"].as_f64(), total - spent)),
                _ => {}
            }
        }
        let (left, really) = told[told.len() / 2];
        let left = left.unwrap();
        assert!(
            left <= 2.25 * really && really <= 2.25 * left,
            "{truth}, {options}: {left} s were said, {really} s it took, of {total} s"
        );
    }
}

#[test]
fn a_resumed_search_counts_what_was_spent() {
    let script = r#"import "std/search" as search;
        let map = boundary(#{ input: [128, 8192], output: [128, 4096] }, #{});
        let before = map.resumed();
        let done = search::adaptive(map, |p| {
            if before == 0 && map.points().len() == 4 { throw "killed"; }
            #{ verdict: if p.input + p.output <= 6000 { "ok" } else { "oom" }, started: true, seconds: 10.0, gpus: 2 }
        }, #{ BUDGET });
        #{ done: done, before: before }"#;
    for (budget, stopped, probes) in [
        ("max_probes: 6", "max_probes", 6),
        ("max_starts: 7", "max_starts", 7),
        ("max_seconds: 60", "max_seconds", 6),
        ("max_gpu_seconds: 120", "max_gpu_seconds", 6),
    ] {
        let text = script.replace("BUDGET", budget);
        let first = Profiler::new()
            .file("main.rhai", &text)
            .args(["run", "main.rhai", "--out", "run"])
            .run()
            .code(1);
        let resumed = Profiler::new()
            .current_dir(first.folder())
            .args(["run", "--resume", "run", "--json"])
            .run()
            .success()
            .json();
        let result = &resumed["result"];
        assert_eq!(
            (&result["before"], &result["done"]["stopped"]),
            (&json!(4), &json!(stopped)),
            "{result}"
        );
        let made = result["done"]["probes"].as_u64().unwrap();
        // After the last allowed start, a running engine still answers.
        let enough = if budget.contains("starts") {
            made >= probes
        } else {
            made == probes
        };
        assert!(enough, "{result}");
        assert_eq!(result["done"]["seconds"], json!(10.0 * made as f64), "{result}");
    }
}

#[test]
fn the_simulated_engine_is_searched_with_few_starts() {
    let result = found(
        r#"import "std/engines" as engines;
        let engine = engines::describe("sim", #{});
        let done = search::adaptive(map, |p| engine.probe(p), #{});
        #{ done: done, coverage: map.coverage() }"#,
    );
    let done = &result["done"];
    assert_eq!(done["stopped"], "verified", "{result}");
    assert!(done["starts"].as_u64().unwrap() <= 3, "{result}");
    assert_eq!(
        (&done["predicted"]["held"], &done["predicted"]["verified"]),
        (&json!(true), &json!(3)),
        "{result}"
    );
    assert!(done["gpu_seconds"].as_f64().unwrap() > 0.0, "{result}");
}
