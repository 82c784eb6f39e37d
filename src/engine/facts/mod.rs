//! Reads an engine's output: facts in its log and on its pages, its metrics, and its queue as they show it. Pure.

pub(super) mod log;
pub(super) mod metrics;
pub(super) mod queue;
