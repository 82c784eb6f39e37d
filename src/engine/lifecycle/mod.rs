//! One engine: described, started, kept running, measured and stopped.
//!
//! `engine` defines the object, `state` its mutable part. The other modules are functions on it: `ensure` keeps it
//! running, using `start`; `health` checks whether it still serves; `memory` measures it; `accept` finds the request
//! form that it accepts.

pub(super) mod accept;
pub(super) mod architecture;
pub(super) mod engine;
pub(super) mod ensure;
pub(super) mod flags;
pub(super) mod health;
pub(super) mod help;
pub(super) mod memory;
pub(super) mod options;
pub(super) mod patience;
pub(super) mod preview;
pub(super) mod prompts;
pub(super) mod report;
pub(super) mod requests;
pub(super) mod served;
pub(super) mod server;
pub(super) mod speed;
pub(super) mod start;
pub(super) mod state;
pub(super) mod usage;
mod version;
