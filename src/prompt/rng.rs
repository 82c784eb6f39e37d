//! Reproducible random choices, by seed and prompt number.
//!
//! The generator is `ChaCha8`, which is identical on every machine. Each prompt has its own stream.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Stream of the shuffle; prompts are numbered from 0.
const SHUFFLE: u64 = u64::MAX;
/// Stream of the shared prefix.
const PREFIX: u64 = u64::MAX - 1;

pub(super) struct PromptRng(ChaCha8Rng);

impl PromptRng {
    /// The generator for this prompt number.
    pub(super) fn for_prompt(seed: u64, serial: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(serial);
        Self(generator)
    }

    /// The generator for the shared prefix.
    pub(super) fn for_prefix(seed: u64) -> Self {
        Self::for_prompt(seed, PREFIX)
    }

    /// A number below `bound`, which must not be 0. The bias of the multiplication is below `bound` / 2^32.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let product = u64::from(self.0.next_u32()) * bound as u64;
        (product >> 32) as usize
    }
}

/// Shuffles `items` by seed.
pub(super) fn shuffle<T>(seed: u64, items: &mut [T]) {
    let mut rng = PromptRng::for_prompt(seed, SHUFFLE);
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last + 1));
    }
}

/// The indices of the first two of `len` items in a prompt. The first index differs from those of the previous `len -
/// 1` prompts, and the pair from those of the previous `len²`.
pub(super) fn first_two(serial: u64, len: usize) -> [usize; 2] {
    let len = len as u64;
    [(serial % len) as usize, ((serial / len) % len) as usize]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_prompts_start_the_same() {
        let seen: HashSet<_> = (0..49).map(|serial| first_two(serial, 7)).collect();
        assert_eq!(seen.len(), 49);
        for serial in 0..43 {
            let firsts: HashSet<_> = (serial..serial + 7).map(|n| first_two(n, 7)[0]).collect();
            assert_eq!(firsts.len(), 7);
        }
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_follows_the_seed() {
        let mut one: Vec<u32> = (0..100).collect();
        let mut two = one.clone();
        let mut other = one.clone();
        shuffle(1, &mut one);
        shuffle(1, &mut two);
        shuffle(2, &mut other);
        assert_eq!(one, two);
        assert_ne!(one, other);
        one.sort_unstable();
        assert_eq!(one, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn every_number_below_the_bound_is_drawn() {
        let mut rng = PromptRng::for_prompt(3, 0);
        let seen: HashSet<_> = (0..1000).map(|_| rng.below(5)).collect();
        assert_eq!(seen, (0..5).collect());
    }
}
