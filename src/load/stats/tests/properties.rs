//! Properties of the statistics of any load, tested on generated records; and the statistics compared with numpy, and with
//! samples from known distributions.

use std::time::Duration;

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::super::summary::{Sample, interpolated};
use super::super::*;
use crate::load::{Counts, FailureForm, RequestOutcome};

/// A completed request of 100 + 10 tokens: the first token after 50 ms, then one every 10 ms.
pub(super) fn record(index: u64, sent_ms: u64) -> RequestRecord {
    let at = |ms: u64| Duration::from_millis(sent_ms + ms);
    RequestRecord {
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
        finish: Some("length".into()),
        outcome: RequestOutcome::Completed,
        ..RequestRecord::default()
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
fn any_record() -> impl Strategy<Value = RequestRecord> {
    let times = (
        0_u64..5_000,
        0_u64..50,
        0_u64..200,
        prop::collection::vec(0_u16..50, 0..12),
    );
    let rest = (0_u8..8, any::<bool>(), 0_u64..14, prop::option::of(0_u32..14));
    (times, rest).prop_map(|((due, late, first, gaps), (way, warmup, output, seen))| {
        let at = |ms: u64| Duration::from_millis(due + ms);
        let sent = late;
        let last = sent + first + gaps.iter().map(|gap| u64::from(*gap)).sum::<u64>();
        let failed = |form| RequestOutcome::failed(form, "no");
        let outcome = match way {
            0 => RequestOutcome::CutOff,
            1 => failed(FailureForm::Status(429)),
            2 => failed(FailureForm::Broken),
            _ => RequestOutcome::Completed,
        };
        let answered = way != 1;
        RequestRecord {
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
            events: if answered { gaps.len() as u32 + 1 } else { 0 },
            itl_ms: gaps.into_iter().map(f32::from).collect(),
            tokens_seen: seen,
            counts: Counts {
                input: (way != 6).then_some(100),
                output: (way != 6).then_some(output),
            },
            text: None,
            finish: Some("length".into()),
            outcome,
            ..RequestRecord::default()
        }
    })
}

fn any_load() -> impl Strategy<Value = Vec<RequestRecord>> {
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
        let mut rotated: Vec<RequestRecord> = records.iter().rev().cloned().collect();
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

/// `n` reproducible values: the upper 24 bits of Knuth's linear congruential generator, scaled to 0..1000.
fn congruential(n: usize) -> Vec<f64> {
    let mut state = n as u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(state >> 40).unwrap()) / f64::from(1 << 24) * 1000.0
    };
    (0..n).map(|_| next()).collect()
}

/// Computed with numpy 2.4.6: `mean`, `std`, and `percentile` at 50, 90, 95, 99 and 99.9.
const NUMPY: [(usize, [f64; 7]); 6] = [
    (
        2,
        [
            842.662_870_883_941_7,
            74.453_234_672_546_39,
            842.662_870_883_941_7,
            902.225_458_621_978_9,
            909.670_782_089_233_4,
            915.627_040_863_037_1,
            916.967_199_087_143,
        ],
    ),
    (
        3,
        [
            390.822_152_296_702_1,
            257.870_406_609_842_63,
            324.824_750_423_431_4,
            652.510_154_247_283_9,
            693.470_829_725_265_5,
            726.239_370_107_650_8,
            733.612_291_693_687_6,
        ],
    ),
    (
        10,
        [
            471.465_247_869_491_6,
            335.701_556_262_544_3,
            476.111_829_280_853_27,
            958.158_689_737_32,
            961.680_242_419_242_9,
            964.497_484_564_781_2,
            965.131_364_047_527_3,
        ],
    ),
    (
        100,
        [
            535.706_893_205_642_7,
            272.905_085_842_881_6,
            545.288_652_181_625_4,
            900.678_586_959_838_9,
            945.515_602_827_072_1,
            979.939_973_950_386,
            986.502_019_226_551_2,
        ],
    ),
    (
        1000,
        [
            496.932_813_346_385_96,
            287.494_944_052_402_2,
            491.455_942_392_349_24,
            901.675_409_078_598,
            951.487_874_984_741_1,
            995.753_193_497_657_8,
            999.427_162_230_014_8,
        ],
    ),
    (
        3001,
        [
            497.347_203_344_950_8,
            288.514_627_591_129_9,
            493.492_007_255_554_2,
            894.872_426_986_694_3,
            948.541_641_235_351_6,
            990.110_874_176_025_4,
            998.709_797_859_191_9,
        ],
    ),
];

#[test]
fn values_match_numpy() {
    for (n, expected) in NUMPY {
        let values = congruential(n);
        let summary = Summary::from_values(values.clone());
        let mut ascending = values;
        ascending.sort_unstable_by(f64::total_cmp);
        let percentile = |share| interpolated(&ascending, share).unwrap();
        let got = [
            summary.mean.unwrap(),
            summary.std.unwrap(),
            percentile(0.5),
            percentile(0.9),
            percentile(0.95),
            percentile(0.99),
            percentile(0.999),
        ];
        for (got, expected) in got.into_iter().zip(expected) {
            assert!((got / expected - 1.0).abs() < 1e-12, "{n}: {got} is not {expected}");
        }
        assert_eq!(summary.median, Some(got[2]));
    }
}

/// Exponential with mean 1.
fn exponential(random: &mut ChaCha8Rng) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}

/// Standard normal, by Box and Muller.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle) = (exponential(random), random.random::<f64>());
    (2.0 * radius).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// The share of samples whose intervals of the mean, the median and p99 contain the true value.
fn coverage(trials: u32, truth: [f64; 3], mut sample: impl FnMut() -> Sample) -> [f64; 3] {
    let mut target = [0_u32; 3];
    for _ in 0..trials {
        let ci = Summary::from_sample(&sample()).ci;
        for ((target, interval), truth) in target.iter_mut().zip([ci.mean, ci.median, ci.p99]).zip(truth) {
            let [low, high] = interval.unwrap();
            *target += u32::from(low <= truth && truth <= high);
        }
    }
    target.map(|target| f64::from(target) / f64::from(trials))
}

#[test]
fn coverage_with_independent_values() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let values = |draw: fn(&mut ChaCha8Rng) -> f64, random: &mut ChaCha8Rng| -> Vec<f64> {
        (0..1000).map(|_| draw(random)).collect()
    };
    let quantile = |share: f64| -(1.0 - share).ln();
    let of_exponential = coverage(400, [1.0, quantile(0.5), quantile(0.99)], || {
        Sample::per_request(values(exponential, &mut random), 1)
    });
    let of_normal = coverage(400, [0.0, 0.0, 2.326_347_874], || {
        Sample::per_request(values(normal, &mut random), 1)
    });
    for share in of_exponential.into_iter().chain(of_normal) {
        // 95 % within the error of 400 trials; order statistics cover slightly more.
        assert!((0.925..=0.985).contains(&share), "{of_exponential:?} {of_normal:?}");
    }
}

#[test]
fn coverage_with_correlated_values() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    // Autocorrelation 0.9: for the mean, 1900 values are worth 100 independent ones.
    let of_chain = coverage(200, [0.0, 0.0, 2.326_347_874], || {
        let mut value = normal(&mut random);
        let step = (1.0_f64 - 0.81).sqrt();
        let mut next = || {
            value = 0.9 * value + step * normal(&mut random);
            value
        };
        // Enough values to support p99.
        Sample::per_request((0..12_000).map(|_| next()).collect(), 1)
    });
    assert!(of_chain.iter().all(|share| *share >= 0.9), "{of_chain:?}");
}

#[test]
fn itl_intervals_count_requests_not_gaps() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    // 64 requests with different speeds; the gaps within a request hardly differ.
    let truth = [10.0, 10.0, 12.331];
    let of_gaps = coverage(150, truth, || {
        let requests: Vec<Vec<f32>> = (0..640)
            .map(|_| {
                let pace = 10.0 + normal(&mut random);
                (0..20).map(|_| (pace + 0.1 * normal(&mut random)) as f32).collect()
            })
            .collect();
        Sample::per_token(requests.iter().map(Vec::as_slice), 1)
    });
    assert!(of_gaps.iter().all(|share| *share >= 0.9), "{of_gaps:?}");
}
