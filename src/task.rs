//! How the script's thread waits for asynchronous work: blocking, and stopped at once when the user interrupts.
//!
//! The script runs on a thread of its own, beside one tokio runtime. Everything that takes time goes through
//! [`Tasks::wait`]. It must never be called from inside the runtime: nesting would panic.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::fault::{Fault, Result};

/// A cheap handle to the runtime and to the user's wish to stop.
#[derive(Clone, Debug)]
pub struct Tasks {
    runtime: Handle,
    // Replaceable, as the REPL goes on after Ctrl-C has stopped one line.
    cancel: Arc<Mutex<CancellationToken>>,
    // How many callers of `finish` wait at this moment.
    finishing: Arc<AtomicUsize>,
}

impl Tasks {
    /// Work that runs on `runtime`.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            cancel: Arc::default(),
            finishing: Arc::default(),
        }
    }

    /// The runtime, for work that goes on in the background.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The token that the next interruption cancels.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.cancel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops whatever waits now and whatever will wait until [`Tasks::renew`].
    pub fn interrupt(&self) {
        self.token().cancel();
    }

    /// Whether the user asked to stop.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.token().is_cancelled()
    }

    /// Makes waiting possible again after an interruption (the REPL keeps its session).
    pub fn renew(&self) {
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) = CancellationToken::new();
    }

    /// Waits for `work`; an interruption drops it and gives [`Fault::interrupted`].
    pub fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let cancel = self.token();
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(Fault::interrupted()),
                done = work => done,
            }
        })
    }

    /// Waits for `work` even when the user has interrupted: for cleaning up.
    pub fn finish<T>(&self, work: impl Future<Output = T>) -> T {
        self.finishing.fetch_add(1, Ordering::Relaxed);
        let done = self.runtime.block_on(work);
        self.finishing.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Whether somebody cleans up at this moment.
    #[must_use]
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
