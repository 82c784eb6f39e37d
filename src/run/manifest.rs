//! What was run, on what, with what: `manifest.json`. Written before the script's first line, and again when more is known.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::disk;
use crate::fault::{Fault, Kind, Result};

/// The version of every file in a run's folder, and of `--json`.
pub const SCHEMA: u32 = 1;

/// A run's manifest.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Manifest {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// Version of the program that wrote it.
    pub profiler: String,
    /// The run's id.
    pub run: String,
    /// `running` (or killed), `done`, `failed`, `interrupted`.
    pub status: String,
    /// When the first life began, UTC.
    pub started: String,
    /// When the last one ended, UTC.
    pub ended: Option<String>,
    /// The script.
    pub script: Script,
    /// SHA-256 of the modules imported, by name: `std/search.rhai`, or a path from the script's folder.
    pub modules: BTreeMap<String, String>,
    /// What `--params` and `--set` gave.
    pub set: Map<String, Value>,
    /// The parameters that the script ran with, once it has asked for them.
    pub parameters: Option<Value>,
    /// Seed of everything random.
    pub seed: u64,
    /// What the user allowed.
    pub permissions: Vec<String>,
    /// Whether anything was simulated.
    pub simulated: bool,
    /// Every engine started: versions, launch line, image digest.
    pub engines: Vec<Value>,
    /// The GPUs of the machine, by UUID.
    pub gpus: Vec<Value>,
    /// Version of the GPU driver.
    pub driver: Option<String>,
    /// The machine.
    pub host: Machine,
}

/// A script as it ran.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Script {
    /// Its name: the file's, without extension.
    pub name: String,
    /// As the user gave it: a path, or the name of a shipped script.
    pub path: String,
    /// SHA-256 of its text.
    pub sha256: String,
}

/// The machine that a run ran on.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Kernel and its release.
    pub kernel: String,
    /// Processors that can be used.
    pub cpus: usize,
}

impl Machine {
    /// This machine.
    pub(super) fn own() -> Self {
        let read = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
            text.trim().to_owned()
        };
        Self {
            name: read("hostname"),
            kernel: format!("{} {}", read("ostype"), read("osrelease")),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
        }
    }
}

impl Manifest {
    /// Reads the manifest of a run's folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("manifest.json");
        let text = std::fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Fault::usage(format!("`{}` is not the folder of a run", folder.display()))
                .hint("give a folder that `profiler run` made; it has a manifest.json"),
            _ => Fault::io(&path, &error),
        })?;
        let broken = |error: serde_json::Error| Fault::new(Kind::Io, format!("`{}`: {error}", path.display()));
        let value: Value = serde_json::from_slice(&text).map_err(broken)?;
        match value.get("schema").and_then(Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => serde_json::from_value(value).map_err(broken),
            schema => Err(Fault::usage(format!(
                "`{}` has schema {}, and this profiler knows {SCHEMA}",
                path.display(),
                schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string())
            ))
            .hint("use the version of profiler that made it")),
        }
    }

    /// Writes it into a run's folder, whole or not at all.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        disk::replace_json(&folder.join("manifest.json"), self)
    }
}
