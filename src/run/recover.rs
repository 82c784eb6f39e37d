//! Recovers what it can from a damaged run folder, drops the rest, and notes both.
//!
//! A lost manifest is reconstructed from the rest of its file, the journal, the result and the folder's name. Points that a
//! truncated journal lacks are taken from the result, as `report(map)` returns all points of its boundary.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::journal::{Entry, JOURNAL};
use super::manifest::{MANIFEST, Manifest, SCHEMA, Script, foreign};
use super::recorded::{RecordedBoundary, RecordedRun};
use super::replay::RecordedPoint;
use super::{Event, Folder};
use crate::boundary::{Answer, Boundary};
use crate::experiment::Experiment;
use crate::fault::Result;
use crate::memory::Footprint;

/// The content of `manifest.json`.
pub(super) enum ManifestFile {
    Complete(Box<Manifest>),
    /// The readable fields, and why the others are not.
    Partial(Map<String, Value>, String),
}

/// What the journal contains about the run as a whole.
#[derive(Debug, Default)]
pub(super) struct JournalSummary {
    /// Times of the first and the last event.
    pub(super) first: Option<String>,
    pub(super) last: Option<String>,
    /// Status and time of the last execution's end.
    ended: Option<(String, String)>,
    engines: Vec<Value>,
    simulated: bool,
}

impl JournalSummary {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.first.get_or_insert_with(|| entry.time.clone());
        self.last = Some(entry.time.clone());
        match &entry.event {
            Event::Engine { info } => {
                self.simulated |=
                    info.pointer("/info/simulated") == Some(&Value::Bool(true)) || info["runtime"] == "sim";
                if !self.engines.contains(info) {
                    self.engines.push(info.clone());
                }
            }
            Event::Began { args, .. } | Event::Done { args, .. } | Event::StartFailed { args, .. } => {
                self.simulated |= args.pointer("/launch/runtime").is_some_and(|runtime| runtime == "sim");
            }
            Event::Resumed { .. } => self.ended = None,
            Event::End { status, .. } => self.ended = Some((status.clone(), entry.time.clone())),
            _ => {}
        }
    }

    /// Whether the last execution is known to have ended.
    pub(super) fn has_end(&self) -> bool {
        self.ended.is_some()
    }

    /// Reconstructs a manifest; `document` is `result.json`, or null.
    pub(super) fn manifest(self, folder: &Folder, document: &Value) -> Manifest {
        let path = fs::canonicalize(folder.path()).unwrap_or_else(|_| folder.path().to_owned());
        let folder_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = |key: &str| document[key].as_str().map(str::to_owned);
        let name = script_name(&folder_name);
        let (status, ended) = match self.ended {
            Some((status, time)) => (status, Some(time)),
            None => ("running".to_owned(), None),
        };
        Manifest {
            schema: SCHEMA,
            run: text("run").unwrap_or(folder_name),
            status,
            started: self.first.unwrap_or_default(),
            ended,
            script: Script {
                path: text("script").unwrap_or_else(|| name.clone()),
                name,
                sha256: folder
                    .read("script.rhai")
                    .ok()
                    .flatten()
                    .map_or_else(String::new, |text| hash(&text)),
            },
            simulated: self.simulated || document["simulated"] == true,
            engines: self.engines,
            ..Manifest::default()
        }
    }
}

/// Reads the manifest as far as possible.
///
/// # Errors
///
/// `usage` for one of another schema version.
pub(super) fn manifest(folder: &Folder) -> Result<ManifestFile> {
    let nothing = |why: String| Ok(ManifestFile::Partial(Map::new(), why));
    let text = match folder.read(MANIFEST) {
        Ok(Some(text)) => text,
        Ok(None) => return nothing("manifest.json is not there".to_owned()),
        Err(fault) => return nothing(format!("manifest.json cannot be read ({})", fault.message)),
    };
    let (value, why) = match serde_json::from_slice::<Value>(&text) {
        Ok(value) => (value, "manifest.json was changed or damaged"),
        Err(_) => (parse_truncated(&text), "manifest.json was cut off or damaged"),
    };
    if value["schema"].is_u64() && value["schema"] != SCHEMA {
        return Err(foreign(&folder.path().join(MANIFEST), &value));
    }
    if let Ok(manifest) = serde_json::from_value::<Manifest>(value.clone())
        && manifest.seed.is_some()
    {
        return Ok(ManifestFile::Complete(Box::new(manifest)));
    }
    let parts = match value {
        Value::Object(parts) => parts,
        _ => Map::new(),
    };
    Ok(ManifestFile::Partial(parts, why.to_owned()))
}

/// Whether nothing happened since the manifest was written: its status is `running`, the journal is empty, and there
/// are no other files of a run.
pub(super) fn not_started(folder: &Folder, manifest: &Manifest) -> bool {
    let journal = folder.file(JOURNAL);
    let empty = journal.is_ok_and(|file| file.is_none_or(|file| file.metadata().is_ok_and(|data| data.len() == 0)));
    let left = ["result.json", "logs", "loads", "memory", "tables"];
    manifest.status == "running" && empty && !left.iter().any(|name| folder.has(name))
}

/// Merges the fields of a damaged file into a reconstructed manifest. Also returns the names of the fields it lacks.
pub(super) fn fill_in(recovered: Manifest, parts: Map<String, Value>) -> (Manifest, BTreeSet<String>) {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(&recovered) else {
        return (recovered, BTreeSet::new());
    };
    let mut lost: BTreeSet<String> = fields.keys().cloned().collect();
    for (name, value) in parts {
        // Optional fields, and those of another version, have no previous value.
        let before = fields.insert(name.clone(), value);
        if serde_json::from_value::<Manifest>(Value::Object(fields.clone())).is_ok() {
            lost.remove(&name);
        } else if let Some(before) = before {
            fields.insert(name, before);
        } else {
            fields.remove(&name);
        }
    }
    let manifest = serde_json::from_value(Value::Object(fields)).unwrap_or(recovered);
    (manifest, lost)
}

/// Parses the complete members at the start of a truncated, indented object.
fn parse_truncated(text: &[u8]) -> Value {
    let text = String::from_utf8_lossy(text);
    let ends = text.match_indices(",\n  \"").map(|(end, _)| end).collect::<Vec<_>>();
    let members = |end: &usize| serde_json::from_str(&format!("{}\n}}", &text[..*end])).ok();
    ends.iter().rev().find_map(members).unwrap_or_default()
}

/// The script's name within that of a folder: `2026-11-21T033000Z-adaptive`.
fn script_name(folder: &str) -> String {
    let after = folder
        .split_once("Z-")
        .filter(|(stamp, name)| stamp.len() == "2026-11-21T033000".len() && !name.is_empty());
    after.map_or("script.rhai", |(_, name)| name).to_owned()
}

fn hash(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Completes a boundary from the run's result, if that is a boundary report. Returns a note about what was recovered.
pub(super) fn recover_points(boundaries: &mut [RecordedBoundary], result: Option<&Value>) -> Option<String> {
    let result = result.filter(|result| result["frontier"].is_array())?;
    let all: Vec<RecordedPoint> = result["points"]
        .as_array()?
        .iter()
        .map(recorded)
        .collect::<Option<_>>()?;
    // With several boundaries, the result belongs to the one whose points it starts with.
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
        let readable = Experiment::read(value, |_| None).is_ok();
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
mod recover_manifest_tests {
    use serde_json::json;

    use super::*;

    fn complete() -> Manifest {
        Manifest {
            schema: SCHEMA,
            run: "2026-11-21T033000Z-adaptive-3a7926".into(),
            status: "done".into(),
            seed: Some(7),
            set: json!({ "model": "m", "input": [1, 2] }).as_object().unwrap().clone(),
            simulated: true,
            ..Manifest::default()
        }
    }

    #[test]
    fn a_manifest_cut_at_any_byte_gives_its_complete_members() {
        let text = serde_json::to_string_pretty(&complete()).unwrap();
        for cut in 0..text.len() {
            let parts = parse_truncated(&text.as_bytes()[..cut]);
            let (manifest, lost) = fill_in(Manifest::default(), parts.as_object().cloned().unwrap_or_default());
            let expected = serde_json::to_value(complete()).unwrap();
            for (name, value) in serde_json::to_value(&manifest).unwrap().as_object().unwrap() {
                assert!(
                    lost.contains(name) || *value == expected[name],
                    "{name} after {cut} bytes"
                );
            }
        }
        let nearly = parse_truncated(&text.as_bytes()[..text.len() - 3]);
        assert!(nearly["simulated"] == true && nearly["set"]["model"] == "m", "{nearly}");
    }

    #[test]
    fn only_the_member_of_a_wrong_type_is_lost() {
        let parts = json!({ "status": 3, "seed": 9, "unknown": true });
        let (manifest, lost) = fill_in(complete(), parts.as_object().unwrap().clone());
        assert_eq!((manifest.status.as_str(), manifest.seed), ("done", Some(9)));
        assert!(lost.contains("status") && !lost.contains("seed") && !lost.contains("unknown"));
    }

    #[test]
    fn the_folder_names_the_script() {
        assert_eq!(script_name("2026-11-21T033000Z-adaptive"), "adaptive");
        assert_eq!(script_name("out"), "script.rhai");
    }
}

#[cfg(test)]
mod validate_tests {
    use super::ranges;

    #[test]
    fn line_numbers_are_listed_as_ranges() {
        assert_eq!(ranges(&[3]), "line 3");
        assert_eq!(ranges(&[3, 5, 6, 7]), "lines 3, 5 to 7");
        assert_eq!(ranges(&[1, 3, 5, 7, 9, 11, 13]), "lines 1, 3, 5, 7, 9, 11 and more");
    }
}
