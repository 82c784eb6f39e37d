//! A known truth as scripts see it: what a scoreboard holds searches against.

use std::sync::Arc;

use rhai::plugin::*;
use rhai::{Array, FnPtr, Map};

use super::boundary::{count, from_point};
use crate::boundary::{Lattice, Truth};
use crate::fault::{Fault, Result};
use crate::script::boundary::BoundaryHandle;
use crate::script::truth::TruthHandle;
use crate::script::{Caught, from_script};

fn share(value: &Dynamic) -> Result<f64> {
    let share = value.as_float().or_else(|_| value.as_int().map(|whole| whole as f64));
    share
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| Fault::usage(format!("`{value}` is no share: those are from 0 to 1")))
}

/// A limit that is known, which searches are held against.
#[export_module]
pub mod truth {
    /// Follows a known monotone limit over axes as `boundary` takes them; `holds` tells of a point whether it fits.
    ///
    /// # Errors
    ///
    /// `usage` when an axis is not of the form that `boundary` takes; `limit` when the box has more than 1,000,000 lines along
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
        let truth = Truth::follow(lattice, |point| {
            holds.call_within_context::<bool>(&context, (from_point(point),))
        })?;
        Ok(TruthHandle(Arc::new(truth)))
    }

    /// How many lattice points fit.
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

    /// For each of some rising shares of the fitting volume, 0 to 1, the least number of probes that proves it, whoever chooses
    /// them: exact with one or two axes; with more, what choosing greedily needs, so that the least is at most that.
    ///
    /// # Errors
    ///
    /// `usage` for what is no share, or a smaller one than before it.
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
            return Err(Fault::usage("shares are listed from the smallest to the largest").into());
        }
        let least = truth.0.least_probes(&shares).into_iter();
        Ok(least.map(|probes| count(probes as u128).into()).collect())
    }

    /// How many lattice points a boundary over the same axes calls fitting though they do not.
    ///
    /// # Errors
    ///
    /// `usage` when the axes differ.
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
