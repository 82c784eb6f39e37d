//! Peak token rate and peak concurrency. Pure.

use std::time::Duration;

use super::flow::{concurrency_steps, token_times, tokens_per_event};
use super::request::EvaluatedRequest;

/// Most tokens that arrived within one second, counted as in vLLM's bench in consecutive seconds from the first
/// request. An event counts with all its tokens, where vLLM counts 1.
pub(super) fn peak_tokens_per_second(completed: &[&EvaluatedRequest<'_>]) -> Option<f64> {
    let begun = completed.iter().map(|request| request.record.sent).min()?;
    let mut seconds: Vec<f64> = Vec::new();
    for request in completed {
        let tokens = tokens_per_event(request);
        for time in token_times(request) {
            let second = usize::try_from(time.saturating_sub(begun).as_secs()).ok()?;
            if seconds.len() <= second {
                seconds.resize(second + 1, 0.0);
            }
            seconds[second] += tokens;
        }
    }
    seconds.into_iter().max_by(f64::total_cmp)
}

/// Most completed requests in flight at the same time, from sending to the last token. vLLM 0.33 counts requests that
/// touch the same second, which is more; later versions count as here.
pub(super) fn peak_concurrency(completed: &[&EvaluatedRequest<'_>]) -> Option<u64> {
    let window = |request: &&EvaluatedRequest<'_>| -> Option<(Duration, Duration)> {
        Some((request.record.sent, request.record.last_token?))
    };
    concurrency_steps(completed.iter().filter_map(window))
        .into_iter()
        .map(|(_, open)| open)
        .max()
}
