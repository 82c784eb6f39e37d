//! Continuous batching (pure): running and waiting sequences, KV blocks, preemption with recomputation. There is no
//! clock: a step returns its model time and results; the caller sleeps.

mod kv_store;
mod scheduler;
mod sequence;

#[cfg(test)]
mod tests;

pub(super) use kv_store::{KvAllocation, KvStore};
pub(super) use scheduler::{Counters, Scheduler};
pub(super) use sequence::{Event, Request};
