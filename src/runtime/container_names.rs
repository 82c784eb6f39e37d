//! Names of containers that exist or may exist. Added before the daemon is asked to create one, removed once it is
//! gone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Debug, Default)]
pub(super) struct ContainerNames(Arc<Mutex<BTreeSet<String>>>);

impl ContainerNames {
    pub(super) fn add(&self, name: &str) {
        self.lock().insert(name.to_owned());
    }

    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
