//! How sure an answer is.

use serde_json::Value;

use super::{Answer, Context, State};
use crate::boundary::Boundary;
use crate::fault::Result;
use crate::report::evidence::{NOT_SENT, not_sent};
use crate::report::{Clock, Count};

/// How sure the answer is, and what it cost.
pub(super) fn sure(boundary: &Boundary, answer: &Answer, context: &Context) -> Result<String> {
    let field = |key: &str| {
        context
            .search
            .and_then(|search| search.get(key))
            .filter(|value| !value.is_null())
    };
    let count = |value: &Value| value.as_u64().and_then(|count| usize::try_from(count).ok());
    let probes = field("probes")
        .and_then(count)
        .unwrap_or_else(|| boundary.records().len());
    let ended = field("stopped").and_then(Value::as_str);
    let cut_short = context.run.stopped.clone().or_else(|| match ended {
        Some(budget) if budget.starts_with("max_") => Some(format!("stopped by `{budget}`")),
        Some("server") => Some("stopped: the server died or did not answer".to_owned()),
        Some("unanswered") => Some("stopped: several probes in a row gave no clear answer".to_owned()),
        _ => None,
    });
    let coverage = boundary.options().coverage;
    let expected = boundary
        .expected(probes as u64, coverage)?
        .filter(|expected| *expected > probes as u64);
    let volume = boundary.volume()?;
    // What lies beyond a length limit is known; what could not be tested is not.
    let untested = boundary.untested().map_or(0, |_| volume.clipped);
    let open = (volume.open + untested) as f64 / volume.total.max(1) as f64;
    let mut parts = Vec::new();
    let verified = field("verified").filter(|_| matches!(answer.state, State::Limit | State::Table));
    let of = expected.map_or_else(String::new, |all| format!(" of about {all}"));
    let counted = match probes {
        1 if of.is_empty() => "1 probe".to_owned(),
        probes => format!("{probes}{of} probes"),
    };
    match answer.state {
        State::Undecided => parts.push(format!("undecided: {counted}")),
        State::Table if cut_short.is_some() => parts.push(format!("undecided: {counted}")),
        State::Table | State::Limit if open > 0.5 && verified.is_none() => parts.push(format!(
            "undecided: {:.0} % of the search range is unknown, {counted}",
            100.0 * open
        )),
        state => {
            let part = |key: &str| {
                verified
                    .and_then(|verified| verified.get(key))
                    .and_then(count)
                    .unwrap_or(0)
            };
            match part("ends") {
                0 if matches!(state, State::Limit | State::Table) => {
                    parts.push(format!(
                        "{:.0} % of the search range is resolved",
                        (100.0 * (1.0 - open)).floor()
                    ));
                }
                0 => {}
                ends => {
                    let middle = if part("middle") > 0 { " and in the middle" } else { "" };
                    parts.push(format!("checked on both sides at {}{middle}", Count(ends, "end")));
                    if ended == Some("verified") && part("middle") > 0 {
                        let by = match verified.and_then(|verified| verified["by"].as_str()) {
                            Some("fitted") if state == State::Table => "limits that agree with all answers",
                            Some("fitted") => "a limit that agrees with all answers",
                            Some("memory model") => "a memory model",
                            Some("report") => "the engine's own report",
                            _ => "what was given",
                        };
                        parts.push(format!("between them predicted by {by}"));
                    }
                }
            }
            // What the engine's own report excludes is not sent.
            let skipped = boundary.records().filter(|(_, record)| not_sent(record)).count();
            parts.push(match skipped {
                0 => Count(probes, "probe").to_string(),
                _ => format!("{}, {skipped} of them {NOT_SENT}", Count(probes, "probe")),
            });
        }
    }
    parts.extend(cut_short);
    parts.extend(report_failed(context).then(|| "the engine's report did not hold".to_owned()));
    // An attached server is not started.
    if let Some(starts) = field("starts").and_then(count).filter(|starts| *starts > 0) {
        parts.push(Count(starts, "engine start").to_string());
    }
    if let Some(seconds) = field("seconds")
        .and_then(Value::as_f64)
        .filter(|seconds| *seconds >= 1.0)
    {
        parts.push(Clock(std::time::Duration::from_secs_f64(seconds)).to_string());
    }
    Ok(parts.join(", "))
}

/// Whether the search found that the engine's report does not hold.
pub(super) fn report_failed(context: &Context) -> bool {
    let predicted = context.search.map(|search| &search["predicted"]);
    predicted.is_some_and(|told| told["held"] == false && !told["report"].is_null())
}
