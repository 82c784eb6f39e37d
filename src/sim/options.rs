//! Launch options of the simulated engine. They mirror the flags of the engines that it stands in for; what is left out
//! comes from the profile.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::misbehave::Misbehave;
use super::profile::{Engine, Profile, names};
use crate::fault::{Fault, Result};

/// What to simulate, as a script writes it: `#{ profile: "llama-8b-24gb-vllm", options: #{ max_model_len: 8192 } }`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// A shipped profile's name, or the path of a TOML file.
    pub profile: String,
    /// Launch options.
    #[serde(default)]
    pub options: Options,
}

impl Spec {
    /// The profile, read and checked, and the options.
    pub fn resolve(&self) -> Result<(Profile, Options)> {
        self.options.check()?;
        Ok((Profile::load(&self.profile)?, self.options.clone()))
    }

    /// Reads what a script describes. Its files lie below `folder` and are named relative to it; afterwards by their whole path.
    ///
    /// # Errors
    /// `usage` for an unknown or wrong key; `not_allowed` for a file elsewhere, whether it exists or not.
    pub fn of_script(value: serde_json::Value, folder: &Path) -> Result<Self> {
        let mut spec: Self = serde_path_to_error::deserialize(value)
            .map_err(|error| Fault::usage(format!("option `sim.{}`: {}", error.path(), error.inner())))?;
        if !names().any(|name| name == spec.profile) && spec.profile.contains(['/', '.']) {
            spec.profile = below(folder, Path::new(&spec.profile))?.to_string_lossy().into_owned();
        }
        if let Some(tokenizer) = spec.options.tokenizer.take() {
            spec.options.tokenizer = Some(below(folder, &tokenizer)?);
        }
        Ok(spec)
    }
}

/// The file, where it lies below the folder after every link is followed.
fn below(folder: &Path, file: &Path) -> Result<PathBuf> {
    // A script in the current folder has a folder without a name.
    let folder = Path::new(".").join(folder);
    let folder = folder.canonicalize().map_err(|error| Fault::io(&folder, &error))?;
    let found = folder.join(file).canonicalize().ok();
    found.filter(|found| found.starts_with(&folder)).ok_or_else(|| {
        Fault::not_allowed(
            format!("no file `{}` below the script's folder", file.display()),
            "put it beside the script, or start `profiler sim` with it and attach to its URL",
        )
    })
}

/// Launch options. Tokens, bytes and seconds unless the name says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The model's name on the wire.
    pub model: Option<String>,
    /// vLLM, TGI (`max-total-tokens`), transformers: longest input and output together. -1: the largest that fits.
    pub max_model_len: Option<i64>,
    /// TGI: longest input.
    pub max_input_tokens: Option<u64>,
    /// Share of the device that the engine may use, 0 to 1 (`cuda-memory-fraction` of TGI).
    pub gpu_memory_utilization: Option<f64>,
    /// Sequences served at once (`parallel` of llama.cpp).
    pub max_num_seqs: Option<u64>,
    /// Prompt tokens computed in one step.
    pub max_num_batched_tokens: Option<u64>,
    /// No CUDA graphs.
    pub enforce_eager: Option<bool>,
    /// `auto` (the model's type) or `fp8`.
    pub kv_cache_dtype: Option<String>,
    /// Tokens drafted by n-gram speculation; 0: none.
    pub num_speculative_tokens: Option<u64>,
    /// TensorRT-LLM: requests at once above which nothing is drafted; graphs for draft length 0 are captured too.
    pub speculation_max_concurrency: Option<u64>,
    /// GPUs that share each layer.
    pub tensor_parallel: Option<u64>,
    /// llama.cpp, Ollama: context over all slots.
    pub ctx_size: Option<u64>,
    /// TGI: generation requests beyond so many are answered with 429.
    pub max_concurrent_requests: Option<u64>,
    /// Bytes that the device seems to have, where fewer than the profile's.
    pub memory_limit: Option<u64>,
    /// What dies when memory runs out while serving, in the dynamic style.
    pub oom: Option<Victim>,
    /// vLLM 0.33 and later: output beyond the length limit is clipped instead of refused.
    pub clip_output: Option<bool>,
    /// vLLM, SGLang, TensorRT-LLM: whether prompts that begin alike are read once; they are unless it is false.
    pub prefix_cache: Option<bool>,
    /// A `tokenizer.json` that text prompts are counted with; without it words are counted.
    pub tokenizer: Option<PathBuf>,
    /// Seconds of real time per second of model time. 0: everything at once; 1: as slow as the real engine.
    pub time_scale: Option<f64>,
    /// An idle engine that is asked waits until nobody else has come for so long (real milliseconds) before its first step. Requests
    /// that are sent together are then resident together even when model time is free; then it also holds them until its metrics
    /// were read while they all run, or for 100 ms.
    pub gather_ms: Option<u64>,
    /// What this start must serve, in the words of every engine: becomes the profile's engine's own flags where they are not given.
    pub serve: Option<Serve>,
    /// What to do wrong.
    pub misbehave: Misbehave,
}

/// What one start must serve, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// Longest input.
    pub input: u64,
    /// Longest output.
    pub output: u64,
    /// Longest input and output together.
    pub total: u64,
    /// Sequences at once.
    pub concurrency: u64,
}

/// What dies when memory runs out while serving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// The request gets an error, the process lives on.
    #[default]
    Request,
    /// The process exits with status 1.
    Process,
    /// The process is killed, as the kernel does to a container: exit 137.
    Killed,
}

impl Options {
    /// The options with `serve` turned into flags of this engine. A flag that was given stands.
    #[must_use]
    pub(super) fn serving(mut self, engine: Engine, max_num_seqs: u64) -> Self {
        let Some(serve) = self.serve.take() else { return self };
        let total = i64::try_from(serve.total).unwrap_or(i64::MAX);
        match engine {
            Engine::Vllm => {
                self.max_model_len = self.max_model_len.or(Some(total));
                self.max_num_seqs = self.max_num_seqs.or(Some(serve.concurrency.max(max_num_seqs)));
            }
            Engine::Sglang => {
                // Of a context two tokens are never served, and of an input seven.
                let context = serve.total.saturating_add(2).max(serve.input.saturating_add(7));
                self.max_model_len = self.max_model_len.or(i64::try_from(context).ok());
                self.max_num_seqs = self.max_num_seqs.or(Some(serve.concurrency.max(max_num_seqs)));
            }
            Engine::TensorrtLlm => {
                self.max_model_len = self.max_model_len.or(Some(total));
                // Its adapter gives it as `max_batch_size`, which bounds the graphs too.
                self.max_num_seqs = self.max_num_seqs.or(Some(serve.concurrency));
            }
            Engine::Tgi => {
                self.max_model_len = self.max_model_len.or(Some(total));
                self.max_input_tokens = self.max_input_tokens.or(Some(serve.input));
            }
            Engine::Llamacpp | Engine::Ollama => {
                // Each slot has its part of the context, and room for one token more than is asked.
                let slots = self.max_num_seqs.unwrap_or(serve.concurrency).max(1);
                self.max_num_seqs = Some(slots);
                self.ctx_size = self
                    .ctx_size
                    .or(Some(serve.total.saturating_add(1).saturating_mul(slots)));
            }
            // It has no limits to set; requests are answered one after another.
            Engine::Transformers => {}
        }
        self
    }

    /// Refuses what no engine takes.
    pub fn check(&self) -> Result<()> {
        if let Some(share) = self.gpu_memory_utilization
            && !(share > 0.0 && share <= 1.0)
        {
            return Err(Fault::usage(format!(
                "`gpu_memory_utilization` is {share}, not in (0, 1]"
            )));
        }
        if let Some(scale) = self.time_scale
            && !(scale.is_finite() && scale >= 0.0)
        {
            return Err(Fault::usage(format!("`time_scale` is {scale}, not a number from 0 up")));
        }
        if let Some(seconds) = self.misbehave.slow_start
            && !(seconds.is_finite() && seconds >= 0.0)
        {
            return Err(Fault::usage(format!(
                "`slow_start` is {seconds}, not a number of seconds"
            )));
        }
        if let Some(length) = self.max_model_len
            && length < 1
            && length != -1
        {
            return Err(Fault::usage(format!("`max_model_len` is {length}"))
                .hint("give a length in tokens, or -1 for the largest that fits"));
        }
        if let Some(dtype) = self.kv_cache_dtype.as_deref()
            && !["auto", "fp8"].contains(&dtype)
        {
            return Err(Fault::usage(format!("unknown `kv_cache_dtype` `{dtype}`")).hint("one of: auto, fp8"));
        }
        for (name, value) in [
            ("max_num_seqs", self.max_num_seqs),
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("ctx_size", self.ctx_size),
            ("tensor_parallel", self.tensor_parallel),
            ("max_input_tokens", self.max_input_tokens),
        ] {
            if value == Some(0) {
                return Err(Fault::usage(format!("`{name}` is 0")).hint("leave it out for the profile's default"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;

    #[test]
    fn a_scripts_files_lie_below_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("scripts");
        std::fs::create_dir(&inner).unwrap();
        for place in [&inner, &folder.path().to_path_buf()] {
            std::fs::write(place.join("mine.toml"), "name = 1").unwrap();
        }
        std::os::unix::fs::symlink("../mine.toml", inner.join("link.toml")).unwrap();
        let read = |spec: serde_json::Value| Spec::of_script(spec, &inner).and_then(|spec| spec.resolve());
        let kind = |profile: &str| {
            let read = read(serde_json::json!({ "profile": profile }));
            read.map(drop).map_err(|fault| fault.kind)
        };
        assert_eq!(kind("llama-8b-24gb-vllm"), Ok(()));
        // Read, and found wanting.
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
