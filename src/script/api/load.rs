//! Analysis of several loads: knee, start of preemption and queueing, and token cost.

use rhai::plugin::*;
use rhai::{Array, Map};

use crate::script::sweep::{KneeOptions, Produced};
use crate::script::{Caught, options, sweep};

/// Analysis of several loads. A row is any map with the level that was set and results of `engine.load`.
#[export_module]
pub mod load {
    /// The knee of metric `y` over level `x`, both keys of the rows (dots reach into maps):
    /// `#{ x, y, low, high, distance }`, or `()` if the curve has none. Same as `load::knee(rows, x, y, #{})`.
    ///
    /// # Errors
    ///
    /// `usage` for a row without these keys.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let rows = [1, 2, 4, 8, 16, 32].map(|c| #{ concurrency: c, output_throughput: if c < 8 { 50.0 * c } else { 400.0 } });
    /// let knee = load::knee(rows, "concurrency", "output_throughput");
    /// assert(knee.x == 8 && knee.low == 8 && knee.high == 8);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn knee(rows: Array, x: &str, y: &str) -> Caught<Dynamic> {
        Ok(sweep::knee(&rows, x, y, KneeOptions::default())?)
    }

    /// The knee of metric `y` over level `x`: with both axes scaled to the curve, the point farthest from the straight
    /// line between its ends (Satopää et al. 2011, "Finding a 'Kneedle' in a Haystack"). `low` and `high` are the
    /// smallest and largest levels that are indistinguishable from it; `distance` is how far it stands out, as a share
    /// of the range of `y`.
    ///
    /// `()` if the curve has no knee: fewer than three levels, flat, straight, or bent no more than noise can explain.
    /// Rows of the same level are averaged; rows in which a value is `()` are skipped. Choose levels from far below to
    /// beyond the knee.
    ///
    /// Options: `noise` (0.02: possible error of a value, as a share of the highest), `bend` (`flattens`: like
    /// throughput; `steepens`: like latency).
    ///
    /// # Errors
    ///
    /// `usage` for a row without these keys, or an invalid option.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let rows = [1, 2, 4, 8, 16, 32].map(|c| #{ rate: c, ttft_ms: #{ p99: if c < 16 { 20.0 } else { 20.0 * c } } });
    /// assert(load::knee(rows, "rate", "ttft_ms.p99", #{ bend: "steepens" }).x == 8);
    /// assert(load::knee(rows, "rate", "rate", #{ noise: 0.05 }) == ());
    /// ```
    #[rhai_fn(name = "knee", return_raw)]
    pub fn knee_with(rows: Array, x: &str, y: &str, given: Map) -> Caught<Dynamic> {
        Ok(sweep::knee(&rows, x, y, options(given)?)?)
    }

    /// The level at which preemption starts, from rows with the level `x` and `preemptions`:
    /// `#{ last_without, first_with, contradicting }`, or `()` if no level has any. It starts between `last_without`
    /// (`()` if the smallest level has some) and `first_with`; `contradicting` lists larger levels without any.
    ///
    /// # Errors
    ///
    /// `usage` for a row without these keys.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let rows = [#{ concurrency: 64, preemptions: 9 }, #{ concurrency: 32, preemptions: 0 }, #{ concurrency: 128, preemptions: 70 }];
    /// let start = load::preemption_start(rows, "concurrency");
    /// assert(start.last_without == 32 && start.first_with == 64 && start.contradicting == []);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn preemption_start(rows: Array, x: &str) -> Caught<Dynamic> {
        Ok(sweep::onset(&rows, x, &["preemptions"])?)
    }

    /// The level from which on requests arrive faster than they are served, from rows with the level `x` and results of
    /// `engine.load`: requests in flight, or waiting in the engine, grow over the whole window (`in_flight.grows`,
    /// `waiting.grows`). Same form as `load::preemption_start`. In a closed loop neither can grow.
    ///
    /// # Errors
    ///
    /// `usage` for a row without these keys.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let row = |rate, grows| #{ rate: rate, in_flight: #{ grows: grows }, waiting: () };
    /// let rows = [row.call(1.5, false), row.call(3.0, true)];
    /// assert(load::saturation(rows, "rate").first_with == 3.0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn saturation(rows: Array, x: &str) -> Caught<Dynamic> {
        Ok(sweep::onset(&rows, x, &["in_flight.grows", "waiting.grows"])?)
    }

    /// The cost of a million tokens: `#{ price_per_hour, per_million_input, per_million_output, per_million_total,
    /// wh_per_million_input, wh_per_million_output, wh_per_million_total }`, `()` if an input is missing. Computed as
    /// price / 3600 / rate · 10⁶ with the rate of all requests together; the whole price is assigned to input, to
    /// output, and to both in turn.
    ///
    /// Takes `price_per_hour` (of all GPUs together), `input_throughput` and `output_throughput` (tokens per second, of
    /// all requests together), and for energy `energy_wh` (of all GPUs together) with `duration` (seconds).
    ///
    /// # Errors
    ///
    /// `usage` for an unknown key, or an invalid price.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let cost = load::cost(#{ price_per_hour: 3.6, input_throughput: 3000, output_throughput: 1000, energy_wh: 2.0, duration: 10 });
    /// assert(cost.per_million_output.round() == 1.0 && cost.per_million_total == 0.25);
    /// assert(cost.wh_per_million_output == 200.0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn cost(produced: Map) -> Caught<Dynamic> {
        Ok(sweep::cost(&options::<Produced>(produced)?)?)
    }
}
