//! Random generators of a load.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Purpose of a generator. Each has its own stream, so that changes to one do not affect the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Inter-arrival times.
    Arrivals,
    /// Prompt lengths.
    Inputs,
    /// Answer lengths.
    Outputs,
}

/// The generator for a purpose. `ChaCha8` is the same on every machine.
pub(super) fn rng(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(purpose as u64);
    generator
}
