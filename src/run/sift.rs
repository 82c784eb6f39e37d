//! Takes out of what was read whatever does not make sense, so that everything that is left can be told; and says so.

use serde_json::Value;

use super::found::{Found, FoundBoundary};
use crate::boundary::{Answer, Boundary};
use crate::experiment::Experiment;
use crate::memory::Footprint;

/// Ranges that are named.
const NAMED: usize = 6;

/// Leaves boundaries that can be rebuilt, breakdowns and experiments that can be read.
pub(super) fn sift(found: &mut Found) {
    let several = found.boundaries.len() > 1;
    for (index, boundary) in found.boundaries.iter_mut().enumerate() {
        let name = match several {
            true => format!("boundary {}", index + 1),
            false => "the boundary".to_owned(),
        };
        let (points, reported) = (boundary.points.len(), boundary.report.is_some());
        let note = keep_recordable(boundary);
        // The number of one that says nothing at all may be a gap that another left.
        if points > 0 || reported || !boundary.described.is_null() {
            found.missing.extend(note.map(|note| format!("{name}: {note}")));
        }
    }
    found.breakdowns.retain(|(name, value)| {
        let readable = serde_json::from_value::<Footprint>(value.clone()).is_ok();
        if !readable {
            found
                .missing
                .push(format!("the breakdown `{name}` is damaged: it is not told"));
        }
        readable
    });
    found.experiments.retain(|(name, value)| {
        let readable = serde_json::from_value::<Experiment>(value.clone()).is_ok();
        if !readable {
            found
                .missing
                .push(format!("the experiment `{name}` is damaged: it is not told"));
        }
        readable
    });
}

/// Leaves the points that its axes can hold; says what was wrong.
fn keep_recordable(boundary: &mut FoundBoundary) -> Option<String> {
    let points = boundary.points.len();
    let empty = FoundBoundary {
        described: boundary.described.clone(),
        ..FoundBoundary::default()
    };
    if boundary.described.is_null() {
        return Some(format!(
            "its axes are lost: its {points} points cannot be told as a map"
        ));
    }
    let Ok(rebuilt) = empty.rebuild() else {
        boundary.described = Value::Null;
        return Some(format!(
            "its axes are damaged: its {points} points cannot be told as a map"
        ));
    };
    let mut times = std::mem::take(&mut boundary.times).into_iter();
    boundary.points.retain(|(point, answer)| {
        let time = times.next();
        let holds = fits_into(&rebuilt, point, answer);
        boundary.times.extend(time.filter(|_| holds));
        holds
    });
    let lost = points - boundary.points.len();
    (lost > 0).then(|| format!("{lost} of its {points} points are damaged: they are not told"))
}

fn fits_into(boundary: &Boundary, point: &crate::boundary::Point, answer: &Value) -> bool {
    Answer::parse(answer).is_ok() && boundary.recorded(point).is_ok()
}

/// Numbers that rise, as text: `lines 3, 5 to 9`.
pub(super) fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let more = ranges.len().saturating_sub(NAMED);
    let named = ranges.iter().take(NAMED).map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    let mut text = named.collect::<Vec<_>>().join(", ");
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
    fn lines_are_named_in_ranges() {
        assert_eq!(ranges(&[3]), "line 3");
        assert_eq!(ranges(&[3, 5, 6, 7]), "lines 3, 5 to 7");
        assert_eq!(ranges(&[1, 3, 5, 7, 9, 11, 13]), "lines 1, 3, 5, 7, 9, 11 and more");
    }
}
