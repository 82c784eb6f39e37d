//! A journal that ends early may lack points which the result has: what `report(map)` gave holds every point of its boundary, its flags and its headroom.

use serde_json::Value;

use super::found::FoundBoundary;
use super::past::Recorded;

/// Takes what the journal lacks of a boundary out of the run's result, where the result is what a boundary came to; says what was taken.
pub(super) fn restore(boundaries: &mut [FoundBoundary], result: Option<&Value>) -> Option<String> {
    let result = result.filter(|result| result["frontier"].is_array())?;
    let all: Vec<Recorded> = result["points"]
        .as_array()?
        .iter()
        .map(recorded)
        .collect::<Option<_>>()?;
    // With several boundaries, nothing tells whose result it is but what it begins with.
    let mut whose = boundaries
        .iter_mut()
        .filter(|boundary| boundary.report.is_none() && begins(&all, &boundary.points));
    let boundary = whose.next().filter(|_| whose.next().is_none())?;
    let more = all.len() - boundary.points.len();
    let whole = FoundBoundary {
        described: boundary.described.clone(),
        points: boundary
            .points
            .iter()
            .chain(&all[boundary.points.len()..])
            .cloned()
            .collect(),
        report: Some(result.clone()),
        ..FoundBoundary::default()
    };
    // Rows of a result lack parts of some answers: the map that they make must be the one that the run made.
    let frontier = whole.rebuild().and_then(|rebuilt| rebuilt.frontier()).ok()?;
    let same = serde_json::to_value(frontier).is_ok_and(|frontier| frontier == result["frontier"]);
    if !same {
        return None;
    }
    boundary.points = whole.points;
    boundary.times.resize(boundary.points.len(), String::new());
    boundary.report = whole.report;
    Some(format!(
        "{more} of the {} points of the boundary are told as result.json has them: without their times, memory and latencies",
        all.len()
    ))
}

/// A row of the result as a recorded point.
fn recorded(row: &Value) -> Option<Recorded> {
    let point = serde_json::from_value(row["point"].clone()).ok()?;
    let mut answer = row.as_object()?.clone();
    answer.remove("point");
    answer.remove("moves");
    Some((point, answer.into()))
}

/// Whether the result goes on where the journal ends: the same points, answered alike.
fn begins(all: &[Recorded], points: &[Recorded]) -> bool {
    let verdict = |answer: &Value| answer.as_str().or(answer["verdict"].as_str()).map(str::to_owned);
    points.len() <= all.len()
        && points
            .iter()
            .zip(all)
            .all(|(one, other)| one.0 == other.0 && verdict(&one.1) == verdict(&other.1))
}
