//! Everything that this run started, and its end: after success, failure, Ctrl-C and panic.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::RuntimeKind;
use super::claims::Claims;
use super::docker;
use super::orphans;
use super::process::tree;
use super::service::{Body, Service};
use crate::fault::{Fault, Result};
use crate::run::Run;

/// How long a start that is under way may take to come to an end before its container is looked for by label instead.
const UNDER_WAY: Duration = Duration::from_secs(20);

/// Everything that this run started.
#[derive(Debug, Default)]
pub struct Services {
    started: Mutex<Vec<Arc<Service>>>,
    // Starts that must not be cut in half: a container created but not yet known.
    starting: Mutex<Vec<JoinHandle<()>>>,
    claims: Claims,
    hurry: CancellationToken,
    count: AtomicUsize,
    swept_docker: OnceCell<()>,
    swept_processes: OnceCell<()>,
}

impl Services {
    /// A name for the next one: `engine-1`, `engine-2`, …
    pub(super) fn next_name(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.count.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Ends what dead runs left, once for each runtime.
    pub(super) async fn sweep(&self, kind: RuntimeKind, run: &Run) -> Result<()> {
        let swept = match kind {
            RuntimeKind::Docker => &self.swept_docker,
            RuntimeKind::Process => &self.swept_processes,
            RuntimeKind::Attach | RuntimeKind::Sim => return Ok(()),
        };
        swept.get_or_try_init(|| orphans::sweep(kind, run)).await.copied()
    }

    /// Enters a server; from here on it is ended with the run.
    pub fn enter(&self, service: Service) -> Arc<Service> {
        let service = Arc::new(service);
        self.lock().push(Arc::clone(&service));
        service
    }

    /// Everything entered, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Service>> {
        self.lock().clone()
    }

    /// Runs `work` to its end even when whoever waits for it gives up.
    pub(super) async fn undivided<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            // Nobody waits any more: the result has been entered all the same.
            let _ = sender.send(work.await);
        });
        {
            let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
            starting.retain(|task| !task.is_finished());
            starting.push(task);
        }
        receiver
            .await
            .map_err(|_| Fault::internal("a start ended without an answer"))?
    }

    /// Ends everything, each with at most this grace (its own, where shorter). Every one is tried; the first failure is returned.
    pub async fn end_all(&self, grace: Duration) -> Result<()> {
        let starting = std::mem::take(&mut *self.starting.lock().unwrap_or_else(PoisonError::into_inner));
        for task in starting {
            let _ = tokio::time::timeout(UNDER_WAY, task).await;
        }
        let services = self.list();
        let stops = services
            .iter()
            .rev()
            .map(|service| service.stop(grace.min(service.grace())));
        let failure = futures_util::future::join_all(stops)
            .await
            .into_iter()
            .find_map(Result::err);
        match failure {
            Some(fault) => Err(fault),
            None => {
                self.lock().clear();
                Ok(())
            }
        }
    }

    /// Ends everything by force, now: a second Ctrl-C, or the last resort when nobody called [`Services::end_all`].
    /// Blocks, and needs nothing of the runtime, which may be gone; may be called on any thread.
    pub fn kill_all(&self) {
        self.hurry.cancel();
        for service in &*self.lock() {
            if let Body::Process(process) = service.body() {
                tree::signal(&process.pids(), Signal::SIGKILL);
            }
        }
        let containers = self.claims.all();
        if !containers.is_empty() {
            // A thread of its own: blocking inside a runtime would panic.
            let removal = std::thread::spawn(move || docker::remove_blocking(&containers));
            let _ = removal.join();
        }
    }

    pub(super) fn claims(&self) -> &Claims {
        &self.claims
    }

    pub(super) fn hurry(&self) -> CancellationToken {
        self.hurry.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Service>>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if !self.lock().is_empty() || !self.claims.all().is_empty() {
            self.kill_all();
        }
    }
}
