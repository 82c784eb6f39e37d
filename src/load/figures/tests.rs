//! The figures of loads that can be worked out by hand.

use std::time::Duration;

use super::properties::{record, settings};
use super::*;
use crate::load::{Failure, FailureForm, Outcome, Watch};

const CLOSED: Held = Held::Closed { concurrency: 2 };

/// Two slots, each with five requests one after the other.
fn closed() -> Vec<Record> {
    (0..10).map(|index| record(index, index / 2 * 142)).collect()
}

fn failed(mut record: Record, form: FailureForm) -> Record {
    record.outcome = Outcome::Failed(Failure {
        form,
        message: "no".to_owned(),
    });
    record
}

fn close(got: Option<f64>, want: f64) {
    let got = got.unwrap();
    assert!((got - want).abs() < 1e-6 * want.abs().max(1.0), "{got} is not {want}");
}

#[test]
fn figures_follow_their_definitions() {
    let figures = Figures::of(&closed(), &settings(CLOSED));
    assert_eq!(
        (figures.issued, figures.completed, figures.failed, figures.cut_off),
        (10, 10, 0, 0)
    );
    // Four times 142 ms, then the 141 ms of the last two.
    close(Some(figures.duration), 0.709);
    close(figures.rates.request_throughput, 10.0 / 0.709);
    close(figures.rates.input_throughput, 1000.0 / 0.709);
    close(figures.rates.output_throughput, 100.0 / 0.709);
    close(figures.rates.total_token_throughput, 1100.0 / 0.709);
    let latencies = &figures.latencies;
    close(latencies.ttft_ms.mean, 50.0);
    close(latencies.tpot_ms.mean, 10.0);
    close(latencies.itl_ms.mean, 10.0);
    close(latencies.e2el_ms.median, 140.0);
    assert_eq!((latencies.itl_ms.n, latencies.e2el_ms.n), (90, 10));
    assert_eq!(figures.max_concurrent_requests, Some(2));
    close(figures.max_output_tokens_per_s, 100.0);
    assert_eq!(figures.goodput, None);
    assert_eq!(figures.warnings, Vec::<String>::new());
}

#[test]
fn response_time_counts_from_when_a_request_was_due() {
    let mut late = record(0, 300);
    late.scheduled = Duration::from_millis(100);
    let figures = Figures::of(&[late], &settings(Held::Varying));
    close(figures.latencies.ttft_ms.mean, 50.0);
    close(figures.response.ttft_ms.mean, 250.0);
    close(figures.response.e2el_ms.mean, 340.0);
    close(Some(figures.duration), 0.341);
}

#[test]
fn an_answer_that_is_too_short_failed() {
    let mut short = record(0, 0);
    short.counts.output = Some(9);
    short.finish = Some("stop".to_owned());
    let mut other = record(1, 0);
    other.counts.input = Some(99);
    let mut uncounted = record(2, 0);
    uncounted.counts.output = None;
    let mut aborted = record(3, 0);
    aborted.finish = Some("abort".to_owned());
    let records = [short, other, uncounted, aborted];
    let figures = Figures::of(&records, &settings(CLOSED));
    assert_eq!((figures.completed, figures.failed), (0, 4));
    let forms: Vec<&str> = figures.failures.keys().map(String::as_str).collect();
    assert_eq!(forms, ["aborted", "input_count", "no_counts", "short"]);
    assert_eq!(figures.failures["short"].message, "9 of 10 tokens, then `stop`");
    // Prompts of users may be answered in fewer tokens, and nobody counted them.
    let lenient = Settings {
        exact_input: false,
        full_output: false,
        ..settings(CLOSED)
    };
    assert_eq!(Figures::of(&records, &lenient).completed, 2);
}

#[test]
fn the_tokenizer_counts_where_the_engine_does_not() {
    let mut uncounted = record(7, 0);
    uncounted.counts.output = None;
    let mut settings = settings(CLOSED);
    settings.tokenized.insert(7, 10);
    let figures = Figures::of(&[uncounted], &settings);
    assert_eq!(
        (
            figures.completed,
            figures.tokens.tokenizer,
            figures.tokens.engine.output
        ),
        (1, Some(10), None)
    );
    close(figures.latencies.tpot_ms.mean, 10.0);
    assert!(
        figures.warnings[0].contains("did not count the tokens of 1 of 1"),
        "{:?}",
        figures.warnings
    );
}

#[test]
fn counts_that_disagree_are_told() {
    let mut settings = settings(CLOSED);
    settings.tokenized.insert(0, 8);
    let figures = Figures::of(&[record(0, 0)], &settings);
    close(figures.tokens.disagreement.tokenizer, 0.2);
    close(figures.tokens.disagreement.events, 0.0);
    assert!(
        figures.warnings[0].contains("disagree by 20.0 %") && figures.warnings[0].contains("`tpot_ms`"),
        "{:?}",
        figures.warnings
    );
    let mut bundled = record(0, 0);
    (bundled.events, bundled.gaps_ms) = (5, vec![22.5; 4]);
    let figures = Figures::of(
        &[bundled],
        &Settings {
            tokenized: Default::default(),
            ..settings
        },
    );
    assert!(
        figures.warnings[0].starts_with("5 events carried 10 tokens: `itl_ms`"),
        "{:?}",
        figures.warnings
    );
    close(figures.latencies.tpot_ms.mean, 10.0);
    close(figures.latencies.itl_ms.mean, 22.5);
}

#[test]
fn one_that_failed_took_infinitely_long() {
    let mut records: Vec<Record> = (0..100).map(|index| record(index, index * 200)).collect();
    for record in records.iter_mut().skip(9).step_by(10) {
        *record = failed(record.clone(), FailureForm::Status(429));
    }
    let figures = Figures::of(&records, &settings(Held::Varying));
    let adjusted = figures.adjusted.e2el_ms;
    assert_eq!(
        (adjusted.p50, adjusted.p90, adjusted.p95),
        (Some(140.0), Some(140.0), None)
    );
    assert_eq!(figures.latencies.e2el_ms.p90, Some(140.0));
    assert_eq!(figures.failures["status_429"].count, 10);
    records[0].outcome = Outcome::CutOff;
    let figures = Figures::of(&records, &settings(Held::Varying));
    assert_eq!((figures.cut_off, figures.adjusted.e2el_ms.p90), (1, None));
}

#[test]
fn failures_that_come_together_are_fewer_than_they_look() {
    let mut records: Vec<Record> = (0..100).map(|index| record(index, index * 200)).collect();
    for record in &mut records[90..] {
        *record = failed(record.clone(), FailureForm::Status(429));
    }
    let figures = Figures::of(&records, &settings(Held::Varying));
    assert_eq!(figures.adjusted.e2el_ms.p90, None);
}

#[test]
fn goodput_asks_every_objective_of_a_request() {
    let mut slow = record(1, 0);
    slow.gaps_ms[4] = 30.0;
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
        let goodput = Figures::of(&records, &settings).goodput.unwrap();
        (goodput.good, goodput.response.good)
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
    // An answer of one token has no TPOT, and meets any bound of it.
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
fn the_warm_up_is_in_no_figure_but_holds_the_concurrency() {
    let mut records = closed();
    records[..4].iter_mut().for_each(|record| record.warmup = true);
    let figures = Figures::of(&records, &settings(CLOSED));
    assert_eq!((figures.issued, figures.latencies.ttft_ms.n), (6, 6));
    let steady = figures.steady.unwrap();
    close(Some(steady.from), 0.284);
    close(Some(steady.concurrency), 2.0 * 141.0 * 3.0 / 425.0);
}

#[test]
fn the_steady_part_has_neither_ramp_nor_drain() {
    // Three slots that begin one after the other; the last ends long after the others.
    let mut records: Vec<Record> = (0..30)
        .map(|index| record(index, index % 3 * 50 + index / 3 * 142))
        .collect();
    let last = records.last_mut().unwrap();
    last.gaps_ms[8] += 2000.0;
    last.last_token = last.last_token.map(|at| at + Duration::from_secs(2));
    last.ended += Duration::from_secs(2);
    let figures = Figures::of(&records, &settings(Held::Closed { concurrency: 3 }));
    let steady = figures.steady.unwrap();
    close(Some(steady.from), 0.1);
    close(Some(steady.to), 9.0 * 0.142 + 0.141);
    // 10 tokens each 142 ms and slot; the whole load waits two seconds for one slot.
    let ideal = 30.0 / 0.142;
    let within = steady.rates.output_throughput.unwrap();
    assert!((within / ideal - 1.0).abs() < 0.02, "{within} is not {ideal}");
    assert!(figures.rates.output_throughput.unwrap() < 0.5 * ideal);
    let requests = steady.rates.request_throughput.unwrap();
    assert!((requests / (3.0 / 0.142) - 1.0).abs() < 0.02, "{requests}");
    // The two that were sent before all slots were in use are not in its latencies; the slow one is.
    assert_eq!(steady.completed, 28);
    assert_eq!(steady.latencies.e2el_ms.n, 28);
}

#[test]
fn an_open_loop_is_steady_from_the_ramp_to_the_last_arrival() {
    let records: Vec<Record> = (0..20).map(|index| record(index, index * 100)).collect();
    let held = Held::Open {
        ramped: Duration::from_millis(500),
    };
    let steady = Figures::of(&records, &settings(held)).steady.unwrap();
    close(Some(steady.from), 0.5);
    close(Some(steady.to), 1.9);
    assert_eq!(steady.completed, 14);
    close(Some(steady.concurrency), 1.41);
}

#[test]
fn a_client_that_is_late_says_what_it_spoiled() {
    let watched = |watch: Watch, held: Held| {
        let settings = Settings {
            watch: Some(watch),
            ..settings(held)
        };
        Figures::of(&closed(), &settings)
    };
    let well = watched(
        Watch {
            cpu: Duration::from_millis(10),
            cpu_share: 0.02,
            send_late_ms: vec![0.1; 100],
            longest_pause: Duration::from_millis(2),
            events: 1000,
            ..Watch::default()
        },
        CLOSED,
    );
    assert_eq!(well.warnings, Vec::<String>::new());
    close(well.client.unwrap().cpu_us_per_event, 10.0);
    let badly = || Watch {
        cpu_share: 0.97,
        send_late_ms: vec![14.0; 100],
        longest_pause: Duration::from_millis(20),
        unprepared: 3,
        opened_late: 4,
        pauses: 2,
        paused: Duration::from_millis(21),
        ..Watch::default()
    };
    let warnings = watched(badly(), CLOSED).warnings;
    let says = |at: usize, words: &[&str]| {
        let all: &String = &warnings[at];
        assert!(words.iter().all(|word| all.contains(word)), "{all}");
    };
    says(0, &["97 % of its core", "throughputs", "20.0 ms"]);
    says(
        1,
        &["20.0 ms (2 pauses", "took 21 ms", "`itl_ms`, `ttft_ms`, `e2el_ms`"],
    );
    says(2, &["14.0 ms", "empty for 9.1 % of the time"]);
    says(3, &["3 requests were not prepared"]);
    says(4, &["4 of 10 requests", "`ttft_ms`"]);
    assert_eq!(warnings.len(), 5);
    let open = watched(badly(), Held::Open { ramped: Duration::ZERO });
    assert!(
        open.warnings[2].contains("`response` is too high by so much"),
        "{:?}",
        open.warnings
    );
}

#[test]
fn a_client_whose_core_others_had_says_so() {
    let with = |waited: u64, share: f64, longest: u64| {
        let watch = Watch {
            waited: Some(Duration::from_millis(waited)),
            waited_share: Some(share),
            longest_wait: Some(Duration::from_millis(longest)),
            ..Watch::default()
        };
        let settings = Settings {
            watch: Some(watch),
            ..settings(CLOSED)
        };
        Figures::of(&closed(), &settings).warnings
    };
    assert_eq!(with(80, 0.04, 1), Vec::<String>::new());
    let often = with(120, 0.06, 1);
    assert!(
        often[0].contains("120 ms, 6 % of the load") && often.len() == 1,
        "{often:?}"
    );
    let long = with(40, 0.02, 30);
    assert!(long[0].contains("up to 30.0 ms") && long.len() == 1, "{long:?}");
}

#[test]
fn repeats_tell_how_far_loads_are_apart() {
    let load = |apart_ms: u64| {
        let records: Vec<Record> = (0..10).map(|index| record(index, index * apart_ms)).collect();
        Figures::of(&records, &settings(CLOSED))
    };
    let loads = [load(200), load(220), load(250)];
    let repeats = Repeats::of(&loads);
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
    let one = Repeats::of(&loads[..1]).request_throughput.unwrap();
    assert_eq!((one.std, one.cv, one.ci), (None, None, None));
    assert_eq!(Repeats::of(&[]), Repeats::default());
}
