//! Sends a batch of concurrent requests and polls the engine's metrics meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::queue_metrics::QueueMetrics;
use super::{MetricRules, metrics};
use crate::fault::{Fault, Result};
use crate::load::engine_side::EngineMetrics;
use crate::load::{Decode, StreamRequest, StreamResponse, send_streaming};

/// Pauses between polls of the metrics page.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How long a single request runs before its queue is polled.
const SINGLE_REQUEST_PAUSE: Duration = Duration::from_secs(1);

/// How long unfinished requests may all be queued, with none running, before they are cancelled.
pub(super) const STALL: Duration = Duration::from_secs(20);

/// Timeout for fetching the metrics page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct MetricsPage {
    pub(super) client: Client,
    pub(super) url: String,
    pub(super) rules: MetricRules,
}

impl MetricsPage {
    /// Fetches the page; snapshots are oldest first. `None` if the page does not answer.
    pub(super) async fn fetch(&self) -> Option<Vec<EngineMetrics>> {
        let request = self.client.get(&self.url).timeout(PAGE_TIMEOUT).send().await.ok()?;
        let text = request.error_for_status().ok()?.text().await.ok()?;
        Some(metrics::read(&text, &self.rules))
    }
}

/// Sends all requests concurrently and returns the answers in the order of the requests. Cancels them after `stall`
/// without progress.
pub(super) async fn send_batch(
    client: &Client,
    requests: Vec<(StreamRequest, Box<dyn Decode>)>,
    page: Option<&MetricsPage>,
    stall: Duration,
) -> Result<(Vec<StreamResponse>, QueueMetrics)> {
    let count = requests.len() as u64;
    let mut queue = QueueMetrics::default();
    // A single request is not preceded by a poll: fetching the page costs as much as a short probe.
    if let Some(page) = page.filter(|_| count > 1)
        && let Some(metrics) = page.fetch().await
    {
        metrics.into_iter().for_each(|state| queue.add(state.into()));
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
            (index, send_streaming(&client, request, decoder, &give_up, first).await)
        });
    }
    let mut answers: Vec<Option<StreamResponse>> = (0..count).map(|_| None).collect();
    let unfinished = AtomicU64::new(count);
    let collect = async {
        while let Some(done) = running.join_next().await {
            let (index, answer) = done.map_err(|error| Fault::internal(format!("a request task failed: {error}")))?;
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
                () = wait_for_stall(page, &unfinished, &all_decode, stall, &mut queue) => {
                    give_up.cancel();
                    collect.await?;
                }
            }
            if count > 1
                && let Some(metrics) = page.fetch().await
            {
                metrics.into_iter().for_each(|state| queue.add(state.into()));
            }
        }
        None => collect.await?,
    }
    Ok((answers.into_iter().flatten().collect(), queue))
}

/// Polls the page until the engine has stalled. Also polls when the last request gets its first token, because all
/// requests are running at that moment if they ever are.
async fn wait_for_stall(
    page: &MetricsPage,
    unfinished: &AtomicU64,
    all_decode: &Notify,
    stall: Duration,
    queue: &mut QueueMetrics,
) {
    let count = unfinished.load(Ordering::Relaxed);
    let mut last_progress = Instant::now();
    let mut pause = if count > 1 { FIRST_PAUSE } else { SINGLE_REQUEST_PAUSE };
    loop {
        tokio::select! {
            () = all_decode.notified(), if count > 1 => {}
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE.max(pause)),
        }
        // A page without an answer, or without a new snapshot, says nothing about progress.
        let snapshots = page.fetch().await.unwrap_or_default();
        let no_snapshot = snapshots.is_empty();
        snapshots.into_iter().for_each(|state| queue.add(state.into()));
        if no_snapshot || !queue.idle(unfinished.load(Ordering::Relaxed)) {
            last_progress = Instant::now();
        } else if last_progress.elapsed() >= stall {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::engine::{MetricFormat, Protocol, protocol};
    use crate::http;
    use crate::load::StreamEnd;

    /// How a request that is never answered ends, if the metrics page returns these snapshots in turn, repeating the
    /// last one.
    async fn ended(pages: &'static [&str]) -> StreamEnd {
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
            client: client.clone(),
            url: format!("{base}/metrics"),
            rules: MetricRules {
                path: "/metrics".into(),
                format: MetricFormat::Json,
                running: vec!["/running".into()],
                waiting: vec!["/waiting".into()],
                ..MetricRules::default()
            },
        };
        let request = || {
            let ask = StreamRequest {
                url: format!("{base}/v1/completions"),
                body: "{}".into(),
                timeout: Duration::from_secs(2),
            };
            (ask, protocol::decoder(Protocol::OpenaiCompletions))
        };
        let stall = Duration::from_millis(300);
        let (answers, _) = send_batch(&client, vec![request(), request()], Some(&page), stall)
            .await
            .unwrap();
        answers[0].end.clone()
    }

    #[tokio::test]
    async fn requests_are_cancelled_only_if_all_are_queued_and_none_runs() {
        assert_eq!(ended(&[r#"[{"running":0,"waiting":2}]"#]).await, StreamEnd::Cancelled);
        // One request is in prefill.
        assert_eq!(ended(&[r#"[{"running":0,"waiting":1}]"#]).await, StreamEnd::Deadline);
        // No new snapshot: the engine is in a long step.
        assert_eq!(
            ended(&[r#"[{"running":0,"waiting":2}]"#, "[]"]).await,
            StreamEnd::Deadline
        );
    }
}
