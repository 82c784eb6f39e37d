//! A user sets thresholds in CI: what counts as a regression, what does not, and what cannot be decided.

use serde_json::Value;

use super::two_runs::{compare, cut_off, drawn, loaded, searched};
use crate::import::fixture;
use crate::support::{Outcome, Profiler};

const BOX: &str = "#{ input: [1, 1000], output: [1, 1000] }";

#[track_caller]
fn finding<'a>(document: &'a Value, name: &str) -> &'a Value {
    let findings = document["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {findings:#?}"))
}

#[test]
fn an_engine_with_less_memory_is_a_regression_whatever_points_were_asked() {
    let (before, after) = (searched(0.70, 1, "r"), searched(0.68, 2, "r"));
    let outcome = compare(&before, &after, &["--max-regression", "2%"]).code(4);
    let _ = outcome
        .stdout("SIMULATED")
        .stdout("fitted before, and fail now")
        .stdout("RULED OUT")
        .stdout(">= ")
        .stdout("exceeded")
        .stderr("thresholds exceeded")
        .stderr("volume of boundary");
    let document = compare(&before, &after, &["--threshold", "frontier>=-2%", "--json"])
        .code(4)
        .json();
    assert_eq!(finding(&document, "frontier input")["verdict"], "exceeded");
    assert_eq!(
        finding(&document, "volume")["verdict"],
        "worse",
        "no threshold is on it"
    );
    assert_eq!(document["thresholds"][0], "frontier>=-2%");
    let turned = &document["comparison"]["changed_points"][0];
    assert_eq!(
        (&turned["fits"], &turned["before"]),
        (&Value::Bool(false), &"recommended".into())
    );
    assert!(
        turned["after"].as_str().is_some_and(|after| !after.is_empty()),
        "{turned}"
    );
    let lost = finding(&document, "newly failing");
    assert!(lost["after"].as_f64().unwrap() >= 1.0, "{lost}");
}

#[test]
fn another_search_of_the_same_engine_is_no_regression() {
    let (before, after) = (searched(0.70, 1, "r"), searched(0.70, 2, "r"));
    let strict = ["--max-regression", "0", "--threshold", "newly failing<=0", "--strict"];
    let _ = compare(&before, &after, &strict)
        .success()
        .stdout("thresholds: 0 exceeded");
    let _ = compare(&after, &before, &strict)
        .success()
        .stdout("fits still in [2]")
        .nowhere("FAILS");
}

#[test]
fn a_slower_engine_is_a_regression_of_its_latencies() {
    let (fast, slow) = (loaded(0.0, 1), loaded(1.0, 1));
    let outcome = compare(&fast, &slow, &["--threshold", "e2el_ms.mean=+50%"]).code(4);
    let _ = outcome
        .stdout("mean_e2el_ms of concurrency=2 input=64 output=16")
        .stderr("(e2el_ms.mean=+50%)");
    // In the other direction everything improves.
    let _ = compare(
        &slow,
        &fast,
        &["--threshold", "e2el_ms.mean=+50%", "--threshold", "failed<=0"],
    )
    .success();
    let case = "concurrency=2 input=64 output=16/e2el_ms.mean<=0.001ms";
    let _ = compare(&fast, &slow, &["--threshold", case]).code(4);
    let _ = compare(&fast, &slow, &["--threshold", "concurrency=3*/e2el_ms.mean<=9"])
        .code(2)
        .stderr("concurrency=3*");
}

#[test]
fn repeats_of_a_load_are_one_case_with_an_interval() {
    let run = loaded(0.0, 3);
    let document = compare(&run, &run, &["--max-regression", "0", "--json"])
        .success()
        .json();
    let findings = document["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["case"] == findings[0]["case"]));
    let mean = finding(&document, "request_throughput");
    assert!(mean["intervals"][0][0].as_f64() < mean["before"].as_f64(), "{mean}");
    assert_eq!(mean["verdict"], "within");
    assert_eq!(finding(&document, "issued")["verdict"], "same", "neither side is worse");
}

#[test]
fn what_lies_within_what_is_proven_is_no_difference() {
    let before = drawn(BOX, &[(500, 1, "ok"), (700, 1, "oom"), (1, 1000, "ok")]);
    let after = drawn(BOX, &[(400, 1, "ok"), (600, 1, "oom"), (1, 1000, "ok")]);
    let verdict = |after: &Outcome, threshold| {
        let outcome = compare(&before, after, &["--threshold", threshold, "--json"]);
        finding(&outcome.json(), "frontier input")["verdict"].clone()
    };
    assert_eq!(verdict(&after, "frontier input>=-2%"), "not significant");
    assert_eq!(
        verdict(&after, "frontier input>=450"),
        "exceeded",
        "of the figure itself"
    );
    let proven = drawn(BOX, &[(400, 1, "ok"), (450, 1, "oom"), (1, 1000, "ok")]);
    assert_eq!(verdict(&proven, "frontier input>=-2%"), "exceeded");
    assert_eq!(verdict(&proven, "frontier input>=-50%"), "within");
    let nothing = drawn(BOX, &[(1, 1, "oom")]);
    assert_eq!(
        verdict(&nothing, "frontier input>=-50%"),
        "exceeded",
        "it is 0 where nothing fits"
    );
}

#[test]
fn boundaries_meet_on_the_box_that_they_share() {
    let before = drawn(BOX, &[(900, 10, "ok"), (300, 10, "ok")]);
    let narrow = drawn(
        "#{ input: [1, 500], output: [1, 1000] }",
        &[(300, 5, "oom"), (200, 10, "ok")],
    );
    let outcome = compare(&before, &narrow, &["--max-regression", "0"]).code(4);
    let outcome = outcome.stdout("on their common search space: input 1 to 500, output 1 to 1000");
    let _ = outcome
        .stdout("input=300 output=10: ok, now oom at input=300 output=5")
        .nowhere("input=900 output=10: ok");
    let other = drawn("#{ input: [2000, 3000], output: [1, 1000] }", &[(2500, 5, "ok")]);
    let outcome = compare(&before, &other, &[]).success();
    let outcome = outcome.stdout("[2]: different questions: not judged; [1]: undecided: input=900 output=10 fits");
    let _ = outcome
        .stdout("; [2]: undecided: input=2500 output=5 fits")
        .nowhere("worse")
        .nowhere("better");
    let axes = drawn("#{ input: [1, 1000], output: [5, 5] }", &[(300, 5, "ok")]);
    let _ = compare(&before, &axes, &[])
        .success()
        .stdout("different questions: not judged")
        .nowhere("worse");
}

#[test]
fn a_figure_that_is_gone_is_told_and_counts_where_asked() {
    let before = fixture("vllm-bench-run.json");
    let after = Profiler::new();
    let text = std::fs::read_to_string(&before).unwrap();
    let mut fewer: Value = serde_json::from_str(&text).unwrap();
    fewer.as_object_mut().unwrap().remove("output_throughput");
    let after = after.file("after.json", fewer.to_string());
    let gate = ["--threshold", "output_throughput>=-3%"];
    let outcome = after.args(["compare", &before, "after.json"]).args(gate).run();
    let _ = outcome.success().stdout("not compared").stdout("1 not compared");
    let after = Profiler::new().file("after.json", fewer.to_string());
    let strict = after
        .args(["compare", &before, "after.json", "--strict"])
        .args(gate)
        .run();
    let _ = strict
        .code(4)
        .stderr("output_throughput of")
        .stderr("is not on both sides");
}

#[test]
fn what_no_threshold_can_be_is_wrong_usage() {
    let run = drawn(BOX, &[(500, 1, "ok"), (700, 1, "oom")]);
    let refused = |threshold: &str| compare(&run, &run, &["--threshold", threshold]).code(2);
    let _ = refused("fronteer input>=-2%")
        .stderr("`fronteer input`")
        .stderr("frontier input");
    let _ = refused("frontier").stderr("invalid threshold");
    let _ = refused("frontier<=x").stderr("p99_ttft_ms<=+5%");
    let _ = refused("points=5%").stderr("it is unknown whether");
    let _ = refused("volume=-1000%").stderr("a decrease of 100 %");
    let _ = refused("volume=100%").stderr("a decrease of 100 %");
    let _ = refused("frontier<=5GiB").stderr("`frontier input` is in tokens");
    let _ = compare(&run, &run, &["--strict"]).code(2).stderr("needs a threshold");
    let _ = compare(&run, &run, &["--max-regression", "-1"]).code(2);
    let _ = compare(&run, &run, &["--markdown", "--json"]).code(2);
}

#[test]
fn a_simulated_run_is_held_against_a_measured_one_without_thresholds_alone() {
    let (measured, simulated) = (drawn(BOX, &[(500, 1, "ok")]), searched(0.70, 1, "r"));
    let shown = compare(&measured, &simulated, &[]).success();
    assert!(shown.stdout.starts_with("SIMULATED"), "{}", shown.stdout);
    let _ = shown.stdout("only [2]");
    let _ = compare(&measured, &simulated, &["--max-regression", "5"])
        .code(2)
        .stderr("simulated");
}

#[test]
fn files_of_other_tools_are_held_against_a_run_and_each_other() {
    let axes = "#{ input: [2048, 32768], output: [512, 32768] }";
    let run = drawn(axes, &[(2050, 12000, "ok"), (2050, 20000, "oom")]);
    let against = |threshold: &str| {
        let profiler = Profiler::new().arg("compare").arg(run.folder().join("r"));
        profiler
            .args([&fixture("tgi-profiler.json"), "--threshold", threshold])
            .run()
    };
    let _ = against("largest input + output that fits>=-50%").success();
    let _ = against("largest input + output that fits>=14000")
        .code(4)
        .stdout(">= 14000 tokens");
    let (one, sweep) = (fixture("vllm-bench-run.json"), fixture("vllm-bench-summary.json"));
    let both = |threshold: &str| {
        Profiler::new()
            .args(["compare", &one, &sweep, "--threshold", threshold])
            .run()
    };
    let _ = both("output_throughput>=-3%").success();
    // With the spread of the sweep's two repeats, such a gain is possible.
    let _ = both("output_throughput>=+5%")
        .success()
        .stderr("lies within the other run's");
    let _ = both("output_throughput>=19").code(4).stderr("+2.8 %");
}

#[test]
fn less_that_is_proven_is_a_loss_where_something_that_fitted_fails() {
    // Both boundaries are open above: neither figure is outside the interval known for the other.
    let before = drawn(BOX, &[(500, 1, "ok"), (500, 400, "ok"), (900, 900, "oom")]);
    let after = drawn(BOX, &[(400, 1, "ok"), (400, 300, "ok"), (490, 350, "oom")]);
    let largest = "largest*=5%";
    let outcome = compare(&before, &after, &["--threshold", largest]).code(4);
    let _ = outcome.stderr("largest input + output that fits of boundary");
    let _ = compare(&before, &after, &["--max-regression", "20"])
        .code(4)
        .stderr("largest input + output");
    // If no point that fitted now fails, the search only covered less: that passes with a warning.
    let less = drawn(BOX, &[(400, 1, "ok"), (400, 300, "ok"), (900, 900, "oom")]);
    let outcome = compare(&before, &less, &["--threshold", largest]).success();
    let _ = outcome
        .stderr("warning: largest input + output")
        .stderr("exceeds the limit, but lies within");
    let _ = compare(&before, &before, &["--threshold", largest])
        .success()
        .nowhere("warning");
}

#[test]
fn a_run_that_did_not_come_to_its_end_passes_no_check_silently() {
    let before = drawn(BOX, &[(500, 1, "ok"), (500, 400, "ok"), (700, 1, "oom")]);
    let killed = cut_off(BOX, &[(400, 1, "ok"), (400, 300, "ok"), (700, 1, "oom")]);
    let not_compared = "not compared: [2] did not come to its end";
    let volume = ["--threshold", "volume=5%"];
    let outcome = compare(&before, &killed, &volume).success();
    let _ = outcome
        .stdout("[2] did not come to its end")
        .stdout(not_compared)
        .stderr(not_compared);
    let strict = [&volume[..], &["--strict"]].concat();
    let _ = compare(&before, &killed, &strict)
        .code(4)
        .stderr("[2] did not come to its end");
    let _ = compare(&killed, &before, &strict)
        .code(4)
        .stderr("[1] did not come to its end");
    let markdown = compare(&before, &killed, &[&volume[..], &["--markdown"]].concat()).success();
    let heading = markdown.stdout.lines().next().unwrap().replace('\\', "");
    assert_eq!(
        heading,
        "## profiler compare: no threshold exceeded, 1 not compared; [2] did not come to its end"
    );
    let _ = markdown.stdout("not finished").nowhere("`running`");
    // The proven part of a killed run may already satisfy a limit, or rule it out.
    let _ = compare(&before, &killed, &["--threshold", "frontier input>=400", "--strict"]).success();
    let _ = compare(&before, &killed, &["--threshold", "frontier input>=700"]).code(4);
    // The comparison page uses the same words as `show`.
    let runs = [before.folder().join("r"), killed.folder().join("r")];
    let page = Profiler::new()
        .arg("report")
        .args(&runs)
        .args(["--html", "p.html"])
        .run()
        .success();
    let page = std::fs::read_to_string(page.folder().join("p.html")).unwrap();
    assert!(page.contains(">not finished<") && !page.contains(">running<"));
    let document = compare(&before, &killed, &["--json"]).success().json();
    assert_eq!(finding(&document, "volume")["verdict"], "not compared");
}

#[test]
fn a_run_in_which_nothing_was_measured_has_nothing_to_compare() {
    let (before, bad) = (searched(0.70, 1, "r"), cut_off(BOX, &[]));
    let shown = compare(&before, &bad, &[]).success();
    let _ = shown.stdout("[2] has nothing to compare").nowhere("only [2]");
    let _ = compare(&before, &bad, &["--max-regression", "5"])
        .code(2)
        .stderr("has nothing to compare: nothing was measured in it")
        .nowhere("cannot compare a simulated");
}

#[test]
fn what_is_recommended_has_a_side_and_a_name_without_blanks() {
    let before = drawn(BOX, &[(500, 400, "ok"), (600, 500, "oom")]);
    let after = drawn(BOX, &[(400, 300, "ok"), (490, 350, "oom")]);
    let name = ["--threshold", "recommended_input>=-5%"];
    let _ = compare(&before, &after, &name).code(4).stderr("recommended input");
    let document = compare(&before, &after, &["--json"]).success().json();
    assert_eq!(finding(&document, "recommended input")["verdict"], "worse");
    // A point that trades one length for the other only moves along the boundary.
    let along = drawn(BOX, &[(400, 600, "ok"), (490, 650, "oom")]);
    let document = compare(&before, &along, &["--json"]).success().json();
    for name in ["recommended input", "recommended output"] {
        assert_eq!(finding(&document, name)["verdict"], "other", "{name}");
    }
    let help = Profiler::new().args(["compare", "--help"]).run().success();
    let help: Vec<&str> = help.stdout.split_whitespace().collect();
    let help = help.join(" ");
    assert!(help.contains("`volume=5%`: at most 5 % worse"), "{help}");
}
