//! Memory by the stages of each engine's life, as a run's folder keeps it: `memory/<engine>.usage.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use crate::fault::{Fault, Result};

/// What the names of these files end in.
const SUFFIX: &str = ".usage.json";

/// The engines of a run in the order in which they were started, each with its stages; none of a run that watched no memory. Null stands
/// for a file that was cut off when the run was killed.
///
/// # Errors
///
/// `io` for a file that cannot be read.
pub(super) fn read(folder: &Path) -> Result<Vec<(String, Value)>> {
    let room = folder.join("memory");
    let entries = match fs::read_dir(&room) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Fault::io(&room, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| Fault::io(&room, &error))?.file_name();
        if let Some(engine) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) {
            names.push(engine.to_owned());
        }
    }
    // `engine-10` comes after `engine-9`.
    names.sort_by_key(|name| (name.len(), name.clone()));
    let stages = names.into_iter().map(|name| {
        let path = room.join(format!("{name}{SUFFIX}"));
        let text = fs::read_to_string(&path).map_err(|error| Fault::io(&path, &error))?;
        Ok((name, serde_json::from_str(&text).unwrap_or(Value::Null)))
    });
    stages.collect()
}
