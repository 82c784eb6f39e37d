//! A source that calls a closure: for the simulated engine and tests.

use crate::fault::Result;

use super::reading::{Reading, Source};

/// A source that calls a closure.
pub struct Polled<F> {
    name: &'static str,
    read: F,
}

impl<F: FnMut() -> Result<Reading> + Send> Polled<F> {
    /// Creates a source with this name, such as `sim`.
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
