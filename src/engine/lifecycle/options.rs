//! Options of an engine, with the same names for every engine, and the engine's interface to the rest of the program
//! ([`Context`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fault::{Fault, Result};
use crate::load::Tolerance;
use crate::prompt::{Hub, PromptCache};
use crate::run::{Limits, Run};
use crate::runtime::{
    GpuRuntime, Mount, Permits, RuntimeKind, Services, Target, bytes, environment, gpu_names, mounts,
};
use crate::task::Tasks;
use crate::telemetry::Source;

/// Options of `engines::describe` and `engines::attach`. `()` and `""` count as not given. An adapter sees every key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchOptions {
    /// Hugging Face model id, folder or file.
    pub model: Option<String>,
    /// `model` as it was given, before a folder's path was made absolute.
    #[serde(skip)]
    pub(crate) given_model: Option<String>,
    /// Revision of the model.
    pub revision: Option<String>,
    /// Tokenizer if it is not the model's own: id, folder or `tokenizer.json`.
    pub tokenizer: Option<String>,
    /// `docker`, `process`, `attach` or `sim`; `nvidia` or `amd` is `docker` with that runtime. Default: the adapter's
    /// choice.
    pub runtime: Option<String>,
    /// Docker image. Default: the adapter's.
    pub image: Option<String>,
    /// Process: the engine's program. Default: the adapter's.
    pub program: Option<String>,
    /// Port that the engine listens on inside its container. Default: the adapter's.
    pub port: Option<u16>,
    /// Docker: port of this machine at which the engine is published. Default: a free one.
    pub host_port: Option<u16>,
    /// Docker: host folders for the container.
    #[serde(deserialize_with = "mounts")]
    pub mounts: Vec<Mount>,
    /// Folder of the Hugging Face cache and token, as [`Hub::give`] got it from the command line.
    pub hf_home: Option<String>,
    /// Environment variable or file with the Hugging Face token, as [`Hub::give`] got it from the command line.
    pub hf_token_env: Option<String>,
    /// Attach: URL of the engine.
    pub url: Option<String>,
    /// Attach: environment variable that holds the server's API key. Default: `OPENAI_API_KEY`.
    pub api_key_env: Option<String>,
    /// Attach: name of a running container.
    pub container: Option<String>,
    /// GPUs by index or UUID.
    #[serde(deserialize_with = "gpu_names")]
    pub gpus: Vec<String>,
    /// Weight dtype: `bfloat16`, `float16`.
    pub dtype: Option<String>,
    /// Weight quantization, as the engine names it.
    pub quantization: Option<String>,
    /// KV cache dtype, as the engine names it.
    pub kv_cache_dtype: Option<String>,
    /// Tensor-parallel size.
    pub tensor_parallel: Option<u64>,
    /// Fraction of GPU memory that the engine may use, 0 to 1.
    pub memory_fraction: Option<f64>,
    /// Whether to capture CUDA graphs. Default: the engine's.
    pub cuda_graphs: Option<bool>,
    /// Speculation. Default: the engine's.
    pub speculation: Option<Speculation>,
    /// Whether to use the prefix cache. Default: the engine's.
    pub prefix_cache: Option<bool>,
    /// Whether in-process probes may query the engine's own processes. The engine then starts with a hook in its
    /// PYTHONPATH.
    pub in_process: bool,
    /// Whether to use random weights; then only the model's shape is needed.
    pub random_weights: bool,
    /// Further command-line arguments of the engine.
    pub engine_args: Vec<String>,
    /// Environment variables of the engine.
    #[serde(deserialize_with = "environment")]
    pub env: BTreeMap<String, String>,
    /// Limits that one start must serve. Default: the search range of the newest boundary.
    pub limits: Option<LimitsOption>,
    /// Whether the engine may choose the longest context that its memory allows, if it can, because the lengths of the
    /// limits are those of a search: one start, where one for all of the range would fail.
    pub fit_length: bool,
    /// Whether a start passes `limits.concurrency` on. Otherwise the engine uses its own default. Default: true.
    pub limit_concurrency: Option<bool>,
    /// Whether a point that the engine's own report rules out is answered without a start. Default: true.
    pub use_report: Option<bool>,
    /// Seconds until the engine must be ready. Loading a large model from a cold disk and compiling it can take tens of
    /// minutes.
    pub start_timeout: DefaultsTo<1800>,
    /// Seconds for GPU memory to return to its baseline before a start.
    pub settle_timeout: DefaultsTo<60>,
    /// Seconds between SIGTERM and SIGKILL.
    pub stop_grace: DefaultsTo<10>,
    /// Seconds that each request of a probe may take. Default: a minute for an attached server of unknown speed, else
    /// ten times the expected duration.
    pub request_timeout: Option<f64>,
    /// Tokens that may be missing from an answer that counts as `ok`.
    pub output_tolerance: Tolerance,
    /// Retries of a probe after an early end of text or an overloaded engine. Default: 3.
    pub retries: Option<u32>,
    /// Whether every probe and every load gets a fresh engine. Default: false.
    pub isolate: Option<bool>,
    /// Docker: memory limit in bytes, including swap.
    #[serde(deserialize_with = "bytes")]
    pub memory_limit: Option<u64>,
    /// Docker: bytes of /dev/shm.
    #[serde(deserialize_with = "bytes")]
    pub shm_size: Option<u64>,
    /// Lets the model's own code run in the engine; needs `--allow code`.
    pub trust_remote_code: bool,
    /// Memory samples per second, 1 to 1000.
    pub sample_hz: DefaultsTo<100>,
    /// Sim: name of a shipped profile, or a file.
    pub profile: Option<String>,
    /// Sim: further options of the simulated engine.
    pub sim: Option<Value>,
}

/// A numeric option with the default `N`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Option<f64>")]
pub struct DefaultsTo<const N: u32>(pub f64);

impl<const N: u32> From<Option<f64>> for DefaultsTo<N> {
    fn from(given: Option<f64>) -> Self {
        given.map_or_else(Self::default, Self)
    }
}

impl<const N: u32> Default for DefaultsTo<N> {
    fn default() -> Self {
        Self(f64::from(N))
    }
}

/// Where drafted tokens come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DraftMethod {
    /// The tokens that followed the same n-gram earlier in the text.
    #[default]
    Ngram,
    /// The model's own layers for later tokens (DeepSeek's multi-token prediction).
    Mtp,
    /// A head that was trained for the model (EAGLE, EAGLE-2).
    Eagle,
    /// A head of EAGLE-3.
    Eagle3,
    /// A smaller model with the same tokens.
    DraftModel,
}

/// Speculation: several tokens are drafted, and verified in one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculation {
    /// How tokens are drafted.
    #[serde(default)]
    pub method: DraftMethod,
    /// The EAGLE head or draft model.
    #[serde(default)]
    pub model: Option<String>,
    /// Maximum draft tokens per step.
    pub draft: u64,
    /// Longest n-gram. Default: 2.
    pub ngram: Option<u64>,
    /// Concurrency above which nothing is drafted. Default: no limit.
    pub max_concurrency: Option<u64>,
}

/// Limits as a script writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsOption {
    /// Longest input.
    pub input: u64,
    /// Longest output.
    pub output: u64,
    /// Longest input and output together. Default: input + output.
    pub total: Option<u64>,
    /// Maximum concurrent sequences. Default: 1.
    pub concurrency: Option<u64>,
}

impl From<LimitsOption> for Limits {
    fn from(option: LimitsOption) -> Self {
        let whole = Limits::new(option.input, option.output, option.concurrency.unwrap_or(1));
        Limits {
            total: option.total.unwrap_or(whole.total),
            ..whole
        }
    }
}

/// A `usage` error with a hint.
pub(crate) fn wrong<T>(message: impl Into<String>, hint: impl Into<String>) -> Result<T> {
    Err(Fault::usage(message).hint(hint))
}

/// Converts an option in seconds, from 0 to 10^7.
///
/// # Errors
///
/// `usage` for any other number.
pub(crate) fn seconds(name: &str, value: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(value) {
        Ok(time) if value <= 1e7 => Ok(time),
        _ => wrong(
            format!("option `{name}` is {value}, not a number of seconds"),
            "give seconds, from 0 to 10000000",
        ),
    }
}

/// Checks an optional number of seconds, which must not be 0.
pub(crate) fn some_seconds(name: &str, given: Option<f64>) -> Result<()> {
    match given.map(|given| seconds(name, given)).transpose()? {
        Some(Duration::ZERO) => wrong(format!("option `{name}` is 0 seconds"), "leave it out, or give more"),
        _ => Ok(()),
    }
}

impl LaunchOptions {
    /// The address to attach to, or else the container.
    pub(crate) fn target(&self) -> Option<Target> {
        let container = || Some(Target::Container(self.container.clone()?, self.port));
        self.url.clone().map(Target::Url).or_else(container)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let Some(model) = self.model.as_deref().filter(|model| model.starts_with('-')) {
            // The engine would read it as a flag.
            return wrong(
                format!("option `model` is `{model}`, no model"),
                "give a model id or a folder",
            );
        }
        for (name, given) in [
            ("start_timeout", Some(self.start_timeout.0)),
            ("settle_timeout", Some(self.settle_timeout.0)),
            ("stop_grace", Some(self.stop_grace.0)),
            ("request_timeout", self.request_timeout),
        ] {
            given.map(|given| seconds(name, given)).transpose()?;
        }
        let share = self.memory_fraction.unwrap_or(1.0);
        if !(share > 0.0 && share <= 1.0) {
            return wrong(
                format!("option `memory_fraction` is {share}, not in (0, 1]"),
                "give a share of the GPU's memory, such as 0.9",
            );
        }
        if let Some(given) = &self.speculation {
            if given.draft == 0 || given.ngram == Some(0) {
                return wrong(
                    "option `speculation` drafts nothing: its `draft` and `ngram` are 1 or more",
                    "leave it out to do without speculation",
                );
            }
            let drafts = matches!(
                given.method,
                DraftMethod::Eagle | DraftMethod::Eagle3 | DraftMethod::DraftModel
            );
            if drafts != given.model.is_some() {
                return wrong(
                    "option `speculation` has a `model` for the methods `eagle`, `eagle3` and `draft_model`, and for no other",
                    "name the EAGLE head or the draft model as `model`, or leave it out",
                );
            }
        }
        let (ranks, gpus) = (self.tensor_parallel.unwrap_or(0), self.gpus.len());
        if gpus > 0 && ranks > gpus as u64 {
            return wrong(
                format!("option `tensor_parallel` is {ranks}, and `gpus` names {gpus}"),
                "name a GPU for each rank, such as `gpus=[0,1]`",
            );
        }
        for (name, given, variable) in [
            ("hf_home", &self.hf_home, "HF_HOME"),
            ("hf_token_env", &self.hf_token_env, "HF_TOKEN"),
        ] {
            if given.as_ref().is_some_and(|given| !Hub::was_given(given)) {
                return Err(Fault::not_allowed(
                    format!("`{name}` counts only on the command line of a shipped script"),
                    format!("set the environment variable {variable} instead"),
                ));
            }
        }
        let hz = self.sample_hz.0;
        if !(1.0..=1000.0).contains(&hz) {
            return wrong(
                format!("option `sample_hz` is {hz}, not within 1 to 1000"),
                "100 samples per second are usual",
            );
        }
        Ok(())
    }

    /// Checks that the model and the tokenizer may be read, for prompts.
    pub(crate) fn check_files(&mut self, context: &Context) -> Result<()> {
        if let Some(model) = &self.model {
            context.permits.check_model(model, &context.home)?;
        }
        if let Some(tokenizer) = &mut self.tokenizer {
            *tokenizer = context.permits.check_model(tokenizer, &context.home)?;
        }
        Ok(())
    }

    /// The runtime that is named; `None` if the adapter chooses.
    pub(crate) fn named_runtime(&self) -> Result<Option<RuntimeKind>> {
        let name = match self.runtime.as_deref() {
            None | Some("auto") => return Ok(None),
            Some(_) if self.gpu_runtime().is_some() => return Ok(Some(RuntimeKind::Docker)),
            Some(name) => name,
        };
        serde_json::from_value(json!(name)).map(Some).map_err(|_| {
            Fault::usage(format!("there is no runtime `{name}`"))
                .hint("one of: docker, process, attach, sim, auto; nvidia or amd for docker with that runtime")
        })
    }

    /// The Docker runtime that gives the container its GPUs.
    pub(crate) fn gpu_runtime(&self) -> Option<GpuRuntime> {
        serde_json::from_value(json!(self.runtime)).ok()
    }

    pub(crate) fn isolates(&self) -> bool {
        self.isolate == Some(true)
    }

    /// Rejects options that this runtime cannot apply.
    pub(crate) fn check_runtime(&self, runtime: RuntimeKind) -> Result<()> {
        use RuntimeKind::{Attach, Docker, Process, Sim};
        const STARTS: &[RuntimeKind] = &[Docker, Process, Sim];
        const NATIVE: &[RuntimeKind] = &[Docker, Process];
        let published = matches!(runtime, Attach | Process) && self.container.is_some();
        let given = [
            ("dtype", self.dtype.is_some(), STARTS),
            ("quantization", self.quantization.is_some(), STARTS),
            ("kv_cache_dtype", self.kv_cache_dtype.is_some(), STARTS),
            ("tensor_parallel", self.tensor_parallel.is_some(), STARTS),
            ("memory_fraction", self.memory_fraction.is_some(), STARTS),
            ("cuda_graphs", self.cuda_graphs.is_some(), STARTS),
            ("speculation", self.speculation.is_some(), STARTS),
            ("prefix_cache", self.prefix_cache.is_some(), STARTS),
            ("random_weights", self.random_weights, STARTS),
            ("trust_remote_code", self.trust_remote_code, STARTS),
            ("engine_args", !self.engine_args.is_empty(), STARTS),
            ("stop_grace", self.stop_grace != DefaultsTo::default(), STARTS),
            ("isolate", self.isolates(), STARTS),
            ("env", !self.env.is_empty(), NATIVE),
            ("program", self.program.is_some(), &[Process]),
            ("container", self.container.is_some(), &[Attach, Process]),
            ("image", self.image.is_some(), &[Docker]),
            ("port", self.port.is_some() && !published, &[Docker]),
            ("host_port", self.host_port.is_some(), &[Docker]),
            ("mounts", !self.mounts.is_empty(), &[Docker]),
            ("memory_limit", self.memory_limit.is_some(), &[Docker]),
            ("shm_size", self.shm_size.is_some(), &[Docker]),
            ("api_key_env", self.api_key_env.is_some(), &[Attach]),
            ("profile", self.profile.is_some(), &[Sim]),
            ("sim", self.sim.as_ref().is_some_and(|sim| !empty(sim)), &[Sim]),
        ];
        let refused = given
            .into_iter()
            .find(|(_, given, runtimes)| *given && !runtimes.contains(&runtime));
        match refused {
            None => Ok(()),
            Some(("isolate", ..)) => wrong(
                "option `isolate` starts the engine anew for every point, and an engine that runs already is not restarted",
                "leave it out, or let this program start the engine",
            ),
            Some((name, ..)) if runtime == Attach => wrong(
                format!("option `{name}` is for a start: an engine that runs already keeps what it was started with"),
                "leave it out, or start the engine with it",
            ),
            Some((name, _, runtimes)) => {
                let names: Vec<_> = runtimes.iter().map(|runtime| format!("`{runtime}`")).collect();
                wrong(
                    format!("option `{name}` means nothing to the runtime `{runtime}`"),
                    format!("leave it out: it is for the runtime {}", names.join(" or ")),
                )
            }
        }
    }

    /// Makes a local model's path absolute, so that a container sees it under the same name.
    pub(crate) fn find_model(&mut self, home: &Path) {
        self.given_model.clone_from(&self.model);
        // A folder may happen to have the name of a model id; only one that contains a model counts.
        let is_model = |path: &Path| path.is_file() || path.join("config.json").is_file();
        let found = self
            .model
            .as_deref()
            .and_then(|model| home.join(model).canonicalize().ok());
        if let Some(path) = found.filter(|path| is_model(path)) {
            self.model = Some(path.display().to_string());
        }
    }

    /// The options for the journal: without environment values and URL passwords.
    pub fn shown(&self) -> Value {
        let mut shown = self.clone();
        for value in shown.env.values_mut() {
            "…".clone_into(value);
        }
        shown.url = shown.url.map(|url| without_password(&url));
        let Ok(Value::Object(mut map)) = serde_json::to_value(&shown) else {
            return Value::Null;
        };
        map.retain(|_, value| !empty(value));
        Value::Object(map)
    }
}

/// Removes user name and password from a URL.
pub(crate) fn without_password(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            // Both fail only for URLs that cannot have a user.
            let _ = parsed.set_username("");
            let _ = parsed.set_password(None);
            parsed.to_string()
        }
        _ => url.to_owned(),
    }
}

fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Returns the axes of the newest boundary. Called when an engine starts.
pub type Axes = Arc<dyn Fn() -> Option<Value> + Send + Sync>;

/// Opens the memory source for the named GPUs; `None` if the machine has no GPUs.
pub type Gpus = Arc<dyn Fn(&[String]) -> Result<Option<Box<dyn Source>>> + Send + Sync>;

/// The parts of the program that an engine uses.
#[derive(Clone)]
pub struct Context {
    /// Runs asynchronous work.
    pub tasks: Tasks,
    /// The run: journal, replay and events.
    pub run: Arc<Run>,
    /// The user's permissions.
    pub permits: Permits,
    /// The servers that this run started.
    pub services: Arc<Services>,
    /// Tokenizers and prompts of the run.
    pub prompt_cache: Arc<PromptCache>,
    /// Axes of the newest boundary.
    pub axes: Axes,
    /// Opens the memory source of the GPUs.
    pub gpus: Gpus,
    /// Folder of the main script; relative model paths start here.
    pub home: PathBuf,
    /// Seed for prompts.
    pub seed: u64,
    /// Whether other processes may use the GPUs.
    pub shared_gpu: bool,
    /// Time to wait for a server that is still loading. Default: [`WAIT`](super::WAIT).
    pub wait: Option<Duration>,
    /// Whether to start nothing.
    pub dry_run: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: Value) -> Result<LaunchOptions> {
        let options: LaunchOptions =
            serde_json::from_value(options).map_err(|error| Fault::usage(error.to_string()))?;
        options.check()?;
        Ok(options)
    }

    #[test]
    fn an_engine_that_runs_keeps_what_it_was_started_with() {
        assert!(LaunchOptions::default().check_runtime(RuntimeKind::Attach).is_ok());
        let options = LaunchOptions {
            prefix_cache: Some(false),
            ..LaunchOptions::default()
        };
        let fault = options.check_runtime(RuntimeKind::Attach).unwrap_err();
        assert!(fault.message.contains("`prefix_cache`"), "{fault}");
    }

    #[test]
    fn gpus_are_indices_and_uuids_or_one_of_them() {
        let gpus = |value: Value| read(json!({ "gpus": value })).map(|options| options.gpus);
        assert_eq!(gpus(json!([0, "GPU-1"])).unwrap(), ["0", "GPU-1"]);
        assert_eq!(gpus(json!(3)).unwrap(), ["3"]);
        assert!(gpus(json!([1.5])).is_err());
    }

    #[test]
    fn amounts_of_memory_are_bytes_or_texts_of_docker() {
        let shm = |value: Value| read(json!({ "shm_size": value })).map(|options| options.shm_size);
        for (given, bytes) in [
            (json!(1024), 1024),
            (json!("1g"), 1 << 30),
            (json!("1.5 GiB"), 3 << 29),
            (json!("64kb"), 64 << 10),
            (json!("512"), 512),
        ] {
            assert_eq!(shm(given.clone()).unwrap(), Some(bytes), "{given}");
        }
        for given in [json!("much"), json!("1 x"), json!(-1), json!("g"), json!("9e9t")] {
            assert!(shm(given.clone()).is_err(), "{given}");
        }
    }

    #[test]
    fn environment_variables_may_look_like_numbers() {
        let env = json!({ "SCALE": 0.02, "DEBUG": true, "NAME": "x" });
        let env = read(json!({ "env": env })).unwrap().env;
        assert_eq!((&*env["SCALE"], &*env["DEBUG"], &*env["NAME"]), ("0.02", "true", "x"));
        assert!(read(json!({ "env": { "X": [1] } })).is_err());
    }

    #[test]
    fn impossible_options_are_named() {
        let message = |options| read(options).unwrap_err().message;
        assert!(message(json!({ "memory_fraction": 1.5 })).contains("memory_fraction"));
        assert!(message(json!({ "start_timeout": -1 })).contains("start_timeout"));
        assert!(message(json!({ "sample_hz": 0 })).contains("sample_hz"));
        assert!(message(json!({ "speculation": { "draft": 0 } })).contains("speculation"));
        assert!(message(json!({ "speculation": { "draft": 2, "method": "eagle" } })).contains("`model`"));
    }

    #[test]
    fn memory_has_a_minute_to_come_back() {
        assert_eq!(
            read(json!({})).unwrap().settle_timeout.0.total_cmp(&60.0),
            std::cmp::Ordering::Equal
        );
    }

    #[test]
    fn limits_follow_from_each_other() {
        let options = read(json!({ "limits": { "input": 100, "output": 20 } })).unwrap();
        let limits: Limits = options.limits.unwrap().into();
        assert_eq!((limits.total, limits.concurrency), (120, 1));
    }

    #[test]
    fn secrets_are_not_shown() {
        let options = read(json!({ "url": "http://me:secret@127.0.0.1:1/x", "env": { "KEY": "secret" } })).unwrap();
        let shown = options.shown().to_string();
        assert!(
            !shown.contains("secret") && shown.contains("KEY") && shown.contains("127.0.0.1"),
            "{shown}"
        );
    }
}
