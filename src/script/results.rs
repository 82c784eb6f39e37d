//! Implements `read_results` and `export_results`: result files of other tools.

use std::path::{Path, PathBuf};

use rhai::Map;
use serde_json::{Value, json};

use super::{BoundaryHandle, Host, options};
use crate::compare::export::TgiProfiler;
use crate::compare::import;
use crate::fault::{Fault, Result};
use crate::run::Event;

/// The kind of these events in the journal. A resume replays the answer even if the file has changed.
const KIND: &str = "results";

/// Reads the boundary of another tool's file that the user permitted.
pub(super) fn read(host: &Host, path: &str) -> Result<Value> {
    let args = json!({ "path": path });
    if let Some(answer) = host.run.replay(KIND, &args) {
        return Ok(answer);
    }
    let real = host.permits.check_file(Path::new(path), "resume_from")?;
    let subject = import::read(&real)?;
    let Some(boundary) = &subject.boundary else {
        return Err(Fault::usage(format!(
            "`{path}` contains {}, but no points that fit or fail",
            subject.holds
        ))
        .hint("give a file of tgi-profiler"));
    };
    let points = boundary.points.iter();
    let points: Vec<Value> = points
        .map(|(point, answer)| json!({ "point": point, "answer": answer }))
        .collect();
    let answer = json!({
        "format": subject.format,
        "model": subject.model,
        "axes": boundary.described["axes"],
        "points": points,
        "notes": subject.notes,
    });
    host.run.note(Event::Done {
        kind: KIND.to_owned(),
        args,
        answer: answer.clone(),
    })?;
    Ok(answer)
}

/// Writes the boundary into the run's folder and returns the file.
pub(super) fn write(host: &Host, map: &BoundaryHandle, format: &str, given: Map) -> Result<Option<PathBuf>> {
    if format != "tgi-profiler" {
        return Err(
            Fault::usage(format!("results cannot be written as `{format}`")).hint("the only format is `tgi-profiler`")
        );
    }
    let document = options::<TgiProfiler>(given)?.document(&map.lock())?;
    host.run.export("profile_res", &document)
}
