//! The terminal summary of a boundary: the answer, a chart, the largest fitting points if there is no single limit, and
//! caveats.

use console::Style;
use serde_json::{Map, Value};

use super::answer::{Answer, Context, State};
use super::document::facts_text;
use super::table::table;
use super::{Page, draw};
use crate::boundary::{Band, Boundary, Moves, Point, Scalar, Verdict};
use crate::fault::Result;
use crate::fmt::{Count, wrap};

const MAX_FRONTIER_POINTS: usize = 6;

const MAX_BAND_POINTS: usize = 3;

/// Printed first in every output of a simulated run, where what was simulated is not known or of several kinds.
pub const SIMULATED: &str = "SIMULATED: the engine was a model of one; nothing here was measured on a GPU";

/// [`SIMULATED`] with what was simulated, if all `engines` of a run simulated the same.
#[must_use]
pub fn simulated_line(engines: &[String]) -> String {
    match engines {
        [one] => format!("SIMULATED: {one}; nothing here was measured on a GPU"),
        _ => SIMULATED.to_owned(),
    }
}

/// Information beyond the boundary itself: from [`super::Findings`], or from a journal entry of it.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// What `report(map)` returned, if it was called.
    pub report: Option<Value>,
    /// Why the run ended early: `stopped by Ctrl-C`.
    pub stopped: Option<String>,
    /// The script as the user named it.
    pub script: String,
    /// The parameters that were set.
    pub set: Map<String, Value>,
    /// The notice of a simulated run.
    pub simulated: Option<String>,
}

impl Extras {
    /// The recorded answer; otherwise, as for interrupted runs and those of older versions, that of the boundary.
    pub fn answer(&self, boundary: &Boundary) -> Result<Answer> {
        let field = |key: &str| self.report.as_ref().and_then(|report| report.get(key));
        if let Some(recorded) = field("answer").and_then(|answer| serde_json::from_value(answer.clone()).ok()) {
            return Ok(recorded);
        }
        let headroom = field("headroom").and_then(Value::as_u64);
        Answer::new(
            boundary,
            &Context {
                search: field("search").filter(|search| search.is_object()),
                stopped: self.stopped.as_deref(),
                script: &self.script,
                set: &self.set,
                // They follow from the engine's adapter, which only the run itself had.
                flags: &|_, _| Ok(Vec::new()),
                headroom: &|_| headroom,
            },
        )
    }
}

/// Formats the summary. No trailing newline.
pub fn summarize(boundary: &Boundary, extras: &Extras, page: Page) -> Result<String> {
    let answer = extras.answer(boundary)?;
    let mut parts = Vec::new();
    let facts = answer.facts();
    let limit = page.paint(&answer.limit, Style::new().bold());
    parts.push(match &extras.simulated {
        Some(notice) => {
            let notice = wrap(notice, page.width, 4);
            format!("{}\n{limit}", page.paint(&notice, Style::new().black().on_yellow()))
        }
        None => limit,
    });
    // The limit is the headline.
    parts.push(facts_text(&facts[1..], page));
    if boundary.records().len() > 0 {
        parts.push(format!("{}\n{}", draw(boundary, page)?, resolved(boundary)?));
        if answer.state == State::Table {
            parts.extend(largest(boundary, page)?);
        }
    }
    parts.extend(caveats(boundary, answer.state == State::Limit)?);
    Ok(page.signs(parts.join("\n\n")))
}

/// How much of the search range is known.
fn resolved(boundary: &Boundary) -> Result<String> {
    let volume = boundary.volume()?;
    let share = |part: u128| 100.0 * part as f64 / volume.total.max(1) as f64;
    let mut line = format!(
        "{}; {:.1} % of the search range fits, {:.1} % fails, {:.1} % is unknown",
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

/// The largest points that fit, evenly spaced, including both ends.
fn largest(boundary: &Boundary, page: Page) -> Result<Option<String>> {
    let frontier = boundary.frontier()?;
    let names = boundary.lattice().axis_names();
    let row = |point: &Point| -> Vec<String> {
        let entry = |name: &&str| point.0.get(*name).map_or_else(String::new, ToString::to_string);
        names.iter().map(entry).collect()
    };
    let shown = frontier.len().min(MAX_FRONTIER_POINTS);
    let rows: Vec<Vec<String>> = (0..shown)
        .map(|number| number * (frontier.len() - 1) / (shown - 1).max(1))
        .filter_map(|index| frontier.get(index))
        .map(row)
        .collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let more = match frontier.len() - shown {
        0 => String::new(),
        more => format!("\n  and {more} between them"),
    };
    Ok(Some(format!(
        "largest points that fit\n{}{more}",
        table(&names, &rows, page)
    )))
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

/// What a reader must know beside the answer. With a `limit`, what is unknown follows from it.
pub(super) fn caveats(boundary: &Boundary, limit: bool) -> Result<Option<String>> {
    let mut lines = Vec::new();
    let wide = |(_, width): &(String, Scalar)| width.as_f64() > 0.0;
    let gap: Vec<String> = boundary
        .gap()?
        .into_iter()
        .filter(wide)
        .map(|(axis, width)| format!("{axis} {width}"))
        .collect();
    if !gap.is_empty() && !limit {
        lines.push(format!("largest unresolved range: {}", gap.join(", ")));
    }
    let unclear = boundary
        .records()
        .filter(|(_, record)| record.moves == Moves::None && record.verdict != Verdict::Refused)
        .count();
    if unclear > 0 {
        lines.push(format!("inconclusive: {}", Count(unclear, "point")));
    }
    if let Some(band) = boundary.band() {
        lines.extend(contradictions(boundary, &band));
    }
    let refused = boundary.clipped();
    if let Some(point) = refused.first() {
        let others = match refused.len() {
            1 => String::new(),
            several => format!(" and {} more", Count(several - 1, "point")),
        };
        lines.push(format!(
            "refused for their length, not for lack of memory: {point}{others}, and all beyond"
        ));
    }
    Ok((!lines.is_empty()).then(|| lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Answer, Options};
    use serde_json::json;

    #[test]
    fn the_limit_is_the_first_line_after_the_notice_of_a_simulation() {
        let mut map = Boundary::new(&json!({ "input": [1, 1000] }), Options::default()).unwrap();
        for (input, verdict) in [(500, "ok"), (600, "timeout"), (520, "oom")] {
            let point = Point::default().with("input", input);
            map.record(&point, &Answer::parse(&json!(verdict)).unwrap()).unwrap();
        }
        let extras = |engines: &[&str]| Extras {
            simulated: (!engines.is_empty())
                .then(|| simulated_line(&engines.iter().map(|&one| one.to_owned()).collect::<Vec<_>>())),
            ..Extras::default()
        };
        // What was simulated is named if there is one kind.
        let text = summarize(&map, &extras(&["8B, 24 GB card (profile p)"]), Page::default()).unwrap();
        let named = "SIMULATED: 8B, 24 GB card (profile p); nothing here was measured on a GPU\ninput <= 500";
        assert!(text.starts_with(named), "{text}");
        let text = summarize(&map, &extras(&["one", "another"]), Page::default()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            (lines[0], lines[1]),
            (SIMULATED, "input <= 500 tokens (GPU memory), confirmed to +-19")
        );
        assert!(text.contains("inconclusive: 1 point"), "{text}");
        assert!(
            summarize(&map, &extras(&[]), Page::default())
                .unwrap()
                .starts_with("input <= 500")
        );
    }

    #[test]
    fn contradictions_are_shown() {
        let mut map = Boundary::new(&json!({ "input": [1, 1000] }), Options::default()).unwrap();
        for (input, verdict) in [(500, "ok"), (400, "oom"), (500, "oom"), (300, "ok")] {
            let point = Point::default().with("input", input);
            map.record(&point, &Answer::parse(&json!(verdict)).unwrap()).unwrap();
        }
        let text = summarize(&map, &Extras::default(), Page::default()).unwrap();
        for part in [
            "1 pair of points contradict",
            "input=500 fitted 1 of 2 times",
            "~ contradictory",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
