//! Launch options of the simulated engine, and the settings that result from them and the profile's defaults. The
//! options correspond to the flags of the real engines. Tests can also request misbehaviour: wrong answers, and
//! failures with given messages. It is off by default.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::exit::Exit;
use super::profile::{Engine, MemoryProfile, Profile, is_share, is_size, names};
use crate::fault::{Fault, Result};

/// Output tokens that TGI's router validates and schedules at once; after each slice it resubmits the request.
pub(super) const TGI_SLICE: u64 = 1024;

/// Below this time scale, requests that were sent together no longer arrive together in model time.
const TOO_FAST: f64 = 0.01;
const GATHER_MS: u64 = 10;

/// The engine to simulate, as written in scripts:
/// `#{ profile: "llama-8b-24gb-vllm", options: #{ max_model_len: 8192 } }`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name of a shipped profile, or path of a TOML file.
    pub profile: String,
    /// Launch options.
    #[serde(default)]
    pub options: Options,
}

impl Spec {
    /// Loads and validates the profile and the options.
    pub fn resolve(&self) -> Result<(Profile, Options)> {
        self.options.check()?;
        Ok((Profile::load(&self.profile)?, self.options.clone()))
    }

    /// Reads a script's description. Its files must lie below `folder` and are named relative to it; the result has
    /// full paths.
    ///
    /// # Errors
    /// `usage` for an unknown or invalid key; `not_allowed` for a file elsewhere, whether or not it exists.
    pub fn from_script(value: serde_json::Value, folder: &Path) -> Result<Self> {
        let mut spec: Self = serde_path_to_error::deserialize(value)
            .map_err(|error| Fault::usage(format!("option `sim.{}`: {}", error.path(), error.inner())))?;
        if !names().any(|name| name == spec.profile) && spec.profile.contains(['/', '.']) {
            spec.profile = file_below(folder, Path::new(&spec.profile))?
                .to_string_lossy()
                .into_owned();
        }
        if let Some(tokenizer) = spec.options.tokenizer.take() {
            spec.options.tokenizer = Some(file_below(folder, &tokenizer)?);
        }
        Ok(spec)
    }
}

/// Canonical path of the file, if it lies below the folder.
fn file_below(folder: &Path, file: &Path) -> Result<PathBuf> {
    // A script in the current folder has an empty folder path.
    let named = Path::new(".").join(folder);
    let folder = named.canonicalize().map_err(|error| Fault::io(&named, &error))?;
    let found = folder.join(file).canonicalize().ok();
    found.filter(|found| found.starts_with(&folder)).ok_or_else(|| {
        Fault::not_allowed(
            format!("there is no file `{}` below the script's folder", file.display()),
            "put it next to the script, or start `profiler sim` with it and attach to its URL",
        )
    })
}

/// Launch options of scripts and of `profiler sim`, whose help shows these comments. In tokens, bytes and seconds
/// unless the name says otherwise. Options that the real engine also has mean the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The model's name on the wire
    #[arg(long)]
    pub model: Option<String>,
    /// Longest input and output together; -1: the largest that fits
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub max_model_len: Option<i64>,
    /// Longest input (TGI)
    #[arg(long, value_name = "TOKENS")]
    pub max_input_tokens: Option<u64>,
    /// Share of the device that the engine may use
    #[arg(long, value_name = "SHARE")]
    pub gpu_memory_utilization: Option<f64>,
    /// Maximum concurrent sequences
    #[arg(long, value_name = "N")]
    pub max_num_seqs: Option<u64>,
    /// Prompt tokens in one step
    #[arg(long, value_name = "TOKENS")]
    pub max_num_batched_tokens: Option<u64>,
    /// Prompts whole and in steps of their own, instead of in chunks beside decodes (vLLM)
    #[arg(long = "no-chunked-prefill", num_args = 0, default_missing_value = "false")]
    pub chunked_prefill: Option<bool>,
    /// No CUDA graphs
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub enforce_eager: Option<bool>,
    /// Type of the KV cache: auto or fp8
    #[arg(long, value_name = "TYPE")]
    pub kv_cache_dtype: Option<String>,
    /// Tokens drafted by n-gram speculation
    #[arg(long, value_name = "N")]
    pub num_speculative_tokens: Option<u64>,
    /// Concurrent requests above which nothing is drafted (TensorRT-LLM)
    #[arg(long, value_name = "N")]
    pub speculation_max_concurrency: Option<u64>,
    /// GPUs that share each layer
    #[arg(long, value_name = "N")]
    pub tensor_parallel: Option<u64>,
    /// Context over all slots (llama.cpp)
    #[arg(long, value_name = "TOKENS")]
    pub ctx_size: Option<u64>,
    /// Maximum concurrent requests; further ones get status 429 (TGI)
    #[arg(long, value_name = "N")]
    pub max_concurrent_requests: Option<u64>,
    /// Bytes of device memory to simulate
    #[arg(long, value_name = "BYTES")]
    pub memory_limit: Option<u64>,
    /// Effect of running out of memory while serving
    #[arg(long, value_enum, value_name = "VICTIM")]
    pub oom: Option<Victim>,
    /// Clip output beyond the length limit instead of refusing it (vLLM 0.33)
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub clip_output: Option<bool>,
    /// No prefix cache (vLLM, SGLang, TensorRT-LLM)
    #[arg(long = "no-prefix-cache", num_args = 0, default_missing_value = "false")]
    pub prefix_cache: Option<bool>,
    /// Count text prompts with this tokenizer.json instead of by words
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// Seconds of real time per second of model time; 0: no waiting
    #[arg(long, value_name = "FACTOR")]
    pub time_scale: Option<f64>,
    /// Milliseconds that an idle engine waits for more requests before its first step; 10 by default with --time-scale below 0.01
    // Requests sent together then run together even if model time is free.
    #[arg(long, value_name = "MS")]
    pub gather_ms: Option<u64>,
    /// Requirements of this start, independent of the engine. They set the engine's own options unless given.
    #[arg(skip)]
    pub serve: Option<Serve>,
    /// Misbehaviour.
    #[arg(skip)]
    pub misbehave: Misbehave,
}

/// Requirements of one start, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// Maximum input.
    pub input: u64,
    /// Maximum output.
    pub output: u64,
    /// Maximum input plus output.
    pub total: u64,
    /// Concurrent sequences.
    pub concurrency: u64,
    /// Whether an engine that can choose the longest context that fits is left to do so.
    #[serde(default)]
    pub fit_length: bool,
}

/// Effect of running out of memory while serving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// The request fails, the process stays alive.
    #[default]
    Request,
    /// The process exits with code 1.
    Process,
    /// The process is killed, as by the kernel in a container: exit code 137.
    Killed,
}

impl Options {
    /// If neither the user nor the profile limits input and output, takes the longest that fits the device. A
    /// standalone server should answer requests rather than fail like a real engine at the model's whole context.
    pub fn fit(&mut self, profile: &Profile) {
        if self.max_model_len.is_none() && profile.defaults.max_model_len.is_none() && profile.memory.grows() {
            self.max_model_len = Some(-1);
        }
    }

    /// Translates `serve` into options of this engine. Given options take precedence.
    pub(super) fn with_serve_flags(mut self, engine: Engine, max_num_seqs: u64) -> Self {
        let Some(serve) = self.serve.take() else { return self };
        let total = i64::try_from(serve.total).unwrap_or(i64::MAX);
        match engine {
            Engine::Vllm => {
                self.max_model_len = self.max_model_len.or(Some(if serve.fit_length { -1 } else { total }));
                self.max_num_seqs = self.max_num_seqs.or(Some(serve.concurrency.max(max_num_seqs)));
            }
            Engine::Sglang => {
                // SGLang reserves two tokens of the context, and seven of the input.
                let context = serve.total.saturating_add(2).max(serve.input.saturating_add(7));
                let context = i64::try_from(context).ok().filter(|_| !serve.fit_length);
                self.max_model_len = self.max_model_len.or(context);
                self.max_num_seqs = self.max_num_seqs.or(Some(serve.concurrency.max(max_num_seqs)));
            }
            Engine::TensorrtLlm => {
                self.max_model_len = self.max_model_len.or(Some(total));
                // Its adapter passes it as `max_batch_size`, which also limits the graphs.
                self.max_num_seqs = self.max_num_seqs.or(Some(serve.concurrency));
            }
            // As in its adapter: without lengths, it takes the longest that its memory allows.
            Engine::Tgi if serve.fit_length => {}
            Engine::Tgi => {
                self.max_model_len = self.max_model_len.or(Some(total));
                // As in its adapter: after each slice, the produced tokens become input.
                let slices = serve.output.saturating_sub(1) / TGI_SLICE * TGI_SLICE;
                let input = serve.input.saturating_add(slices).min(serve.total.saturating_sub(1));
                self.max_input_tokens = self.max_input_tokens.or(Some(input.max(serve.input)));
            }
            Engine::Llamacpp | Engine::Ollama => {
                // The context is divided among the slots; each needs room for one more token.
                let slots = self.max_num_seqs.unwrap_or(serve.concurrency).max(1);
                self.max_num_seqs = Some(slots);
                self.ctx_size = self
                    .ctx_size
                    .or(Some(serve.total.saturating_add(1).saturating_mul(slots)));
            }
            // It has no limits, and serves requests one after another.
            Engine::Transformers => {}
        }
        self
    }

    /// Rejects values that no engine accepts.
    pub fn check(&self) -> Result<()> {
        let positive = |value: Option<u64>| value != Some(0);
        let size = |value: Option<f64>| value.is_none_or(is_size);
        let share = self.gpu_memory_utilization.is_none_or(is_share);
        let rules = [
            ("gpu_memory_utilization", "in (0, 1]", share),
            (
                "time_scale",
                "a number from 0 to 1000000",
                size(self.time_scale) && self.time_scale.is_none_or(|scale| scale <= 1e6),
            ),
            (
                "slow_start",
                "a number of seconds from 0 to a day",
                size(self.misbehave.slow_start) && self.misbehave.slow_start.is_none_or(|time| time <= 86_400.0),
            ),
            ("max_num_seqs", "at least 1", positive(self.max_num_seqs)),
            (
                "max_num_batched_tokens",
                "at least 1",
                positive(self.max_num_batched_tokens),
            ),
            ("ctx_size", "at least 1", positive(self.ctx_size)),
            ("tensor_parallel", "at least 1", positive(self.tensor_parallel)),
            ("max_input_tokens", "at least 1", positive(self.max_input_tokens)),
        ];
        if let Some((name, range, _)) = rules.iter().find(|(.., holds)| !holds) {
            return Err(
                Fault::usage(format!("`{name}` must be {range}")).hint("leave it out for the profile's default")
            );
        }
        if let Some(length) = self.max_model_len.filter(|length| *length < 1 && *length != -1) {
            return Err(Fault::usage(format!("`max_model_len` is {length}"))
                .hint("give a length in tokens, or -1 for the largest that fits"));
        }
        if let Some(dtype) = self.kv_cache_dtype.as_deref()
            && !["auto", "fp8"].contains(&dtype)
        {
            return Err(Fault::usage(format!("unknown `kv_cache_dtype` `{dtype}`")).hint("one of: auto, fp8"));
        }
        Ok(())
    }
}

/// Resolved settings of a start.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) profile: Profile,
    pub(super) model: String,
    /// Maximum input plus output; `None` for the largest that fits.
    pub(super) length: Option<u64>,
    /// Whether a length was given; `transformers` has no limit of its own.
    pub(super) length_given: bool,
    pub(super) utilization: f64,
    pub(super) max_seqs: u64,
    pub(super) step_tokens: u64,
    pub(super) eager: bool,
    pub(super) fp8: bool,
    pub(super) draft_tokens: u64,
    /// Number of GPUs; `profile` describes each of them.
    pub(super) ranks: u64,
    pub(super) max_concurrent: Option<u64>,
    pub(super) time_scale: f64,
    pub(super) gather_ms: u64,
    pub(super) options: Options,
}

impl Setup {
    /// Merges options and profile. Rejects options that the profile cannot simulate, rather than ignoring them.
    pub(super) fn new(profile: Profile, options: &Options) -> Result<Self> {
        options.check()?;
        let options = options
            .clone()
            // A hybrid model does not start for more sequences than it has blocks for.
            .with_serve_flags(
                profile.engine,
                if profile.memory.has_state() {
                    1
                } else {
                    profile.defaults.max_num_seqs
                },
            );
        let pool = match &profile.memory {
            MemoryProfile::Pool(pool) => Some(pool),
            MemoryProfile::Dynamic(_) | MemoryProfile::Fixed(_) => None,
        };
        let grows = profile.memory.grows();
        let fixed = matches!(profile.memory, MemoryProfile::Fixed(_));
        let fp8 = options.kv_cache_dtype.as_deref() == Some("fp8");
        let draft_tokens = options.num_speculative_tokens.unwrap_or(0);
        let ranks = options.tensor_parallel.unwrap_or(1);
        let unsupported = [
            ("kv_cache_dtype", fp8 && pool.is_none()),
            (
                "num_speculative_tokens",
                draft_tokens > 0
                    && profile.engine != Engine::TensorrtLlm
                    && pool.is_none_or(|pool| pool.speculation.is_none()),
            ),
            (
                "speculation_max_concurrency",
                options.speculation_max_concurrency.is_some() && profile.engine != Engine::TensorrtLlm,
            ),
            ("tensor_parallel", ranks > 1 && profile.tensor_parallel.is_none()),
            ("enforce_eager", options.enforce_eager == Some(false) && pool.is_none()),
            (
                "gpu_memory_utilization",
                options.gpu_memory_utilization.is_some() && pool.is_none(),
            ),
            ("ctx_size", options.ctx_size.is_some() && !fixed),
            ("max_model_len", options.max_model_len == Some(-1) && !grows),
            ("oom", options.oom.is_some() && pool.is_some()),
            (
                "chunked_prefill",
                options.chunked_prefill == Some(false) && profile.engine != Engine::Vllm,
            ),
        ];
        if let Some((option, _)) = unsupported.iter().find(|(_, unsupported)| *unsupported) {
            return Err(Fault::usage(format!(
                "profile `{}` cannot simulate this value of `{option}`",
                profile.name
            ))
            .hint("remove the option, or choose a profile whose engine supports it"));
        }
        let defaults = profile.defaults;
        let requested = options
            .ctx_size
            .map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX))
            .or(options.max_model_len);
        let length = match requested {
            Some(tokens) => u64::try_from(tokens).ok(),
            None => defaults.max_model_len.or(Some(defaults.max_position_embeddings)),
        };
        let time_scale = options.time_scale.unwrap_or(defaults.time_scale);
        Ok(Self {
            model: options.model.clone().unwrap_or_else(|| profile.model.clone()),
            length,
            length_given: requested.is_some(),
            utilization: options
                .gpu_memory_utilization
                .unwrap_or(defaults.gpu_memory_utilization),
            max_seqs: options.max_num_seqs.unwrap_or(defaults.max_num_seqs),
            step_tokens: options
                .max_num_batched_tokens
                .unwrap_or(defaults.max_num_batched_tokens),
            eager: options.enforce_eager.unwrap_or(defaults.enforce_eager),
            fp8,
            draft_tokens,
            ranks,
            max_concurrent: options.max_concurrent_requests.or(defaults.max_concurrent_requests),
            time_scale,
            gather_ms: options
                .gather_ms
                .unwrap_or(if time_scale < TOO_FAST { GATHER_MS } else { 0 }),
            profile: profile.per_rank(ranks),
            options,
        })
    }

    /// The requested maximum of input plus output; the model's positions if it should be the largest that fits.
    pub(super) fn requested(&self) -> u64 {
        self.length.unwrap_or(self.profile.defaults.max_position_embeddings)
    }

    /// The reported version, marked so that nobody mistakes it for the real engine's.
    pub(super) fn version(&self) -> String {
        format!("{}+SIMULATED", self.profile.version)
    }
}

/// Misbehaviours; several can be combined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Misbehave {
    /// The first N requests of each start succeed. Default: 0.
    pub after: Option<u64>,
    /// From then on, every Nth request fails. Default: 1.
    pub every: Option<u64>,
    /// The process dies (exit code 1, connections reset) after this many tokens of a stream.
    pub die_mid_stream: Option<u64>,
    /// A stream stays open and silent after this many tokens.
    pub hang: Option<u64>,
    /// The first N generation requests are answered with status 429.
    pub refuse_429: Option<u64>,
    /// The output ends after this many tokens with `finish_reason` `stop`.
    pub end_early: Option<u64>,
    /// The output is clipped to this many tokens with `finish_reason` `length`.
    pub clip: Option<u64>,
    /// Requests wait and are never scheduled.
    pub starve: bool,
    /// Every event carries two tokens.
    pub two_tokens: bool,
    /// After this many tokens an error event is sent, then `[DONE]` if the API has it. The process stays alive.
    pub error_then_done: Option<u64>,
    /// The connection is closed in the middle of the answer, after this many tokens. The process stays alive.
    pub break_off: Option<u64>,
    /// The answer ends after this many tokens without a final event.
    pub end_silently: Option<u64>,
    /// The port is in use: the start fails as the engine's would.
    pub busy_port: bool,
    /// Seconds of real time before the start continues, regardless of the time scale.
    pub slow_start: Option<f64>,
    /// SIGTERM is ignored; [`stop`](super::SimHandle::stop) then waits for its grace period.
    pub ignore_sigterm: bool,
    /// Reported exit code, whatever happened: 0 after a crash, 137 without a kill.
    pub exit_code: Option<i32>,
    /// The start fails with these messages. Not available on the command line.
    pub fail_start: Option<FailedStart>,
    /// Requests fail with these messages. Not available on the command line.
    pub fail_request: Option<FailedRequest>,
}

/// Kinds accepted on the command line: the meaning of their number and its default; `None` if they take no number.
const KINDS: [(&str, Option<(&str, u32)>); 16] = [
    ("after", Some(("requests", 1))),
    ("every", Some(("requests", 1))),
    ("die_mid_stream", Some(("tokens before", 1))),
    ("hang", Some(("tokens before", 1))),
    ("refuse_429", Some(("requests", 1))),
    ("end_early", Some(("tokens", 1))),
    ("clip", Some(("tokens", 1))),
    ("starve", None),
    ("two_tokens", None),
    ("error_then_done", Some(("tokens before", 1))),
    ("break_off", Some(("tokens before", 1))),
    ("end_silently", Some(("tokens before", 1))),
    ("busy_port", None),
    ("slow_start", Some(("seconds", 5))),
    ("ignore_sigterm", None),
    ("exit_code", Some(("status", 0))),
];

impl Misbehave {
    /// Whether the request with this number, from 1, misbehaves.
    pub fn applies_to(&self, number: u64) -> bool {
        let later = number.checked_sub(self.after.unwrap_or(0));
        later.is_some_and(|later| later > 0 && later.is_multiple_of(self.every.unwrap_or(1).max(1)))
    }

    /// Adds one `KIND` or `KIND:n` from the command line.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let (kind, number) = match text.split_once(':') {
            Some((kind, number)) => (kind, Some(number)),
            None => (text, None),
        };
        let Some((_, default)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            let known = KINDS.map(|(name, number)| match number {
                Some((meaning, default)) => format!("{name} ({meaning}, {default})"),
                None => format!("{name} (no number)"),
            });
            return Err(
                Fault::usage(format!("unknown misbehaviour `{kind}`")).hint(format!("one of: {}", known.join(", ")))
            );
        };
        let value = match (number, default) {
            (None, None) => json!(true),
            (None, Some((_, default))) => json!(default),
            (Some(text), None) => {
                return Err(Fault::usage(format!(
                    "misbehaviour `{kind}` takes no number, not `{text}`"
                )));
            }
            // A text that is no number is rejected below.
            (Some(text), Some(_)) => text.parse().unwrap_or(json!(text)),
        };
        let mut all = serde_json::to_value(&*self).map_err(Fault::internal)?;
        all[kind] = value;
        *self = serde_json::from_value(all).map_err(|_| {
            let number = number.unwrap_or_default();
            Fault::usage(format!("misbehaviour `{kind}`: `{number}` is not a valid number"))
        })?;
        Ok(())
    }
}

/// A start that fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedStart {
    /// The start succeeds up to the first log line containing this text. Empty: it fails at once.
    #[serde(default)]
    pub after: String,
    /// Lines logged at the failure.
    pub log: Vec<String>,
    /// Exit status of the process.
    #[serde(default)]
    pub ending: Exit,
}

/// Requests that fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailedRequest {
    /// Only requests with more tokens (input and output) than this fail.
    pub longer_than: u64,
    /// Tokens streamed before the failure.
    pub after: u64,
    /// Lines logged at the failure.
    pub log: Vec<String>,
    /// Error message in the stream. `None`: the stream stays open and silent.
    pub message: Option<String>,
    /// If set, every request gets this HTTP status with `message` as body, whatever its length.
    pub status: Option<u16>,
    /// Effect on the engine.
    pub then: AfterFailure,
    /// Exit status, if the process exits.
    pub ending: Exit,
}

/// Effect of a failed request on the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterFailure {
    /// It keeps serving.
    #[default]
    Lives,
    /// The process stays alive, and every route answers 503.
    Dead,
    /// The process exits.
    Exits,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;

    #[test]
    fn a_scripts_files_must_lie_below_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("scripts");
        std::fs::create_dir(&inner).unwrap();
        for place in [&inner, &folder.path().to_path_buf()] {
            std::fs::write(place.join("mine.toml"), "name = 1").unwrap();
        }
        std::os::unix::fs::symlink("../mine.toml", inner.join("link.toml")).unwrap();
        let read = |spec: serde_json::Value| Spec::from_script(spec, &inner).and_then(|spec| spec.resolve());
        let kind = |profile: &str| {
            let read = read(serde_json::json!({ "profile": profile }));
            read.map(drop).map_err(|fault| fault.kind)
        };
        assert_eq!(kind("llama-8b-24gb-vllm"), Ok(()));
        // The file was read, but is not a valid profile.
        assert_eq!(kind("mine.toml"), Err(Kind::Usage));
        for outside in ["../mine.toml", "link.toml", "/etc/hostname", "../nowhere.toml"] {
            assert_eq!(kind(outside), Err(Kind::NotAllowed), "{outside}");
        }
        let tokenizer = serde_json::json!({ "tokenizer": "/etc/hostname" });
        let spec = serde_json::json!({ "profile": "llama-8b-24gb-vllm", "options": tokenizer });
        assert_eq!(read(spec).unwrap_err().kind, Kind::NotAllowed);
    }

    #[test]
    fn impossible_options_are_refused_by_name() {
        let wrong = [
            ("gpu_memory_utilization", serde_json::json!(1.5)),
            ("time_scale", serde_json::json!(-1.0)),
            ("max_model_len", serde_json::json!(0)),
            ("kv_cache_dtype", serde_json::json!("int3")),
            ("max_num_seqs", serde_json::json!(0)),
        ];
        for (name, value) in wrong {
            let options: Options = serde_json::from_value(serde_json::json!({ name: value })).unwrap();
            assert!(options.check().unwrap_err().message.contains(name), "{name}");
        }
        assert!(serde_json::from_value::<Options>(serde_json::json!({ "max_len": 1 })).is_err());
    }
}

#[cfg(test)]
mod misbehave_tests {
    use super::*;

    #[test]
    fn every_kind_is_accepted_with_and_without_its_number() {
        let mut all = Misbehave::default();
        for (kind, number) in KINDS {
            all.add(kind).unwrap();
            assert_eq!(all.add(&format!("{kind}:3")).is_ok(), number.is_some(), "{kind}");
        }
        assert_eq!(all.hang, Some(3));
        assert_eq!(all.slow_start, Some(3.0));
        assert!(all.two_tokens && all.busy_port && all.ignore_sigterm);
    }

    #[test]
    fn after_and_every_select_requests() {
        let selected = |after, every| {
            let misbehave = Misbehave {
                after,
                every,
                ..Misbehave::default()
            };
            (1..=9)
                .filter(|number| misbehave.applies_to(*number))
                .collect::<Vec<_>>()
        };
        assert_eq!(selected(None, None).len(), 9);
        assert_eq!(selected(Some(7), None), [8, 9]);
        assert_eq!(selected(None, Some(4)), [4, 8]);
        assert_eq!(selected(Some(3), Some(2)), [5, 7, 9]);
    }

    #[test]
    fn an_unknown_kind_lists_the_known_ones() {
        let fault = Misbehave::default().add("explode").unwrap_err();
        assert!(fault.message.contains("`explode`"));
        assert!(fault.hint.unwrap().contains("die_mid_stream"));
    }
}
