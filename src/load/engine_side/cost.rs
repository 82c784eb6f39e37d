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
mod tests;
