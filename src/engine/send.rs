//! Sends requests to a running engine: a batch of concurrent ones for a probe, polling the engine's metrics meanwhile, or a
//! single prompt of the user's own, unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::handle::{Ensured, Health};
use super::judge::succeeded;
use super::metrics::{MetricsPage, QueueMetrics};
use super::{Engine, Limits, Wire, protocol};
use crate::boundary::Point;
use crate::fault::{Fault, Kind, Result};
use crate::load::{Decode, StreamEnd, StreamRequest, StreamResponse, send_streaming};

/// Pauses between polls of the metrics page.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// How long a single request runs before its queue is polled.
const SINGLE_REQUEST_PAUSE: Duration = Duration::from_secs(1);

/// How long unfinished requests may all be queued, with none running, before they are cancelled.
pub(super) const STALL: Duration = Duration::from_secs(20);

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

/// Options of `engine.send`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SendOptions {
    /// Maximum tokens to generate.
    pub output: u64,
    /// Timeout in seconds.
    pub timeout: f64,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            output: 16,
            timeout: 600.0,
        }
    }
}

/// The response to `engine.send`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendAnswer {
    /// Whether the stream completed with a proper finish reason.
    pub complete: bool,
    /// Prompt tokens, as counted by the engine.
    pub input: Option<u64>,
    /// Output tokens, as counted by the engine.
    pub output: Option<u64>,
    /// The engine's finish reason.
    pub finish: Option<String>,
    /// The error, in the engine's words if it gave any.
    pub error: Option<String>,
    /// HTTP status of a rejected request.
    pub http_status: Option<u16>,
    /// Time to first token, in ms.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first, in ms.
    pub tpot_ms: Option<f64>,
    /// End-to-end latency, in ms.
    pub e2el_ms: Option<f64>,
}

impl Engine {
    /// Sends a prompt to the engine, starting it if needed.
    ///
    /// # Errors
    ///
    /// `usage` for token ids if the protocol takes none; `engine` if no start serves the request.
    pub fn send(&self, prompt: &Wire, options: SendOptions) -> Result<SendAnswer> {
        let input = match prompt {
            Wire::Tokens(ids) => ids.len(),
            // A token of text has at least one byte.
            Wire::Text(text) => text.len(),
        };
        let whole = |count: u64| i64::try_from(count).map_err(|_| Fault::usage(format!("`{count}` is too large")));
        let point = Point::default()
            .with("input", whole(input as u64)?)
            .with("output", whole(options.output)?);
        let timeout = Duration::try_from_secs_f64(options.timeout).map_err(|_| {
            Fault::usage(format!(
                "option `timeout` is {}, not a number of seconds",
                options.timeout
            ))
        })?;
        let requested = Limits::of_point(&point)?;
        let mut live = self.lock();
        if let Ensured::Failed(failure) = self.ensure(&mut live, requested)? {
            let message = failure.evidence.message.unwrap_or_default();
            return Err(Fault::new(
                Kind::Engine,
                format!("no start serves this prompt: {message}"),
            ));
        }
        self.begin_requests(&mut live)?;
        let running = live
            .running
            .as_ref()
            .ok_or_else(|| Fault::internal("a prompt for an engine that does not run"))?;
        let form = self.adapter.request(&point, running.limits.as_ref())?;
        let request = StreamRequest {
            url: running.server.url(&form.path)?,
            body: protocol::body(&form, prompt, running.info.model.as_deref())?,
            timeout,
        };
        let decoder = protocol::decoder(form.protocol);
        let answer = self.context.tasks.wait(async {
            Ok(send_streaming(&self.client, request, decoder, &CancellationToken::new(), || {}).await)
        })?;
        live.health = Health::after(succeeded(&answer));
        self.end_requests(&mut live, succeeded(&answer))?;
        let (http_status, error) = match &answer.end {
            StreamEnd::Complete => (None, answer.error.clone()),
            StreamEnd::Status(status, body) => (Some(*status), Some(body.clone())),
            StreamEnd::Broken(why) | StreamEnd::Unreachable(why) | StreamEnd::Malformed(why) => {
                (None, Some(why.clone()))
            }
            StreamEnd::Deadline | StreamEnd::Cancelled => {
                (None, Some(format!("unfinished after {} s", options.timeout)))
            }
        };
        Ok(SendAnswer {
            complete: succeeded(&answer),
            input: answer.counts.input,
            output: answer.counts.output,
            error,
            http_status,
            ttft_ms: answer.timing.ttft_ms(),
            tpot_ms: answer.counts.output.and_then(|output| answer.timing.tpot_ms(output)),
            e2el_ms: answer.timing.e2el_ms(),
            finish: answer.finish,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::engine::{MetricFormat, MetricRules, Protocol, protocol};
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
