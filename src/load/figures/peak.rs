//! The highest rate and the most requests at once. Pure.

use std::time::Duration;

use super::flow::{stamps, tokens_per_event, under_way};
use super::judged::Judged;

/// The most tokens that arrived within one second of the load, counted from its first request, as vLLM's bench counts them: in seconds
/// that follow each other. An event of several tokens counts as so many, where vLLM counts one.
pub(super) fn tokens_in_a_second(completed: &[&Judged<'_>]) -> Option<f64> {
    let begun = completed.iter().map(|judged| judged.record.sent).min()?;
    let mut seconds: Vec<f64> = Vec::new();
    for judged in completed {
        let tokens = tokens_per_event(judged);
        for stamp in stamps(judged) {
            let second = usize::try_from(stamp.saturating_sub(begun).as_secs()).ok()?;
            if seconds.len() <= second {
                seconds.resize(second + 1, 0.0);
            }
            seconds[second] += tokens;
        }
    }
    seconds.into_iter().max_by(f64::total_cmp)
}

/// The most completed requests that were under way at once, from sending to the last token. vLLM 0.33 counts those that touch the same
/// second, which is more; its later versions count as here.
pub(super) fn requests_at_once(completed: &[&Judged<'_>]) -> Option<u64> {
    let span = |judged: &&Judged<'_>| -> Option<(Duration, Duration)> {
        Some((judged.record.sent, judged.record.last_token?))
    };
    under_way(completed.iter().filter_map(span))
        .into_iter()
        .map(|(_, open)| open)
        .max()
}
