//! Requests sent at once, with an eye on the engine's metrics while they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::queue::Queue;
use super::{MetricRules, metrics};
use crate::fault::{Fault, Result};
use crate::load::joined::State;
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
    pub(super) async fn look(&self) -> Option<Vec<State>> {
        let request = self.client.get(&self.url).timeout(LOOK).send().await.ok()?;
        let text = request.error_for_status().ok()?.text().await.ok()?;
        Some(metrics::read(&text, &self.rules))
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
        metrics.into_iter().for_each(|state| queue.see(state.into()));
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
                metrics.into_iter().for_each(|state| queue.see(state.into()));
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
        // A page that does not answer, or tells of no moment since the last look, says nothing of what runs.
        let told = page.look().await.unwrap_or_default();
        let silent = told.is_empty();
        told.into_iter().for_each(|state| queue.see(state.into()));
        if silent || !queue.idle(unfinished.load(Ordering::Relaxed)) {
            went_on = Instant::now();
        } else if went_on.elapsed() >= stall {
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
    use crate::load::End;

    /// How a request ends that is never answered, by a server whose metrics page tells these moments, look after look, the last for ever.
    async fn ended(pages: &'static [&str]) -> End {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let looks = Arc::new(AtomicU64::new(0));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let looks = Arc::clone(&looks);
                tokio::spawn(async move {
                    let mut head = [0; 4096];
                    let read = stream.read(&mut head).await.unwrap_or_default();
                    if !head[..read].starts_with(b"GET") {
                        return std::future::pending().await;
                    }
                    let look = usize::try_from(looks.fetch_add(1, Ordering::Relaxed)).unwrap();
                    let page = pages[look.min(pages.len() - 1)];
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{page}",
                        page.len()
                    );
                    stream.write_all(answer.as_bytes()).await.unwrap();
                });
            }
        });
        let client = http::build(http::direct()).unwrap();
        let page = Page {
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
            let ask = Ask {
                url: format!("{base}/v1/completions"),
                body: "{}".into(),
                timeout: Duration::from_secs(2),
            };
            (ask, protocol::decoder(Protocol::OpenaiCompletions))
        };
        let stall = Duration::from_millis(300);
        let (answers, _) = fire(&client, vec![request(), request()], Some(&page), stall)
            .await
            .unwrap();
        answers[0].end.clone()
    }

    #[tokio::test]
    async fn only_an_engine_that_says_that_all_wait_and_nothing_runs_is_given_up() {
        assert_eq!(ended(&[r#"[{"running":0,"waiting":2}]"#]).await, End::GivenUp);
        // The prompt of one is being read.
        assert_eq!(ended(&[r#"[{"running":0,"waiting":1}]"#]).await, End::Deadline);
        // It tells of each step, and is in a long one.
        assert_eq!(ended(&[r#"[{"running":0,"waiting":2}]"#, "[]"]).await, End::Deadline);
    }
}
