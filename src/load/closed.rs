//! A closed loop: so many requests at once, each followed by the next as soon as it has ended, until all are sent or time is up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::decode::Decode;
use super::stream::{Answer, Ask, ask};
use crate::fault::{Fault, Result};

/// Makes the next request. Called by several tasks at once.
pub type Make = Arc<dyn Fn() -> Result<(Ask, Box<dyn Decode>)> + Send + Sync>;

/// What a loop is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop {
    /// Requests at once.
    pub concurrency: u64,
    /// Requests in all.
    pub requests: u64,
    /// What is unfinished after this time is cut off.
    pub limit: Option<Duration>,
}

/// What came of a loop.
#[derive(Debug)]
pub struct Tally {
    /// Requests sent; those without an answer were cut off.
    pub issued: u64,
    /// Every answer, in the order of their ends.
    pub answers: Vec<Answer>,
    /// From the first request to the last end, or to the cut.
    pub duration: Duration,
}

/// Runs a loop to its end.
///
/// # Errors
///
/// What `make` fails with.
pub async fn closed(client: &Client, plan: Loop, make: Make) -> Result<Tally> {
    let begun = Instant::now();
    let issued = Arc::new(AtomicU64::new(0));
    let answers = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut workers = JoinSet::new();
    for _ in 0..plan.concurrency.min(plan.requests) {
        let (client, make, issued, answers) = (
            client.clone(),
            Arc::clone(&make),
            Arc::clone(&issued),
            Arc::clone(&answers),
        );
        workers.spawn(async move {
            // A number is taken before its request is made, so that no two workers take the last one.
            while issued
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sent| {
                    (sent < plan.requests).then_some(sent + 1)
                })
                .is_ok()
            {
                let (request, decoder) = make()?;
                let answer = ask(&client, request, decoder, &CancellationToken::new(), || {}).await;
                answers
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .push(answer);
            }
            Ok(())
        });
    }
    let all = async {
        while let Some(done) = workers.join_next().await {
            done.map_err(|error| Fault::internal(format!("a worker ended badly: {error}")))??;
        }
        Ok(())
    };
    match plan.limit {
        // What is still under way when the time is up is dropped with its worker.
        Some(limit) => tokio::time::timeout(limit, all).await.unwrap_or(Ok(()))?,
        None => all.await?,
    }
    let duration = begun.elapsed();
    workers.shutdown().await;
    let answers = std::mem::take(&mut *answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    Ok(Tally {
        issued: issued.load(Ordering::Relaxed),
        answers,
        duration,
    })
}
