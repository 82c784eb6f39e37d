//! Drops what cannot be used from a run that was read, and notes what was dropped.

use serde_json::Value;

use super::reader::{RecordedBoundary, RecordedRun};
use crate::boundary::{Answer, Boundary};
use crate::experiment::Experiment;
use crate::memory::Footprint;

/// Most ranges listed by [`ranges`].
const MOST_RANGES: usize = 6;

/// Keeps boundaries that can be rebuilt, and breakdowns and experiments that can be parsed.
pub(super) fn drop_unreadable(run: &mut RecordedRun) {
    let several = run.boundaries.len() > 1;
    for (index, boundary) in run.boundaries.iter_mut().enumerate() {
        let name = match several {
            true => format!("boundary {}", index + 1),
            false => "the boundary".to_owned(),
        };
        let (points, reported) = (boundary.points.len(), boundary.report.is_some());
        let note = drop_bad_points(boundary);
        // Without any data it may only be a gap in the numbering.
        if points > 0 || reported || !boundary.described.is_null() {
            run.missing.extend(note.map(|note| format!("{name}: {note}")));
        }
    }
    run.breakdowns.retain(|(name, value)| {
        let readable = serde_json::from_value::<Footprint>(value.clone()).is_ok();
        if !readable {
            run.missing.push(format!("the breakdown `{name}` is damaged: skipped"));
        }
        readable
    });
    run.experiments.retain(|(name, value)| {
        let readable = serde_json::from_value::<Experiment>(value.clone()).is_ok();
        if !readable {
            run.missing.push(format!("the experiment `{name}` is damaged: skipped"));
        }
        readable
    });
}

/// Drops points that do not fit the boundary's axes; returns a note about them.
fn drop_bad_points(boundary: &mut RecordedBoundary) -> Option<String> {
    let points = boundary.points.len();
    let empty = RecordedBoundary {
        described: boundary.described.clone(),
        ..RecordedBoundary::default()
    };
    if boundary.described.is_null() {
        return Some(format!(
            "its axes are lost: its {points} points cannot be shown as a boundary"
        ));
    }
    let Ok(rebuilt) = empty.rebuild() else {
        boundary.described = Value::Null;
        return Some(format!(
            "its axes are damaged: its {points} points cannot be shown as a boundary"
        ));
    };
    let mut times = std::mem::take(&mut boundary.times).into_iter();
    boundary.points.retain(|(point, answer)| {
        let time = times.next();
        let holds = can_record(&rebuilt, point, answer);
        boundary.times.extend(time.filter(|_| holds));
        holds
    });
    let lost = points - boundary.points.len();
    (lost > 0).then(|| format!("{lost} of its {points} points are damaged: skipped"))
}

fn can_record(boundary: &Boundary, point: &crate::boundary::Point, answer: &Value) -> bool {
    Answer::parse(answer).is_ok() && boundary.recorded(point).is_ok()
}

/// Formats ascending line numbers: `lines 3, 5 to 9`.
pub(super) fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let more = ranges.len().saturating_sub(MOST_RANGES);
    let listed = ranges
        .iter()
        .take(MOST_RANGES)
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        });
    let mut text = listed.collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(" and more");
    }
    let lines = if numbers.len() == 1 { "line" } else { "lines" };
    format!("{lines} {text}")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn line_numbers_are_listed_as_ranges() {
        assert_eq!(ranges(&[3]), "line 3");
        assert_eq!(ranges(&[3, 5, 6, 7]), "lines 3, 5 to 7");
        assert_eq!(ranges(&[1, 3, 5, 7, 9, 11, 13]), "lines 1, 3, 5, 7, 9, 11 and more");
    }
}
