//! Known boundaries, against which the scoreboard measures searches.

use std::sync::Arc;

use rhai::plugin::*;
use rhai::{Array, FnPtr, Map};

use super::boundary::{count, from_point};
use crate::boundary::{KnownBoundary, Lattice};
use crate::fault::{Fault, Result};
use crate::script::boundary::BoundaryHandle;
use crate::script::truth::TruthHandle;
use crate::script::{Caught, from_script};

fn share(value: &Dynamic) -> Result<f64> {
    let share = value.as_float().or_else(|_| value.as_int().map(|whole| whole as f64));
    share
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| Fault::usage(format!("a share must be between 0 and 1, not `{value}`")))
}

/// A known boundary, against which searches are measured.
#[export_module]
pub mod truth {
    /// Traces a known monotone boundary over axes as in `boundary`; `holds` returns whether a point fits.
    ///
    /// # Errors
    ///
    /// `usage` if an axis has another form than in `boundary`; `limit` if the range has more than 1,000,000 lines along
    /// its longest axis; and what `holds` throws.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let truth = known_truth(#{ input: [1, 100], output: [1, 100] }, |p| p.input <= 40);
    /// assert(truth.volume() == 4000);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn known_truth(context: NativeCallContext, axes: Map, holds: FnPtr) -> Caught<TruthHandle> {
        let lattice = Lattice::parse(&from_script(&Dynamic::from(axes))?)?;
        let truth = KnownBoundary::trace(lattice, |point| {
            holds.call_within_context::<bool>(&context, (from_point(point),))
        })?;
        Ok(TruthHandle(Arc::new(truth)))
    }

    /// Number of lattice points that fit.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(known_truth(#{ input: [1, 100] }, |p| p.input <= 40).volume() == 40);
    /// ```
    #[rhai_fn(pure)]
    pub fn volume(truth: &mut TruthHandle) -> i64 {
        count(truth.0.volume())
    }

    /// For each of some ascending shares of the fitting volume, 0 to 1, the minimum number of probes that proves it:
    /// exact with one or two axes; with more, an upper bound by greedy selection.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid share, or shares that are not ascending.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let truth = known_truth(#{ input: [2048, 32768], output: [512, 32768] }, |p| p.input + p.output <= 45000);
    /// assert(truth.least_probes([0.95]) == [7]);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn least_probes(truth: &mut TruthHandle, shares: Array) -> Caught<Array> {
        let shares = shares.iter().map(share).collect::<Result<Vec<_>>>()?;
        if !shares.is_sorted() {
            return Err(Fault::usage("shares must be in ascending order").into());
        }
        let least = truth.0.least_probes(&shares).into_iter();
        Ok(least.map(|probes| count(probes as u128).into()).collect())
    }

    /// Number of lattice points that a boundary over the same axes classifies as fitting although they do not fit.
    ///
    /// # Errors
    ///
    /// `usage` if the axes differ.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let truth = known_truth(#{ input: [1, 100] }, |p| p.input <= 40);
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 42 }, "ok");
    /// assert(truth.false_safe(map) == 2);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn false_safe(truth: &mut TruthHandle, map: BoundaryHandle) -> Caught<i64> {
        Ok(count(truth.0.false_safe(&map.lock())?))
    }
}
