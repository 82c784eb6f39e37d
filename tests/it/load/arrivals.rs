//! A user sets arrivals and lengths: due times and lengths are judged by the records, not by the speed of this machine.

use super::{FAST, SLOW, loaded};

/// The largest distance between the empirical distribution of the values and the expected one (Kolmogorov's statistic).
fn distance(mut values: Vec<f64>, share: impl Fn(f64) -> f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len() as f64;
    let ranked = values.iter().enumerate();
    ranked
        .map(|(rank, value)| {
            let wanted = share(*value);
            (wanted - rank as f64 / count)
                .abs()
                .max((wanted - (rank + 1) as f64 / count).abs())
        })
        .fold(0.0, f64::max)
}

fn gaps(moments: &[f64]) -> Vec<f64> {
    moments.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_constant_rate_is_even() {
    let load = loaded(
        FAST,
        "rate: 200, arrivals: \"constant\", requests: 60, input: 16, output: 2",
    );
    assert_eq!(load.counts(), [60, 60, 0, 0], "{}", load.answer);
    let due = load.numbers("scheduled");
    for (index, due) in due.iter().enumerate() {
        assert!((due - index as f64 / 200.0).abs() < 1e-6, "{index}: {due}");
    }
    // No request may be sent before it is due.
    let sent = load.numbers("sent");
    assert!(due.iter().zip(&sent).all(|(due, sent)| sent >= due));
}

#[test]
fn poisson_gaps_are_exponential_and_those_of_gamma_have_its_shape() {
    let poisson = loaded(FAST, "rate: 400, requests: 400, input: 16, output: 1");
    let far = distance(gaps(&poisson.numbers("scheduled")), |gap| 1.0 - (-400.0 * gap).exp());
    // 1.63 / √n is the 1 % point of Kolmogorov's statistic.
    assert!(far < 1.63 / 399_f64.sqrt(), "{far}");
    let gamma = loaded(
        FAST,
        "rate: 400, arrivals: \"gamma\", burstiness: 2, requests: 400, input: 16, output: 1",
    );
    let far = distance(gaps(&gamma.numbers("scheduled")), |gap| {
        1.0 - (-800.0 * gap).exp() * (1.0 + 800.0 * gap)
    });
    assert!(far < 1.63 / 399_f64.sqrt(), "{far}");
}

#[test]
fn steps_of_a_rate_end_by_themselves() {
    let load = loaded(
        FAST,
        "steps: [#{ rate: 100, seconds: 0.2 }, #{ rate: 0, seconds: 0.2 }, #{ rate: 300, seconds: 0.2 }], arrivals: \"constant\", input: 16, output: 1",
    );
    assert_eq!(load.answer["stopped"], "arrivals", "{}", load.answer);
    let due = load.numbers("scheduled");
    let within = |from: f64, to: f64| due.iter().filter(|due| (from..to).contains(*due)).count();
    assert_eq!(
        (within(0.0, 0.2), within(0.2, 0.399), within(0.399, 0.601)),
        (20, 0, 60),
        "{due:?}"
    );
}

#[test]
fn steps_of_concurrency_change_how_many_are_under_way() {
    let load = loaded(
        SLOW,
        "steps: [#{ concurrency: 1, seconds: 0.4 }, #{ concurrency: 4, seconds: 0.4 }], input: 16, output: 40",
    );
    let at_once = |at: f64| {
        let records = load.records.iter();
        let under_way = records.filter(|record| {
            let moment = |key: &str| record[key].as_f64().unwrap();
            moment("sent") <= at && moment("ended") > at
        });
        under_way.count()
    };
    let most = |from: u32, to: u32| (from..to).map(|step| at_once(f64::from(step) / 100.0)).max().unwrap();
    assert_eq!((most(5, 39), most(41, 79)), (1, 4), "{}", load.answer);
    assert_eq!(load.answer["stopped"], "arrivals");
    let [issued, completed, failed, cut_off] = load.counts();
    assert!(
        issued == completed && failed == 0 && cut_off == 0,
        "what runs at the end of the steps ends: {}",
        load.answer
    );
}

#[test]
fn lengths_are_drawn_by_seed_and_stay_within_their_bounds() {
    let options = "concurrency: 8, requests: 120, seed: 3, input: #{ uniform: [16, 47] }, output: #{ lognormal: #{ median: 4, sigma: 0.5, max: 9 } }";
    let load = loaded(FAST, options);
    assert_eq!(load.counts(), [120, 120, 0, 0], "{}", load.answer);
    let (inputs, outputs) = (load.numbers("input"), load.numbers("output"));
    assert!(inputs.iter().all(|input| (16.0..=47.0).contains(input)));
    assert!(outputs.iter().all(|output| (1.0..=9.0).contains(output)));
    let far = distance(inputs.clone(), |input| (input - 15.0) / 32.0);
    assert!(far < 1.63 / 120_f64.sqrt() + 1.0 / 32.0, "{far}");
    // The engine counted the requested lengths, request by request.
    for record in &load.records {
        assert_eq!(
            (&record["counted"]["input"], &record["counted"]["output"]),
            (&record["input"], &record["output"])
        );
    }
    let again = loaded(FAST, options);
    assert_eq!((again.numbers("input"), again.numbers("output")), (inputs, outputs));
}
