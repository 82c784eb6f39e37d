//! What was run, on what, with what: `manifest.json`. Written before the script's first line, and again when more is known.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Plan;
use super::folder::{Folder, not_a_run};
use crate::fault::{Fault, Kind, Result};

/// The version of every file in a run's folder, and of `--json`.
pub const SCHEMA: u32 = 1;

/// The manifest's name in a run's folder.
pub(super) const MANIFEST: &str = "manifest.json";

/// A run's manifest. Where the file is lost or broken, what is not known of it is empty.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
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
    /// Seed of everything random; always there in a file that is whole.
    pub seed: Option<u64>,
    /// What the user allowed.
    pub permissions: Vec<String>,
    /// Whether it may measure although others use the GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_gpu: bool,
    /// Operations that the script may use between two primitives, where the user set a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_operations: Option<u64>,
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
    pub fn read(folder: &Folder) -> Result<Self> {
        let path = folder.path().join(MANIFEST);
        let text = folder.read(MANIFEST)?.ok_or_else(|| not_a_run(folder.path()))?;
        let broken = |error: serde_json::Error| Fault::new(Kind::Io, format!("`{}`: {error}", path.display()));
        let value: Value = serde_json::from_slice(&text).map_err(broken)?;
        if value["schema"] != SCHEMA {
            return Err(foreign(&path, &value));
        }
        let manifest: Self = serde_json::from_value(value).map_err(broken)?;
        match manifest.seed {
            Some(_) => Ok(manifest),
            None => Err(Fault::new(
                Kind::Io,
                format!("`{}`: missing field `seed`", path.display()),
            )),
        }
    }

    /// Adds what the user allows a later life of the run: whoever repeats the run needs what any of its lives needed.
    pub(super) fn allow(&mut self, plan: &Plan) {
        for allowed in &plan.permissions {
            if !self.permissions.contains(allowed) {
                self.permissions.push(allowed.clone());
            }
        }
        self.shared_gpu |= plan.shared_gpu;
        self.max_operations = self.max_operations.max(plan.max_operations);
    }

    /// Writes it into a run's folder, whole or not at all.
    pub(super) fn write(&self, folder: &Folder) -> Result<()> {
        folder.replace_json(MANIFEST.as_ref(), self)
    }
}

/// The file is of another version.
pub(super) fn foreign(path: &Path, value: &Value) -> Fault {
    let schema = value.get("schema").and_then(Value::as_u64);
    Fault::usage(format!(
        "`{}` has schema {}, and this profiler knows {SCHEMA}",
        path.display(),
        schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string())
    ))
    .hint("use the version of profiler that made it")
}
