//! A user sets when a load ends, its warm-up, and its repeats.

use std::collections::HashSet;

use serde_json::Value;

use super::{FAST, SLOW, loaded};

#[test]
fn the_warm_up_is_handed_over_without_draining_and_is_in_no_figure() {
    let load = loaded(
        SLOW,
        "concurrency: 4, requests: 20, warmup: #{ requests: 6 }, input: 16, output: 40",
    );
    assert_eq!(load.counts(), [20, 20, 0, 0], "{}", load.answer);
    assert_eq!(load.answer["warmup"]["issued"], 6);
    let (warm, measured): (Vec<_>, Vec<_>) = load.records.iter().partition(|record| record["warmup"] == true);
    assert_eq!((warm.len(), measured.len()), (6, 20));
    let moment = |record: &Value, key: &str| record[key].as_f64().unwrap();
    let hand_over = measured
        .iter()
        .map(|record| moment(record, "sent"))
        .fold(f64::INFINITY, f64::min);
    let under_way = warm.iter().filter(|record| moment(record, "ended") > hand_over);
    assert!(under_way.count() > 0, "slots go on over the hand-over");
    let began = load.answer["warmup"]["seconds"].as_f64().unwrap();
    assert!((began - hand_over).abs() < 0.05, "{began} {hand_over}");
}

#[test]
fn a_warm_up_by_time_counts_by_when_requests_are_due() {
    let load = loaded(
        FAST,
        "rate: 100, arrivals: \"constant\", requests: 30, warmup: #{ seconds: 0.255 }, input: 16, output: 1",
    );
    assert_eq!(
        (load.counts()[0], &load.answer["warmup"]["issued"]),
        (30, &26.into()),
        "{}",
        load.answer
    );
    assert_eq!(load.answer["warmup"]["seconds"], 0.255);
    let closed = loaded(
        SLOW,
        "concurrency: 2, requests: 8, warmup: #{ seconds: 0.2 }, input: 16, output: 40",
    );
    assert_eq!(closed.counts(), [8, 8, 0, 0], "{}", closed.answer);
    // A request counts as warm-up by its time of issue, which lies between the release of its slot and its sending.
    assert!(closed.measured().all(|record| record["sent"].as_f64().unwrap() >= 0.2));
    let warm = closed.records.iter().filter(|record| record["warmup"] == true);
    assert!(warm.clone().count() > 0 && warm.clone().all(|record| record["scheduled"].as_f64().unwrap() < 0.2));
}

#[test]
fn what_is_unfinished_when_the_time_is_up_is_cut_off() {
    for (arrivals, warmup) in [
        ("concurrency: 3", ""),
        ("rate: 2.5", ""),
        ("concurrency: 3", ", warmup: #{ requests: 3 }"),
    ] {
        let load = loaded(
            SLOW,
            // Lengths from almost nothing to twice the duration: on any machine some requests end in time and some do
            // not.
            &format!("{arrivals}{warmup}, duration: 30.0, seed: 3, input: 16, output: #{{ uniform: [2, 3000] }}"),
        );
        let [issued, completed, failed, cut_off] = load.counts();
        assert_eq!((issued, failed), (completed + cut_off, 0), "{}", load.answer);
        assert!(completed > 0 && cut_off > 0, "{}", load.answer);
        assert_eq!(load.answer["stopped"], "duration", "{}", load.answer);
        assert_eq!(load.measured().count() as u64, issued);
        let began = load.answer["warmup"]["seconds"].as_f64().unwrap_or(0.0);
        let last = load.numbers("ended").into_iter().fold(0.0, f64::max);
        assert!(last - began > 28.0, "{last} after {began}");
    }
}

#[test]
fn it_ends_once_the_interval_is_narrow_or_says_that_it_is_not() {
    let precision =
        |within: f64| format!("precision: #{{ metric: \"e2el_ms\", statistic: \"mean\", within: {within} }}");
    let slow = SLOW;
    let wide = loaded(
        slow,
        &format!(
            "concurrency: 8, requests: 2000, {}, input: 16, output: 4",
            precision(0.9)
        ),
    );
    assert_eq!(wide.answer["stopped"], "precision", "{}", wide.answer);
    let reached = &wide.answer["precision"];
    assert!(
        reached["reached"] == true && reached["width"].as_f64().unwrap() <= 0.9,
        "{reached}"
    );
    // The precision is first checked after a hundred requests.
    assert!((100..250).contains(&wide.counts()[1]), "{}", wide.answer);
    let narrow = loaded(
        slow,
        &format!(
            "concurrency: 8, requests: 120, {}, input: 16, output: 4",
            precision(1e-6)
        ),
    );
    assert_eq!(
        (&narrow.answer["stopped"], &narrow.answer["precision"]["reached"]),
        (&"requests".into(), &false.into())
    );
    let warnings = narrow.answer["warnings"].to_string();
    assert!(warnings.contains("did not reach"), "{warnings}");
}

#[test]
fn repeats_differ_by_seed_and_are_told_one_by_one_and_together() {
    let load = loaded(
        FAST,
        "concurrency: 2, requests: 10, warmup: #{ requests: 2 }, repeats: 3, input: #{ uniform: [16, 999] }, output: 2",
    );
    assert_eq!(load.counts(), [30, 30, 0, 0], "{}", load.answer);
    let each = load.answer["repeats"]["each"].as_array().unwrap();
    assert_eq!(load.answer["repeats"]["runs"], 3);
    for (index, repeat) in each.iter().enumerate() {
        assert_eq!(
            (&repeat["issued"], &repeat["seed"]),
            (&10.into(), &(7 + index as u64).into())
        );
    }
    let sums = ["duration"].map(|key| each.iter().map(|repeat| repeat[key].as_f64().unwrap()).sum::<f64>());
    assert!(
        load.answer["duration"].as_f64().unwrap() >= 0.9 * sums[0],
        "{}",
        load.answer
    );
    assert_eq!((load.records.len(), load.repeats.len()), (12, 2));
    let inputs =
        |records: &Vec<Value>| -> Vec<u64> { records.iter().map(|record| record["input"].as_u64().unwrap()).collect() };
    let distinct: HashSet<Vec<u64>> = load.repeats.iter().chain([&load.records]).map(inputs).collect();
    assert_eq!(distinct.len(), 3);
}
