//! Random numbers that can be repeated: by seed, by repeat, and by what they are for.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What random numbers are for. Each has a stream of its own, so that a change of one leaves the others as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Times between arrivals.
    Arrivals,
    /// Lengths of inputs.
    Inputs,
    /// Lengths of outputs.
    Outputs,
}

/// The numbers for a purpose. `ChaCha8` is the same on every machine.
pub(super) fn stream(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(purpose as u64);
    generator
}
