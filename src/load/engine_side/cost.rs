//! Cost of tokens in money and energy. Pure.
//!
//! A million tokens cost price / 3600 / rate · 10⁶, with the hourly price and the aggregate rate in tokens per second
//! of all requests together. (The rate of a single one of many concurrent requests would be too low.) The whole price
//! is charged to each kind of token in turn: the values for input, output and both are three views, not parts of a sum.

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

const SECONDS_AN_HOUR: f64 = 3600.0;
const MILLION: f64 = 1e6;

/// Aggregate throughput of a window of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowThroughput {
    /// Prompt tokens per second.
    pub input_throughput: f64,
    /// Generated tokens per second.
    pub output_throughput: f64,
    /// Length of the window in seconds.
    pub seconds: f64,
    /// Energy of all GPUs in the window, in watt hours.
    pub energy_wh: Option<f64>,
}

/// Cost of a million tokens; `None` if the price, the energy or the tokens are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Hourly price of all GPUs together, in the user's currency.
    pub price_per_hour: Option<f64>,
    /// A million prompt tokens.
    pub per_million_input: Option<f64>,
    /// A million generated tokens.
    pub per_million_output: Option<f64>,
    /// A million tokens of either kind.
    pub per_million_total: Option<f64>,
    /// Watt hours per million prompt tokens.
    pub wh_per_million_input: Option<f64>,
    /// Watt hours per million generated tokens.
    pub wh_per_million_output: Option<f64>,
    /// Watt hours per million tokens of either kind.
    pub wh_per_million_total: Option<f64>,
}

impl Cost {
    /// From the throughput and the hourly price of all GPUs together.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid price.
    pub fn new(price_per_hour: Option<f64>, produced: WindowThroughput) -> Result<Self> {
        if let Some(price) = price_per_hour.filter(|price| !(price.is_finite() && *price >= 0.0)) {
            return Err(Fault::usage(format!("option `price_per_hour` is {price}, not a price"))
                .hint("give what an hour of all GPUs together costs, from 0 up"));
        }
        let per_hour = |amount: Option<f64>, rate: f64| {
            amount
                .filter(|_| rate > 0.0)
                .map(|amount| amount / SECONDS_AN_HOUR / rate * MILLION)
        };
        let (input, output) = (produced.input_throughput, produced.output_throughput);
        // Watt hours per hour are watts.
        let watts = produced.energy_wh.filter(|_| produced.seconds > 0.0);
        let watts = watts.map(|energy| energy * SECONDS_AN_HOUR / produced.seconds);
        Ok(Self {
            price_per_hour,
            per_million_input: per_hour(price_per_hour, input),
            per_million_output: per_hour(price_per_hour, output),
            per_million_total: per_hour(price_per_hour, input + output),
            wh_per_million_input: per_hour(watts, input),
            wh_per_million_output: per_hour(watts, output),
            wh_per_million_total: per_hour(watts, input + output),
        })
    }
}

#[cfg(test)]
mod tests {
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
}
