//! SIGINT and SIGTERM: the first asks whatever is under way to stop, a second one before that is done kills.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::signal::unix::{SignalKind, signal};

use crate::fault::{Fault, Result};
use crate::task::Tasks;

/// What a shell reports for a process that a signal ended: 128 and the signal's number.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// What must still happen when a second signal leaves no time: killing what was started.
type LastAct = Box<dyn FnOnce() + Send>;

/// The signals of this process.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// Exit status of the last signal; 0: none came.
    status: Arc<AtomicU8>,
    last_act: Arc<Mutex<Option<LastAct>>>,
}

impl Signals {
    /// Listens from now on. An interruption that the command has recovered from ([`Tasks::renew`]) counts as none.
    pub(super) fn listen(tasks: &Tasks) -> Result<Self> {
        let signals = Self::default();
        let _inside = tasks.runtime().enter();
        let stream =
            |kind| signal(kind).map_err(|error| Fault::internal(format!("cannot listen for signals: {error}")));
        let mut interrupt = stream(SignalKind::interrupt())?;
        let mut terminate = stream(SignalKind::terminate())?;
        let (shared, tasks) = (signals.clone(), tasks.clone());
        tasks.runtime().clone().spawn(async move {
            loop {
                let status = tokio::select! {
                    _ = interrupt.recv() => INTERRUPTED,
                    _ = terminate.recv() => TERMINATED,
                };
                if tasks.interrupted() {
                    shared.die(status);
                }
                shared.status.store(status, Ordering::Relaxed);
                tasks.interrupt();
            }
        });
        Ok(signals)
    }

    /// The exit status that a signal asks for, unless none came or the command went on after it.
    pub(super) fn status(&self) -> Option<u8> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    /// Forgets an interruption: the REPL goes on. A wish to terminate stays.
    pub(super) fn forget(&self) {
        // Only an interruption is replaced; whether it was one does not matter to the caller.
        let _ = self
            .status
            .compare_exchange(INTERRUPTED, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The command has dealt with the signal itself: its own exit status stands.
    pub(super) fn disregard(&self) {
        self.status.store(0, Ordering::Relaxed);
    }

    /// What a second signal does before the process ends.
    pub(super) fn at_death(&self, act: impl FnOnce() + Send + 'static) {
        *self.last_act.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
    }

    /// A second signal leaves no time to unwind.
    fn die(&self, status: u8) {
        let act = self.last_act.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(act) = act {
            act();
        }
        std::process::exit(i32::from(status));
    }
}
