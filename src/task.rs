//! Blocks the script's thread on asynchronous work, interruptibly.
//!
//! The script runs on its own thread next to a tokio runtime and waits through [`Tasks::wait`]. Never call that
//! from inside the runtime: nesting panics.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::fault::{Fault, Result};
use crate::world;

/// Locks a mutex, also if a thread panicked while it held the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cheap handle to the runtime and its cancellation.
#[derive(Clone, Debug)]
pub struct Tasks {
    runtime: Handle,
    // Replaceable, because the REPL continues after Ctrl-C has stopped one input.
    cancel: Arc<Mutex<CancellationToken>>,
    // Number of callers waiting in `finish`.
    finishing: Arc<AtomicUsize>,
}

impl Tasks {
    /// Creates a handle to this runtime.
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            cancel: Arc::default(),
            finishing: Arc::default(),
        }
    }

    /// The runtime, for background work.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The token that the next interruption cancels.
    pub fn token(&self) -> CancellationToken {
        lock(&self.cancel).clone()
    }

    /// Cancels current and future waits until [`Tasks::renew`].
    pub fn interrupt(&self) {
        self.token().cancel();
    }

    /// Whether there was an interruption since the last [`Tasks::renew`].
    pub fn interrupted(&self) -> bool {
        self.token().is_cancelled()
    }

    /// Allows waiting again after an interruption (the REPL keeps its session).
    pub fn renew(&self) {
        *lock(&self.cancel) = CancellationToken::new();
    }

    /// Waits for `work`. An interruption drops it and returns [`Fault::interrupted`].
    pub fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let cancel = self.token();
        self.block_on(async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(Fault::interrupted()),
                done = work => done,
            }
        })
    }

    /// Waits for `work` even after an interruption, for cleanup.
    pub fn finish<T>(&self, work: impl Future<Output = T>) -> T {
        self.finishing.fetch_add(1, Ordering::Relaxed);
        let done = self.block_on(work);
        self.finishing.fetch_sub(1, Ordering::Relaxed);
        done
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        match world::current() {
            Some(world) => world.runtime().block_on(work),
            None => self.runtime.block_on(work),
        }
    }

    /// Whether a [`Tasks::finish`] is in progress.
    pub fn finishing(&self) -> bool {
        self.finishing.load(Ordering::Relaxed) > 0
    }

    /// Sleeps, interruptibly.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        self.wait(async {
            tokio::time::sleep(time).await;
            Ok(())
        })
    }
}
