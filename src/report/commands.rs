//! The shell commands that resume or repeat a run.

use std::path::Path;

use serde_json::{Map, Value};

use crate::answer::{allow_flags, run_command};
use crate::fmt::shell_quoted;
use crate::run::RunStatus;
use crate::run::{AskedServer, Folder, Manifest, RecordedRun, has_hidden};

/// The command that resumes an unfinished run, as the terminal prints it; `None` if there is nothing to resume.
pub(super) fn resume(found: &RecordedRun, folder: &Folder) -> Option<String> {
    let manifest = &found.manifest;
    let resumable = found.totals.has_measured() || manifest.status != RunStatus::Failed;
    if found.done() || !resumable || !found.can_resume() || has_hidden(&manifest.set) {
        return None;
    }
    let (script, flags) = (&manifest.script.path, permission_flags(manifest));
    Some(resume_command(script, folder.path(), &manifest.set, &flags))
}

/// `profiler run SCRIPT --resume FOLDER FLAGS`. A folder may come from somebody else, so a resume may only use
/// addresses, containers and files named on its own command line. Parameters that name any are therefore repeated.
pub fn resume_command(script: &str, folder: &Path, set: &Map<String, Value>, flags: &[String]) -> String {
    let none = Map::new();
    let command = run_command(script, if names_something(set) { set } else { &none }, &[]);
    let folder = shell_quoted(&folder.display().to_string());
    [&[command, "--resume".to_owned(), folder], flags].concat().join(" ")
}

/// Whether parameters name an address, a container, or a file or folder of this machine.
fn names_something(set: &Map<String, Value>) -> bool {
    fn is_file(value: &Value) -> bool {
        match value {
            Value::String(text) => text.starts_with(['/', '.', '~']) || Path::new(text).exists(),
            Value::Array(values) => values.iter().any(is_file),
            Value::Object(values) => values.values().any(is_file),
            _ => false,
        }
    }
    set.iter()
        .any(|(name, value)| name == "url" || name == "container" || is_file(value))
}

/// The parameters that were set. If they name no model, adds the server's model that the run used: its only one, or the
/// one chosen at the terminal.
pub fn with_model(
    mut set: Map<String, Value>,
    parameters: Option<&Value>,
    asked: &[AskedServer],
) -> Map<String, Value> {
    let mut models = (asked.iter()).map(|asked| asked.model.as_ref().filter(|_| asked.address.is_some()));
    let has_parameter = parameters.is_some_and(|parameters| parameters.get("model").is_some());
    if let Some(Some(first)) = models.next()
        && has_parameter
        && models.all(|other| other == Some(first))
    {
        set.entry("model").or_insert_with(|| first.clone().into());
    }
    set
}

/// `profiler run SCRIPT --seed N` with all parameters and permissions of a run.
pub(super) fn repeat_command(found: &RecordedRun) -> String {
    let manifest = &found.manifest;
    let mut set = with_model(manifest.set.clone(), manifest.parameters.as_ref(), &found.totals.asked);
    if let Some(engine) = auto_engine(manifest) {
        set.insert("engine".to_owned(), engine.into());
    }
    let seed = manifest.seed.map(|seed| format!("--seed {seed}"));
    let flags: Vec<String> = seed.into_iter().chain(permission_flags(manifest)).collect();
    run_command(&manifest.script.path, &set, &flags)
}

/// The engine that `auto` resolved to, because it may resolve differently on another machine.
fn auto_engine(manifest: &Manifest) -> Option<String> {
    let requested = manifest.parameters.as_ref()?.get("engine")?;
    let mut used = manifest
        .engines
        .iter()
        .filter_map(|engine| engine["info"]["engine"].as_str());
    let first = used.next()?;
    (*requested == "auto" && used.all(|other| other == first)).then(|| first.to_owned())
}

fn permission_flags(manifest: &Manifest) -> Vec<String> {
    let mut flags = allow_flags(&manifest.permissions);
    if manifest.shared_gpu {
        flags.push("--shared-gpu".to_owned());
    }
    if manifest.insecure {
        flags.push("--insecure".to_owned());
    }
    if let Some(most) = manifest.max_operations {
        flags.extend(["--max-operations".to_owned(), most.to_string()]);
    }
    flags
}
