//! SIGINT and SIGTERM: the first asks whatever is under way to stop, a second one before that is done kills.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::fault::{Fault, Result};
use crate::runtime::Services;
use crate::task::Tasks;

/// What a shell reports for a process that a signal ended: 128 and the signal's number.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// How long a script may take to notice the first signal, before what it started is ended without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long what was started may take to be killed.
const LAST: Duration = Duration::from_secs(5);

/// What everything started may take to end, when the script does not notice the first signal.
const GRACE: Duration = Duration::from_secs(10);

/// The signals of this process.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// Exit status of the last signal; 0: none came.
    status: Arc<AtomicU8>,
    /// What the script under way has started.
    guarded: Arc<Mutex<Option<Guarded>>>,
}

/// What must be ended where the script, or whoever ends what it started, does not come to an end.
#[derive(Clone)]
struct Guarded {
    services: Arc<Services>,
    /// Whether the script itself runs; otherwise what it started is being ended.
    running: bool,
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
        // Without a handler it would end the process; with one, writing too long a file is an error like a full disk.
        let mut too_long = stream(SignalKind::from_raw(nix::sys::signal::Signal::SIGXFSZ as i32))?;
        let (shared, tasks) = (signals.clone(), tasks.clone());
        tasks.runtime().clone().spawn(async move {
            loop {
                let status = tokio::select! {
                    _ = interrupt.recv() => INTERRUPTED,
                    _ = terminate.recv() => TERMINATED,
                    _ = too_long.recv() => continue,
                };
                if tasks.interrupted() {
                    shared.die(status).await;
                }
                shared.status.store(status, Ordering::Relaxed);
                tasks.interrupt();
                tokio::spawn(shared.clone().insist(status, tasks.clone()));
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

    /// From here on a script is under way, and what it starts must be ended even where it does not notice.
    pub(super) fn guard(&self, services: &Arc<Services>) {
        *self.guarded() = Some(Guarded {
            services: Arc::clone(services),
            running: true,
        });
    }

    /// The script has ended, and what it started is being ended: only a second signal interferes with that.
    pub(super) fn script_ended(&self) {
        if let Some(guarded) = &mut *self.guarded() {
            guarded.running = false;
        }
    }

    /// The script has ended, and so has what it started, or whoever ran it looks after that.
    pub(super) fn stand_down(&self) {
        self.guarded().take();
    }

    fn guarded(&self) -> MutexGuard<'_, Option<Guarded>> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The script was asked to stop: where it computes on instead, what it started is ended, and then the process.
    async fn insist(self, status: u8, tasks: Tasks) {
        loop {
            tokio::time::sleep(PATIENCE).await;
            if !tasks.interrupted() {
                return;
            }
            // An engine that is being stopped has its own grace, and the script goes on to its end after that.
            if !tasks.finishing() {
                break;
            }
        }
        // Kept, so that a second signal still finds what to kill.
        let guarded = self.guarded().clone();
        if let Some(guarded) = guarded.filter(|guarded| guarded.running) {
            // Nothing is left to do about a failure: the next start finds what stays behind.
            let _ = guarded.services.end_all(GRACE).await;
            std::process::exit(i32::from(status));
        }
    }

    /// A second signal: everything is killed, and the process ends.
    async fn die(&self, status: u8) {
        let guarded = self.guarded().clone();
        if let Some(Guarded { services, .. }) = guarded {
            services.kill_all();
            // What cannot be killed in time is found by the next start.
            let _ = tokio::time::timeout(LAST, services.end_all(Duration::ZERO)).await;
        }
        std::process::exit(i32::from(status));
    }
}
