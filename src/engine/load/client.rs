//! Runs one load: starts the client, answers its requests to the script's thread, and stops it when time is up, the
//! engine dies, or the user interrupts. With a simulated engine that does not run in real time, everything that a load
//! plans and reports is in the time of the modelled card, so that its figures are the card's.

use std::borrow::Cow;
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
use crate::fmt::number;
use crate::load::engine_side::Observations;
use crate::load::{LoadRun, Record, RequestSource, run_load};
use crate::run::Event;
use crate::warning::{CLOCK_TOO_FAST, Warning};

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
        let lost = |error| Fault::internal(format!("load client task failed: {error}"));
        let mut deadline = None;
        let mut died = false;
        let mut progress = (Instant::now(), 0);
        let (interval, mut stall) = (PROGRESS.min(session.stall / 4), StallDetector::new(session.stall));
        let mut next_check = Instant::now() + interval;
        loop {
            let event = self.wait(async {
                Ok(tokio::select! {
                    biased;
                    result = &mut client => LoadEvent::Over(Box::new(result.map_err(lost).flatten())),
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
                        if !died && self.wait(running.server.exit())?.is_some() {
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

/// Model seconds per real second above which delays of this machine would outweigh the modelled times.
const MAX_SPEED: f64 = 100.0;

/// Real seconds without a power sample that count as a gap.
const MAX_GAP_SECONDS: f64 = 1.0;

/// How much faster than real time an engine runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ModelClock {
    /// Model seconds per real second by which times are converted.
    pub(super) speed: f64,
    /// The same of an engine that is too fast: nothing is converted, and its times are not the card's.
    too_fast: Option<f64>,
}

impl ModelClock {
    /// From the real seconds per model second of a simulated engine; `None` for any other.
    pub(super) fn new(time_scale: Option<f64>) -> Self {
        let speed = time_scale.map_or(1.0, |scale| 1.0 / scale);
        match speed <= MAX_SPEED {
            true => Self { speed, too_fast: None },
            false => Self {
                speed: 1.0,
                too_fast: Some(speed),
            },
        }
    }

    /// Whether its times and rates are those of an engine.
    pub(super) fn is_meaningful(self) -> bool {
        self.too_fast.is_none()
    }

    /// What a reader must know; `None` in real time.
    pub(super) fn note(self) -> Option<Warning> {
        match self.too_fast {
            Some(speed) => {
                let speed = if speed.is_finite() {
                    format!("{} times as fast as", number(speed))
                } else {
                    "without waiting, unlike".to_owned()
                };
                Some(Warning::new(
                    CLOCK_TOO_FAST,
                    format!(
                        "the simulated clock runs {speed} the card that it models: times, rates and energy of loads are not the card's, and cost is \
                         not computed; set `sim.time_scale` to 0.01 or more"
                    ),
                ))
            }
            None if self.speed == 1.0 => None,
            None => Some(Warning::from(format!(
                "the simulated clock runs {} times as fast as the card that it models: times and rates of loads are converted to the card's, and \
                 delays of this machine count as many times in them",
                number(self.speed)
            ))),
        }
    }

    /// A duration of the model in real time.
    pub(super) fn real(self, model: Duration) -> Duration {
        Duration::try_from_secs_f64(model.as_secs_f64() / self.speed).unwrap_or(model)
    }

    /// A real duration in the time of the model.
    pub(super) fn model(self, real: Duration) -> Duration {
        if self.speed == 1.0 {
            real
        } else {
            real.mul_f64(self.speed)
        }
    }

    /// A record in the time of the model.
    pub(super) fn record(self, record: &Record) -> Cow<'_, Record> {
        if self.speed == 1.0 {
            return Cow::Borrowed(record);
        }
        Cow::Owned(Record {
            itl_ms: record.itl_ms.iter().map(|gap| gap * self.speed as f32).collect(),
            ..record.clone().retimed(|moment| self.model(moment))
        })
    }

    /// Samples in the time of the model.
    pub(super) fn observations(self, mut seen: Observations) -> Observations {
        seen.hz /= self.speed;
        // What counts as a gap between samples is a matter of real time.
        seen.power_gap = MAX_GAP_SECONDS * self.speed;
        seen.retime(|at| at * self.speed);
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_too_fast_converts_nothing_and_says_so() {
        let second = Duration::from_secs(1);
        for (scale, model, meaningful, says) in [
            (None, 1.0, true, None),
            (Some(1.0), 1.0, true, None),
            (Some(0.1), 10.0, true, Some("10 times as fast")),
            (Some(0.0005), 1.0, false, Some("2,000 times as fast")),
            (Some(0.0), 1.0, false, Some("without waiting")),
        ] {
            let clock = ModelClock::new(scale);
            assert_eq!(
                (clock.model(second).as_secs_f64(), clock.is_meaningful()),
                (model, meaningful),
                "{scale:?}"
            );
            assert_eq!(clock.real(clock.model(second)), second);
            assert_eq!(clock.note().is_some(), says.is_some());
            assert!(
                says.is_none_or(|says| clock.note().unwrap().message.contains(says)),
                "{:?}",
                clock.note()
            );
        }
    }
}
