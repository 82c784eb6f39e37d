//! The terminal summary of a boundary: chart, largest fitting points, recommendation and caveats.

use console::Style;
use serde_json::Value;

use super::table::table;
use super::{Page, advise, draw};
use crate::boundary::{Band, Boundary, Moves, Point, Scalar};
use crate::fault::Result;
use crate::fmt::{Bytes, Count};

const MAX_FRONTIER_POINTS: usize = 12;

const MAX_PREDICTED: usize = 5;

const MAX_BAND_POINTS: usize = 3;

/// Printed first in every output of a simulated run.
pub const SIMULATED: &str = "SIMULATED: the engine was a model of one; nothing here was measured on a GPU";

/// Information beyond the boundary itself: from [`super::Findings`], or from a journal entry of it.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Engine flags for the recommended point.
    pub flags: Vec<String>,
    /// Bytes left at the safe point.
    pub headroom: Option<u64>,
    /// Statistics of the search.
    pub search: Option<Value>,
    /// Whether the run was simulated.
    pub simulated: bool,
}

impl Extras {
    /// Reads them from a value that `report(map)` returned.
    #[must_use]
    pub fn from_report(report: Option<&Value>, simulated: bool) -> Self {
        let flags = report.and_then(|report| report.get("flags")).and_then(Value::as_array);
        let flags = flags.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        Self {
            flags: flags.collect(),
            headroom: report.and_then(|report| report.get("headroom")).and_then(Value::as_u64),
            search: report.and_then(|report| report.get("search")).cloned(),
            simulated,
        }
    }
}

/// Formats the summary. No trailing newline.
pub fn summarize(boundary: &Boundary, extras: &Extras, page: Page) -> Result<String> {
    let mut parts = Vec::new();
    if extras.simulated {
        parts.push(page.paint(SIMULATED, Style::new().black().on_yellow()));
    }
    parts.push(format!("{}\n\n{}", headline(boundary)?, draw(boundary, page)?));
    match advise(boundary)? {
        Some(advice) => {
            parts.push(largest(boundary, page)?);
            let why = if advice.recommended == advice.safe {
                "it fits; nothing a little smaller is in the box".to_owned()
            } else {
                format!("5 % less than {}, which fits", advice.safe)
            };
            let mut lines = vec![format!("recommended: {} ({why})", advice.recommended)];
            if !extras.flags.is_empty() {
                lines.push(format!("flags: {}", extras.flags.join(" ")));
            }
            if let Some(headroom) = extras.headroom {
                lines.push(format!(
                    "headroom: {} of memory left at {}",
                    Bytes(headroom),
                    advice.safe
                ));
            }
            parts.push(lines.join("\n"));
        }
        None if boundary.records().len() == 0 => {}
        None => parts.push(nothing_fits(boundary)),
    }
    parts.extend(predicted(boundary, page)?);
    parts.extend(extras.search.as_ref().and_then(search_statistics));
    parts.extend(caveats(boundary)?);
    Ok(parts.join("\n\n"))
}

fn headline(boundary: &Boundary) -> Result<String> {
    let names = boundary.lattice().axis_names();
    let volume = boundary.volume()?;
    let share = |part: u128| 100.0 * part as f64 / volume.total.max(1) as f64;
    let mut line = format!(
        "boundary over {}: {}; of the box {:.1} % fits, {:.1} % fails, {:.1} % is unknown",
        names.join(", "),
        Count(boundary.records().len(), "point"),
        share(volume.fits),
        share(volume.fails),
        share(volume.open),
    );
    if volume.clipped > 0 {
        line.push_str(&format!(", {:.1} % is beyond a length limit", share(volume.clipped)));
    }
    Ok(line)
}

fn largest(boundary: &Boundary, page: Page) -> Result<String> {
    let frontier = boundary.frontier()?;
    let names = boundary.lattice().axis_names();
    let row = |point: &Point| -> Vec<String> {
        let entry = |name: &&str| point.0.get(*name).map_or_else(String::new, ToString::to_string);
        names.iter().map(entry).collect()
    };
    // Evenly spaced over the frontier, including both ends.
    let shown = frontier.len().min(MAX_FRONTIER_POINTS);
    let rows: Vec<Vec<String>> = (0..shown)
        .map(|number| number * (frontier.len() - 1) / (shown - 1).max(1))
        .filter_map(|index| frontier.get(index))
        .map(row)
        .collect();
    let mut text = format!("largest points that fit\n{}", table(&names, &rows, page));
    if frontier.len() > shown {
        text.push_str(&format!("\n  and {} between them", frontier.len() - shown));
    }
    Ok(text)
}

/// Why nothing is recommended.
pub(super) fn nothing_fits(boundary: &Boundary) -> String {
    let failed = boundary
        .records()
        .filter(|(_, record)| record.moves == Moves::Fails)
        .count();
    if failed == 0 {
        return "nothing is known to fit: no probe gave a clear answer".to_owned();
    }
    "nothing fits: every clear answer is that memory does not suffice".to_owned()
}

/// The predicted boundary, clearly marked as unproven.
fn predicted(boundary: &Boundary, page: Page) -> Result<Option<String>> {
    let places = boundary.predicted()?;
    if places.is_empty() {
        return Ok(None);
    }
    let shown = places.len().min(MAX_PREDICTED);
    let rows: Vec<Vec<String>> = (0..shown)
        .map(|number| &places[number * (places.len() - 1) / (shown - 1).max(1)])
        .map(|place| {
            let high = place
                .high
                .as_ref()
                .map_or_else(|| "beyond the box".to_owned(), Point::to_string);
            vec![place.low.to_string(), place.expected.to_string(), high]
        })
        .collect();
    Ok(Some(format!(
        "predicted, not proven: where the boundary runs, by limits of memory that agree with every answer\n{}",
        table(
            &["fits at least at", "likely up to", "fails at the latest at"],
            &rows,
            page
        )
    )))
}

/// Statistics of the search: its cost, and what it verified.
pub(super) fn search_statistics(search: &Value) -> Option<String> {
    let count = |key: &str| search.get(key)?.as_u64();
    let probes = Count(usize::try_from(count("probes")?).ok()?, "probe");
    let starts = Count(usize::try_from(count("starts")?).ok()?, "start");
    let stopped = search.get("stopped").and_then(Value::as_str).unwrap_or_default();
    let mut lines = vec![format!(
        "search: {probes}, {starts} of the engine; ended by `{stopped}`"
    )];
    if let Some(verified) = search.get("verified").filter(|verified| verified.is_object()) {
        let part = |key: &str| verified.get(key).and_then(Value::as_u64).unwrap_or(0);
        let middle = if part("middle") > 0 { " and in the middle" } else { "" };
        let widths = verified.get("within").and_then(Value::as_object);
        let widths = widths.into_iter().flatten();
        let widths: Vec<String> = widths.map(|(axis, width)| format!("{axis} {width}")).collect();
        // If everything fits, there is no failing point to measure a distance to.
        let (sides, within) = match widths.join(", ") {
            none if none.is_empty() => ("", none),
            widths => (" from both sides", format!(", within {widths}")),
        };
        lines.push(format!(
            "verified{sides}: the boundary that the engine's own report predicts, at {}{middle}{within}",
            Count(usize::try_from(part("ends")).ok()?, "end"),
        ));
    }
    Some(lines.join("\n"))
}

/// Describes contradicting answers and the points at the ends of their band.
fn contradictions(boundary: &Boundary, band: &Band) -> Vec<String> {
    let mut lines = Vec::new();
    let conflicts = boundary.conflicts();
    if let Some((fits, fails)) = conflicts.first() {
        lines.push(format!(
            "{} of points contradict each other, such as {fits}, which fits, and {fails}, which fails",
            Count(conflicts.len(), "pair")
        ));
    }
    let ends = |points: &[Point]| {
        points
            .iter()
            .take(MAX_BAND_POINTS)
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let widths = band.width.iter().map(|(axis, width)| format!("{axis} {width}"));
    lines.push(format!(
        "answers contradict each other from {} up to {} (a band {} wide): nothing in it is called fitting",
        ends(&band.from),
        ends(&band.to),
        widths.collect::<Vec<_>>().join(", ")
    ));
    for answer in band
        .answers
        .iter()
        .take(MAX_BAND_POINTS)
        .filter(|answer| answer.fits + answer.fails > 1)
    {
        lines.push(format!(
            "{} fitted {} of {} times",
            answer.point,
            answer.fits,
            answer.fits + answer.fails
        ));
    }
    lines
}

pub(super) fn caveats(boundary: &Boundary) -> Result<Option<String>> {
    let mut lines = Vec::new();
    let wide = |(_, width): &(String, Scalar)| width.as_f64() > 0.0;
    let gap: Vec<String> = boundary
        .gap()?
        .into_iter()
        .filter(wide)
        .map(|(axis, width)| format!("{axis} {width}"))
        .collect();
    if !gap.is_empty() {
        lines.push(format!("widest gap still open: {}", gap.join(", ")));
    }
    let unclear = boundary
        .records()
        .filter(|(_, record)| record.moves == Moves::None)
        .count();
    if unclear > 0 {
        lines.push(format!(
            "{} moved nothing: their answers were not clear",
            Count(unclear, "point")
        ));
    }
    if let Some(band) = boundary.band() {
        lines.extend(contradictions(boundary, &band));
    }
    for point in boundary.clipped() {
        lines.push(format!(
            "from {point} on, a length limit refuses; that is no lack of memory"
        ));
    }
    Ok((!lines.is_empty()).then(|| lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Answer, Options};
    use serde_json::json;

    fn boundary(answers: &[(i64, &str)]) -> Boundary {
        let mut boundary = Boundary::new(&json!({ "input": [1, 1000] }), Options::default()).unwrap();
        for (input, verdict) in answers {
            let answer = Answer::parse(&json!(verdict)).unwrap();
            boundary
                .record(&Point::default().with("input", *input), &answer)
                .unwrap();
        }
        boundary
    }

    #[test]
    fn the_recommendation_and_its_confidence_are_shown() {
        let extras = Extras {
            flags: vec!["--max-model-len=475".into()],
            headroom: Some(3 << 30),
            search: Some(json!({
                "stopped": "coverage", "probes": 9, "starts": 1,
                "verified": { "ends": 2, "middle": 1, "within": { "input": 64 }, "probes": 7 },
            })),
            simulated: true,
        };
        let boundary = boundary(&[(500, "ok"), (600, "oom"), (550, "timeout")]);
        let text = summarize(&boundary, &extras, Page::default()).unwrap();
        for part in [
            "SIMULATED",
            "boundary over input: 3 points; of the box 50.0 % fits, 40.1 % fails, 9.9 % is unknown",
            "largest points that fit\n  input\n    500",
            "recommended: input=475 (5 % less than input=500, which fits)",
            "flags: --max-model-len=475",
            "headroom: 3.0 GiB of memory left at input=500",
            "search: 9 probes, 1 start of the engine; ended by `coverage`",
            "report predicts, at 2 ends and in the middle, within input 64",
            "widest gap still open: input 100",
            "1 point moved nothing",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn nothing_fits_is_reported() {
        let text =
            |answers: &[(i64, &str)]| summarize(&boundary(answers), &Extras::default(), Page::default()).unwrap();
        assert!(text(&[(1, "oom")]).contains("nothing fits"));
        assert!(text(&[(1, "error")]).contains("nothing is known to fit"));
        assert!(!text(&[(1, "oom")]).contains("SIMULATED"));
        assert!(!text(&[]).contains("nothing"));
    }

    #[test]
    fn contradictions_are_shown() {
        let answers = [(500, "ok"), (400, "oom"), (500, "oom"), (300, "ok")];
        let text = summarize(&boundary(&answers), &Extras::default(), Page::default()).unwrap();
        for part in [
            "1 pair of points contradict",
            "from input=400 up to input=500 (a band input 100 wide): nothing in it is called fitting",
            "input=500 fitted 1 of 2 times",
            "~ contradictory",
            "recommended: input=285",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn without_a_failure_there_is_no_distance_to_one() {
        let answer = |within: serde_json::Value| {
            let verified = json!({ "ends": 2, "middle": 0, "within": within });
            search_statistics(&json!({ "probes": 3, "starts": 1, "stopped": "coverage", "verified": verified }))
                .unwrap()
        };
        let predicts = "the boundary that the engine's own report predicts, at 2 ends";
        assert!(answer(json!({})).ends_with(&format!("verified: {predicts}")));
        assert!(
            answer(json!({ "input": 64 })).ends_with(&format!("verified from both sides: {predicts}, within input 64"))
        );
    }

    #[test]
    fn a_prediction_is_never_shown_as_proven() {
        let mut map = Boundary::new(&json!({ "a": [0, 99], "b": [0, 99] }), Options::default()).unwrap();
        for (a, b, verdict) in [(30, 30, "ok"), (60, 10, "ok"), (40, 60, "oom"), (90, 20, "oom")] {
            let point = Point::default().with("a", a).with("b", b);
            map.record(&point, &Answer::parse(&json!(verdict)).unwrap()).unwrap();
        }
        let text = summarize(&map, &Extras::default(), Page::default()).unwrap();
        let (proven, predicted) = text.split_once("predicted, not proven: ").unwrap();
        assert!(predicted.contains("fits at least at"), "{text}");
        assert!(proven.contains("* predicted to fit"), "{text}");
        for place in map.predicted().unwrap() {
            assert!(!proven.contains(&place.expected.to_string()), "{text}");
        }
    }
}
