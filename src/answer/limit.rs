//! The limit in words, why there is none where none was found, and how sure the answer is.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::{Answer, Context, State};
use crate::answer::evidence::NOT_SENT;
use crate::boundary::{Boundary, Class, Limit, Moves, Point, Quantity, Record, Verdict};
use crate::fault::Result;
use crate::fmt::thousands;
use crate::report::{Clock, Count};

/// `input + output ≤ 8,352 tokens (KV cache), confirmed to ±32`; where nothing beyond it was sent `…: fits up to 8,320 (tested); the
/// engine reports 8,352; nothing above was sent`.
pub(super) fn limit_text(boundary: &Boundary, limit: &Limit) -> String {
    let held = boundary.lattice().axes().iter();
    let held = held.filter(|axis| !boundary.varies(axis.name()) && !limit.quantity.formula().contains(axis.name()));
    let held = held.filter(|axis| axis.name() != "concurrency" || axis.range().0.as_f64() != 1.0);
    let held: Vec<String> = held.map(|axis| format!("{}={}", axis.name(), axis.range().0)).collect();
    let at = if held.is_empty() { "" } else { " at " };
    let held = format!("{at}{}", held.join(" "));
    let (inequality, cause) = (limit.inequality(), cause(boundary, limit));
    if limit.not_sent {
        return format!("{inequality}{held} ({cause}): {}", bounded_by_report(boundary, limit));
    }
    let confirmed = match (limit.within(), limit.quantity) {
        (0, _) if limit.configured => format!("; {} is refused", thousands(limit.fails)),
        (0, _) | (_, Quantity::Concurrency) => format!("; {} fails", thousands(limit.fails)),
        (within, _) => format!(", confirmed to ±{}", thousands(within)),
    };
    let claimed = match limit.reported.filter(|_| limit.uncontradicted().is_none()) {
        Some(claimed) => format!(" (the engine reports {})", thousands(claimed)),
        None => String::new(),
    };
    format!("{inequality}{held} ({cause}){confirmed}{claimed}")
}

/// What was tested of a limit that only the engine's own report bounds from above.
fn bounded_by_report(boundary: &Boundary, limit: &Limit) -> String {
    let fits = thousands(limit.fits);
    let reported = || {
        let mut at_limit = boundary.records().filter(|(point, _)| *point == limit.beyond);
        let tokens = at_limit.find_map(|(_, record)| record.evidence()?["reported"].as_u64())?;
        Some(format!("room for {} tokens", thousands(tokens)))
    };
    let reported = limit.reported.map(thousands).or_else(reported).unwrap_or_default();
    let is_above = |point: &Point| limit.quantity.of(point).is_some_and(|value| value > limit.fits);
    let mut others = boundary
        .records()
        .filter(|(_, record)| record.verdict != Verdict::NotSent);
    let above = match limit.failed {
        Some(failed) => format!("{} fails", thousands(failed)),
        None if others.any(|(point, _)| is_above(&point)) => "nothing above was seen to fail".to_owned(),
        None => "nothing above was sent".to_owned(),
    };
    format!("fits up to {fits} (tested); the engine reports {reported}; {above}")
}

/// The cause of a limit that leaves memory outside the engine's share as it is.
pub(super) const KV_CACHE: &str = "KV cache";

/// The cause of a limit that the engine itself sets on concurrency.
pub(super) const ADMISSION: &str = "the engine runs no more at the same time";

/// What a limit is a limit of.
pub(super) fn cause(boundary: &Boundary, limit: &Limit) -> &'static str {
    if limit.configured {
        return match (limit.reported, limit.quantity) {
            (Some(_), Quantity::Total) => "the server's own limit, max_model_len; not memory",
            _ => "the server's own limit; not memory",
        };
    }
    if limit.uncontradicted().is_some() && limit.quantity != Quantity::Input {
        return KV_CACHE;
    }
    let mut failing = boundary.records().filter(|(_, record)| record.is_out_of_memory());
    let record = failing.find(|(point, _)| *point == limit.beyond);
    match record.map(|(_, record)| (record.verdict, record.cause.as_deref())) {
        Some((Verdict::Preempted, _) | (_, Some("kv_cache"))) => KV_CACHE,
        Some((Verdict::Queued, _)) => ADMISSION,
        Some((Verdict::Oom, Some("host"))) => "host memory",
        Some((Verdict::Error, _)) => "beyond it the server died; why is not known",
        Some((Verdict::Timeout, _)) => "beyond it the server did not answer in time; why is not known",
        _ => "GPU memory",
    }
}

/// Where memory could not be tested: `at concurrency=24 input=8192 at most 7 of 24 requests ran together; …`, or what ended the server.
pub(super) fn untested(boundary: &Boundary) -> Option<String> {
    let (point, record) = boundary.untested()?;
    let evidence = record.evidence().unwrap_or_default();
    let message = evidence["message"].as_str();
    if record.ended_server() {
        let ended = match record.verdict {
            Verdict::Timeout => "got no answer in time",
            _ => "ended the server",
        };
        return Some(format!(
            "{point} {ended} ({}); start the server again and go on with `profiler run --resume DIR`, or count such points as failing: \
             `--set search.crash=fails`",
            message.unwrap_or(record.verdict.name())
        ));
    }
    Some(format!(
        "at {point} {}",
        message.unwrap_or("not all requests ran together; memory was not tested")
    ))
}

/// Why the last point without a clear answer has none, such as `input=4160: the text ended early: 20 of 64 tokens, …`.
pub(super) fn unanswered(boundary: &Boundary) -> Option<String> {
    let unclear = boundary.records().filter(|(_, record)| record.moves == Moves::None);
    let (point, record) = unclear.last()?;
    let message = record.evidence()?["message"].as_str()?.to_owned();
    Some(format!("{point}: {message}"))
}

/// Where a range of one length stands for the lengths that the engine counted.
pub(super) fn counted_otherwise(boundary: &Boundary) -> Option<String> {
    let input = boundary.smallest().int("input").filter(|_| !boundary.varies("input"))?;
    let counted = |(_, record): (_, &Record)| record.evidence()?["counted"].as_u64();
    let counted: BTreeSet<u64> = boundary.records().filter_map(counted).collect();
    let least = thousands(*counted.first()?);
    let range = match counted.last().filter(|_| counted.len() > 1) {
        Some(most) => format!("{least} to {}", thousands(*most)),
        None => least,
    };
    Some(format!(
        "besides: input={input} stands for {range} tokens, as the engine counts them"
    ))
}

/// What is known along the only axis that varies, and whether that is all there is to know.
pub(super) fn along_one_axis(boundary: &Boundary) -> Result<Option<(String, bool)>> {
    let axes = boundary.lattice().axes().iter();
    let mut axes = axes.filter(|axis| boundary.varies(axis.name()));
    let (Some(axis), None, None) = (axes.next(), axes.next(), boundary.band()) else {
        return Ok(None);
    };
    let name = axis.name();
    let bracket = boundary.bracket(&boundary.smallest(), name)?;
    let fits = bracket
        .fits
        .map_or_else(String::new, |fits| format!("{name}={fits} fits"));
    let undecided = |why: String| Ok(Some((format!("undecided: {fits}{why}"), false)));
    let Some(fails) = bracket.fails else {
        return undecided(", and nothing harder is known to fail".to_owned());
    };
    let mut at = boundary.smallest();
    at.0.insert(name.to_owned(), fails);
    if boundary.untested().is_some() && boundary.classify(&at)? == Class::Unknown {
        return undecided(format!("; {name}={fails} could not be tested"));
    }
    let failed = boundary.records().any(|(_, record)| record.moves == Moves::Fails);
    let ends = match boundary.classify(&at)? {
        Class::NotSent => NOT_SENT,
        _ if failed => "fails",
        _ => "is refused for its length",
    };
    let (low, high) = axis.range();
    // As narrow as searches make it where no tolerance is given.
    let narrow = axis.tolerance().unwrap_or((high.as_f64() - low.as_f64()) / 64.0);
    if bracket.width.as_f64() > narrow.max(f64::EPSILON) {
        return undecided(format!(", {name}={fails} {ends}; what lies between is not known"));
    }
    Ok(Some((format!("{fits}, {name}={fails} {ends}"), true)))
}

/// How sure the answer is, and what it cost.
pub(super) fn sure(boundary: &Boundary, answer: &Answer, context: &Context) -> Result<String> {
    let search = context.search.unwrap_or(&Value::Null);
    let count = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
    let recorded = boundary.records().len();
    let probes = count(&search["probes"]).map_or(recorded, |probes| probes.max(recorded));
    let ended = search["stopped"].as_str();
    let cut_short = context.run.stopped.clone().or_else(|| match ended? {
        budget if budget.starts_with("max_") => Some(format!("stopped by `{budget}`")),
        "server" => Some("stopped: the server died or did not answer".to_owned()),
        "unanswered" => Some("stopped: several probes in a row gave no clear answer".to_owned()),
        _ => None,
    });
    let expected = boundary.expected(probes as u64, boundary.options().coverage)?;
    let of = expected
        .filter(|expected| *expected > probes as u64)
        .map(|all| format!(" of about {all}"));
    let counted = match (probes, of) {
        (1, None) => "1 probe".to_owned(),
        (_, of) => format!("{probes}{} probes", of.unwrap_or_default()),
    };
    let volume = boundary.volume()?;
    // What lies beyond a length limit is known; what could not be tested is not.
    let untested = boundary.untested().map_or(0, |_| volume.clipped);
    let open = (volume.open + untested) as f64 / volume.total.max(1) as f64;
    let is_bounded = matches!(answer.state, State::Limit | State::Table);
    let verified = Some(&search["verified"]).filter(|verified| is_bounded && !verified.is_null());
    let unsent = boundary.records().filter(|(_, record)| record.moves == Moves::Bounds);
    let unsent = unsent.count();
    let mut parts = Vec::new();
    if answer.state == State::Undecided || answer.state == State::Table && cut_short.is_some() {
        parts.push(format!("undecided: {counted}"));
    } else if is_bounded && open > 0.5 && verified.is_none() {
        let open = 100.0 * open;
        parts.push(format!(
            "undecided: {open:.0} % of the search range is unknown, {counted}"
        ));
    } else {
        let part = |key: &str| verified.and_then(|verified| count(&verified[key])).unwrap_or(0);
        let (ends, middle) = (part("ends"), part("middle") > 0);
        if ends > 0 {
            let places = ends + usize::from(middle);
            // Certificates of older versions do not say at which places nothing was sent.
            let bounded = verified.and_then(|verified| count(&verified["not_sent"]));
            let bounded = bounded.unwrap_or(if unsent > 0 { places } else { 0 }).min(places);
            let where_checked = format!(
                "{}{}",
                Count(ends, "end"),
                if middle { " and in the middle" } else { "" }
            );
            parts.push(match places - bounded {
                both if both == places => format!("checked on both sides at {where_checked}"),
                0 => format!("checked inside the limit at {where_checked}, nothing was sent beyond it"),
                both => format!(
                    "checked inside the limit at {where_checked}, on both sides at {both} of these {places}, nothing was sent beyond it at the others"
                ),
            });
        } else if is_bounded && volume.not_sent > 0 {
            let share = |part: f64| (100.0 * part).floor();
            let ruled_out = volume.not_sent as f64 / volume.total.max(1) as f64;
            parts.push(format!(
                "{:.0} % of the search range is proven, {:.0} % ruled out by the engine's own report",
                share(1.0 - open - ruled_out),
                share(ruled_out)
            ));
        } else if is_bounded {
            let resolved = (100.0 * (1.0 - open)).floor();
            parts.push(format!("{resolved:.0} % of the search range is resolved"));
        }
        if ends > 0 && middle && ended == Some("verified") {
            let by = match search["verified"]["by"].as_str() {
                Some("fitted") if answer.state == State::Table => "limits that agree with all answers",
                Some("fitted") => "a limit that agrees with all answers",
                Some("memory model") => "a memory model",
                Some("report") => "the engine's own report",
                _ => "what was given",
            };
            parts.push(format!("between them predicted by {by}"));
        }
        parts.push(Count(probes, "probe").to_string());
        parts.extend((unsent > 0).then(|| format!("{unsent} of them not sent, ruled out by the engine's own report")));
    }
    parts.extend(cut_short);
    parts.extend(report_failed(context).then(|| "the engine's report did not hold".to_owned()));
    // An attached server is not started.
    let starts = count(&search["starts"]).filter(|starts| *starts > 0);
    parts.extend(starts.map(|starts| Count(starts, "engine start").to_string()));
    let seconds = search["seconds"].as_f64().filter(|seconds| *seconds >= 1.0);
    parts.extend(seconds.map(|seconds| Clock(Duration::from_secs_f64(seconds)).to_string()));
    Ok(parts.join(", "))
}

/// Whether the search found that the engine's report does not hold.
pub(super) fn report_failed(context: &Context) -> bool {
    let predicted = context.search.map(|search| &search["predicted"]);
    predicted.is_some_and(|told| told["held"] == false && !told["report"].is_null())
}
