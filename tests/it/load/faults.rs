//! A user's engine misbehaves during a load: the load reports what it measured until then.

use serde_json::Value;

use super::{finished, loaded, script};
use crate::support::Profiler;

fn misbehaving(how: &str, load: &str) -> super::Loaded {
    loaded(&format!("sim: #{{ time_scale: 0.02, misbehave: #{{ {how} }} }}"), load)
}

fn sum(load: &super::Loaded) {
    let [issued, completed, failed, cut_off] = load.counts();
    assert_eq!(issued, completed + failed + cut_off, "{}", load.answer);
    assert_eq!(load.measured().count() as u64, issued);
}

#[test]
fn a_death_ends_the_load_and_is_told_with_its_evidence() {
    let load = misbehaving(
        "die_mid_stream: 12",
        "concurrency: 4, requests: 400, input: 16, output: 16",
    );
    sum(&load);
    let died = &load.answer["died"];
    assert_eq!(
        (&load.answer["stopped"], &died["exit_code"]),
        (&"died".into(), &1.into()),
        "{}",
        load.answer
    );
    assert!(
        died["message"].as_str().is_some_and(|message| !message.is_empty()),
        "{died}"
    );
    assert!(load.counts()[0] < 400, "nobody is asked who is dead: {}", load.answer);
    assert!(load.answer["warnings"].to_string().contains("died"));
}

#[test]
fn the_next_load_starts_a_dead_engine_again() {
    let text = "import \"std/engines\" as engines;
        let engine = engines::describe(\"sim\", #{ sim: #{ time_scale: 0.02, misbehave: #{ die_mid_stream: 12 } } });
        let long = engine.load(#{ concurrency: 2, requests: 20, input: 16, output: 16 });
        let short = engine.load(#{ concurrency: 2, requests: 4, input: 16, output: 4 });
        [long.stopped, short.stopped, short.completed]";
    let load = finished(Profiler::new().file("main.rhai", text), &[]);
    assert_eq!(load.answer, serde_json::json!(["died", "requests", 4]));
}

#[test]
fn failures_are_told_by_their_forms() {
    let load = misbehaving(
        "error_then_done: 2",
        "concurrency: 3, requests: 12, input: 16, output: 8",
    );
    sum(&load);
    assert!(load.counts()[2] >= 5, "{}", load.answer);
    assert_eq!(load.answer["died"], Value::Null);
}

#[test]
fn a_stall_ends_at_the_deadline_of_each_request() {
    let load = misbehaving(
        "hang: 2",
        "concurrency: 3, requests: 6, timeout: 0.4, input: 16, output: 8",
    );
    sum(&load);
    assert_eq!(load.counts()[2], 6, "{}", load.answer);
}

#[test]
fn where_nothing_starts_nothing_can_be_told() {
    let text = script(
        "sim: #{ misbehave: #{ fail_start: #{ message: \"CUDA out of memory\" } } }",
        "concurrency: 1, requests: 1, input: 16, output: 1",
    );
    let outcome = Profiler::new().file("main.rhai", text).args(["run", "main.rhai"]).run();
    assert_ne!(outcome.code, Some(0), "{}", outcome.stderr);
}
