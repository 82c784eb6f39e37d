//! Runs one load: starts the client, answers its requests to the script's thread, and stops it when time is up, the
//! engine dies, or the user interrupts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::feed::{Feed, Signal};
use super::monitor::LoadMonitor;
use super::session::Session;
use crate::boundary::Point;
use crate::engine::handle::Running;
use crate::engine::metrics::StallDetector;
use crate::engine::{Engine, RequestForm};
use crate::fault::{Fault, Result};
use crate::load::{LoadRun, RequestSource, run_load};
use crate::run::Event;

/// How long an interrupted load may take to finish its records.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// Interval of progress events.
const PROGRESS: Duration = Duration::from_secs(1);

enum LoadEvent {
    Signal(Signal),
    Over(Box<Result<LoadRun>>),
    TimeUp,
    Tick,
}

impl Engine {
    /// Runs a load to its end. Also returns whether the engine died during the load.
    ///
    /// # Errors
    ///
    /// Errors of the client or the adapter; `interrupted`, after unfinished requests were cut off and written to disk.
    pub(super) fn run_client(
        &self,
        running: &Running,
        monitor: &LoadMonitor,
        session: &Session,
        feed: &Arc<Feed>,
        mut signals: UnboundedReceiver<Signal>,
    ) -> Result<(LoadRun, bool)> {
        let (mut config, measured) = session.client_config();
        config.key.clone_from(&running.key);
        let url = session.url.clone();
        let cancel = config.cancel.clone();
        let source: Arc<dyn RequestSource> = Arc::clone(feed) as _;
        let client = async move { run_load(&url, config, source).await };
        let mut client = self.context.tasks.runtime().spawn(client);
        // Ends the load's threads on every exit path.
        let _stop = cancel.clone().drop_guard();
        let mut deadline = None;
        let mut died = false;
        let mut progress = (Instant::now(), 0);
        let (interval, mut stall) = (PROGRESS.min(session.stall / 4), StallDetector::new(session.stall));
        let mut next_check = Instant::now() + interval;
        loop {
            let event = self.context.tasks.wait(async {
                Ok(tokio::select! {
                    biased;
                    result = &mut client => LoadEvent::Over(Box::new(client_result(result))),
                    Some(signal) = signals.recv() => LoadEvent::Signal(signal),
                    () = until(deadline) => LoadEvent::TimeUp,
                    () = tokio::time::sleep_until(next_check.into()) => LoadEvent::Tick,
                })
            });
            let result = event.and_then(|event| {
                match event {
                    LoadEvent::Over(driven) => return driven.map(Some),
                    LoadEvent::Signal(Signal::Form(input, output, reply)) => {
                        // The requesting thread may have ended.
                        let _ = reply.send(self.form_for(Some(running), input, output));
                    }
                    LoadEvent::Signal(Signal::MeasurementBegan) => {
                        deadline = measured.map(|measured| Instant::now() + measured)
                    }
                    LoadEvent::Signal(Signal::ConnectionBroke) => {
                        if !died && self.context.tasks.wait(running.server.exit())?.is_some() {
                            died = true;
                            cancel.cancel();
                        }
                    }
                    LoadEvent::TimeUp => {
                        deadline = None;
                        cancel.cancel();
                    }
                    LoadEvent::Tick => {
                        next_check = Instant::now() + interval;
                        if let Some(why) = stall.update(feed.counts(), monitor.latest(), Instant::now()) {
                            feed.give_up(why);
                            cancel.cancel();
                        }
                    }
                }
                if progress.0.elapsed() >= PROGRESS {
                    self.report_progress(feed, &mut progress, session.expected())?;
                    if let Some(sampler) = &running.sampler {
                        self.show_memory(sampler)?;
                    }
                }
                Ok(None)
            });
            match result {
                Ok(None) => {}
                Ok(Some(driven)) => return Ok((driven, died)),
                Err(fault) => {
                    self.shutdown(&cancel, client);
                    return Err(fault);
                }
            }
        }
    }

    /// The request form for these lengths.
    pub(super) fn form_for(&self, running: Option<&Running>, input: u64, output: u64) -> Result<RequestForm> {
        let whole = |count: u64| i64::try_from(count).map_err(|_| Fault::usage(format!("`{count}` is too large")));
        let point = Point::default()
            .with("input", whole(input.max(1))?)
            .with("output", whole(output)?)
            .with("concurrency", 1);
        self.request(&point, running)
    }

    /// Cuts off unfinished requests and waits for their records to be written.
    fn shutdown(&self, cancel: &CancellationToken, client: JoinHandle<Result<LoadRun>>) {
        cancel.cancel();
        if client.is_finished() {
            return;
        }
        let abort = client.abort_handle();
        // Results that are not on disk by now are lost.
        let _ = self
            .context
            .tasks
            .finish(async { tokio::time::timeout(SHUTDOWN_TIMEOUT, client).await });
        abort.abort();
    }

    fn report_progress(&self, feed: &Feed, progress: &mut (Instant, u64), expected: Option<u64>) -> Result<()> {
        let (issued, done) = feed.counts();
        let (at, before) = std::mem::replace(progress, (Instant::now(), done));
        self.context.run.note(Event::Loading {
            done,
            issued,
            expected,
            per_second: (done - before) as f64 / feed.clock.model(at.elapsed()).as_secs_f64(),
        })
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn client_result(result: std::result::Result<Result<LoadRun>, tokio::task::JoinError>) -> Result<LoadRun> {
    result.map_err(|error| Fault::internal(format!("load client task failed: {error}")))?
}
