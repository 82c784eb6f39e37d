//! Polls the engine's metrics page at a fixed rate during a load, and collects the memory and power samples of that
//! time on the load's clock. `crate::load::engine_side` evaluates them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::engine::facts::log::ReportedFact;
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::options::wrong;
use crate::engine::lifecycle::state::Running;
use crate::engine::wire::page::MetricsPage;
use crate::fault::{Fault, Result};
use crate::load::engine_side::{EngineMetrics, EngineQueue, MemoryInUse, MetricsSample, Observations, PowerSample};
use crate::task::lock;

/// Default rate of polls per second.
pub(crate) const METRICS_HZ: f64 = 10.0;

/// Slower polling says little about a load; each poll costs the engine some milliseconds.
const HZ_RANGE: std::ops::RangeInclusive<f64> = 1.0..=50.0;

/// Time that the metrics get to settle after a load. Engines count a finished request a step or two after its last
/// token.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Background task that polls engine metrics during a load. Dropping it stops polling.
pub(crate) struct LoadMonitor {
    hz: f64,
    began: Instant,
    stop: DropGuard,
    task: Option<JoinHandle<Vec<Poll>>>,
    latest: Latest,
}

/// The newest snapshot; `None` if the last poll was not answered.
type Latest = Arc<Mutex<Option<EngineQueue>>>;

/// The result of one poll.
struct Poll {
    sent: Instant,
    at: Instant,
    /// The snapshots on the page; `None` if it did not answer.
    snapshots: Option<Vec<EngineMetrics>>,
}

impl Poll {
    fn newest(&self) -> Option<EngineQueue> {
        Some(self.snapshots.as_ref()?.last()?.queue)
    }
}

/// Starts polling a running engine `hz` times a second (1 to 50). The first poll is finished when this returns, so
/// it precedes every request sent afterwards.
///
/// # Errors
///
/// `usage` if the rate is out of range.
pub(crate) fn start_monitor(engine: &Engine, running: &Running, hz: f64) -> Result<LoadMonitor> {
    if !HZ_RANGE.contains(&hz) {
        let message = format!(
            "option `metrics_hz` is {hz}, not within {} to {}",
            HZ_RANGE.start(),
            HZ_RANGE.end()
        );
        return wrong(message, "10 polls per second are usual");
    }
    let stop = CancellationToken::new();
    let began = Instant::now();
    let latest = Latest::default();
    let mut task = None;
    if let Some(page) = engine.page(running) {
        let first = engine.wait(async { Ok(stamped(&page).await) })?;
        let period = Duration::from_secs_f64(1.0 / hz);
        let polls = poll_until(page, period, first, stop.clone(), Arc::clone(&latest));
        task = Some(engine.context.tasks.runtime().spawn(polls));
    }
    Ok(LoadMonitor {
        hz,
        began,
        stop: stop.drop_guard(),
        task,
        latest,
    })
}

/// Stops polling once the engine has counted the last requests, and returns the measurements. `clock` is the start
/// of the load's clock.
///
/// # Errors
///
/// `internal` if the polling task failed.
pub(crate) fn finish_monitor(
    engine: &Engine,
    monitor: LoadMonitor,
    running: &Running,
    clock: Instant,
) -> Result<Observations> {
    drop(monitor.stop);
    let mut polls = Vec::new();
    if let Some(task) = monitor.task {
        let failed = |error| Fault::internal(format!("polling the metrics page failed: {error}"));
        polls = engine.wait(async { task.await.map_err(failed) })?;
    }
    let mut seen = Observations {
        hz: monitor.hz,
        kv_tokens: running.info.kv_tokens,
        kv_bytes: kv_bytes(&running.facts),
        ..Observations::default()
    };
    let mut before = monitor.began;
    for poll in polls {
        let sent = poll.sent;
        seen.samples.extend(spread(poll, before, clock));
        before = sent;
    }
    if let Some(sampler) = &running.sampler {
        let (now, origin) = (Instant::now(), seconds(sampler.origin(), clock));
        let at = |micros: u64| origin + micros as f64 / 1e6;
        seen.source = Some(sampler.source().to_owned());
        let series = sampler.between(monitor.began, now);
        let memory = series.rows().iter().map(|row| MemoryInUse {
            from: at(row.from),
            to: at(row.to),
            bytes: row.total,
        });
        seen.memory = memory.collect();
        let power = sampler
            .activity_between(monitor.began, now)
            .into_iter()
            .map(|sample| PowerSample {
                from: at(sample.from),
                to: at(sample.to),
                devices: sample.devices,
            });
        seen.power = power.collect();
    }
    Ok(seen)
}

impl LoadMonitor {
    /// The newest snapshot; `None` if the last poll was not answered or had no snapshot.
    pub(crate) fn latest(&self) -> Option<EngineQueue> {
        *lock(&self.latest)
    }
}

/// Polls at a fixed rate until `stop` is cancelled, then until nothing runs or the metrics had time to settle.
async fn poll_until(
    page: MetricsPage,
    period: Duration,
    first: Poll,
    stop: CancellationToken,
    latest: Latest,
) -> Vec<Poll> {
    let mut polls = vec![first];
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    // A slow page is never polled twice concurrently, nor faster afterwards to catch up.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            _ = ticks.tick() => {}
        }
        let poll = stamped(&page).await;
        *lock(&latest) = poll.newest();
        polls.push(poll);
    }
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let poll = stamped(&page).await;
        let busy = poll.newest().is_some_and(|state| !state.is_idle());
        polls.push(poll);
        if !busy || Instant::now() >= deadline {
            return polls;
        }
        ticks.tick().await;
    }
}

async fn stamped(page: &MetricsPage) -> Poll {
    let sent = Instant::now();
    let snapshots = page.fetch().await;
    Poll {
        sent,
        at: Instant::now(),
        snapshots,
    }
}

/// Converts a poll to the load's clock. A page may hold several snapshots without timestamps; they are spaced evenly
/// since the previous poll.
fn spread(poll: Poll, before: Instant, clock: Instant) -> Vec<MetricsSample> {
    let (sent, at) = (seconds(poll.sent, clock), seconds(poll.at, clock));
    let Some(snapshots) = poll.snapshots else {
        return vec![MetricsSample {
            requested_at: sent,
            at,
            metrics: None,
        }];
    };
    let since = seconds(before, clock);
    let step = (at - since) / snapshots.len().max(1) as f64;
    let newest = snapshots.len().saturating_sub(1);
    let samples = snapshots.into_iter().enumerate().map(|(index, state)| {
        let at = at - step * (newest - index) as f64;
        MetricsSample {
            requested_at: sent.min(at),
            at,
            metrics: Some(state),
        }
    });
    samples.collect()
}

/// KV cache bytes on all devices: the newest value of each rank.
fn kv_bytes(facts: &[ReportedFact]) -> Option<u64> {
    let bytes = facts.iter().filter(|fact| fact.name == "kv_bytes");
    let ranks: BTreeMap<Option<u64>, u64> = bytes
        .filter_map(|fact| Some((fact.rank, fact.value.as_u64()?)))
        .collect();
    (!ranks.is_empty()).then(|| ranks.values().sum())
}

/// Seconds since the start of the load's clock; negative before it.
fn seconds(sample: Instant, clock: Instant) -> f64 {
    match sample.checked_duration_since(clock) {
        Some(since) => since.as_secs_f64(),
        None => -clock.duration_since(sample).as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::engine::MetricRules;
    use crate::http;

    /// Reaction of a metrics page to a poll.
    #[derive(Clone, Copy)]
    enum PageReaction {
        /// It reports the number of running requests.
        Tells(u64),
        /// It reports it after 300 ms.
        Lingers(u64),
        /// It closes the connection without an answer.
        Breaks,
    }

    /// A page that follows `plan` and repeats its last step. Cancels `stop` after `polls` polls.
    async fn page(plan: &'static [PageReaction], polls: usize, stop: CancellationToken) -> MetricsPage {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let sent = Arc::new(AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (sent, stop) = (Arc::clone(&sent), stop.clone());
                tokio::spawn(async move {
                    let mut head = [0; 4096];
                    let _read = stream.read(&mut head).await;
                    let poll = sent.fetch_add(1, Ordering::Relaxed);
                    if poll + 1 == polls {
                        stop.cancel();
                    }
                    let running = match plan[poll.min(plan.len() - 1)] {
                        PageReaction::Breaks => return,
                        PageReaction::Tells(running) => running,
                        PageReaction::Lingers(running) => {
                            tokio::time::sleep(Duration::from_millis(300)).await;
                            running
                        }
                    };
                    let text = format!("running {running}\n");
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}",
                        text.len()
                    );
                    stream.write_all(answer.as_bytes()).await.unwrap();
                });
            }
        });
        MetricsPage {
            client: http::build(http::direct()).unwrap(),
            url,
            rules: MetricRules {
                running: vec!["running".into()],
                ..MetricRules::default()
            },
            run: Arc::default(),
        }
    }

    /// The reported number of running requests and the time, poll by poll.
    async fn seen(plan: &'static [PageReaction], polls: usize) -> Vec<(Option<u64>, Duration)> {
        let stop = CancellationToken::new();
        let page = page(plan, polls, stop.clone()).await;
        let first = stamped(&page).await;
        let polls = poll_until(page, Duration::from_millis(20), first, stop, Latest::default()).await;
        for pair in polls.windows(2) {
            assert!(pair[1].sent >= pair[0].at, "one poll at a time");
        }
        let running = |poll: &Poll| {
            poll.snapshots
                .as_ref()
                .and_then(|snapshots| snapshots.last()?.queue.running)
        };
        polls.iter().map(|poll| (running(poll), poll.at - poll.sent)).collect()
    }

    #[tokio::test]
    async fn a_failed_poll_is_a_gap_and_a_slow_one_is_stamped_on_response() {
        let plan = &[
            PageReaction::Tells(3),
            PageReaction::Breaks,
            PageReaction::Lingers(4),
            PageReaction::Tells(0),
        ];
        let seen = seen(plan, 4).await;
        let running: Vec<_> = seen.iter().map(|(running, _)| *running).collect();
        assert_eq!(running[..4], [Some(3), None, Some(4), Some(0)]);
        assert!(seen[2].1 >= Duration::from_millis(300), "{seen:?}");
    }

    #[tokio::test]
    async fn after_the_end_it_polls_until_nothing_runs() {
        let plan = &[
            PageReaction::Tells(2),
            PageReaction::Tells(2),
            PageReaction::Tells(2),
            PageReaction::Tells(1),
            PageReaction::Tells(0),
        ];
        let seen = seen(plan, 2).await;
        assert_eq!(seen.last().unwrap().0, Some(0), "{seen:?}");
        assert_eq!(seen.len(), 5, "and no longer");
    }

    #[tokio::test]
    async fn waiting_for_an_engine_busy_with_other_clients_is_limited() {
        let began = Instant::now();
        let seen = seen(&[PageReaction::Tells(1)], 2).await;
        assert!(began.elapsed() >= SETTLE_TIMEOUT && seen.len() > 4, "{}", seen.len());
        assert!(began.elapsed() < 5 * SETTLE_TIMEOUT);
    }

    fn poll(snapshots: Option<usize>, clock: Instant) -> Poll {
        Poll {
            sent: clock + Duration::from_millis(900),
            at: clock + Duration::from_secs(1),
            snapshots: snapshots.map(|samples| vec![EngineMetrics::default(); samples]),
        }
    }

    #[test]
    fn snapshots_of_one_page_are_spaced_evenly_up_to_the_response() {
        let clock = Instant::now();
        let times = |snapshots| -> Vec<(f64, bool)> {
            spread(poll(snapshots, clock), clock, clock)
                .into_iter()
                .map(|poll| ((poll.at * 1e3).round() / 1e3, poll.metrics.is_some()))
                .collect()
        };
        assert_eq!(times(Some(1)), [(1.0, true)]);
        assert_eq!(times(Some(4)), [(0.25, true), (0.5, true), (0.75, true), (1.0, true)]);
        assert_eq!(times(Some(0)), [], "no snapshot since the last poll");
        assert_eq!(times(None), [(1.0, false)], "a gap");
    }

    #[test]
    fn before_the_clock_began_time_is_negative() {
        let clock = Instant::now();
        let poll = Poll {
            sent: clock - Duration::from_millis(500),
            at: clock - Duration::from_millis(250),
            snapshots: None,
        };
        let sample = spread(poll, clock, clock).pop().unwrap();
        assert!(
            (sample.requested_at + 0.5).abs() < 1e-9 && (sample.at + 0.25).abs() < 1e-9,
            "{sample:?}"
        );
    }

    #[test]
    fn each_rank_holds_its_part_of_the_cache() {
        let fact = |rank, value: u64| ReportedFact {
            name: "kv_bytes".into(),
            value: value.into(),
            rank,
            ..ReportedFact::default()
        };
        assert_eq!(kv_bytes(&[]), None);
        assert_eq!(kv_bytes(&[fact(None, 5), fact(None, 7)]), Some(7), "the newest");
        assert_eq!(kv_bytes(&[fact(Some(0), 5), fact(Some(1), 7)]), Some(12));
    }
}
