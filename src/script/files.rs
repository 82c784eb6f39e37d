//! What the script module `files` does: a script has no files of its own, only those that the user named, and a place in the run's folder.

use std::path::Path;

use rhai::Dynamic;
use serde_json::{Value, json};

use super::{Caught, Host};
use crate::fault::{Fault, Kind, Result};
use crate::run::Event;

/// What the journal calls a file that was read: a resume takes it from there, whatever became of it.
const KIND: &str = "file";

/// The longest text that a script reads: it is kept in the journal.
const LONGEST: usize = 4 << 20;

/// How a file of the run is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In the place of what is there.
    Replace,
    /// At its end.
    Append,
}

/// The text of a file that the user named.
pub(super) fn read(host: &Host, path: &str) -> Result<String> {
    let args = json!({ "path": path });
    if let Some(Value::String(text)) = host.run.replay(KIND, &args) {
        return Ok(text);
    }
    let text = host.permits.read_file(Path::new(path), "file")?;
    if text.len() > LONGEST {
        return Err(
            Fault::new(Kind::Limit, format!("`{path}` has {} MiB", text.len() >> 20))
                .hint("scripts read up to 4 MiB; traces and prompts are given to `engine.load` by their names"),
        );
    }
    host.run.note(Event::Done {
        kind: KIND.to_owned(),
        args,
        answer: Value::String(text.clone()),
    })?;
    Ok(text)
}

/// What a file of `YAML` or `JSON` holds.
pub(super) fn parsed(host: &Host, path: &str, format: &str) -> Result<Value> {
    let text = read(host, path)?;
    let value = match format {
        "YAML" => yaml_serde::from_str(&text).map_err(|error| error.to_string()),
        _ => serde_json::from_str(&text).map_err(|error| error.to_string()),
    };
    value.map_err(|error| Fault::usage(format!("`{path}` is no {format}: {error}")))
}

/// Writes a file of the run; gives its path.
pub(super) fn write(host: &Host, name: &str, text: &str, way: Way) -> Caught<Dynamic> {
    let path = match way {
        Way::Replace => host.run.write_file(name, text)?,
        Way::Append => host.run.append_file(name, text)?,
    };
    Ok(path.map_or(Dynamic::UNIT, |path| path.display().to_string().into()))
}
