//! Launch description of a server, as given by an adapter, `docker::start` or `process::start`.

use std::collections::BTreeMap;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// A server to start. Options that are never granted (`privileged`, `network`) exist so that they can be refused by
/// name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Launch {
    /// Docker: image reference.
    pub image: Option<String>,
    /// Docker: replaces the image's entry point if not empty.
    pub entrypoint: Vec<String>,
    /// Docker: arguments of the entry point.
    pub args: Vec<String>,
    /// Process: program and arguments; `{port}` is replaced by the chosen port.
    pub command: Vec<String>,
    /// Environment variables. Secrets are never put here; see `token`.
    pub env: BTreeMap<String, String>,
    /// Text files for the engine, by plain file name. `{files}` in arguments and environment is replaced by their
    /// folder.
    pub files: BTreeMap<String, String>,
    /// Whether probes may query its processes from inside; see `hook`.
    pub in_process: bool,
    /// Docker: port that the server listens on inside the container.
    pub port: u16,
    /// Docker: host folders to mount.
    pub mounts: Vec<Mount>,
    /// Docker: hub cache folder of the image (with the `models--…` folders). The host's cache is mounted there
    /// read-only.
    pub cache: Option<String>,
    /// Whether the engine needs the Hugging Face token.
    pub token: bool,
    /// GPUs by index or UUID; empty: none.
    #[serde(deserialize_with = "names")]
    pub gpus: Vec<String>,
    /// Docker: size of /dev/shm in bytes.
    pub shm_size: Option<u64>,
    /// Docker: ulimits by name (`memlock`, `stack`) in bytes; -1 means unlimited.
    pub ulimits: BTreeMap<String, i64>,
    /// Docker: memory limit in bytes; the swap limit equals it.
    pub memory_limit: Option<u64>,
    /// Seconds between SIGTERM and SIGKILL.
    pub stop_grace: Option<f64>,
    /// Always refused.
    pub privileged: bool,
    /// Refused unless empty or `bridge`.
    pub network: String,
    /// Refused unless empty: pid namespace.
    pub pid: String,
    /// Refused unless empty or `private`: ipc namespace; use `shm_size` for more shared memory.
    pub ipc: String,
    /// Refused unless empty: host devices; GPUs are selected with `gpus`.
    pub devices: Vec<String>,
    /// Refused unless empty: kernel capabilities.
    pub capabilities: Vec<String>,
    /// Refused unless empty: security options.
    pub security: Vec<String>,
    /// Sim: profile and options of the simulated engine.
    pub sim: Option<serde_json::Value>,
}

impl Launch {
    pub(super) fn grace(&self) -> Result<Option<Duration>> {
        let grace = self.stop_grace.map(Duration::try_from_secs_f64).transpose();
        grace.map_err(|_| Fault::usage("`stop_grace` is not a valid number of seconds"))
    }
}

/// A host folder mounted into a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Path on the host.
    pub host: String,
    /// Path inside the container.
    pub container: String,
    /// Whether the container may write to it; needs permission.
    #[serde(default)]
    pub writable: bool,
}

/// GPU indices may be written as numbers.
fn names<'de, D: serde::Deserializer<'de>>(list: D) -> std::result::Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an index or a UUID")]
    enum Name {
        Index(u32),
        Uuid(String),
    }
    let names = Vec::<Name>::deserialize(list)?.into_iter().map(|name| match name {
        Name::Index(index) => index.to_string(),
        Name::Uuid(uuid) => uuid,
    });
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_indices_or_uuids() {
        let launch: Launch = serde_json::from_str(r#"{"gpus": [0, "GPU-ab"]}"#).unwrap();
        assert_eq!(launch.gpus, ["0", "GPU-ab"]);
        assert!(serde_json::from_str::<Launch>(r#"{"gpus": [true]}"#).is_err());
    }
}
