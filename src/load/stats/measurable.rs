//! Latencies that cannot be measured on a load: where something holds the text back and sends all of it at once, where
//! it is not known how many tokens the first event carried, and where the clock went back. They are left out, with the
//! reason, because any number would be wrong. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::latencies::Latencies;
use super::request::Evaluated;
use super::summary::{Summary, interpolated};
use crate::fmt::{Count, ms};
use crate::warning::Warning;

/// A latency that could not be measured, by the name of its field, and why not.
pub type Unmeasured = BTreeMap<String, String>;

/// An answer of at least this many events or tokens can be measured.
const MIN_TOKENS: u64 = 8;

/// Text that comes within this time, or within this share of the E2E latency, comes at once.
const AT_ONCE: Duration = Duration::from_millis(2);
const AT_ONCE_SHARE: f64 = 0.01;

/// A latency cannot be measured if that holds for this share of the requests.
const MOST: f64 = 0.9;
const SOME: f64 = 0.1;

/// Whether the times of a request are in order.
pub(super) fn has_order(request: Evaluated<'_>) -> bool {
    let record = request.record;
    let moments = [
        Some(record.sent),
        record.first_token,
        record.last_token,
        Some(record.ended),
    ];
    moments.into_iter().flatten().is_sorted() && record.itl_ms.iter().all(|gap| *gap >= 0.0)
}

/// The latencies that the completed requests do not show, with the reasons; and the warnings of it.
pub(super) fn unmeasured(completed: &[Evaluated<'_>]) -> (Unmeasured, Vec<Warning>) {
    let mut unmeasured = Unmeasured::new();
    let mut warnings = Vec::new();
    let mut add = |names: &[&str], code: &'static str, why: String, size: f64| {
        let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let message = format!("{why}: {} cannot be measured here", listed.join(", "));
        warnings.push(Warning::new(code, message).sized(size));
        for name in names {
            unmeasured.entry((*name).to_owned()).or_insert_with(|| why.clone());
        }
    };
    let all = completed.len();
    let disordered = completed.iter().filter(|request| !has_order(request)).count();
    if disordered as f64 > SOME * all as f64 {
        let why = format!("the clock went back during {disordered} of {}", Count(all, "request"));
        add(
            &["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"],
            "clock",
            why,
            disordered as f64,
        );
        return (unmeasured, warnings);
    }
    let streams: Vec<bool> = completed.iter().filter_map(|request| comes_at_once(request)).collect();
    let at_once = streams.iter().filter(|at_once| **at_once).count();
    if at_once > 0 && at_once as f64 >= MOST * streams.len() as f64 {
        let why = format!(
            "all text came at once, in {at_once} of {}: the server, or a proxy before it, holds it back until the answer is complete",
            Count(streams.len(), "answer")
        );
        add(&["ttft_ms", "tpot_ms", "itl_ms"], "buffered", why, at_once as f64);
        return (unmeasured, warnings);
    }
    let long = || {
        completed
            .iter()
            .filter_map(|request| Some((request, request.output.filter(|output| *output > 1)?)))
    };
    let bounds: Vec<Option<[f64; 2]>> = long()
        .filter(|(request, output)| request.record.first_token.is_some() && request.record.tpot_ms(*output).is_none())
        .map(|(request, output)| request.record.tpot_bounds(output))
        .collect();
    if bounds.len() as f64 > SOME * long().count() as f64 {
        let median = |end: usize| {
            let mut ends: Vec<f64> = bounds.iter().flatten().map(|bound| bound[end]).collect();
            ends.sort_unstable_by(f64::total_cmp);
            interpolated(&ends, 0.5)
        };
        let between = match (median(0), median(1)) {
            (Some(low), Some(high)) => format!("; TPOT is between {} and {}", ms(low), ms(high)),
            _ => String::new(),
        };
        let why = format!(
            "more tokens were counted than events came, and the events of {} do not say how many they carried{between}",
            Count(bounds.len(), "answer")
        );
        add(&["tpot_ms"], "unknown_split", why, bounds.len() as f64);
    }
    if completed.iter().all(|request| request.record.is_all_hidden()) && all > 0 {
        let why = "the server sent no text of what it generated".to_owned();
        add(
            &["ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"],
            "nothing_sent",
            why,
            all as f64,
        );
    }
    (unmeasured, warnings)
}

/// Whether all text of an answer came at once; `None` if it is too short to tell.
fn comes_at_once(request: Evaluated<'_>) -> Option<bool> {
    let record = request.record;
    let (first, last) = (record.first_token?, record.last_token?);
    if u64::from(record.events).max(request.output.unwrap_or_default()) < MIN_TOKENS {
        return None;
    }
    let whole = last.saturating_sub(record.sent);
    Some(last.saturating_sub(first) <= AT_ONCE.max(whole.mul_f64(AT_ONCE_SHARE)))
}

/// Leaves the latencies out that could not be measured.
pub(super) fn leave_out(unmeasured: &Unmeasured, latencies: &mut Latencies) {
    for name in unmeasured.keys() {
        let summary = match name.as_str() {
            "ttft_ms" => &mut latencies.ttft_ms,
            "tpot_ms" => &mut latencies.tpot_ms,
            "itl_ms" => {
                latencies.token_itl_ms = Summary::default();
                &mut latencies.itl_ms
            }
            _ => &mut latencies.e2el_ms,
        };
        *summary = Summary::default();
    }
}
