//! Experiments: one engine with one option at several settings, each started anew, and the effect of the settings
//! compared with the variation between equal starts.
//!
//! Pure computation; `std/experiment` starts engines and measures. The statistical unit is a start: a load of a
//! thousand requests on one start is one value, because its requests share that start. [`order`] randomizes the
//! settings, `contrast` compares them, and `outcome` is the result as stored and reported.

mod contrast;
mod outcome;

pub(crate) use contrast::t_quantile;
pub use contrast::{Contrast, Noise, Verdict, is_negligible};
pub use outcome::{Comparison, Experiment, Figure, Measurements, Metric, Setting, Trial};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The order in which settings are started, as the index of each start's setting, `repeats` times each: rounds with
/// every setting once, shuffled in each round (a randomized complete block design).
///
/// Slow changes (a GPU that warms up, a disk cache that fills) then affect all settings equally, and an experiment that
/// is cut short has each setting about equally often. The same seed gives the same order on every machine.
pub fn order(settings: usize, repeats: usize, seed: u64) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut order = Vec::with_capacity(settings.saturating_mul(repeats));
    for _ in 0..repeats {
        let mut round: Vec<usize> = (0..settings).collect();
        for last in (1..settings).rev() {
            round.swap(last, below(&mut random, last + 1));
        }
        order.extend(round);
    }
    order
}

/// A random number below `bound`, with a bias below `bound` / 2^32.
fn below(random: &mut ChaCha8Rng, bound: usize) -> usize {
    ((u64::from(random.next_u32()) * bound as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::order;

    #[test]
    fn every_round_has_every_setting_once() {
        let drawn = order(3, 40, 7);
        for round in drawn.chunks(3) {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 3, "{round:?}");
        }
        let orders: BTreeSet<_> = drawn.chunks(3).collect();
        assert_eq!(orders.len(), 6, "all orders of three settings come");
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(order(2, 20, 1), order(2, 20, 1));
        assert_ne!(order(2, 20, 1), order(2, 20, 2));
        assert!(order(2, 0, 1).is_empty() && order(0, 5, 1).is_empty());
    }
}
