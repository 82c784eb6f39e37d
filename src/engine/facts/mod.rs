//! Reads an engine's output: facts in its log and on its pages, its metrics, and the state of its queue. No I/O.

pub(super) mod log;
pub(super) mod metrics;
pub(super) mod queue;
