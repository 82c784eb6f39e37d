//! Statistics of small loads computed by hand.

mod properties;

use std::time::Duration;

use super::*;
use crate::load::{FailureForm, RequestOutcome, Tolerance};
use properties::{record, settings};

const CLOSED: TargetConcurrency = TargetConcurrency::Closed { concurrency: 2 };

/// Two slots with five consecutive requests each.
fn closed() -> Vec<RequestRecord> {
    (0..10).map(|index| record(index, index / 2 * 142)).collect()
}

fn failed(mut record: RequestRecord, form: FailureForm) -> RequestRecord {
    record.outcome = RequestOutcome::failed(form, "no");
    record
}

fn close(got: Option<f64>, want: f64) {
    let got = got.unwrap();
    assert!((got - want).abs() < 1e-6 * want.abs().max(1.0), "{got} is not {want}");
}

#[test]
fn statistics_match_their_definitions() {
    let stats = LoadStats::from_records(&closed(), &settings(CLOSED));
    assert_eq!(
        (stats.issued, stats.completed, stats.failed, stats.cut_off),
        (10, 10, 0, 0)
    );
    // Four times 142 ms, then 141 ms for the last two.
    close(Some(stats.duration), 0.709);
    close(stats.rates.request_throughput, 10.0 / 0.709);
    close(stats.rates.input_throughput, 1000.0 / 0.709);
    close(stats.rates.output_throughput, 100.0 / 0.709);
    close(stats.rates.total_token_throughput, 1100.0 / 0.709);
    let latencies = &stats.latencies;
    close(latencies.ttft_ms.mean, 50.0);
    close(latencies.tpot_ms.mean, 10.0);
    close(latencies.itl_ms.mean, 10.0);
    close(latencies.e2el_ms.median, 140.0);
    assert_eq!((latencies.itl_ms.n, latencies.e2el_ms.n), (90, 10));
    assert_eq!(stats.max_concurrent_requests, Some(2));
    close(stats.max_output_tokens_per_s, 100.0);
    assert_eq!(stats.goodput, None);
    assert!(stats.warnings.is_empty());
}

#[test]
fn response_time_starts_when_due() {
    let mut late = record(0, 300);
    late.scheduled = Duration::from_millis(100);
    let stats = LoadStats::from_records(&[late], &settings(TargetConcurrency::Varying));
    close(stats.latencies.ttft_ms.mean, 50.0);
    close(stats.response.ttft_ms.mean, 250.0);
    close(stats.response.e2el_ms.mean, 340.0);
    close(Some(stats.duration), 0.341);
}

#[test]
fn a_wrong_prompt_is_a_failure_and_a_short_answer_counts_as_it_came() {
    let mut short = record(0, 0);
    short.counts.output = Some(7);
    short.finish = Some("stop".into());
    let mut other = record(1, 0);
    other.counts.input = Some(80);
    let mut uncounted = record(2, 0);
    uncounted.counts.output = None;
    uncounted.finish = Some("stop".into());
    let mut aborted = record(3, 0);
    aborted.finish = Some("abort".into());
    let records = [short, other, uncounted, aborted];
    let stats = LoadStats::from_records(&records, &settings(CLOSED));
    assert_eq!((stats.completed, stats.failed, stats.short), (2, 2, 1));
    let forms: Vec<&str> = stats.failures.keys().map(String::as_str).collect();
    assert_eq!(forms, ["aborted", "input_count"]);
    // Seven tokens as counted, and ten by the events.
    close(stats.rates.output_throughput, 17.0 / stats.duration);
    let warns = |stats: &LoadStats| stats.warnings.iter().any(|warning| warning.code == "short_answers");
    assert!(warns(&stats));
    let tolerant = Settings {
        tolerance: Tolerance::tokens(3),
        ..settings(CLOSED)
    };
    let stats = LoadStats::from_records(&records, &tolerant);
    assert!(stats.completed == 2 && stats.short == 0 && !warns(&stats), "{stats:?}");
    // The lengths of the user's own prompts are not known.
    let lenient = Settings {
        exact: false,
        ..settings(CLOSED)
    };
    let stats = LoadStats::from_records(&records, &lenient);
    assert_eq!((stats.completed, stats.short), (3, 0));
}

/// Four slots, whose requests take 1,268 ms; the load ends after 2.4 s, within the second of each.
#[test]
fn the_end_of_a_duration_takes_the_steady_part() {
    let long = |index: u64, from: u64, tokens: u64| {
        let at = |ms: u64| Duration::from_millis(from + ms);
        RequestRecord {
            index,
            output: 100,
            scheduled: at(0),
            sent: at(0),
            first_token: Some(at(80)),
            last_token: Some(at(80 + (tokens - 1) * 12)),
            ended: at(80 + (tokens - 1) * 12),
            itl_ms: vec![12.0; usize::try_from(tokens - 1).unwrap()],
            events: tokens as u32,
            counts: crate::load::Counts {
                input: Some(100),
                output: (tokens == 100).then_some(100),
            },
            ..record(index, from)
        }
    };
    let mut records: Vec<RequestRecord> = (0..4).map(|index| long(index, 0, 100)).collect();
    for index in 4..8 {
        let mut cut = long(index, 1268, 88);
        (cut.outcome, cut.ended, cut.finish) = (RequestOutcome::CutOff, Duration::from_millis(2400), None);
        records.push(cut);
    }
    let ended = Settings {
        over: Some(Duration::from_millis(2400)),
        ..settings(TargetConcurrency::Closed { concurrency: 4 })
    };
    let stats = LoadStats::from_records(&records, &ended);
    assert_eq!((stats.completed, stats.cut_off), (4, 4));
    let rate = stats.rates.output_throughput.unwrap();
    assert!((rate / (400.0 / 1.268) - 1.0).abs() < 0.02, "{rate}");
    let warning = stats.warnings.iter().find(|warning| warning.code == "cut_off").unwrap();
    assert!(
        warning.message.starts_with("4 of 8 requests were cut off"),
        "{warning:?}"
    );
}

#[test]
fn rejections_are_counted_beside_what_was_served() {
    let mut records: Vec<RequestRecord> = closed();
    (records[3].rejections, records[3].waited) = (2, Duration::from_millis(1500));
    records.push(failed(record(10, 0), FailureForm::Status(429)));
    let stats = LoadStats::from_records(&records, &settings(TargetConcurrency::Closed { concurrency: 8 }));
    assert_eq!((stats.completed, stats.rejected), (10, 3));
    close(Some(stats.waited), 1.5);
    let warning = stats
        .warnings
        .iter()
        .find(|warning| warning.code == "rate_limited")
        .unwrap();
    assert!(
        warning.message.contains("2 of 11 requests") && warning.message.contains("allows 2 at a time"),
        "{warning:?}"
    );
}

#[test]
fn tokenizer_counts_if_the_engine_does_not() {
    let mut uncounted = record(7, 0);
    uncounted.counts.output = None;
    let mut settings = settings(CLOSED);
    settings.tokenized.insert(7, 10);
    let stats = LoadStats::from_records(&[uncounted], &settings);
    assert_eq!(
        (stats.completed, stats.tokens.tokenizer, stats.tokens.engine.output),
        (1, Some(10), None)
    );
    close(stats.latencies.tpot_ms.mean, 10.0);
    assert!(
        stats.warnings[0].message.contains("did not count the tokens of 1 of 1"),
        "{:?}",
        stats.warnings
    );
}

#[test]
fn different_token_counts_cause_a_warning() {
    let mut settings = settings(CLOSED);
    settings.tokenized.insert(0, 8);
    // Answers of the requested length cause no warning: the text only tokenizes differently.
    let as_asked = LoadStats::from_records(&[record(0, 0)], &settings);
    assert!(as_asked.warnings.is_empty(), "{:?}", as_asked.warnings);
    settings.exact = false;
    let shorter = RequestRecord {
        output: 12,
        ..record(0, 0)
    };
    let stats = LoadStats::from_records(&[shorter], &settings);
    close(stats.tokens.disagreement.tokenizer, 0.2);
    close(stats.tokens.disagreement.events, 0.0);
    assert!(
        stats.warnings[0].message.contains("disagree by 20.0 %") && stats.warnings[0].message.contains("`tpot_ms`"),
        "{:?}",
        stats.warnings
    );
    let mut bundled = record(0, 0);
    (bundled.events, bundled.itl_ms) = (5, vec![22.5; 4]);
    let stats = LoadStats::from_records(
        &[bundled],
        &Settings {
            tokenized: Default::default(),
            ..settings
        },
    );
    let warns = |code: &str| stats.warnings.iter().any(|warning| warning.code == code);
    // Which of them had how many is not known: 90 ms over 4 to 9 tokens.
    assert!(
        warns("several_tokens_an_event") && warns("unknown_split"),
        "{:?}",
        stats.warnings
    );
    assert!(
        stats.unmeasured["tpot_ms"].contains("between 10 ms and 22.5 ms"),
        "{:?}",
        stats.unmeasured
    );
    assert_eq!(stats.latencies.tpot_ms, Summary::default());
    close(stats.latencies.itl_ms.mean, 22.5);
    assert_eq!(stats.latencies.token_itl_ms, Summary::default());
}

#[test]
fn slow_first_requests_are_told_from_noise() {
    // The milliseconds that each request takes longer than 140.
    let is_slow = |more: &dyn Fn(u64) -> u64| {
        let requests: Vec<RequestRecord> = (0..24)
            .map(|index| {
                let mut request = record(index, index * 1000);
                request.last_token = Some(Duration::from_millis(index * 1000 + 140 + more(index)));
                request.ended = request.last_token.unwrap();
                request
            })
            .collect();
        let stats = LoadStats::from_records(&requests, &settings(CLOSED));
        stats.warnings.iter().any(|warning| warning.code == "slow_start")
    };
    assert!(is_slow(&|index| if index < 3 { 300 } else { 0 }));
    assert!(is_slow(&|index| 400 >> index));
    assert!(!is_slow(&|_| 0));
    assert!(!is_slow(&|index| if index == 0 { 900 } else { 0 }), "one slow request");
    assert!(!is_slow(&|index| index * 7 % 24 * 4), "noise");
    assert!(!is_slow(&|index| if index % 8 < 4 { 300 } else { 0 }), "waves");
}

#[test]
fn itl_is_by_event_and_by_token() {
    // Two tokens in the first event; then three after 30 ms, none after 2, and one after 10.
    let mut record = record(0, 0);
    (record.events, record.itl_ms) = (4, vec![30.0, 2.0, 10.0]);
    (record.tokens_seen, record.first_tokens, record.later_tokens) = (Some(6), Some(2), vec![3, 0, 1]);
    (record.output, record.counts.output) = (6, Some(6));
    let stats = LoadStats::from_records(std::slice::from_ref(&record), &settings(CLOSED));
    let latencies = stats.latencies;
    assert_eq!((latencies.itl_ms.n, latencies.token_itl_ms.n), (3, 4));
    close(latencies.itl_ms.mean, 14.0);
    close(latencies.token_itl_ms.mean, 10.5);
    close(latencies.token_itl_ms.p99, 12.0);
    let most = u64::from(u32::MAX);
    let mut boasting = record.clone();
    (boasting.tokens_seen, boasting.later_tokens) = (Some(u32::MAX), vec![u32::MAX; 3]);
    assert_eq!(boasting.token_gaps_ms(3 * most), None);
}

#[test]
fn failed_request_is_infinitely_slow() {
    let mut records: Vec<RequestRecord> = (0..100).map(|index| record(index, index * 200)).collect();
    for record in records.iter_mut().skip(9).step_by(10) {
        *record = failed(record.clone(), FailureForm::Status(429));
    }
    let stats = LoadStats::from_records(&records, &settings(TargetConcurrency::Varying));
    let adjusted = stats.adjusted.e2el_ms;
    assert_eq!(
        (adjusted.median, adjusted.p90, adjusted.p95),
        (Some(140.0), Some(140.0), None)
    );
    assert_eq!(stats.latencies.e2el_ms.p90, Some(140.0));
    assert_eq!(stats.failures["status_429"].count, 10);
    records[0].outcome = RequestOutcome::CutOff;
    let stats = LoadStats::from_records(&records, &settings(TargetConcurrency::Varying));
    assert_eq!((stats.cut_off, stats.adjusted.e2el_ms.p90), (1, None));
}

#[test]
fn correlated_failures_count_as_fewer() {
    let mut records: Vec<RequestRecord> = (0..100).map(|index| record(index, index * 200)).collect();
    for record in &mut records[90..] {
        *record = failed(record.clone(), FailureForm::Status(429));
    }
    let stats = LoadStats::from_records(&records, &settings(TargetConcurrency::Varying));
    assert_eq!(stats.adjusted.e2el_ms.p90, None);
}

#[test]
fn goodput_requires_every_objective() {
    let mut slow = record(1, 0);
    slow.itl_ms[4] = 30.0;
    let mut waited = record(2, 100);
    waited.scheduled = Duration::ZERO;
    let mut single = record(3, 0);
    (single.output, single.counts.output) = (1, Some(1));
    let records = [
        record(0, 0),
        slow,
        waited,
        single,
        failed(record(4, 0), FailureForm::Broken),
    ];
    let with = |slo: Slo| {
        let settings = Settings {
            slo: Some(slo),
            ..settings(CLOSED)
        };
        let goodput = LoadStats::from_records(&records, &settings).goodput.unwrap();
        (goodput.counts.good, goodput.response.good)
    };
    assert_eq!(with(Slo::default()), (4, 4));
    assert_eq!(
        with(Slo {
            ttft_ms: Some(60.0),
            ..Slo::default()
        }),
        (4, 3)
    );
    assert_eq!(
        with(Slo {
            itl_ms: Some(20.0),
            ..Slo::default()
        }),
        (3, 3)
    );
    // An answer of one token has no TPOT and meets any limit.
    assert_eq!(
        with(Slo {
            tpot_ms: Some(9.0),
            ..Slo::default()
        }),
        (1, 1)
    );
    assert_eq!(
        with(Slo {
            e2el_ms: Some(139.0),
            ..Slo::default()
        }),
        (0, 0)
    );
}

#[test]
fn warmup_counts_only_for_concurrency() {
    let mut records = closed();
    records[..4].iter_mut().for_each(|record| record.warmup = true);
    let stats = LoadStats::from_records(&records, &settings(CLOSED));
    assert_eq!((stats.issued, stats.latencies.ttft_ms.n), (6, 6));
    let steady = stats.steady.unwrap();
    close(Some(steady.from), 0.284);
    close(Some(steady.concurrency), 2.0 * 141.0 * 3.0 / 425.0);
}

#[test]
fn steady_part_excludes_ramp_and_drain() {
    // Three slots that start one after another; the last one ends long after the others.
    let mut records: Vec<RequestRecord> = (0..30)
        .map(|index| record(index, index % 3 * 50 + index / 3 * 142))
        .collect();
    let last = records.last_mut().unwrap();
    last.itl_ms[8] += 2000.0;
    last.last_token = last.last_token.map(|at| at + Duration::from_secs(2));
    last.ended += Duration::from_secs(2);
    let stats = LoadStats::from_records(&records, &settings(TargetConcurrency::Closed { concurrency: 3 }));
    let steady = stats.steady.unwrap();
    close(Some(steady.from), 0.1);
    close(Some(steady.to), 9.0 * 0.142 + 0.141);
    // 10 tokens per 142 ms and slot; at the end the load waits two seconds for one slot.
    let ideal = 30.0 / 0.142;
    let within = steady.rates.output_throughput.unwrap();
    assert!((within / ideal - 1.0).abs() < 0.02, "{within} is not {ideal}");
    assert!(stats.rates.output_throughput.unwrap() < 0.5 * ideal);
    let requests = steady.rates.request_throughput.unwrap();
    assert!((requests / (3.0 / 0.142) - 1.0).abs() < 0.02, "{requests}");
    // Latencies exclude the two requests sent before all slots were in use, but include the slow one.
    assert_eq!(steady.completed, 28);
    assert_eq!(steady.latencies.e2el_ms.n, 28);
}

#[test]
fn open_loop_is_steady_from_ramp_end_to_last_arrival() {
    let records: Vec<RequestRecord> = (0..20).map(|index| record(index, index * 100)).collect();
    let target = TargetConcurrency::Open {
        ramped: Duration::from_millis(500),
    };
    let steady = LoadStats::from_records(&records, &settings(target)).steady.unwrap();
    close(Some(steady.from), 0.5);
    close(Some(steady.to), 1.9);
    assert_eq!(steady.completed, 14);
    close(Some(steady.concurrency), 1.41);
}

#[test]
fn late_client_names_affected_metrics() {
    let watched = |client: ClientStats, target: TargetConcurrency| {
        let settings = Settings {
            client: Some(client),
            ..settings(target)
        };
        LoadStats::from_records(&closed(), &settings)
    };
    let late_ms = |late: f32| SendDelays::new(&[late; 100]);
    let well = watched(
        ClientStats {
            cpu: 0.02,
            late_ms: late_ms(0.1),
            longest_pause_ms: 2.0,
            ..ClientStats::default()
        },
        CLOSED,
    );
    assert!(well.warnings.is_empty());
    let badly = || ClientStats {
        cpu: 0.97,
        late_ms: late_ms(14.0),
        longest_pause_ms: 20.0,
        unprepared: 3,
        opened_late: 4,
        pauses: 2,
        paused_ms: 210.0,
        ..ClientStats::default()
    };
    let warnings = watched(badly(), CLOSED).warnings;
    let says = |at: usize, words: &[&str]| {
        let all = &warnings[at].message;
        assert!(words.iter().all(|word| all.contains(word)), "{all}");
    };
    says(0, &["97 % of its core", "throughputs", "20.0 ms"]);
    says(1, &["up to 20.0 ms", "29.6 % of the load:", "`ttft_ms` and `e2el_ms`"]);
    says(2, &["14.0 ms", "empty for 9.1 % of the time"]);
    says(3, &["3 requests were not prepared"]);
    says(4, &["4 of 10 requests", "`ttft_ms`"]);
    assert_eq!(warnings.len(), 5);
    let open = watched(badly(), TargetConcurrency::Open { ramped: Duration::ZERO });
    assert!(
        open.warnings[2].message.contains("`response` is too high by that much"),
        "{:?}",
        open.warnings
    );
}

#[test]
fn a_contended_core_causes_a_warning_only_if_it_changes_a_metric() {
    let with = |waited: f64, longest: f64| {
        let client = ClientStats {
            waited_ms: Some(waited),
            longest_wait_ms: Some(longest),
            ..ClientStats::default()
        };
        let settings = Settings {
            client: Some(client),
            ..settings(CLOSED)
        };
        LoadStats::from_records(&closed(), &settings).warnings
    };
    assert!(with(200.0, 1.0).is_empty() && with(4.0, 30.0).is_empty());
    let warnings = with(200.0, 30.0);
    assert!(
        warnings[0].message.contains("other programs had its core") && warnings.len() == 1,
        "{warnings:?}"
    );
}

#[test]
fn repeats_give_the_variation_between_loads() {
    let load = |apart_ms: u64| {
        let records: Vec<RequestRecord> = (0..10).map(|index| record(index, index * apart_ms)).collect();
        LoadStats::from_records(&records, &settings(CLOSED))
    };
    let loads = [load(200), load(220), load(250)];
    let repeats = RepeatStats::new(&loads);
    let rates: Vec<f64> = loads
        .iter()
        .map(|load| load.rates.request_throughput.unwrap())
        .collect();
    let spread = repeats.request_throughput.unwrap();
    close(Some(spread.mean), rates.iter().sum::<f64>() / 3.0);
    assert_eq!(
        (spread.min.to_bits(), spread.max.to_bits()),
        (rates[2].to_bits(), rates[0].to_bits())
    );
    let [low, high] = spread.ci.unwrap();
    close(
        Some((high - low) / 2.0),
        4.302_653 * spread.std.unwrap() / 3.0_f64.sqrt(),
    );
    close(spread.cv, spread.std.unwrap() / spread.mean);
    assert_eq!(repeats.ttft_ms.mean.unwrap().std, Some(0.0));
    assert_eq!((repeats.runs, repeats.ttft_ms.p99, repeats.goodput), (3, None, None));
    let one = RepeatStats::new(&loads[..1]).request_throughput.unwrap();
    assert_eq!((one.std, one.cv, one.ci), (None, None, None));
    assert_eq!(RepeatStats::new(&[]), RepeatStats::default());
}
