//! What is looked at while a load runs: the engine's metrics page at a steady rate, and what the sampler saw of memory and power
//! meanwhile, all on the load's own clock. What follows from it is `load::joined`'s to say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::fire::Page;
use super::super::handle::Running;
use super::super::{Engine, Told};
use crate::fault::{Fault, Result};
use crate::load::joined::{Look, Power, Seen, State, Used, Watts};
use crate::telemetry::Sampler;

/// Looks at the metrics page a second, where nobody says.
pub(crate) const METRICS_HZ: f64 = 10.0;

/// Slower looks say little of a load; a page costs the engine some milliseconds of what it has to serve requests with.
const HZ: std::ops::RangeInclusive<f64> = 1.0..=50.0;

/// How long after a load its end may take to show on the page: an engine counts a request a step or two after its last token.
const SETTLING: Duration = Duration::from_secs(1);

/// Somebody who looks beside a load. Dropping it ends the looking.
pub(in crate::engine) struct Beside {
    hz: f64,
    began: Instant,
    over: DropGuard,
    looking: Option<JoinHandle<Vec<Stamped>>>,
    latest: Latest,
}

/// What the last look saw; `None` where it was not answered.
type Latest = Arc<Mutex<Option<State>>>;

/// One look, by the machine's clock.
struct Stamped {
    asked: Instant,
    at: Instant,
    /// The moments that the page told of; `None` where it did not answer.
    told: Option<Vec<State>>,
}

impl Engine {
    /// Looks at a running engine from here on, `hz` times a second (1 to 50). The first look is over when this returns: whatever is sent
    /// from then on is counted after it.
    ///
    /// # Errors
    ///
    /// `usage` for another rate.
    pub(in crate::engine) fn look_beside(&self, running: &Running, hz: f64) -> Result<Beside> {
        if !HZ.contains(&hz) {
            let message = format!("option `metrics_hz` is {hz}, not within {} to {}", HZ.start(), HZ.end());
            return Err(Fault::usage(message).hint("10 looks a second are usual"));
        }
        let over = CancellationToken::new();
        let began = Instant::now();
        let latest = Latest::default();
        let looking = match self.page(running) {
            Some(page) => {
                let first = self.context.tasks.wait(async { Ok(stamped(&page).await) })?;
                let looking = look_on(
                    page,
                    Duration::from_secs_f64(1.0 / hz),
                    first,
                    over.clone(),
                    Arc::clone(&latest),
                );
                Some(self.context.tasks.runtime().spawn(looking))
            }
            None => None,
        };
        Ok(Beside {
            hz,
            began,
            over: over.drop_guard(),
            looking,
            latest,
        })
    }

    /// Ends the looking after a load, once the engine has counted what ended, and gives what was seen since it began. `clock` is when the
    /// load's clock began.
    ///
    /// # Errors
    ///
    /// `internal` when the looking itself failed.
    pub(in crate::engine) fn seen_beside(&self, beside: Beside, running: &Running, clock: Instant) -> Result<Seen> {
        drop(beside.over);
        let looks = match beside.looking {
            Some(looking) => self
                .context
                .tasks
                .wait(async {
                    let looked = looking.await;
                    looked.map_err(|error| Fault::internal(format!("looking at the metrics page ended badly: {error}")))
                })?
                .into_iter(),
            None => Vec::new().into_iter(),
        };
        let mut seen = Seen {
            hz: beside.hz,
            kv_tokens: running.info.kv_tokens,
            kv_bytes: kv_bytes(&running.told),
            ..Seen::default()
        };
        let mut before = beside.began;
        for look in looks {
            let asked = look.asked;
            seen.looks.extend(spread(look, before, clock));
            before = asked;
        }
        if let Some(sampler) = &running.sampler {
            let now = Instant::now();
            seen.source = Some(sampler.source().to_owned());
            seen.memory = memory(sampler, beside.began, now, clock);
            seen.power = power(sampler, beside.began, now, clock);
        }
        Ok(seen)
    }
}

impl Beside {
    /// What the last look saw; `None` where it was not answered, or told of no moment.
    pub(super) fn latest(&self) -> Option<State> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Looks at a steady rate after a first look until it is over, and after that until nothing runs any more, for a while.
async fn look_on(
    page: Page,
    period: Duration,
    first: Stamped,
    over: CancellationToken,
    latest: Latest,
) -> Vec<Stamped> {
    let mut looks = vec![first];
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    // A page that takes longer than a period is not asked twice at once, nor faster than that afterwards.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            () = over.cancelled() => break,
            _ = ticks.tick() => {}
        }
        let look = stamped(&page).await;
        *latest.lock().unwrap_or_else(PoisonError::into_inner) =
            look.told.as_ref().and_then(|told| told.last()).cloned();
        looks.push(look);
    }
    let deadline = Instant::now() + SETTLING;
    loop {
        let look = stamped(&page).await;
        let busy = look.told.as_ref().and_then(|told| told.last()).is_some_and(busy);
        looks.push(look);
        if !busy || Instant::now() >= deadline {
            return looks;
        }
        ticks.tick().await;
    }
}

async fn stamped(page: &Page) -> Stamped {
    let asked = Instant::now();
    let told = page.look().await;
    Stamped {
        asked,
        at: Instant::now(),
        told,
    }
}

fn busy(state: &State) -> bool {
    state.running.unwrap_or(0) + state.waiting.unwrap_or(0) > 0
}

/// A look on the load's clock. A page may tell of several moments since the one before, without their times: they are put at even
/// distances.
fn spread(look: Stamped, before: Instant, clock: Instant) -> Vec<Look> {
    let (asked, at) = (seconds(look.asked, clock), seconds(look.at, clock));
    let Some(told) = look.told else {
        return vec![Look { asked, at, state: None }];
    };
    let since = seconds(before, clock);
    let step = (at - since) / told.len().max(1) as f64;
    let moments = told.into_iter().rev().enumerate().map(|(back, state)| {
        let at = at - step * back as f64;
        Look {
            asked: asked.min(at),
            at,
            state: Some(state),
        }
    });
    let mut looks: Vec<Look> = moments.collect();
    looks.reverse();
    looks
}

/// Bytes of the KV cache on all devices: the newest that each rank told.
fn kv_bytes(told: &[Told]) -> Option<u64> {
    let bytes = told.iter().filter(|one| one.name == "kv_bytes");
    let ranks: BTreeMap<Option<u64>, u64> = bytes.filter_map(|one| Some((one.rank, one.value.as_u64()?))).collect();
    (!ranks.is_empty()).then(|| ranks.values().sum())
}

fn memory(sampler: &Sampler, from: Instant, to: Instant, clock: Instant) -> Vec<Used> {
    let origin = seconds(sampler.origin(), clock);
    let series = sampler.between(from, to);
    let rows = series.rows().iter();
    rows.map(|row| Used {
        from: origin + micros(row.from),
        to: origin + micros(row.to),
        bytes: row.total,
    })
    .collect()
}

fn power(sampler: &Sampler, from: Instant, to: Instant, clock: Instant) -> Vec<Power> {
    let origin = seconds(sampler.origin(), clock);
    let moments = sampler.activity_between(from, to).into_iter();
    moments
        .map(|moment| Power {
            from: origin + micros(moment.from),
            to: origin + micros(moment.to),
            devices: moment
                .doings
                .into_iter()
                .map(|doing| Watts {
                    device: doing.device,
                    power: doing.power_w,
                    busy: doing.busy_percent,
                })
                .collect(),
        })
        .collect()
}

fn micros(at: u64) -> f64 {
    at as f64 / 1e6
}

/// A moment in seconds since the clock began, negative before.
fn seconds(moment: Instant, clock: Instant) -> f64 {
    match moment.checked_duration_since(clock) {
        Some(since) => since.as_secs_f64(),
        None => -clock.duration_since(moment).as_secs_f64(),
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

    /// What a metrics page does at a look.
    #[derive(Clone, Copy)]
    enum Then {
        /// It tells how many requests run.
        Tells(u64),
        /// It does so after 300 ms.
        Lingers(u64),
        /// The connection ends without an answer.
        Breaks,
    }

    /// A page that does one after the other and then the last for ever. `over` is cancelled when so many looks have been asked for.
    async fn page(plan: &'static [Then], looks: usize, over: CancellationToken) -> Page {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (asked, over) = (Arc::clone(&asked), over.clone());
                tokio::spawn(async move {
                    let mut head = [0; 4096];
                    let _read = stream.read(&mut head).await;
                    let look = asked.fetch_add(1, Ordering::Relaxed);
                    if look + 1 == looks {
                        over.cancel();
                    }
                    let running = match plan[look.min(plan.len() - 1)] {
                        Then::Breaks => return,
                        Then::Tells(running) => running,
                        Then::Lingers(running) => {
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
        Page {
            client: http::build(http::direct()).unwrap(),
            url,
            rules: MetricRules {
                running: vec!["running".into()],
                ..MetricRules::default()
            },
        }
    }

    /// What was seen of how many requests ran, look after look.
    async fn seen(plan: &'static [Then], looks: usize) -> Vec<(Option<u64>, Duration)> {
        let over = CancellationToken::new();
        let page = page(plan, looks, over.clone()).await;
        let first = stamped(&page).await;
        let looked = look_on(page, Duration::from_millis(20), first, over, Latest::default()).await;
        for pair in looked.windows(2) {
            assert!(pair[1].asked >= pair[0].at, "one look at a time");
        }
        let running = |look: &Stamped| look.told.as_ref().and_then(|told| told.last()?.running);
        looked
            .iter()
            .map(|look| (running(look), look.at - look.asked))
            .collect()
    }

    #[tokio::test]
    async fn a_look_that_fails_is_a_gap_and_a_slow_one_is_stamped_when_it_is_answered() {
        let plan = &[Then::Tells(3), Then::Breaks, Then::Lingers(4), Then::Tells(0)];
        let seen = seen(plan, 4).await;
        let running: Vec<_> = seen.iter().map(|(running, _)| *running).collect();
        assert_eq!(running[..4], [Some(3), None, Some(4), Some(0)]);
        assert!(seen[2].1 >= Duration::from_millis(300), "{seen:?}");
    }

    #[tokio::test]
    async fn after_the_end_it_looks_until_nothing_runs() {
        let plan = &[
            Then::Tells(2),
            Then::Tells(2),
            Then::Tells(2),
            Then::Tells(1),
            Then::Tells(0),
        ];
        let seen = seen(plan, 2).await;
        assert_eq!(seen.last().unwrap().0, Some(0), "{seen:?}");
        assert_eq!(seen.len(), 5, "and no longer");
    }

    #[tokio::test]
    async fn an_engine_that_somebody_else_keeps_busy_is_not_waited_for_for_ever() {
        let began = Instant::now();
        let seen = seen(&[Then::Tells(1)], 2).await;
        assert!(began.elapsed() >= SETTLING && seen.len() > 4, "{}", seen.len());
        assert!(began.elapsed() < 5 * SETTLING);
    }

    fn look(told: Option<usize>, clock: Instant) -> Stamped {
        Stamped {
            asked: clock + Duration::from_millis(900),
            at: clock + Duration::from_secs(1),
            told: told.map(|moments| vec![State::default(); moments]),
        }
    }

    #[test]
    fn moments_of_one_page_lie_at_even_distances_up_to_the_answer() {
        let clock = Instant::now();
        let times = |told| -> Vec<(f64, bool)> {
            let looks = spread(look(told, clock), clock, clock).into_iter();
            looks
                .map(|look| ((look.at * 1e3).round() / 1e3, look.state.is_some()))
                .collect()
        };
        assert_eq!(times(Some(1)), [(1.0, true)]);
        assert_eq!(times(Some(4)), [(0.25, true), (0.5, true), (0.75, true), (1.0, true)]);
        assert_eq!(times(Some(0)), [], "no moment since the last look");
        assert_eq!(times(None), [(1.0, false)], "a gap");
    }

    #[test]
    fn before_the_clock_began_time_is_negative() {
        let clock = Instant::now();
        let look = Stamped {
            asked: clock - Duration::from_millis(500),
            at: clock - Duration::from_millis(250),
            told: None,
        };
        let look = spread(look, clock, clock).pop().unwrap();
        assert!(
            (look.asked + 0.5).abs() < 1e-9 && (look.at + 0.25).abs() < 1e-9,
            "{look:?}"
        );
    }

    #[test]
    fn each_rank_holds_its_part_of_the_cache() {
        let told = |rank, value: u64| Told {
            name: "kv_bytes".into(),
            value: value.into(),
            rank,
            ..Told::default()
        };
        assert_eq!(kv_bytes(&[]), None);
        assert_eq!(kv_bytes(&[told(None, 5), told(None, 7)]), Some(7), "the newest");
        assert_eq!(kv_bytes(&[told(Some(0), 5), told(Some(1), 7)]), Some(12));
    }
}
