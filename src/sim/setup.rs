//! Resolved settings of a start: launch options merged with the profile's defaults.

use super::misbehave::Misbehave;
use super::options::{Options, Victim};
use super::profile::{Engine, MemoryProfile, Profile, Reservation};
use crate::fault::{Fault, Result};

/// Maximum input plus output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// The largest that fits.
    Auto,
    Tokens(u64),
}

/// Resolved settings of a start.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) profile: Profile,
    pub(super) model: String,
    pub(super) length: Length,
    /// Whether a length was given; `transformers` has none of its own.
    pub(super) length_given: bool,
    pub(super) max_input: Option<u64>,
    pub(super) utilization: f64,
    pub(super) max_seqs: u64,
    pub(super) step_tokens: u64,
    pub(super) eager: bool,
    pub(super) fp8: bool,
    pub(super) draft_tokens: u64,
    /// Maximum concurrent requests with speculation.
    pub(super) speculation_max_concurrency: Option<u64>,
    /// Number of GPUs; `profile` describes each of them.
    pub(super) ranks: u64,
    pub(super) max_concurrent: Option<u64>,
    pub(super) memory_limit: Option<u64>,
    pub(super) victim: Victim,
    pub(super) clip: bool,
    pub(super) prefix_cache: bool,
    pub(super) time_scale: f64,
    pub(super) gather_ms: u64,
    pub(super) misbehave: Misbehave,
}

impl Setup {
    /// Merges options and profile. Options that the profile cannot simulate are refused, not ignored.
    pub(super) fn new(profile: Profile, options: &Options) -> Result<Self> {
        options.check()?;
        let options = options
            .clone()
            .with_serve_flags(profile.engine, profile.defaults.max_num_seqs);
        let pool = match &profile.memory {
            MemoryProfile::Pool(pool) => Some(pool),
            MemoryProfile::Dynamic(_) | MemoryProfile::Fixed(_) => None,
        };
        let grows = pool.is_some_and(|pool| pool.reservation == Reservation::Grow);
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
            Some(-1) => Length::Auto,
            Some(tokens) => Length::Tokens(tokens.unsigned_abs()),
            None => Length::Tokens(defaults.max_model_len.unwrap_or(defaults.max_position_embeddings)),
        };
        Ok(Self {
            model: options.model.clone().unwrap_or_else(|| profile.model.clone()),
            length,
            length_given: requested.is_some(),
            max_input: options.max_input_tokens,
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
            speculation_max_concurrency: options.speculation_max_concurrency,
            ranks,
            max_concurrent: options.max_concurrent_requests.or(defaults.max_concurrent_requests),
            memory_limit: options.memory_limit,
            victim: options.oom.unwrap_or_default(),
            clip: options.clip_output.unwrap_or(false),
            prefix_cache: options.prefix_cache.unwrap_or(true),
            time_scale: options.time_scale.unwrap_or(defaults.time_scale),
            gather_ms: options.gather_ms.unwrap_or(0),
            misbehave: options.misbehave.clone(),
            profile: profile.per_rank(ranks),
        })
    }

    /// Version as reported, marked so that nobody mistakes it for the real one's.
    pub(super) fn version(&self) -> String {
        format!("{}+SIMULATED", self.profile.version)
    }
}
