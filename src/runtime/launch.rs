//! What to start: the description that an adapter, or `docker::start` and `process::start`, give.

use std::collections::BTreeMap;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};

/// A server to start. Fields that ask for what is never given (`privileged`, `network`) exist so that they can be refused by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Launch {
    /// Docker: the image.
    pub image: Option<String>,
    /// Docker: replaces the image's entry point where not empty.
    pub entrypoint: Vec<String>,
    /// Docker: the arguments of the entry point.
    pub args: Vec<String>,
    /// Process: the program and its arguments; `{port}` stands for the port chosen.
    pub command: Vec<String>,
    /// Environment. Values of secrets are never put here: see `token`.
    pub env: BTreeMap<String, String>,
    /// Text files that the engine reads, by plain names; `{files}` in arguments and environment stands for their folder.
    pub files: BTreeMap<String, String>,
    /// Whether probes may ask its processes from within: see `hook`.
    pub in_process: bool,
    /// Docker: the port that the server listens on inside the container.
    pub port: u16,
    /// Docker: folders of the host.
    pub mounts: Vec<Mount>,
    /// Docker: where the image keeps its hub cache (the folder of `models--…` folders); the host's is mounted there read-only.
    pub cache: Option<String>,
    /// Whether the engine needs the Hugging Face token.
    pub token: bool,
    /// GPUs by index or UUID; empty: none.
    #[serde(deserialize_with = "names")]
    pub gpus: Vec<String>,
    /// Docker: size of /dev/shm in bytes.
    pub shm_size: Option<u64>,
    /// Docker: limits of its processes by name, `memlock` and `stack`, in bytes; -1: none.
    pub ulimits: BTreeMap<String, i64>,
    /// Docker: memory limit in bytes; the swap limit equals it.
    pub memory_limit: Option<u64>,
    /// Seconds between the polite and the final signal.
    pub stop_grace: Option<f64>,
    /// Refused.
    pub privileged: bool,
    /// Refused unless empty or `bridge`.
    pub network: String,
    /// Refused unless empty: another pid namespace.
    pub pid: String,
    /// Refused unless empty or `private`: another ipc namespace; `shm_size` gives room for shared memory.
    pub ipc: String,
    /// Refused unless empty: devices of the host; GPUs are named by `gpus`.
    pub devices: Vec<String>,
    /// Refused unless empty: kernel capabilities.
    pub capabilities: Vec<String>,
    /// Refused unless empty: security options.
    pub security: Vec<String>,
    /// Sim: profile and behaviour of the simulated engine.
    pub sim: Option<serde_json::Value>,
}

impl Launch {
    /// `stop_grace` as a time.
    pub(super) fn grace(&self) -> Result<Option<Duration>> {
        let grace = self.stop_grace.map(Duration::try_from_secs_f64).transpose();
        grace.map_err(|_| Fault::usage("`stop_grace` is no number of seconds"))
    }
}

/// A folder of the host inside a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The folder on the host.
    pub host: String,
    /// Where the container sees it.
    pub container: String,
    /// Whether the container may write there: needs the user's word.
    #[serde(default)]
    pub writable: bool,
}

/// Indices may be written as numbers.
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
