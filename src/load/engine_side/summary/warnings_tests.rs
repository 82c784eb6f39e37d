use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::load::Counts;
use crate::load::engine_side::{PowerStats, SamplingStats};

fn record(outcome: Outcome) -> Record {
    Record {
        index: 0,
        warmup: false,
        input: 10,
        output: 5,
        scheduled: Duration::ZERO,
        sent: Duration::ZERO,
        first_byte: None,
        first_token: None,
        last_token: None,
        ended: Duration::from_secs(1),
        itl_ms: Vec::new(),
        events: 0,
        tokens_seen: None,
        counts: Counts {
            input: Some(10),
            output: Some(5),
        },
        text: None,
        finish: None,
        outcome,
    }
}

fn counted(finished: &[(&str, u64)], generated: u64) -> EngineStats {
    EngineStats {
        counted: EngineCounters {
            prompt_tokens: Some(20),
            generated_tokens: Some(generated),
            finished: finished
                .iter()
                .map(|(how, count)| ((*how).to_owned(), *count))
                .collect(),
        },
        ..EngineStats::default()
    }
}

#[test]
fn equal_counts_cause_no_warning() {
    let two = [record(Outcome::Completed), record(Outcome::Completed)];
    assert!(counted(&[("length", 2), ("abort", 0)], 10).warnings(&two).is_empty());
    assert!(counted(&[("all", 3), ("abort", 1)], 10).warnings(&two).is_empty());
    let cut = [record(Outcome::Completed), record(Outcome::CutOff)];
    for (well, tokens) in [(1, 7), (2, 10)] {
        assert!(counted(&[("length", well)], tokens).warnings(&cut).is_empty(), "{well}");
    }
    assert!(EngineStats::default().warnings(&two).is_empty(), "nothing counted");
}

#[test]
fn different_counts_cause_a_warning() {
    let two = [record(Outcome::Completed), record(Outcome::Completed)];
    let warnings = counted(&[("length", 3), ("stop", 2)], 25).warnings(&two);
    assert!(
        warnings[0].message.contains("5 completed requests and the client 2"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].message.contains("25 tokens generated and the answers 10"),
        "{warnings:?}"
    );
    assert_eq!(counted(&[("length", 1)], 10).warnings(&two).len(), 1, "one is missing");
}

#[test]
fn missing_samples_name_the_affected_metrics() {
    let stats = EngineStats {
        timeline: SamplingStats {
            hz: 10.0,
            looks: 8,
            missed: 2,
            longest_gap: Some(2.25),
            ..SamplingStats::default()
        },
        power: Some(PowerStats {
            mean: 1.0,
            max: 1.0,
            busy_percent: None,
            per_gpu: BTreeMap::new(),
            unseen_seconds: 3.0,
        }),
        ..EngineStats::default()
    };
    let warnings = stats.warnings(&[]);
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(
        warnings[0]
            .message
            .starts_with("2 of 10 polls of the metrics page failed: `running`, `waiting`, `kv_usage`")
    );
    assert!(warnings[1].message.contains("2.25 s at a time"));
    assert!(warnings[2].message.contains("`energy_wh`"));
}
