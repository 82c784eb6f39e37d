//! Runs the load's client. The script's thread answers the client's requests for forms, and stops it when time is up,
//! the engine dies, or the user interrupts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::feed::{Feed, Signal};
use super::monitor::LoadMonitor;
use super::session::Session;
use crate::engine::facts::queue::StallDetector;
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::memory::show_memory;
use crate::engine::lifecycle::requests::form_for;
use crate::engine::lifecycle::state::Running;
use crate::fault::{Fault, Result};
use crate::load::{LoadRun, RequestSource, run_load};
use crate::run::Event;

/// Time that an interrupted load gets to finish its records.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// Interval of progress events.
const PROGRESS: Duration = Duration::from_secs(1);

/// Runs a load to its end. Also returns whether the engine died during the load.
///
/// # Errors
///
/// Errors of the client or the adapter; `interrupted`, after unfinished requests were cut off and written to disk.
pub(crate) fn run_client(
    engine: &Engine,
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
    let load = async move { run_load(&url, config, source).await };
    let mut client = engine.context.tasks.runtime().spawn(load);
    // Ends the load's threads on every exit path.
    let _stop = cancel.clone().drop_guard();
    let lost = |error| Fault::internal(format!("load client task failed: {error}"));
    let mut deadline = None;
    let mut died = false;
    let began = Instant::now();
    let mut told = began;
    let (interval, mut stall) = (PROGRESS.min(session.stall / 4), StallDetector::new(session.stall));
    let mut next_check = Instant::now() + interval;
    loop {
        let event = engine.wait(async {
            Ok(tokio::select! {
                biased;
                result = &mut client => Signal::Over(Box::new(result.map_err(lost).flatten())),
                Some(signal) = signals.recv() => signal,
                () = until(deadline) => Signal::TimeUp,
                () = tokio::time::sleep_until(next_check.into()) => Signal::Tick,
            })
        });
        let result = event.and_then(|event| {
            match event {
                Signal::Over(driven) => return driven.map(Some),
                Signal::Form(input, output, reply) => {
                    // The requesting thread may have ended.
                    let _ = reply.send(form_for(engine, Some(running), input, output));
                }
                Signal::MeasurementBegan => deadline = measured.map(|measured| Instant::now() + measured),
                Signal::ConnectionBroke => {
                    if !died && engine.wait(running.server.exit())?.is_some() {
                        died = true;
                        cancel.cancel();
                    }
                }
                Signal::TimeUp => {
                    deadline = None;
                    cancel.cancel();
                }
                Signal::Tick => {
                    next_check = Instant::now() + interval;
                    if let Some(why) = stall.update(feed.counts(), monitor.latest(), Instant::now()) {
                        feed.give_up(why);
                        cancel.cancel();
                    }
                }
            }
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                report_progress(engine, feed, began, session.expected())?;
                if let Some(sampler) = &running.sampler {
                    show_memory(engine, sampler)?;
                }
            }
            Ok(None)
        });
        match result {
            Ok(None) => {}
            Ok(Some(driven)) => return Ok((driven, died)),
            Err(fault) => {
                shutdown(engine, &cancel, client);
                return Err(fault);
            }
        }
    }
}

/// Cuts off unfinished requests and waits for their records to be written.
fn shutdown(engine: &Engine, cancel: &CancellationToken, client: JoinHandle<Result<LoadRun>>) {
    cancel.cancel();
    if client.is_finished() {
        return;
    }
    let abort = client.abort_handle();
    // Results that are not on disk by now are lost.
    let _ = engine
        .context
        .tasks
        .finish(async { tokio::time::timeout(SHUTDOWN_TIMEOUT, client).await });
    abort.abort();
}

fn report_progress(engine: &Engine, feed: &Feed, began: Instant, expected: Option<u64>) -> Result<()> {
    let (issued, done) = feed.counts();
    engine.context.run.note(Event::Loading {
        done,
        issued,
        expected,
        per_second: done as f64 / feed.clock.model(began.elapsed()).as_secs_f64(),
    })
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
