//! Sends requests to a server concurrently through the load client, and polls its metrics page meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::page::MetricsPage;
use crate::engine::facts::queue::{QueueMetrics, StallDetector};
use crate::fault::Result;
use crate::http::ApiKey;
use crate::load::engine_side::EngineQueue;
use crate::load::{
    BuildRequest, Control, LoadConfig, QueuedRequest, RequestOutcome, RequestRecord, RequestSource, Slots, run_load,
};
use crate::task::lock;

/// Pauses between polls of the metrics page.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Pause before the queue is polled for a single request.
const SINGLE_REQUEST_PAUSE: Duration = Duration::from_secs(1);

/// Default time after which unfinished requests are cancelled if all are queued and none is running.
pub(crate) const STALL: Duration = Duration::from_secs(20);

/// A set of requests that are sent concurrently.
pub(crate) struct Batch {
    url: String,
    key: Option<ApiKey>,
    jobs: Mutex<VecDeque<QueuedRequest>>,
    count: u64,
    timeout: Duration,
    /// Number of requests that got their first token.
    decoding: AtomicU64,
    all_decode: Notify,
    ended: AtomicU64,
}

impl Batch {
    /// Requests to this address, each with the timeout `timeout`.
    pub(crate) fn new(url: String, key: Option<ApiKey>, jobs: VecDeque<QueuedRequest>, timeout: Duration) -> Self {
        Self {
            url,
            key,
            count: jobs.len() as u64,
            timeout,
            jobs: Mutex::new(jobs),
            decoding: AtomicU64::new(0),
            all_decode: Notify::new(),
            ended: AtomicU64::new(0),
        }
    }

    /// Sends all requests concurrently and returns their records in order. Cuts them off after `stall` without
    /// progress.
    pub(crate) async fn send(
        self,
        page: Option<&MetricsPage>,
        stall: Duration,
    ) -> Result<(Vec<RequestRecord>, QueueMetrics)> {
        let mut queue = QueueMetrics::default();
        // Skip the first poll for a single request: fetching the page costs as much as a short probe.
        if self.count > 1 {
            poll(&mut queue, page, Instant::now() + self.timeout).await;
        }
        let timeout = Instant::now() + self.timeout;
        let batch = Arc::new(self);
        let config = LoadConfig {
            slots: Slots::closed(batch.count, Duration::ZERO),
            limit: None,
            grace: Duration::ZERO,
            keep_text: false,
            must_connect: false,
            key: batch.key.clone(),
            cancel: CancellationToken::new(),
        };
        let give_up = config.cancel.clone();
        let ended = CancellationToken::new();
        let sent = async {
            let done = run_load(&batch.url, config, Arc::clone(&batch) as Arc<dyn RequestSource>).await;
            ended.cancel();
            done
        };
        let watch = async {
            if batch.wait_for_stall(page, stall, timeout, &mut queue, &ended).await {
                give_up.cancel();
            }
        };
        let (done, ()) = tokio::join!(sent, watch);
        if batch.count > 1 {
            poll(&mut queue, page, timeout).await;
        }
        let mut records = done?.records;
        // Requests that were cancelled before they were issued have no record yet.
        let missing = records.len() as u64..batch.count;
        records.extend(missing.map(|index| RequestRecord {
            index,
            outcome: RequestOutcome::CutOff,
            ..RequestRecord::default()
        }));
        Ok((records, queue))
    }

    /// Polls the page until the engine has stalled (true) or all requests have `ended`. Also polls when the last
    /// request gets its first token, because all requests are running at that moment if they ever are. A poll is never
    /// cancelled, because it may already have cleared the page.
    async fn wait_for_stall(
        &self,
        page: Option<&MetricsPage>,
        stall: Duration,
        timeout: Instant,
        queue: &mut QueueMetrics,
        ended: &CancellationToken,
    ) -> bool {
        let mut detector = StallDetector::new(stall);
        detector.update((self.count, 0), None, Instant::now().into_std());
        let several = self.count > 1;
        let mut pause = if several { FIRST_PAUSE } else { SINGLE_REQUEST_PAUSE };
        while page.is_some() {
            tokio::select! {
                biased;
                () = ended.cancelled() => return false,
                () = self.all_decode.notified(), if several => {}
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE.max(pause)),
            }
            let newest = poll(queue, page, timeout).await;
            let ended = self.ended.load(Ordering::Relaxed);
            if detector
                .update((self.count, ended), newest, Instant::now().into_std())
                .is_some()
            {
                return true;
            }
        }
        false
    }
}

impl RequestSource for Batch {
    fn next(&self) -> Result<Option<BuildRequest>> {
        let job = lock(&self.jobs).pop_front();
        Ok(job.map(|job| -> BuildRequest { Box::new(move || Ok(job)) }))
    }

    fn first_token(&self) {
        if self.decoding.fetch_add(1, Ordering::Relaxed) + 1 == self.count {
            self.all_decode.notify_one();
        }
    }

    fn ended(&self, _: &RequestRecord) -> Control {
        self.ended.fetch_add(1, Ordering::Relaxed);
        Control::Continue
    }
}

/// Adds the page's current snapshots to the queue; requests time out at `timeout` or later. Returns the newest
/// snapshot; `None` if the page does not answer or has no new one.
async fn poll(queue: &mut QueueMetrics, page: Option<&MetricsPage>, timeout: Instant) -> Option<EngineQueue> {
    let snapshots = page?.fetch().await?;
    let in_time = Instant::now() < timeout;
    snapshots.iter().for_each(|snapshot| queue.add(snapshot.queue, in_time));
    snapshots.last().map(|newest| newest.queue)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::engine::adapter::{MetricFormat, MetricRules, Protocol};
    use crate::engine::wire::protocol;
    use crate::http;

    /// The outcome of a request that is never answered, if the metrics page returns these snapshots in turn and repeats
    /// the last one.
    async fn ended(pages: &'static [&str]) -> RequestOutcome {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let polls = Arc::new(AtomicU64::new(0));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let polls = Arc::clone(&polls);
                tokio::spawn(async move {
                    let mut head = [0; 4096];
                    let read = stream.read(&mut head).await.unwrap_or_default();
                    if !head[..read].starts_with(b"GET") {
                        return std::future::pending().await;
                    }
                    let poll = usize::try_from(polls.fetch_add(1, Ordering::Relaxed)).unwrap();
                    let page = pages[poll.min(pages.len() - 1)];
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{page}",
                        page.len()
                    );
                    stream.write_all(answer.as_bytes()).await.unwrap();
                });
            }
        });
        let client = http::build(http::direct()).unwrap();
        let page = MetricsPage {
            client,
            url: format!("{base}/metrics"),
            rules: MetricRules {
                path: "/metrics".into(),
                format: MetricFormat::Json,
                running: vec!["/running".into()],
                waiting: vec!["/waiting".into()],
                ..MetricRules::default()
            },
            run: Arc::default(),
        };
        let job = |_| QueuedRequest {
            at: None,
            body: "{}".into(),
            decoder: protocol::decoder(Protocol::OpenaiCompletions),
            timeout: Duration::from_secs(2),
            input: 1,
            output: 1,
        };
        let jobs = (0..2).map(job).collect();
        let batch = Batch::new(format!("{base}/v1/completions"), None, jobs, Duration::from_secs(2));
        let (records, _) = batch.send(Some(&page), Duration::from_millis(300)).await.unwrap();
        records[0].outcome.clone()
    }

    #[tokio::test]
    async fn requests_are_cancelled_only_if_all_are_queued_and_none_runs() {
        let cut_off = async |pages| ended(pages).await == RequestOutcome::CutOff;
        assert!(cut_off(&[r#"[{"running":0,"waiting":2}]"#]).await);
        // One request is in prefill.
        assert!(!cut_off(&[r#"[{"running":0,"waiting":1}]"#]).await);
        // No new snapshot: the engine is in a long step.
        assert!(!cut_off(&[r#"[{"running":0,"waiting":2}]"#, "[]"]).await);
    }
}
