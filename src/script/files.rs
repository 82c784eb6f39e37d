//! The script module `files`: reads files that the user permitted, writes files of the run's folder.

use std::path::Path;

use rhai::Dynamic;
use serde_json::{Value, json};

use super::{Caught, Host};
use crate::fault::{Fault, Kind, Result};
use crate::run::Event;

/// The kind of these events in the journal. A resume replays the text even if the file has changed.
const KIND: &str = "file";

/// Longest text that a script can read, in bytes: it is stored in the journal.
const MAX_TEXT: usize = 4 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMode {
    Replace,
    Append,
}

/// Reads a permitted file.
pub(super) fn read(host: &Host, path: &str) -> Result<String> {
    let args = json!({ "path": path });
    if let Some(Value::String(text)) = host.run.replay(KIND, &args) {
        return Ok(text);
    }
    let text = host.permits.read_file(Path::new(path), "file")?;
    if text.len() > MAX_TEXT {
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

/// Reads and parses a `YAML` or `JSON` file.
pub(super) fn parse(host: &Host, path: &str, format: &str) -> Result<Value> {
    let text = read(host, path)?;
    let value = match format {
        "YAML" => yaml_serde::from_str(&text).map_err(|error| error.to_string()),
        _ => serde_json::from_str(&text).map_err(|error| error.to_string()),
    };
    value.map_err(|error| Fault::usage(format!("`{path}` is not valid {format}: {error}")))
}

/// Writes a file of the run and returns its path.
pub(super) fn write(host: &Host, name: &str, text: &str, mode: WriteMode) -> Caught<Dynamic> {
    let path = match mode {
        WriteMode::Replace => host.run.write_file(name, text)?,
        WriteMode::Append => host.run.append_file(name, text)?,
    };
    Ok(path.map_or(Dynamic::UNIT, |path| path.display().to_string().into()))
}
