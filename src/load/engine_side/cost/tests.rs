use proptest::prelude::*;

use super::*;

fn near(got: Option<f64>, want: f64) {
    let got = got.unwrap();
    assert!((got - want).abs() < 1e-9 * want.abs().max(1.0), "{got} is not {want}");
}

/// The table of hpml-llama2-tgi has 46.50 per million for 17.50 tokens per second at 2.93 per hour, from an unrounded
/// rate: 46.50 lies between the values for 17.495 and 17.505. Its program divides by the time of one request instead,
/// which is wrong by a factor of the concurrency.
#[test]
fn reproduces_the_published_cost_from_the_aggregate_rate() {
    let produced = |output_throughput| WindowThroughput {
        output_throughput,
        seconds: 60.0,
        ..WindowThroughput::default()
    };
    let cost = Cost::new(Some(2.93), produced(17.5)).unwrap();
    near(cost.per_million_output, 46.507_936_507_936_51);
    let output = |rate| {
        Cost::new(Some(2.93), produced(rate))
            .unwrap()
            .per_million_output
            .unwrap()
    };
    assert!(output(17.505) < 46.50 && 46.50 < output(17.495));
    assert_eq!((cost.per_million_input, cost.wh_per_million_output), (None, None));
    near(
        Cost::new(Some(0.71), produced(17.5)).unwrap().per_million_output,
        11.269_841_269_841_27,
    );
}

#[test]
fn energy_per_million_tokens() {
    let produced = WindowThroughput {
        input_throughput: 3000.0,
        output_throughput: 1000.0,
        seconds: 10.0,
        energy_wh: Some(2.0),
    };
    let cost = Cost::new(None, produced).unwrap();
    near(cost.wh_per_million_output, 2.0 / 10_000.0 * 1e6);
    near(cost.wh_per_million_input, 2.0 / 30_000.0 * 1e6);
    near(cost.wh_per_million_total, 2.0 / 40_000.0 * 1e6);
    assert_eq!(cost.per_million_total, None);
}

#[test]
fn invalid_price_is_an_error() {
    for price in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(Cost::new(Some(price), WindowThroughput::default()).is_err(), "{price}");
    }
    assert_eq!(
        Cost::new(Some(0.0), WindowThroughput::default())
            .unwrap()
            .per_million_output,
        None
    );
}

proptest! {
    /// The cost per token times the number of tokens of either kind is the cost of the window.
    #[test]
    fn cost_per_token_times_tokens_is_the_total_cost(price in 0.0_f64..100.0, input in 0.1_f64..1e6, output in 0.1_f64..1e6, seconds in 0.1_f64..1e5) {
        let produced = WindowThroughput { input_throughput: input, output_throughput: output, seconds, energy_wh: None };
        let cost = Cost::new(Some(price), produced).unwrap();
        let bill = price * seconds / 3600.0;
        for (per_million, rate) in [
            (cost.per_million_input, input), (cost.per_million_output, output), (cost.per_million_total, input + output),
        ] {
            prop_assert!((per_million.unwrap() * rate * seconds / 1e6 - bill).abs() <= 1e-9 * bill.max(1.0));
        }
    }
}
