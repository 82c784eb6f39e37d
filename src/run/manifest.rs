//! `manifest.json`: what ran, with what, on which machine. Written before the script starts, and again as more is
//! known.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Plan;
use super::folder::{Folder, not_a_run};
use crate::fault::{Fault, Kind, Result};

/// Version of all files in a run's folder, and of `--json`.
pub const SCHEMA: u32 = 1;

pub(super) const MANIFEST: &str = "manifest.json";

/// A run's manifest. In a damaged folder, unknown fields are empty.
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
    /// When the first execution started, UTC.
    pub started: String,
    /// When the last execution ended, UTC.
    pub ended: Option<String>,
    /// The script.
    pub script: Script,
    /// SHA-256 of the modules imported, by name: `std/search.rhai`, or a path from the script's folder.
    pub modules: BTreeMap<String, String>,
    /// Values from `--params` and `--set`.
    pub set: Map<String, Value>,
    /// The parameters of the script, once it has declared them.
    pub parameters: Option<Value>,
    /// Random seed; always present in a complete file.
    pub seed: Option<u64>,
    /// Permissions given by the user.
    pub permissions: Vec<String>,
    /// Whether it may measure while others use the GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_gpu: bool,
    /// Limit of operations between two API calls, if the user set one.
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
    /// File name without extension.
    pub name: String,
    /// As given by the user: a path, or the name of a shipped script.
    pub path: String,
    /// SHA-256 of the text.
    pub sha256: String,
}

/// The machine that a run ran on.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// Host name.
    pub name: String,
    /// Kernel and release.
    pub kernel: String,
    /// Number of usable processors.
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

    /// Adds the permissions of a later execution: repeating the run needs all of them.
    pub(super) fn allow(&mut self, plan: &Plan) {
        for allowed in &plan.permissions {
            if !self.permissions.contains(allowed) {
                self.permissions.push(allowed.clone());
            }
        }
        self.shared_gpu |= plan.shared_gpu;
        self.max_operations = self.max_operations.max(plan.max_operations);
    }

    /// Writes the file atomically.
    pub(super) fn write(&self, folder: &Folder) -> Result<()> {
        folder.replace_json(MANIFEST.as_ref(), self)
    }
}

/// The error for a file of another schema version.
pub(super) fn foreign(path: &Path, value: &Value) -> Fault {
    let schema = value.get("schema").and_then(Value::as_u64);
    Fault::usage(format!(
        "`{}` has schema {}; this profiler reads schema {SCHEMA}",
        path.display(),
        schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string())
    ))
    .hint("use the profiler version that wrote it")
}
