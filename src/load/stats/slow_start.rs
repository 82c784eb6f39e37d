//! Whether the first requests of a load were slower than all others: compilation, caches, clocks. Pure.

use super::request::Evaluated;
use super::summary::interpolated;
use crate::fmt::Count;
use crate::warning::Warning;

/// The code of the warning; experiments then measure the level once more.
const CODE: &str = "slow_start";

/// Requests of a block, at least: fewer have no useful median.
const MIN_BLOCK: usize = 4;
/// Blocks after the first, at least.
const MIN_LATER: usize = 3;
/// The first block is slow if it takes more than this many times as long as the slowest later one.
const SLOWER: f64 = 1.2;

/// A warning if the median E2E latency of the first block is above that of every later block. `completed` is in sending
/// order, and `wave` the concurrency: requests of a wave are not independent, so a block is at least a wave.
pub(super) fn warning(completed: &[Evaluated<'_>], wave: usize) -> Option<Warning> {
    let block = wave.max(MIN_BLOCK).max(completed.len() / 16);
    let medians: Vec<f64> = completed
        .chunks(block)
        .filter(|requests| 2 * requests.len() >= block)
        .filter_map(|requests| {
            let mut took: Vec<f64> = requests
                .iter()
                .filter_map(|request| request.record.e2el_ms(request.record.sent))
                .collect();
            took.sort_unstable_by(f64::total_cmp);
            interpolated(&took, 0.5)
        })
        .collect();
    let (first, later) = medians.split_first()?;
    let slowest = later.iter().copied().max_by(f64::total_cmp)?;
    if later.len() < MIN_LATER || *first <= SLOWER * slowest {
        return None;
    }
    let times = first / slowest;
    let message = format!(
        "the first {} took at least {times:.1} times as long as the later ones: the warm-up was too short",
        Count(block, "request")
    );
    Some(Warning::new(CODE, message).sized(times))
}
