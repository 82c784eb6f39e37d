//! Recovers points from `result.json` that a truncated journal lacks: `report(map)` returns all points of its boundary.

use serde_json::Value;

use super::reader::RecordedBoundary;
use super::replay::RecordedPoint;

/// Completes a boundary from the run's result, if that is a boundary report. Returns a note about what was recovered.
pub(super) fn recover_points(boundaries: &mut [RecordedBoundary], result: Option<&Value>) -> Option<String> {
    let result = result.filter(|result| result["frontier"].is_array())?;
    let all: Vec<RecordedPoint> = result["points"]
        .as_array()?
        .iter()
        .map(recorded)
        .collect::<Option<_>>()?;
    // With several boundaries, the result belongs to the one candidates points it starts with.
    let mut candidates = boundaries
        .iter_mut()
        .filter(|boundary| boundary.report.is_none() && starts_with(&all, &boundary.points));
    let boundary = candidates.next().filter(|_| candidates.next().is_none())?;
    let more = all.len() - boundary.points.len();
    let completed = RecordedBoundary {
        described: boundary.described.clone(),
        points: boundary
            .points
            .iter()
            .chain(&all[boundary.points.len()..])
            .cloned()
            .collect(),
        report: Some(result.clone()),
        ..RecordedBoundary::default()
    };
    // Rows of a result lack parts of some answers: the rebuilt frontier must equal that of the run.
    let frontier = completed.rebuild().and_then(|rebuilt| rebuilt.frontier()).ok()?;
    let same = serde_json::to_value(frontier).is_ok_and(|frontier| frontier == result["frontier"]);
    if !same {
        return None;
    }
    boundary.points = completed.points;
    boundary.times.resize(boundary.points.len(), String::new());
    boundary.report = completed.report;
    Some(format!(
        "{more} of the {} points of the boundary come from result.json: without their times, memory and latencies",
        all.len()
    ))
}

/// Converts a row of the result to a recorded point.
fn recorded(row: &Value) -> Option<RecordedPoint> {
    let point = serde_json::from_value(row["point"].clone()).ok()?;
    let mut answer = row.as_object()?.clone();
    answer.remove("point");
    answer.remove("moves");
    Some((point, answer.into()))
}

/// Whether `all` starts with `points`, with equal verdicts.
fn starts_with(all: &[RecordedPoint], points: &[RecordedPoint]) -> bool {
    let verdict = |answer: &Value| answer.as_str().or(answer["verdict"].as_str()).map(str::to_owned);
    points.len() <= all.len()
        && points
            .iter()
            .zip(all)
            .all(|(one, other)| one.0 == other.0 && verdict(&one.1) == verdict(&other.1))
}
