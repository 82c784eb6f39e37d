//! What a boundary comes to, for people: a picture, the largest points that fit, what to run and how sure that is.

use console::Style;
use serde_json::Value;

use super::table::table;
use super::unit::{Bytes, Count};
use super::{Page, advise, draw};
use crate::boundary::{Boundary, Moves, Point, Scalar};
use crate::fault::Result;

/// Points of the frontier that are listed.
const LISTED: usize = 12;

/// What every output of a simulated run says first.
pub const SIMULATED: &str = "SIMULATED: the engine was a model of one; nothing here was measured on a GPU";

/// What is known beyond the boundary itself: what [`super::Findings`] has, or a journal kept of it.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Flags for the recommended point.
    pub flags: Vec<String>,
    /// Bytes left at the safe point.
    pub headroom: Option<u64>,
    /// Whether the run was simulated.
    pub simulated: bool,
}

impl Extras {
    /// Reads them from a value that `report(map)` gave.
    #[must_use]
    pub fn of(report: Option<&Value>, simulated: bool) -> Self {
        let flags = report.and_then(|report| report.get("flags")).and_then(Value::as_array);
        let flags = flags.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        Self {
            flags: flags.collect(),
            headroom: report.and_then(|report| report.get("headroom")).and_then(Value::as_u64),
            simulated,
        }
    }
}

/// Sums a boundary up as text, without a line end after its last line.
pub fn summarize(boundary: &Boundary, extras: &Extras, page: Page) -> Result<String> {
    let mut parts = Vec::new();
    if extras.simulated {
        parts.push(page.paint(SIMULATED, Style::new().yellow().bold()));
    }
    parts.push(format!("{}\n\n{}", headline(boundary)?, draw(boundary, page)?));
    match advise(boundary)? {
        Some(advice) => {
            parts.push(largest(boundary)?);
            let why = if advice.recommended == advice.safe {
                "it fits; nothing smaller is in the box".to_owned()
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
        None => parts.push(nothing(boundary)),
    }
    if let Some(caveats) = caveats(boundary)? {
        parts.push(caveats);
    }
    Ok(parts.join("\n\n"))
}

fn headline(boundary: &Boundary) -> Result<String> {
    let names = boundary.lattice().axis_names();
    let volume = boundary.volume()?;
    #[expect(clippy::cast_precision_loss, reason = "for people")]
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

fn largest(boundary: &Boundary) -> Result<String> {
    let frontier = boundary.frontier()?;
    let names = boundary.lattice().axis_names();
    let row = |point: &Point| -> Vec<String> {
        let entry = |name: &&str| point.0.get(*name).map_or_else(String::new, ToString::to_string);
        names.iter().map(entry).collect()
    };
    // Spread over the frontier, its ends among them, so that every part of it is seen.
    let shown = frontier.len().min(LISTED);
    let rows: Vec<Vec<String>> = (0..shown)
        .map(|number| number * (frontier.len() - 1) / (shown - 1).max(1))
        .filter_map(|index| frontier.get(index))
        .map(row)
        .collect();
    let mut text = format!("largest points that fit\n{}", table(&names, &rows));
    if frontier.len() > shown {
        text.push_str(&format!("\n  and {} between them", frontier.len() - shown));
    }
    Ok(text)
}

fn nothing(boundary: &Boundary) -> String {
    let failed = boundary
        .records()
        .filter(|(_, record)| record.moves == Moves::Fails)
        .count();
    if failed == 0 {
        return "nothing is known to fit: no probe gave a clear answer".to_owned();
    }
    "nothing fits: every clear answer is that memory does not suffice".to_owned()
}

fn caveats(boundary: &Boundary) -> Result<Option<String>> {
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
    let conflicts = boundary.conflicts();
    if let Some((fits, fails)) = conflicts.first() {
        lines.push(format!(
            "{} of points contradict each other, such as {fits}, which fits, and {fails}, which fails",
            Count(conflicts.len(), "pair")
        ));
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
    #![allow(clippy::unwrap_used, reason = "tests")]

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
    fn what_to_run_and_how_sure_it_is() {
        let extras = Extras {
            flags: vec!["--max-model-len=475".into()],
            headroom: Some(3 << 30),
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
            "widest gap still open: input 100",
            "1 point moved nothing",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn nothing_fits_is_said() {
        let text =
            |answers: &[(i64, &str)]| summarize(&boundary(answers), &Extras::default(), Page::default()).unwrap();
        assert!(text(&[(1, "oom")]).contains("nothing fits"));
        assert!(text(&[(1, "error")]).contains("nothing is known to fit"));
        assert!(!text(&[(1, "oom")]).contains("SIMULATED"));
        assert!(!text(&[]).contains("nothing"));
    }

    #[test]
    fn contradictions_are_shown() {
        let text = summarize(
            &boundary(&[(500, "ok"), (400, "oom")]),
            &Extras::default(),
            Page::default(),
        )
        .unwrap();
        assert!(text.contains("1 pair of points contradict"), "{text}");
    }
}
