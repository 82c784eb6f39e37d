//! Properties of the statistics of any load, tested on generated records.

use std::time::Duration;

use proptest::prelude::*;

use super::super::*;
use crate::load::{Counts, Failure, FailureForm, Outcome};

/// A completed request of 100 + 10 tokens: the first token after 50 ms, then one every 10 ms.
pub(super) fn record(index: u64, sent_ms: u64) -> Record {
    let at = |ms: u64| Duration::from_millis(sent_ms + ms);
    Record {
        index,
        warmup: false,
        input: 100,
        output: 10,
        scheduled: at(0),
        sent: at(0),
        first_byte: Some(at(50)),
        first_token: Some(at(50)),
        last_token: Some(at(140)),
        ended: at(141),
        itl_ms: vec![10.0; 9],
        events: 10,
        tokens_seen: None,
        counts: Counts {
            input: Some(100),
            output: Some(10),
        },
        text: None,
        finish: Some("length".to_owned()),
        outcome: Outcome::Completed,
    }
}

/// Settings of a load with synthetic prompts.
pub(super) fn settings(target: TargetConcurrency) -> Settings {
    Settings {
        target,
        exact: true,
        ..Settings::default()
    }
}

/// A request with any outcome.
fn any_record() -> impl Strategy<Value = Record> {
    let times = (
        0_u64..5_000,
        0_u64..50,
        0_u64..200,
        prop::collection::vec(0_u16..50, 0..12),
    );
    let rest = (0_u8..8, any::<bool>(), 0_u64..14, prop::option::of(0_u64..14));
    (times, rest).prop_map(|((due, late, first, gaps), (way, warmup, output, seen))| {
        let at = |ms: u64| Duration::from_millis(due + ms);
        let sent = late;
        let last = sent + first + gaps.iter().map(|gap| u64::from(*gap)).sum::<u64>();
        let failed = |form| {
            Outcome::Failed(Failure {
                form,
                message: "no".to_owned(),
            })
        };
        let outcome = match way {
            0 => Outcome::CutOff,
            1 => failed(FailureForm::Status(429)),
            2 => failed(FailureForm::Broken),
            _ => Outcome::Completed,
        };
        let answered = way != 1;
        Record {
            index: 0,
            warmup: warmup && way == 7,
            input: 100,
            output: 10,
            scheduled: at(0),
            sent: at(sent),
            first_byte: answered.then(|| at(sent + first)),
            first_token: answered.then(|| at(sent + first)),
            last_token: answered.then(|| at(last)),
            ended: at(last + 1),
            events: if answered { gaps.len() as u64 + 1 } else { 0 },
            itl_ms: gaps.into_iter().map(f32::from).collect(),
            tokens_seen: seen,
            counts: Counts {
                input: (way != 6).then_some(100),
                output: (way != 6).then_some(output),
            },
            text: None,
            finish: Some("length".to_owned()),
            outcome,
        }
    })
}

fn any_load() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec(any_record(), 0..80).prop_map(|mut records| {
        for (index, record) in records.iter_mut().enumerate() {
            record.index = index as u64;
        }
        records
    })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    (0_u64..9, any::<bool>(), any::<bool>()).prop_map(|(concurrency, exact, slo)| Settings {
        target: match concurrency {
            0 => TargetConcurrency::Open {
                ramped: Duration::from_millis(300),
            },
            concurrency => TargetConcurrency::Closed { concurrency },
        },
        slo: slo.then_some(Slo {
            ttft_ms: Some(100.0),
            tpot_ms: Some(25.0),
            e2el_ms: None,
            itl_ms: Some(40.0),
        }),
        exact,
        ..Settings::default()
    })
}

/// Every number in a document.
fn numbers(value: &serde_json::Value, into: &mut Vec<f64>) {
    match value {
        serde_json::Value::Number(number) => into.push(number.as_f64().unwrap()),
        serde_json::Value::Array(values) => values.iter().for_each(|value| numbers(value, into)),
        serde_json::Value::Object(map) => map.values().for_each(|value| numbers(value, into)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_is_counted_once(records in any_load(), settings in any_settings()) {
        let stats = LoadStats::from_records(&records, &settings);
        let measured = records.iter().filter(|record| !record.warmup).count() as u64;
        prop_assert_eq!(stats.issued, measured);
        prop_assert_eq!(stats.issued, stats.completed + stats.failed + stats.cut_off);
        let by_form: u64 = stats.failures.values().map(|failures| failures.count).sum();
        prop_assert_eq!(by_form, stats.failed);
        prop_assert!(stats.failures.values().all(|failures| !failures.message.is_empty()));
        prop_assert_eq!(stats.latencies.e2el_ms.n as u64, stats.completed);
    }

    #[test]
    fn order_of_records_does_not_matter(records in any_load(), settings in any_settings(), turn in 0_usize..80) {
        let mut rotated: Vec<Record> = records.iter().rev().cloned().collect();
        let by = turn % rotated.len().max(1);
        rotated.rotate_left(by);
        prop_assert_eq!(LoadStats::from_records(&records, &settings), LoadStats::from_records(&rotated, &settings));
    }

    #[test]
    fn all_values_are_finite(records in any_load(), settings in any_settings()) {
        let stats = LoadStats::from_records(&records, &settings);
        let value = serde_json::to_value(&stats).unwrap();
        let mut all = Vec::new();
        numbers(&value, &mut all);
        // Non-finite values are serialized as null and would not round-trip.
        prop_assert!(all.iter().all(|number| number.is_finite()));
        prop_assert_eq!(serde_json::from_value::<LoadStats>(value).unwrap(), stats);
    }

    #[test]
    fn throughput_is_count_divided_by_time(records in any_load(), settings in any_settings()) {
        let stats = LoadStats::from_records(&records, &settings);
        let rates = stats.rates;
        if let (Some(requests), Some(input), Some(output), Some(total)) = (
            rates.request_throughput,
            rates.input_throughput,
            rates.output_throughput,
            rates.total_token_throughput,
        ) {
            let completed = stats.completed as f64;
            prop_assert!((requests * stats.duration - completed).abs() < 1e-6);
            prop_assert!((input * stats.duration - 100.0 * completed).abs() < 1e-6);
            prop_assert!((input + output - total).abs() < 1e-6);
            if let Some(engine) = stats.tokens.engine.output {
                let engine = engine as f64;
                prop_assert!((output * stats.duration - engine).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn steady_part_is_inside_the_load(records in any_load(), settings in any_settings()) {
        let stats = LoadStats::from_records(&records, &settings);
        if let Some(steady) = &stats.steady {
            prop_assert!(steady.from < steady.to && steady.completed <= stats.completed);
            if let TargetConcurrency::Closed { concurrency } = settings.target {
                let wanted = concurrency as f64;
                prop_assert!(steady.concurrency >= 0.9 * wanted - 1e-9, "{} of {wanted}", steady.concurrency);
            }
        }
    }

    #[test]
    fn adjusted_percentiles_are_not_lower_than_those_of_completed_requests(records in any_load()) {
        let stats = LoadStats::from_records(&records, &settings(TargetConcurrency::Varying));
        let (adjusted, plain) = (stats.adjusted.e2el_ms, stats.latencies.e2el_ms);
        if let (Some(adjusted), Some(p50)) = (adjusted.p90, plain.median) {
            prop_assert!(adjusted >= p50);
        }
    }
}

#[test]
fn no_requests_give_no_values() {
    let nothing = LoadStats::from_records(&[], &settings(TargetConcurrency::Closed { concurrency: 4 }));
    assert_eq!(nothing, LoadStats::default());
    let value = serde_json::to_value(nothing).unwrap();
    assert!(
        value["ttft_ms"]["mean"].is_null() && value["request_throughput"].is_null(),
        "{value}"
    );
    assert!(
        value["ttft_ms"]["ci"]["p99"].is_null() && value["steady"].is_null(),
        "{value}"
    );
    assert!(value.as_object().unwrap().contains_key("max_output_tokens_per_s"));
}
