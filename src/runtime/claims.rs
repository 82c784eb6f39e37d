//! The names of containers that exist or may exist: noted before the daemon is asked to create one, dropped once it is removed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The names, shared by the run and its containers.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(Arc<Mutex<BTreeSet<String>>>);

impl Claims {
    pub(super) fn add(&self, name: &str) {
        self.lock().insert(name.to_owned());
    }

    pub(super) fn drop(&self, name: &str) {
        self.lock().remove(name);
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
