//! Random choices that can be repeated: by seed, and by the prompt's number.
//!
//! Pure. The generator is `ChaCha8`, which is the same on every machine; each prompt has a stream of its own.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The stream of the shuffle; prompts are numbered from 0.
const SHUFFLE: u64 = u64::MAX;
/// The stream of the shared prefix.
const PREFIX: u64 = u64::MAX - 1;

/// Choices for one purpose.
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// For the prompt of this number.
    pub(super) fn of(seed: u64, serial: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(serial);
        Self(generator)
    }

    /// For the part that all prompts share.
    pub(super) fn prefix(seed: u64) -> Self {
        Self::of(seed, PREFIX)
    }

    /// A number below `bound`, which is not 0. The bias of the multiplication is below `bound` / 2^32.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let product = u64::from(self.0.next_u32()) * bound as u64;
        (product >> 32) as usize
    }
}

/// Puts `items` in the order of this seed.
pub(super) fn shuffle<T>(seed: u64, items: &mut [T]) {
    let mut draw = Draw::of(seed, SHUFFLE);
    for last in (1..items.len()).rev() {
        items.swap(last, draw.below(last + 1));
    }
}

/// Which of `len` items the prompt of this number begins with: the first differs from that of the `len - 1` prompts before
/// it, and the pair from that of the `len²` before it.
pub(super) fn heads(serial: u64, len: usize) -> [usize; 2] {
    let len = len as u64;
    [(serial % len) as usize, ((serial / len) % len) as usize]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_prompts_begin_alike() {
        let seen: HashSet<_> = (0..49).map(|serial| heads(serial, 7)).collect();
        assert_eq!(seen.len(), 49);
        for serial in 0..43 {
            let firsts: HashSet<_> = (serial..serial + 7).map(|n| heads(n, 7)[0]).collect();
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
        let mut draw = Draw::of(3, 0);
        let seen: HashSet<_> = (0..1000).map(|_| draw.below(5)).collect();
        assert_eq!(seen, (0..5).collect());
    }
}
