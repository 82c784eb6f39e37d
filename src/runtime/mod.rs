//! Where an engine lives: `docker`, `process`, `attach`: start, stop, logs, exec, copy, exit state; and what the user allowed.
//!
//! Only this room knows Docker. Everything started is entered in [`Services`] before it runs, and carries the run's id as a label
//! or an environment mark, so that nothing is left behind: not after a failure, Ctrl-C, a panic, or kill -9.

mod launch;

pub use launch::{Launch, Mount};

/// What the user allowed with `--allow`, and by naming things on the command line.
#[derive(Clone, Debug, Default)]
pub struct Permits {}

/// Everything that this run started.
#[derive(Debug, Default)]
pub struct Services {}
