//! What can be known of a run whose manifest is lost or broken: from what is left of the file, the journal, the result and the folder's name.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::journal::{Entry, JOURNAL};
use super::manifest::{MANIFEST, Manifest, SCHEMA, Script, foreign};
use super::{Event, Folder};
use crate::fault::Result;

/// What the file `manifest.json` says.
pub(super) enum Kept {
    /// Everything.
    Whole(Box<Manifest>),
    /// Some of it, and why not the rest.
    Part(Map<String, Value>, String),
}

/// What the journal tells of the run as a whole.
#[derive(Debug, Default)]
pub(super) struct Clues {
    /// When the first event happened, and the last.
    pub(super) first: Option<String>,
    pub(super) last: Option<String>,
    /// How the last life ended, and when.
    ended: Option<(String, String)>,
    engines: Vec<Value>,
    simulated: bool,
}

impl Clues {
    /// Takes in one more event.
    pub(super) fn learn(&mut self, entry: &Entry) {
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

    /// Whether the last life is known to have ended.
    pub(super) fn has_end(&self) -> bool {
        self.ended.is_some()
    }

    /// The manifest as far as these tell it; `document` is `result.json`, null where there is none.
    pub(super) fn manifest(self, folder: &Folder, document: &Value) -> Manifest {
        let path = fs::canonicalize(folder.path()).unwrap_or_else(|_| folder.path().to_owned());
        let folder_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = |key: &str| document[key].as_str().map(str::to_owned);
        let name = script_of(&folder_name);
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

/// Reads the manifest as far as it can be.
///
/// # Errors
///
/// `usage` for that of another version.
pub(super) fn manifest(folder: &Folder) -> Result<Kept> {
    let nothing = |why: String| Ok(Kept::Part(Map::new(), why));
    let text = match folder.read(MANIFEST) {
        Ok(Some(text)) => text,
        Ok(None) => return nothing("manifest.json is not there".to_owned()),
        Err(fault) => return nothing(format!("manifest.json cannot be read ({})", fault.message)),
    };
    let (value, why) = match serde_json::from_slice::<Value>(&text) {
        Ok(value) => (value, "manifest.json was changed or damaged"),
        Err(_) => (beginning(&text), "manifest.json was cut off or damaged"),
    };
    if value["schema"].is_u64() && value["schema"] != SCHEMA {
        return Err(foreign(&folder.path().join(MANIFEST), &value));
    }
    if let Ok(manifest) = serde_json::from_value::<Manifest>(value.clone())
        && manifest.seed.is_some()
    {
        return Ok(Kept::Whole(Box::new(manifest)));
    }
    let parts = match value {
        Value::Object(parts) => parts,
        _ => Map::new(),
    };
    Ok(Kept::Part(parts, why.to_owned()))
}

/// Whether nothing happened since the manifest was written: the run is said to be under way, has no line in its journal, and no other file that a run
/// leaves.
pub(super) fn is_unbegun(folder: &Folder, manifest: &Manifest) -> bool {
    let journal = folder.file(JOURNAL);
    let empty = journal.is_ok_and(|file| file.is_none_or(|file| file.metadata().is_ok_and(|data| data.len() == 0)));
    let left = ["result.json", "logs", "loads", "memory", "tables"];
    manifest.status == "running" && empty && !left.iter().any(|name| folder.has(name))
}

/// Puts what is left of the file into what else is known, and gives the names of what the file does not tell.
pub(super) fn complete(known: Manifest, parts: Map<String, Value>) -> (Manifest, BTreeSet<String>) {
    let Ok(Value::Object(mut whole)) = serde_json::to_value(&known) else {
        return (known, BTreeSet::new());
    };
    let mut lost: BTreeSet<String> = whole.keys().cloned().collect();
    for (name, value) in parts {
        // What is only there where it was set, or what another version knows, has nothing before it.
        let before = whole.insert(name.clone(), value);
        if serde_json::from_value::<Manifest>(Value::Object(whole.clone())).is_ok() {
            lost.remove(&name);
        } else if let Some(before) = before {
            whole.insert(name, before);
        } else {
            whole.remove(&name);
        }
    }
    let manifest = serde_json::from_value(Value::Object(whole)).unwrap_or(known);
    (manifest, lost)
}

/// The members that are whole at the beginning of an indented object which was cut off.
fn beginning(text: &[u8]) -> Value {
    let text = String::from_utf8_lossy(text);
    let ends = text.match_indices(",\n  \"").map(|(end, _)| end).collect::<Vec<_>>();
    let whole = |end: &usize| serde_json::from_str(&format!("{}\n}}", &text[..*end])).ok();
    ends.iter().rev().find_map(whole).unwrap_or_default()
}

/// The script's name in that of the folder: `2026-11-21T033000Z-adaptive`.
fn script_of(folder: &str) -> String {
    let after = folder
        .split_once("Z-")
        .filter(|(stamp, name)| stamp.len() == "2026-11-21T033000".len() && !name.is_empty());
    after.map_or("script.rhai", |(_, name)| name).to_owned()
}

fn hash(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn whole() -> Manifest {
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
    fn a_manifest_cut_at_any_byte_gives_its_whole_members() {
        let text = serde_json::to_string_pretty(&whole()).unwrap();
        for cut in 0..text.len() {
            let parts = beginning(&text.as_bytes()[..cut]);
            let (manifest, lost) = complete(Manifest::default(), parts.as_object().cloned().unwrap_or_default());
            let expected = serde_json::to_value(whole()).unwrap();
            for (name, value) in serde_json::to_value(&manifest).unwrap().as_object().unwrap() {
                assert!(
                    lost.contains(name) || *value == expected[name],
                    "{name} after {cut} bytes"
                );
            }
        }
        let nearly = beginning(&text.as_bytes()[..text.len() - 3]);
        assert!(nearly["simulated"] == true && nearly["set"]["model"] == "m", "{nearly}");
    }

    #[test]
    fn a_member_of_another_shape_is_lost_alone() {
        let parts = json!({ "status": 3, "seed": 9, "unknown": true });
        let (manifest, lost) = complete(whole(), parts.as_object().unwrap().clone());
        assert_eq!((manifest.status.as_str(), manifest.seed), ("done", Some(9)));
        assert!(lost.contains("status") && !lost.contains("seed") && !lost.contains("unknown"));
    }

    #[test]
    fn the_folder_names_the_script() {
        assert_eq!(script_of("2026-11-21T033000Z-adaptive"), "adaptive");
        assert_eq!(script_of("out"), "script.rhai");
    }
}
