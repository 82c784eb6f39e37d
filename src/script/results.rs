//! What `read_results` and `export_results` do: foreign files for scripts, which have none of their own.

use std::path::{Path, PathBuf};

use rhai::Map;
use serde_json::{Value, json};

use super::{BoundaryHandle, Host, options};
use crate::compare::export::TgiProfiler;
use crate::compare::import;
use crate::fault::{Fault, Result};
use crate::run::Event;

/// What the journal calls a file that was read: a resume takes it from there, whatever became of it.
const KIND: &str = "results";

/// The boundary of a foreign file that the user named.
pub(super) fn read(host: &Host, path: &str) -> Result<Value> {
    let args = json!({ "path": path });
    if let Some(answer) = host.run.replay(KIND, &args) {
        return Ok(answer);
    }
    let real = host.permits.check_file(Path::new(path), "resume_from")?;
    let subject = import::read(&real)?;
    let Some(boundary) = &subject.boundary else {
        return Err(Fault::usage(format!(
            "`{path}` holds {}, and no points that fitted or failed",
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

/// Writes the boundary into the run's folder; gives the file.
pub(super) fn write(host: &Host, map: &BoundaryHandle, format: &str, given: Map) -> Result<Option<PathBuf>> {
    if format != "tgi-profiler" {
        return Err(
            Fault::usage(format!("results cannot be written as `{format}`")).hint("the only format is `tgi-profiler`")
        );
    }
    let document = options::<TgiProfiler>(given)?.document(&map.lock())?;
    host.run.export("profile_res", &document)
}
