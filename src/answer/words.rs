//! The answer of a search in words, ordered as users ask: the limit, how sure it is, what to run, why not more, how
//! much room is left, and the run to do next. The terminal, the page and `--json` all show this value.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::classified::{Classified, Note, Why};
use super::command::{allow_flags, run_command};
use super::confidence::{Certainty, Confidence, CutShort};
use super::context::{AnswerContext, Predictor, RunFacts, Workload};
use super::evidence::{NOT_SENT, failure_sentence};
use super::limit::{Above, Beyond, Bound, FoundLimit, Report};
use super::offers::{Basis, Offer};
use super::outcome::{End, Gap, Misfit, Outcome, OutcomeKind, Untested};
use super::rows::{Row, TableRow};
use crate::boundary::{Boundary, Limit, Point, Verdict};
use crate::fault::Result;
use crate::fmt::{Bytes, Clock, Count, thousands};

/// The answer of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchAnswer {
    /// The kind of the answer.
    pub state: OutcomeKind,
    /// The main finding as a sentence: usually the limit.
    pub limit: String,
    /// The limit in numbers, if it is an inequality.
    pub inequality: Option<Limit>,
    /// How sure the answer is: what was confirmed, at what cost, and why the search ended.
    pub sure: String,
    /// The servers that were probed: engine, version, model, address.
    pub asked: Vec<String>,
    /// The workload that the user named, with the lengths taken from it.
    pub workload: Option<String>,
    /// Engine flags, by workload.
    pub run: Vec<WorkloadFlags>,
    /// Why more does not fit, with the engine's own message if there is one.
    pub why: Option<String>,
    /// How much room is left in the KV cache and in the GPU's memory.
    pub room: Vec<String>,
    /// The command of the suggested next run.
    pub next: Option<String>,
}

/// Flags for one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadFlags {
    /// The workload, and how it relates to the tested points.
    pub workload: String,
    /// A point that fitted, or that is easier than one that did.
    pub point: Point,
    /// The engine's flags; empty without an engine.
    pub flags: Vec<String>,
}

impl SearchAnswer {
    /// The answer of a boundary.
    ///
    /// # Errors
    ///
    /// Errors of the adapter's `flags`; `limit` for a boundary with too many corners.
    pub fn new(boundary: &Boundary, context: &AnswerContext) -> Result<Self> {
        let found = Classified::new(boundary, context)?;
        Ok(Self {
            state: found.outcome.state(),
            limit: outcome_text(&found.outcome),
            inequality: found.outcome.limit().map(|stated| stated.limit.clone()),
            sure: confidence_text(&found.confidence, found.outcome.state()),
            asked: context.run.asked.clone(),
            workload: found.workload.as_ref().map(workload_text),
            run: found.offers.into_iter().map(WorkloadFlags::new).collect(),
            why: found.why.as_ref().map(why_text),
            room: found.notes.iter().map(note_text).collect(),
            next: found.next.map(|set| next_command(&set, context.run)),
        })
    }
}

impl WorkloadFlags {
    fn new(offer: Offer) -> Self {
        Self {
            workload: offer_text(&offer),
            point: offer.point,
            flags: offer.flags,
        }
    }
}

/// The main sentence: the outcome.
fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::NotReached {
            largest,
            positions: None,
        } => format!("limit not reached: everything up to {largest} fits"),
        Outcome::NotReached {
            largest,
            positions: Some(positions),
        } => format!(
            "limit not reached: everything up to {largest} fits, which is the model's own maximum of {} tokens",
            thousands(*positions)
        ),
        Outcome::Limit(limit) => limit_text(limit),
        Outcome::Edge { fits, beyond, end } => format!("{fits} fits, {beyond} {}", end_text(*end)),
        Outcome::Table { ends, fits, formula } => {
            let formula = formula.as_deref().unwrap_or("no single formula");
            format!("{}; {formula} agrees with every answer", table_text(ends, fits))
        }
        Outcome::Contradictory { ends, fits } => format!(
            "{}; answers contradict each other: only what fitted every time counts",
            table_text(ends, fits)
        ),
        Outcome::NothingFits { smallest, why } => match why {
            Misfit::Fails => format!("nothing fits: even {smallest} fails"),
            Misfit::Unreliable => format!("nothing fits reliably: {smallest} fitted and failed"),
            Misfit::RuledOut => format!("nothing fits, as the engine itself reports: even {smallest} was not sent"),
            Misfit::TooLong => {
                format!("nothing fits: even {smallest} is refused for its length, not for lack of memory")
            }
        },
        Outcome::Undecided(gap) => match gap {
            Gap::Untested(untested) => format!("undecided: {}", untested_text(untested)),
            Gap::NothingSmaller { smallest } => {
                format!("undecided: what was tested fails, and nothing smaller was; {smallest} is not known to fit")
            }
            Gap::NothingSent { smallest } => {
                format!("undecided: nothing was sent that fits; {smallest} is not known to fit")
            }
            Gap::NoAnswer => "undecided: no probe gave a clear answer".to_owned(),
            Gap::NothingFails { fits } => format!("undecided: {fits} fits, and nothing harder is known to fail"),
            Gap::Untestable { fits, beyond } => format!("undecided: {fits} fits; {beyond} could not be tested"),
            Gap::Between { fits, beyond, end } => format!(
                "undecided: {fits} fits, {beyond} {}; what lies between is not known",
                end_text(*end)
            ),
        },
    }
}

fn end_text(end: End) -> &'static str {
    match end {
        End::Fails => "fails",
        End::NotSent => NOT_SENT,
        End::TooLong => "is refused for its length",
    }
}

/// `input + output ≤ 8,352 tokens (KV cache), confirmed to ±32 at input=8192`; if nothing beyond it was sent, `…: fits up
/// to 8,320 (tested); the engine reports 8,352; nothing above was sent`.
fn limit_text(stated: &FoundLimit) -> String {
    let held: String = stated
        .held
        .iter()
        .map(|(axis, value)| format!(" {axis}={value}"))
        .collect();
    let at = if held.is_empty() { "" } else { " at" };
    let beyond = match &stated.beyond {
        Beyond::Refused(value) => format!("; {} is refused", thousands(*value)),
        Beyond::Fails(value) => format!("; {} fails", thousands(*value)),
        Beyond::Within(tokens, line) => {
            let on: String = line.iter().map(|(axis, value)| format!(" {axis}={value}")).collect();
            let on = if on.is_empty() { on } else { format!(" at{on}") };
            format!(", confirmed to ±{}{on}", thousands(*tokens))
        }
        Beyond::RuledOut(report, above) => {
            let fits = thousands(stated.limit.fits);
            format!(
                ": fits up to {fits} (tested); {}; {}",
                report_text(*report),
                above_text(*above)
            )
        }
    };
    let contradicted = stated.contradicted;
    let claimed = contradicted.map_or_else(String::new, |figure| {
        format!(" (the engine reports {})", thousands(figure))
    });
    let (inequality, bound) = (stated.limit.inequality(), bound_text(stated.bound));
    format!("{inequality}{at}{held} ({bound}){beyond}{claimed}")
}

fn report_text(report: Report) -> String {
    match report {
        Report::Figure(figure) => format!("the engine reports {}", thousands(figure)),
        Report::Tokens(tokens) => format!("the engine reports room for {} tokens", thousands(tokens)),
        Report::Unknown => "the engine's own report rules out more".to_owned(),
    }
}

fn above_text(above: Above) -> String {
    match above {
        Above::Fails(value) => format!("{} fails", thousands(value)),
        Above::NothingFailed => "nothing above was seen to fail".to_owned(),
        Above::NothingSent => "nothing above was sent".to_owned(),
    }
}

fn bound_text(bound: Bound) -> &'static str {
    match bound {
        Bound::KvCache => "KV cache",
        Bound::GpuMemory => "GPU memory",
        Bound::HostMemory => "host memory",
        Bound::Admission => "the engine runs no more at the same time",
        Bound::StateSlots => "state slots",
        Bound::ServerDied => "beyond it the server died; why is not known",
        Bound::ServerSilent => "beyond it the server did not answer in time; why is not known",
        Bound::MaxModelLen => "the server's own limit, max_model_len; not memory",
        Bound::LengthLimit => "the server's own limit; not memory",
        Bound::UnknownLimit => "beyond it the server refuses every request; why is not known",
    }
}

/// `24 concurrent requests of 4,096 + 128 tokens, …`; without rows the largest point that fits.
fn table_text(ends: &[TableRow], fits: &Point) -> String {
    let ends: Vec<String> = ends
        .iter()
        .map(|TableRow { row, predicted }| match predicted {
            Some(most) => format!("at least {} ({} predicted)", requests_text(row), thousands(*most)),
            None => requests_text(row),
        })
        .collect();
    if ends.is_empty() {
        return fits.to_string();
    }
    ends.join(", ")
}

/// A coordinate of a row: `4,096`.
fn coordinate(row: &Row, axis: &str) -> Option<String> {
    Some(thousands(u64::try_from(row.point.int(axis)?).ok()?))
}

/// `4,096 + 128 tokens`.
fn lengths_text(row: &Row) -> String {
    match (coordinate(row, "input"), coordinate(row, "output")) {
        (Some(input), Some(output)) => format!("{input} + {output} tokens"),
        (Some(input), None) => format!("{input} input tokens"),
        (None, Some(output)) => format!("{output} output tokens"),
        (None, None) => String::new(),
    }
}

/// `24 concurrent requests of 4,096 + 128 tokens`.
fn requests_text(row: &Row) -> String {
    let lengths = lengths_text(row);
    let many = coordinate(row, "concurrency").filter(|many| row.axis == "concurrency" || many != "1");
    let Some(many) = many else {
        return format!("a request of {lengths}");
    };
    let noun = if many == "1" { "request" } else { "requests" };
    let separator = if lengths.is_empty() { "" } else { " of " };
    format!("{many} concurrent {noun}{separator}{lengths}")
}

/// A workload to run, and how it relates to the tested points.
fn offer_text(offer: &Offer) -> String {
    let point = &offer.point;
    match &offer.basis {
        Basis::Whole => format!("{point}, the end of the search range"),
        Basis::Total(tokens) => format!("requests of up to {} tokens (tested)", thousands(*tokens)),
        Basis::Tested => format!("{point} (tested)"),
        Basis::Eased(fitted) => format!("{point} ({fitted} fitted, less 5 %)"),
        Basis::Row(row) => requests_text(row),
        Basis::RowAtEnd(row) => format!("{} (the end of the search range)", requests_text(row)),
        Basis::RowEased { row, fitted } => {
            let many = coordinate(fitted, "concurrency").filter(|_| fitted.axis == "concurrency");
            let fitted = many.unwrap_or_else(|| lengths_text(fitted));
            format!("{} ({fitted} fitted, less 5 %)", requests_text(row))
        }
    }
}

/// `chat: input 4,083, output 451 tokens, the 95th percentiles of its lengths`.
fn workload_text(workload: &Workload) -> String {
    let lengths: Vec<String> = workload
        .lengths
        .iter()
        .map(|(axis, tokens)| format!("{axis} {}", thousands(*tokens)))
        .collect();
    if lengths.is_empty() {
        return workload.name.clone();
    }
    format!(
        "{}: {} tokens, the 95th percentiles of its lengths",
        workload.name,
        lengths.join(", ")
    )
}

fn confidence_text(found: &Confidence, state: OutcomeKind) -> String {
    let mut parts = certainty_parts(found, state);
    parts.extend(found.cut_short.as_ref().map(cut_short_text));
    parts.extend(
        found
            .report_failed
            .then(|| "the engine's report did not hold".to_owned()),
    );
    let alone = if found.isolated {
        " (a fresh engine for each point)"
    } else {
        ""
    };
    parts.extend(
        found
            .starts
            .map(|starts| format!("{}{alone}", Count(starts, "engine start"))),
    );
    let seconds = found.seconds.map(Duration::from_secs_f64);
    parts.extend(seconds.map(|seconds| Clock(seconds).to_string()));
    parts.join(", ")
}

/// The known part of the search range, and the number of probes behind it.
fn certainty_parts(found: &Confidence, state: OutcomeKind) -> Vec<String> {
    let probes = Count(found.probes, "probe");
    let of_expected = match found.expected {
        Some(expected) => format!("{} of about {expected} probes", found.probes),
        None => probes.to_string(),
    };
    let mut parts = Vec::new();
    match &found.certainty {
        Certainty::Undecided => return vec![format!("undecided: {of_expected}")],
        Certainty::MostlyUnknown { open } => {
            let open = 100.0 * open;
            return vec![format!(
                "undecided: {open:.0} % of the search range is unknown, {of_expected}"
            )];
        }
        Certainty::Checked {
            ends,
            middle,
            both_sides,
            predicted,
        } => {
            parts.push(checked_text(*ends, *middle, *both_sides));
            if let Some(predictor) = predicted {
                let text = predictor_text(*predictor, state == OutcomeKind::Table);
                parts.push(format!("between them predicted by {text}"));
            }
        }
        Certainty::Proven { proven, ruled_out } => parts.push(format!(
            "{:.0} % of the search range is proven, {:.0} % ruled out by the engine's own report",
            (100.0 * proven).floor(),
            (100.0 * ruled_out).floor()
        )),
        Certainty::Resolved { share } => {
            parts.push(format!(
                "{:.0} % of the search range is resolved",
                (100.0 * share).floor()
            ));
        }
        Certainty::Whole => {}
    }
    parts.push(probes.to_string());
    let not_sent = Some(found.not_sent).filter(|not_sent| *not_sent > 0);
    parts.extend(not_sent.map(|count| format!("{count} of them not sent, ruled out by the engine's own report")));
    parts
}

/// Where a limit was checked: at its ends and perhaps in the middle; `both_sides` of these places were checked on both
/// sides.
fn checked_text(ends: usize, middle: bool, both_sides: usize) -> String {
    let places = ends + usize::from(middle);
    let middle = if middle { " and in the middle" } else { "" };
    let checked = format!("{}{middle}", Count(ends, "end"));
    match both_sides {
        all if all == places => format!("checked on both sides at {checked}"),
        0 => format!("checked inside the limit at {checked}, nothing was sent beyond it"),
        some => format!(
            "checked inside the limit at {checked}, on both sides at {some} of these {places}, nothing was sent beyond it at the others"
        ),
    }
}

fn predictor_text(by: Predictor, several: bool) -> &'static str {
    match by {
        Predictor::Fitted if several => "limits that agree with all answers",
        Predictor::Fitted => "a limit that agrees with all answers",
        Predictor::MemoryModel => "a memory model",
        Predictor::Report => "the engine's own report",
        Predictor::Given => "what was given",
    }
}

fn cut_short_text(cut_short: &CutShort) -> String {
    match cut_short {
        CutShort::Run(stopped) => stopped.clone(),
        CutShort::Budget(option) => format!("stopped by `{option}`"),
        CutShort::ServerLost => "stopped: the server died or did not answer".to_owned(),
        CutShort::Unanswered => "stopped: several probes in a row gave no clear answer".to_owned(),
    }
}

fn why_text(why: &Why) -> String {
    match why {
        Why::Failing(point, record) => failure_sentence(point, record),
        Why::Untested(untested) => untested_text(untested),
        // `input=4160: the text ended early: 20 of 64 tokens, …`
        Why::Unclear(point, message) => format!("{point}: {message}"),
    }
}

/// Where memory could not be tested: `at concurrency=24 input=8192 at most 7 of 24 requests ran together; …`, or why
/// the server ended.
fn untested_text(untested: &Untested) -> String {
    let Untested { point, verdict, .. } = untested;
    if !untested.ended_server {
        let message = untested
            .message
            .as_deref()
            .unwrap_or("not all requests ran together; memory was not tested");
        return format!("at {point} {message}");
    }
    let ended = match verdict {
        Verdict::Timeout => "got no answer in time",
        _ => "ended the server",
    };
    format!(
        "{point} {ended} ({}); start the server again and resume with `profiler run --resume DIR`, or count such points as failing: \
         `--search.crash fails`",
        untested.message.as_deref().unwrap_or(verdict.name())
    )
}

fn note_text(note: &Note) -> String {
    match note {
        Note::KvCache { left, tokens, at } => {
            let (left, tokens) = (thousands(*left), thousands(*tokens));
            format!("KV cache: {left} of {tokens} tokens left at {at}")
        }
        Note::HostMemory { bytes, at } => format!("host memory: {} unused at {at}", Bytes(*bytes)),
        Note::OutsideShare { bytes } => {
            format!("GPU memory outside the engine's share: {} unused", Bytes(*bytes))
        }
        Note::GpuMemory { bytes, at } => format!("GPU memory: {} unused at {at}", Bytes(*bytes)),
        Note::Untested(untested) => format!("besides: {}", untested_text(untested)),
        Note::Counted { input, least, most } => {
            let range = match (thousands(*least), thousands(*most)) {
                (least, most) if least == most => least,
                (least, most) => format!("{least} to {most}"),
            };
            format!("besides: input={input} stands for {range} tokens, as the engine counts them")
        }
        Note::LengthLimit(limit) => format!("besides: {}", limit_text(limit)),
        Note::StateSlots(most) => format!(
            "besides: concurrency ≤ {} ({}), whatever the lengths, as the engine states",
            thousands(*most),
            bound_text(Bound::StateSlots)
        ),
    }
}

/// The command that runs the script with these parameters.
fn next_command(set: &Map<String, Value>, run: &RunFacts) -> String {
    run_command(&run.script, set, &allow_flags(&run.allow))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::boundary::{self, Class, Quantity};

    fn tested(axes: &Value, points: &[(i64, i64, Value)]) -> Boundary {
        let mut map = Boundary::new(axes, boundary::Options::default()).unwrap();
        for (input, output, answer) in points {
            let point = Point::default().with("input", *input).with("output", *output);
            let answer = boundary::Answer::parse(answer).unwrap();
            let _ = map.record(&point, &answer).unwrap();
        }
        map
    }

    fn answer(map: &Boundary, search: Option<&Value>, stopped: Option<&str>) -> SearchAnswer {
        answer_of_script(["input", "output", "concurrency"], map, search, stopped)
    }

    fn answer_of_script<const N: usize>(
        declared: [&str; N],
        map: &Boundary,
        search: Option<&Value>,
        stopped: Option<&str>,
    ) -> SearchAnswer {
        let flags = |point: &Point, concurrency: bool| {
            let total = Quantity::Total.of(point).unwrap_or(0);
            let many = point
                .int("concurrency")
                .filter(|_| concurrency)
                .map(|many| format!("--max-num-seqs={many}"));
            Ok(std::iter::once(format!("--max-model-len={total}"))
                .chain(many)
                .collect())
        };
        let context = AnswerContext {
            search,
            run: &RunFacts {
                stopped: stopped.map(str::to_owned),
                script: "adaptive".to_owned(),
                declared: declared.map(str::to_owned).into(),
                ..RunFacts::default()
            },
            flags: &flags,
            headroom: &|_| Some(3 << 30),
        };
        SearchAnswer::new(map, &context).unwrap()
    }

    fn lengths(points: &[(i64, i64, Value)]) -> Boundary {
        tested(&json!({ "input": [128, 8192], "output": [128, 4096] }), points)
    }

    #[test]
    fn what_was_verified_says_by_what_it_was_predicted_and_a_report_that_did_not_hold_is_named() {
        let map = lengths(&[
            (8192, 128, json!("ok")),
            (128, 4096, json!("ok")),
            (8192, 192, json!("oom")),
        ]);
        let sure = |by: &str, held: bool| {
            let search = json!({ "stopped": "verified", "probes": 9, "verified": { "by": by, "ends": 2, "middle": 1 },
                "predicted": { "report": { "tokens": 9000 }, "held": held } });
            answer(&map, Some(&search), None).sure
        };
        let kept = sure("report", true);
        assert!(
            kept.contains("predicted by the engine's own report") && !kept.contains("hold"),
            "{kept}"
        );
        let lost = sure("fitted", false);
        assert!(
            lost.contains("by a limit that agrees") && lost.contains("report did not hold"),
            "{lost}"
        );
    }

    #[test]
    fn the_limit_comes_first_with_the_engines_own_figure() {
        let of = |verdict: &str| json!({ "verdict": verdict, "cause": "kv_cache", "report": { "tokens": 8352 } });
        let map = lengths(&[
            (8192, 4096, of("refused")),
            (8192, 128, of("ok")),
            (4224, 4096, of("ok")),
            (8192, 192, of("refused")),
        ]);
        let search = json!({ "stopped": "coverage", "probes": 4, "starts": 1, "verified": { "ends": 2, "middle": 1 } });
        let answer = answer(&map, Some(&search), None);
        assert_eq!(answer.state, OutcomeKind::Limit);
        assert_eq!(
            answer.limit,
            "input + output ≤ 8,352 tokens (KV cache), confirmed to ±32 at input=8192"
        );
        assert!(
            answer.sure.contains("at 2 ends and in the middle, 4 probes"),
            "{}",
            answer.sure
        );
        assert_eq!(answer.run[0].flags, ["--max-model-len=8320"]);
        assert!(
            answer.room[0].starts_with("KV cache: 32 of 8,352 tokens left"),
            "{:?}",
            answer.room
        );
        assert!(
            answer.room[1].contains("outside the engine's share: 3.0 GiB"),
            "{:?}",
            answer.room
        );
    }

    /// PyTorch's `set_per_process_memory_fraction`: the free memory of the card is no room for a longer request.
    #[test]
    fn memory_beyond_an_allocators_cap_is_outside_its_share() {
        let oom = |allocation: Value| json!({ "verdict": "oom", "cause": "cuda", "evidence": { "allocations": [allocation] } });
        let room = |allocation: Value| {
            let map = lengths(&[(4096, 128, json!("ok")), (8192, 128, oom(allocation))]);
            answer(&map, None, None).room.concat()
        };
        let capped = room(json!({ "gpu": 0, "tried": 1 << 30, "allowed": 12_u64 << 30 }));
        assert!(capped.contains("outside the engine's share"), "{capped}");
        let uncapped = room(json!({ "gpu": 0, "tried": 1 << 30 }));
        assert!(uncapped.contains("unused at input=4096"), "{uncapped}");
    }

    #[test]
    fn a_range_that_fits_as_a_whole_is_no_limit() {
        let ok = json!({ "verdict": "ok", "report": { "tokens": 458_224 } });
        let answer = answer(&lengths(&[(8192, 4096, ok)]), None, None);
        assert_eq!(answer.state, OutcomeKind::NotReached);
        assert!(answer.limit.starts_with("limit not reached"), "{}", answer.limit);
        assert_eq!(
            answer.run[0].flags,
            ["--max-model-len=12288"],
            "concurrency was not asked"
        );
        assert_eq!(
            answer.next.as_deref(),
            Some("profiler run adaptive --input 8192 --output 4096")
        );
    }

    #[test]
    fn only_parameters_that_the_script_declares_are_suggested() {
        let fits = |tokens: u64| json!({ "verdict": "ok", "report": { "tokens": tokens } });
        let next = |tokens| {
            let map = lengths(&[(8192, 4096, fits(tokens))]);
            answer_of_script(["input", "output"], &map, None, None).next
        };
        assert_eq!(next(458_224), None, "the script has no concurrency");
        assert_eq!(
            next(12_300).as_deref(),
            Some("profiler run adaptive --input 128..32768 --output 128..16384"),
            "longer requests may fill the KV cache"
        );
        let map = lengths(&[(8192, 4096, fits(12_300))]);
        assert_eq!(answer_of_script(["length"], &map, None, None).next, None);
    }

    #[test]
    fn little_is_undecided_and_a_failing_smallest_point_is_not() {
        let one = answer(&lengths(&[(8192, 4096, json!("oom"))]), None, Some("stopped by Ctrl-C"));
        assert_eq!(one.state, OutcomeKind::Undecided);
        assert!(
            one.sure.starts_with("undecided: 1 probe, stopped by Ctrl-C"),
            "{}",
            one.sure
        );
        assert!(one.run.is_empty() && one.limit.starts_with("undecided"), "{one:?}");
        let none = answer(&lengths(&[(128, 128, json!("oom"))]), None, None);
        assert_eq!(none.state, OutcomeKind::NothingFits);
    }

    #[test]
    fn the_margin_leaves_an_output_to_a_long_input() {
        let points = [
            (8192, 512, "ok"),
            (4096, 600, "ok"),
            (8192, 1024, "oom"),
            (4096, 1024, "oom"),
        ]
        .map(|(input, output, verdict)| (input, output, json!(verdict)));
        let answer = answer(&lengths(&points), None, None);
        assert_eq!(answer.state, OutcomeKind::Table);
        assert_eq!(
            answer.run.last().unwrap().workload,
            "a request of 7,782 + 486 tokens (8,192 + 512 tokens fitted, less 5 %)"
        );
    }

    #[test]
    fn without_a_formula_the_largest_request_that_fitted_is_said() {
        let points = [(5000, 512, "ok"), (7000, 300, "oom"), (4096, 1024, "oom")]
            .map(|(input, output, verdict)| (input, output, json!(verdict)));
        let answer = answer(&lengths(&points), None, None);
        assert!(
            answer.limit.starts_with("a request of 5,000 + 512 tokens; no single"),
            "{}",
            answer.limit
        );
        assert_eq!(
            answer.run.last().unwrap().workload,
            "a request of 4,750 + 486 tokens (5,000 + 512 tokens fitted, less 5 %)"
        );
    }

    #[test]
    fn a_length_limit_is_the_servers_own() {
        let refused = json!({ "verdict": "refused", "cause": "length_limit" });
        let map = tested(
            &json!({ "input": [128, 8192], "output": [128, 128] }),
            &[(5872, 128, json!("ok")), (5873, 128, refused)],
        );
        let search = json!({ "probes": 2, "starts": 0, "seconds": 0.2 });
        let answer = answer(&map, Some(&search), None);
        assert_eq!(
            answer.limit,
            "input + output ≤ 6,000 tokens (the server's own limit; not memory); 6,001 is refused"
        );
        assert!(
            answer.sure.ends_with("2 probes"),
            "an attached server is not started: {}",
            answer.sure
        );
        assert_eq!(
            answer.next.as_deref(),
            Some("profiler run adaptive --input 5872 --output 128"),
            "how many at once"
        );
    }

    proptest! {
        /// For any set of tested points, flags are only given for points that fitted or are easier than one that did.
        #[test]
        fn what_is_recommended_was_tested_or_is_easier(
            weights in (0.2_f64..2.0, 0.2_f64..2.0),
            limit in 500.0_f64..9000.0,
            points in prop::collection::vec((128_i64..=8192, 128_i64..=4096), 1..40),
        ) {
            let fits = |input: i64, output: i64| weights.0 * input as f64 + weights.1 * output as f64 <= limit;
            let points: Vec<_> = points.iter().map(|(input, output)| {
                (*input, *output, json!(if fits(*input, *output) { "ok" } else { "oom" }))
            }).collect();
            let map = lengths(&points);
            for command in answer(&map, None, None).run {
                prop_assert_eq!(map.classify(&command.point).unwrap(), Class::Fits);
            }
        }
    }
}
