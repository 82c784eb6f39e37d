//! Continuous batching (pure): running and waiting sequences, KV blocks, preemption with recomputation. No clock: a step says how
//! much model time it took and what came out of it; whoever drives it sleeps.

mod batch;
mod seq;
mod store;

#[cfg(test)]
mod tests;

pub(super) use batch::{Batch, Counters};
pub(super) use seq::{Event, Request};
pub(super) use store::{Growth, Store};
