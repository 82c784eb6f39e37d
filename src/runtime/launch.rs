//! Launch description of a server, and its extras: text files, the probe hook, the Hugging Face token and the model
//! cache.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::TempDir;

use crate::fault::{Fault, Kind, Result};
use crate::prompt::{Hub, ModelId};
use crate::run::add_secrets;
use crate::telemetry;

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
    #[serde(deserialize_with = "environment")]
    pub env: BTreeMap<String, String>,
    /// Text files for the engine, by plain file name. `{files}` in arguments and environment is replaced by their
    /// folder.
    pub files: BTreeMap<String, String>,
    /// Whether probes may query the engine's processes from inside; see `add_hook`.
    pub in_process: bool,
    /// Docker: port that the server listens on inside the container.
    pub port: u16,
    /// Docker: port of this machine that it is published at. Set by the host, not by scripts.
    #[serde(skip)]
    pub host_port: Option<u16>,
    /// Docker: host folders to mount.
    #[serde(deserialize_with = "mounts")]
    pub mounts: Vec<Mount>,
    /// Docker: hub cache folder of the image (with the `models--…` folders). The model's folder of the host's cache is
    /// mounted there read-only.
    pub cache: Option<String>,
    /// Docker: the hub model that the engine loads. Set by the host, not by scripts.
    #[serde(skip)]
    pub model: Option<HubModel>,
    /// Process: the container of somebody else to start it in. Set by the host, not by scripts.
    #[serde(skip)]
    pub container: Option<String>,
    /// Whether the engine needs the Hugging Face token.
    pub token: bool,
    /// GPUs by index or UUID; empty: none.
    #[serde(deserialize_with = "gpu_names")]
    pub gpus: Vec<String>,
    /// Docker: the runtime by which it gets the GPUs, if the user chose it. Set by the host, not by scripts.
    #[serde(skip)]
    pub gpu_runtime: Option<GpuRuntime>,
    /// Docker: size of /dev/shm in bytes.
    #[serde(deserialize_with = "bytes")]
    pub shm_size: Option<u64>,
    /// Docker: ulimits by name (`memlock`, `stack`) in bytes; -1 means unlimited.
    pub ulimits: BTreeMap<String, i64>,
    /// Docker: memory limit in bytes; the swap limit equals it.
    #[serde(deserialize_with = "bytes")]
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
    pub sim: Option<Value>,
}

impl Launch {
    /// Whether it names a local model folder, which needs no token.
    pub(super) fn has_local_model(&self) -> bool {
        let mut words = self.args.iter().chain(&self.command);
        words.any(|word| {
            let path = Path::new(word.rsplit('=').next().unwrap_or(word));
            let mounted = self.mounts.iter().any(|mount| Path::new(&mount.container) == path);
            path.is_absolute() && (mounted || path.join("config.json").is_file())
        })
    }

    pub(super) fn grace(&self) -> Result<Option<Duration>> {
        let grace = self.stop_grace.map(Duration::try_from_secs_f64).transpose();
        grace.map_err(|_| Fault::usage("`stop_grace` is not a valid number of seconds"))
    }
}

/// A hub model that an engine loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubModel {
    /// Its name and revision.
    pub id: ModelId,
    /// Whether its weights are loaded; otherwise they are random, and only its configuration is read.
    pub weights: bool,
}

/// A vendor's runtime of Docker, as in `docker run --runtime=nvidia`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuRuntime {
    /// `nvidia`.
    Nvidia,
    /// `amd`.
    Amd,
}

impl GpuRuntime {
    /// Its name, which is also the vendor's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
        }
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
    /// Whether it is the folder of the model, which the host adds.
    #[serde(skip)]
    pub of_model: bool,
}

impl FromStr for Mount {
    type Err = Fault;

    /// Reads `HOST:INSIDE`, `HOST:INSIDE:ro` or `HOST:INSIDE:rw`, as in `docker run --volume`.
    fn from_str(text: &str) -> Result<Self> {
        let (paths, writable) = match text.rsplit_once(':') {
            Some((paths, "rw")) => (paths, true),
            Some((paths, "ro")) => (paths, false),
            _ => (text, false),
        };
        match paths.split_once(':') {
            Some((host, container)) if !host.is_empty() && container.starts_with('/') && !container.contains(':') => {
                Ok(Self {
                    host: host.to_owned(),
                    container: container.to_owned(),
                    writable,
                    of_model: false,
                })
            }
            _ => Err(Fault::usage(format!(
                "`{text}` is not a mount: write HOST:INSIDE, such as /data:/data, or HOST:INSIDE:rw for one that may be written to"
            ))),
        }
    }
}

/// Reads mounts: a list of maps `#{ host, container, writable }` and of texts as [`Mount`] reads them, or a single one.
///
/// # Errors
///
/// Any other value.
pub fn mounts<'de, D: serde::Deserializer<'de>>(mounts: D) -> std::result::Result<Vec<Mount>, D::Error> {
    let mounts = match Value::deserialize(mounts)? {
        Value::Array(mounts) => mounts,
        mount => vec![mount],
    };
    let read = |mount: Value| match mount.as_str() {
        Some(text) => text.parse().map_err(|fault: Fault| D::Error::custom(fault.message)),
        None => serde_json::from_value(mount).map_err(D::Error::custom),
    };
    mounts.into_iter().map(read).collect()
}

/// Reads GPUs: a list of indices and UUIDs, or a single one; `"all"` stands for all GPUs of this machine, if there are
/// any, and `"device=0,1"` for these, as in `docker run --gpus`.
///
/// # Errors
///
/// Any other value.
pub fn gpu_names<'de, D: serde::Deserializer<'de>>(names: D) -> std::result::Result<Vec<String>, D::Error> {
    let wrong = || D::Error::custom("a GPU is an index or a UUID; give one, or a list of those");
    let names = match Value::deserialize(names)? {
        Value::Array(names) => names,
        name => vec![name],
    };
    let text = |name| match name {
        Value::Number(index) => index
            .as_u64()
            .and_then(|index| u32::try_from(index).ok())
            .map(|index| index.to_string()),
        Value::String(uuid) => Some(uuid),
        _ => None,
    };
    let names: Vec<String> = names
        .into_iter()
        .map(|name| text(name).ok_or_else(wrong))
        .collect::<std::result::Result<_, _>>()?;
    let names: Vec<String> = match names.first().and_then(|first| first.strip_prefix("device=")) {
        // A command line may have split the list at its commas.
        Some(first) => std::iter::once(first)
            .chain(names[1..].iter().map(String::as_str))
            .flat_map(|names| names.split(','))
            .map(str::to_owned)
            .collect(),
        None => names,
    };
    if names != ["all"] {
        return Ok(names);
    }
    let all = telemetry::gpus();
    Ok(all.map_or(names, |gpus| gpus.iter().map(|gpu| gpu.index.to_string()).collect()))
}

/// Reads an amount of memory: a number of bytes, or a text in the format of `docker run --shm-size`, where `1g` is 1
/// GiB.
///
/// # Errors
///
/// Any other value.
pub fn bytes<'de, D: serde::Deserializer<'de>>(amount: D) -> std::result::Result<Option<u64>, D::Error> {
    let wrong = || D::Error::custom("an amount of memory is a number of bytes, or a text such as \"512m\" or \"1g\"");
    match Value::deserialize(amount)? {
        Value::Null => Ok(None),
        Value::String(text) => docker_size(&text).map(Some).ok_or_else(wrong),
        amount => amount.as_u64().map(Some).ok_or_else(wrong),
    }
}

/// Docker counts in powers of 1024 whether the unit is written `g`, `gb` or `gib`.
fn docker_size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let power = match unit.trim_start() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return None,
    };
    let size = number.parse::<f64>().ok()? * 1024_f64.powi(power);
    (size <= i64::MAX as f64).then_some(size as u64)
}

/// Reads environment variables. On a command line, a value such as `env.X=0.02` arrives as a number.
///
/// # Errors
///
/// A value that is not a text, number or boolean.
pub fn environment<'de, D: serde::Deserializer<'de>>(
    variables: D,
) -> std::result::Result<BTreeMap<String, String>, D::Error> {
    let variables = BTreeMap::<String, Value>::deserialize(variables)?;
    let text = |(name, value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(_) | Value::Bool(_) => Ok((name, value.to_string())),
        _ => Err(D::Error::custom(format!(
            "the environment variable `{name}` is no text"
        ))),
    };
    variables.into_iter().map(text).collect()
}

/// Replaced by the folder's path in arguments and environment.
const PLACEHOLDER: &str = "{files}";
/// Limit for all texts together: these are options, not data.
const MAX_TOTAL_BYTES: usize = 1 << 20;

/// Folder for the files inside a container. Writable.
pub(super) const CONTAINER_PATH: &str = "/profiler-files";

/// Replaces `{files}` by `folder`. Without files nothing is replaced, because the engine may expect the braces.
pub(super) fn with_folder(launch: &Launch, folder: &str) -> Launch {
    let mut launch = launch.clone();
    if launch.files.is_empty() {
        return launch;
    }
    let words = launch.entrypoint.iter_mut().chain(&mut launch.args);
    for text in words.chain(&mut launch.command).chain(launch.env.values_mut()) {
        *text = text.replace(PLACEHOLDER, folder);
    }
    launch
}

/// Refuses names that could leave the folder, and too much text.
pub(super) fn check_files(files: &BTreeMap<String, String>) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_plain = |name: &str| !name.starts_with('.') && (1..=100).contains(&name.len()) && name.chars().all(allowed);
    if let Some(name) = files.keys().find(|name| !is_plain(name)) {
        return Err(Fault::usage(format!("`files` names `{name}`, which is not a plain file name"))
            .hint("use letters, digits, `.`, `-` and `_`, such as `options.yaml`, and refer to it as `{files}/options.yaml`"));
    }
    if files.values().map(String::len).sum::<usize>() > MAX_TOTAL_BYTES {
        return Err(Fault::usage("`files` have more than 1 MiB of text").hint("mount a folder instead"));
    }
    Ok(())
}

/// Temporary folder with the files, removed when dropped. None if there are no files.
pub(super) fn temp_folder(files: &BTreeMap<String, String>) -> Result<Option<TempDir>> {
    if files.is_empty() {
        return Ok(None);
    }
    let folder = tempfile::Builder::new().prefix("profiler-files-").tempdir();
    let folder = folder.map_err(|error| {
        let message = format!("cannot create a temporary folder for the engine's files: {error}");
        Fault::new(Kind::Io, message)
    })?;
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::write(&path, text).map_err(|error| Fault::io(&path, &error))?;
    }
    Ok(Some(folder))
}

/// Tar archive of the folder `name` with the files, to be unpacked in `/` of a container. Readable by any user.
pub(super) fn archive(name: &str, files: &BTreeMap<String, String>) -> Result<Bytes> {
    let packed = || {
        let mut archive = tar::Builder::new(Vec::new());
        let mut folder = tar::Header::new_gnu();
        folder.set_entry_type(tar::EntryType::Directory);
        folder.set_mode(0o755);
        folder.set_size(0);
        archive.append_data(&mut folder, format!("{name}/"), std::io::empty())?;
        for (file, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, format!("{name}/{file}"), text.as_bytes())?;
        }
        archive.into_inner()
    };
    let packed: std::io::Result<Vec<u8>> = packed();
    packed
        .map(Bytes::from)
        .map_err(|error| Fault::internal(format!("cannot pack the engine's files: {error}")))
}

const HOOK: &str = include_str!("../../stdlib/probes/hook/sitecustomize.py");
/// Part of the socket names of the engine's processes.
const NAME_VARIABLE: &str = "PROFILER_IN_PROCESS";
const PYTHONPATH: &str = "PYTHONPATH";

/// Adds the hook to the launch, if requested. `inherited` is the PYTHONPATH that the engine would otherwise have;
/// `name` is the server's name.
///
/// Call after the permission check, because this PYTHONPATH is our own.
pub(super) fn add_hook(launch: &Launch, inherited: Option<String>, name: &str) -> Launch {
    let mut launch = launch.clone();
    if !launch.in_process {
        return launch;
    }
    let path = launch
        .env
        .remove(PYTHONPATH)
        .or(inherited)
        .filter(|path| !path.is_empty());
    let path = path.map_or_else(|| PLACEHOLDER.to_owned(), |path| format!("{PLACEHOLDER}:{path}"));
    // Native engines of several runs share one socket namespace.
    let name = format!("{}-{name}", std::process::id());
    launch.files.insert("sitecustomize.py".to_owned(), HOOK.to_owned());
    launch.env.insert(PYTHONPATH.to_owned(), path);
    launch.env.insert(NAME_VARIABLE.to_owned(), name);
    launch
}

/// Environment variables for the token: the current name, and the one that older servers read.
pub(super) const TOKEN_VARIABLES: [&str; 2] = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// Environment entries with the token; empty if the user has none.
pub(super) fn token_env() -> Vec<(&'static str, String)> {
    let token = Hub::from_env().ok().and_then(|hub| hub.token);
    token.map_or_else(Vec::new, |token| {
        add_secrets([token.reveal().to_owned()]);
        TOKEN_VARIABLES.map(|name| (name, token.reveal().to_owned())).into()
    })
}

/// The hub cache folders of models that the launch names. Other models, and the parent folder, which stores the token,
/// are never mounted. Folders without weights are not mounted either, because the engine could not add the weights.
pub(super) fn cached_models(launch: &Launch) -> BTreeSet<PathBuf> {
    let Ok(hub) = Hub::from_env() else {
        return BTreeSet::new();
    };
    let Ok(cache) = fs::canonicalize(&hub.cache) else {
        return BTreeSet::new();
    };
    let words = launch.args.iter().chain(&launch.entrypoint).chain(launch.env.values());
    // llama.cpp puts a quantization behind a colon.
    let named = words.filter_map(|word| word.rsplit('=').next()?.split(':').next()?.parse::<ModelId>().ok());
    let named = named.map(|id| HubModel { id, weights: true });
    let models = named.filter(|model| launch.model.as_ref().is_none_or(|own| own.id.name != model.id.name));
    models
        .chain(launch.model.clone())
        .filter(|model| hub.is_complete(&model.id, model.weights))
        .map(|model| cache.join(model.id.folder()))
        .collect()
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

    #[test]
    fn gpus_and_mounts_are_written_as_for_docker() {
        let read = |text: &str| serde_json::from_str::<Launch>(text);
        for text in [r#"{"gpus": "device=0,GPU-ab"}"#, r#"{"gpus": ["device=0", "GPU-ab"]}"#] {
            assert_eq!(read(text).unwrap().gpus, ["0", "GPU-ab"], "{text}");
        }
        let mount = |host: &str, container: &str, writable| Mount {
            host: host.to_owned(),
            container: container.to_owned(),
            writable,
            of_model: false,
        };
        let given = r#"{"mounts": ["./data:/data", "/a:/b:ro", "/a:/c:rw", {"host": "/h", "container": "/i"}]}"#;
        assert_eq!(
            read(given).unwrap().mounts,
            [
                mount("./data", "/data", false),
                mount("/a", "/b", false),
                mount("/a", "/c", true),
                mount("/h", "/i", false)
            ]
        );
        assert_eq!(
            read(r#"{"mounts": "/a:/b"}"#).unwrap().mounts,
            [mount("/a", "/b", false)]
        );
        for wrong in [r#""/a""#, r#""/a:b""#, r#"":/b""#, r#""/a:/b:z""#, "1"] {
            let read = read(&format!(r#"{{"mounts": [{wrong}]}}"#));
            assert!(read.is_err(), "{wrong}: {read:?}");
        }
    }

    fn one_file(name: &str) -> BTreeMap<String, String> {
        [(name.to_owned(), "dtype: auto\n".to_owned())].into()
    }

    #[test]
    fn only_plain_names_are_files() {
        assert!(check_files(&one_file("options.yaml")).is_ok());
        for name in [
            "../x",
            "/etc/passwd",
            "a/b",
            "",
            ".",
            "..",
            ".hidden",
            "a\\b",
            "a b",
            "ü",
        ] {
            assert!(
                check_files(&one_file(name))
                    .unwrap_err()
                    .message
                    .contains("plain file name"),
                "{name}"
            );
        }
        let large = [("a".to_owned(), "x".repeat(MAX_TOTAL_BYTES + 1))].into();
        assert!(check_files(&large).is_err());
    }

    #[test]
    fn the_placeholder_is_replaced() {
        let launch = Launch {
            args: vec!["--config={files}/a".into()],
            command: vec!["x".into(), "{files}".into()],
            env: [("CONFIG".to_owned(), "{files}/a".to_owned())].into(),
            ..Launch::default()
        };
        assert_eq!(with_folder(&launch, "/f"), launch, "there are no files");
        let launch = Launch {
            files: one_file("a"),
            ..launch
        };
        let launch = with_folder(&launch, "/f");
        assert_eq!(
            (&launch.args[0], &launch.command[1], &launch.env["CONFIG"]),
            (&"--config=/f/a".to_owned(), &"/f".to_owned(), &"/f/a".to_owned())
        );
    }

    #[test]
    fn a_temporary_folder_is_removed_on_drop() {
        let folder = temp_folder(&one_file("a.yaml")).unwrap().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(fs::read_to_string(path.join("a.yaml")).unwrap(), "dtype: auto\n");
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn the_existing_path_comes_after_the_hook() {
        let mut launch = Launch::default();
        assert_eq!(
            add_hook(&launch, Some("/image".into()), "engine-1"),
            launch,
            "not requested"
        );
        launch.in_process = true;
        let path = |launch: &Launch, inherited: Option<&str>| {
            add_hook(launch, inherited.map(Into::into), "x").env[PYTHONPATH].clone()
        };
        assert_eq!(path(&launch, None), "{files}");
        assert_eq!(path(&launch, Some("/image")), "{files}:/image");
        launch.env.insert(PYTHONPATH.into(), "/own".into());
        assert_eq!(path(&launch, Some("/image")), "{files}:/own");
        assert!(
            add_hook(&launch, None, "engine-1")
                .files
                .contains_key("sitecustomize.py")
        );
    }
}
