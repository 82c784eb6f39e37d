//! A source that asks a closure: the simulated engine, and tests.

use crate::fault::Result;

use super::reading::{Reading, Source};

/// Asks a closure.
pub struct Polled<F> {
    name: &'static str,
    read: F,
}

impl<F: FnMut() -> Result<Reading> + Send> Polled<F> {
    /// A source of this name: `sim` for the simulated engine.
    pub fn new(name: &'static str, read: F) -> Self {
        Self { name, read }
    }
}

impl<F: FnMut() -> Result<Reading> + Send> Source for Polled<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read(&mut self) -> Result<Reading> {
        (self.read)()
    }
}
