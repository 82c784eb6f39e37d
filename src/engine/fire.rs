//! Requests sent at once, with an eye on the engine's metrics while they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::queue::Queue;
use super::{MetricRules, Metrics};
use crate::fault::{Fault, Result};
use crate::load::{Answer, Ask, Decode, ask};

/// The pauses between looks at the metrics page.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How long a single request runs before its queue is of interest: it may be stuck.
const SUSPICION: Duration = Duration::from_secs(1);

/// How long nothing may run while all that is unfinished waits before it is given up: an engine that could serve it would have begun.
pub(super) const STALL: Duration = Duration::from_secs(20);

/// The most that a look at the metrics page may take.
const LOOK: Duration = Duration::from_secs(2);

/// Where the metrics page is, and how to read it.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) client: Client,
    pub(super) url: String,
    pub(super) rules: MetricRules,
}

impl Page {
    /// One look: what the page tells of, oldest first; `None` where it does not answer.
    pub(super) async fn look(&self) -> Option<Vec<Metrics>> {
        let request = self.client.get(&self.url).timeout(LOOK).send().await.ok()?;
        let text = request.error_for_status().ok()?.text().await.ok()?;
        Some(Metrics::read(&text, &self.rules))
    }
}

/// Sends every request at once and waits for all answers, in the order of the requests. After `stall` without progress they are given up.
pub(super) async fn fire(
    client: &Client,
    requests: Vec<(Ask, Box<dyn Decode>)>,
    page: Option<&Page>,
    stall: Duration,
) -> Result<(Vec<Answer>, Queue)> {
    let count = requests.len() as u64;
    let mut queue = Queue::default();
    // One request needs no look before it: a page costs as much as a short probe.
    if let Some(page) = page.filter(|_| count > 1)
        && let Some(metrics) = page.look().await
    {
        metrics.into_iter().for_each(|metrics| queue.see(metrics));
    }
    let all_decode = Arc::new(Notify::new());
    let decoding = Arc::new(AtomicU64::new(0));
    let give_up = CancellationToken::new();
    let mut running = JoinSet::new();
    for (index, (request, decoder)) in requests.into_iter().enumerate() {
        let (client, decoding, all_decode) = (client.clone(), Arc::clone(&decoding), Arc::clone(&all_decode));
        let give_up = give_up.clone();
        running.spawn(async move {
            let first = || {
                if decoding.fetch_add(1, Ordering::Relaxed) + 1 == count {
                    all_decode.notify_one();
                }
            };
            (index, ask(&client, request, decoder, &give_up, first).await)
        });
    }
    let mut answers: Vec<Option<Answer>> = (0..count).map(|_| None).collect();
    let unfinished = AtomicU64::new(count);
    let collect = async {
        while let Some(done) = running.join_next().await {
            let (index, answer) = done.map_err(|error| Fault::internal(format!("a request ended badly: {error}")))?;
            answers[index] = Some(answer);
            unfinished.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    };
    match page {
        Some(page) => {
            tokio::pin!(collect);
            tokio::select! {
                done = &mut collect => done?,
                () = follow(page, &unfinished, &all_decode, stall, &mut queue) => {
                    give_up.cancel();
                    collect.await?;
                }
            }
            if count > 1
                && let Some(metrics) = page.look().await
            {
                metrics.into_iter().for_each(|metrics| queue.see(metrics));
            }
        }
        None => collect.await?,
    }
    Ok((answers.into_iter().flatten().collect(), queue))
}

/// Looks at the page again and again, and at once when the last request has its first token: then all are resident, if ever. Ends when
/// the engine has stalled.
async fn follow(page: &Page, unfinished: &AtomicU64, all_decode: &Notify, stall: Duration, queue: &mut Queue) {
    let count = unfinished.load(Ordering::Relaxed);
    let mut went_on = Instant::now();
    let mut pause = if count > 1 { FIRST_PAUSE } else { SUSPICION };
    loop {
        tokio::select! {
            () = all_decode.notified(), if count > 1 => {}
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE.max(pause)),
        }
        // A page that does not answer says nothing of what runs.
        let told = page.look().await;
        let stalled = told.is_some();
        told.into_iter().flatten().for_each(|metrics| queue.see(metrics));
        if !(stalled && queue.idle(unfinished.load(Ordering::Relaxed))) {
            went_on = Instant::now();
        } else if went_on.elapsed() >= stall {
            return;
        }
    }
}
