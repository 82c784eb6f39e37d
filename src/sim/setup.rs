//! Launch options laid over a profile's defaults: everything that a start needs, decided once.

use super::misbehave::Misbehave;
use super::options::{Options, Victim};
use super::profile::{Engine, MemoryProfile, Profile, Reservation};
use crate::fault::{Fault, Result};

/// Longest input and output together, as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// The largest that fits.
    Auto,
    /// So many tokens.
    Tokens(u64),
}

/// Everything that a start needs.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) profile: Profile,
    pub(super) model: String,
    pub(super) length: Length,
    /// Whether somebody gave a length; `transformers` has none of its own.
    pub(super) length_given: bool,
    pub(super) max_input: Option<u64>,
    pub(super) utilization: f64,
    pub(super) max_seqs: u64,
    pub(super) step_tokens: u64,
    pub(super) eager: bool,
    pub(super) fp8: bool,
    pub(super) drafts: u64,
    /// Requests at once above which nothing is drafted.
    pub(super) drafts_up_to: Option<u64>,
    /// GPUs that share each layer; the profile is that of each of them.
    pub(super) ranks: u64,
    pub(super) max_concurrent: Option<u64>,
    pub(super) limit: Option<u64>,
    pub(super) victim: Victim,
    pub(super) clip: bool,
    pub(super) prefix_cache: bool,
    pub(super) time_scale: f64,
    pub(super) gather_ms: u64,
    pub(super) misbehave: Misbehave,
}

impl Setup {
    /// The options over the profile. An option that this profile cannot honour is refused, not ignored.
    pub(super) fn new(profile: Profile, options: &Options) -> Result<Self> {
        options.check()?;
        let options = options.clone().serving(profile.engine, profile.defaults.max_num_seqs);
        let pool = match &profile.memory {
            MemoryProfile::Pool(pool) => Some(pool),
            MemoryProfile::Dynamic(_) | MemoryProfile::Fixed(_) => None,
        };
        let grows = pool.is_some_and(|pool| pool.reservation == Reservation::Grow);
        let fixed = matches!(profile.memory, MemoryProfile::Fixed(_));
        let fp8 = options.kv_cache_dtype.as_deref() == Some("fp8");
        let drafts = options.num_speculative_tokens.unwrap_or(0);
        let ranks = options.tensor_parallel.unwrap_or(1);
        let cannot = [
            ("kv_cache_dtype", fp8 && pool.is_none()),
            (
                "num_speculative_tokens",
                drafts > 0
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
        if let Some((option, _)) = cannot.iter().find(|(_, cannot)| *cannot) {
            return Err(
                Fault::usage(format!("profile `{}` cannot simulate `{option}` so", profile.name))
                    .hint("leave the option out, or choose a profile whose engine has it"),
            );
        }
        let defaults = profile.defaults;
        let asked = options
            .ctx_size
            .map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX))
            .or(options.max_model_len);
        let length = match asked {
            Some(-1) => Length::Auto,
            Some(tokens) => Length::Tokens(tokens.unsigned_abs()),
            None => Length::Tokens(defaults.max_model_len.unwrap_or(defaults.max_position_embeddings)),
        };
        Ok(Self {
            model: options.model.clone().unwrap_or_else(|| profile.model.clone()),
            length,
            length_given: asked.is_some(),
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
            drafts,
            drafts_up_to: options.speculation_max_concurrency,
            ranks,
            max_concurrent: options.max_concurrent_requests.or(defaults.max_concurrent_requests),
            limit: options.memory_limit,
            victim: options.oom.unwrap_or_default(),
            clip: options.clip_output.unwrap_or(false),
            prefix_cache: options.prefix_cache.unwrap_or(true),
            time_scale: options.time_scale.unwrap_or(defaults.time_scale),
            gather_ms: options.gather_ms.unwrap_or(0),
            misbehave: options.misbehave.clone(),
            profile: profile.on_each_of(ranks),
        })
    }

    /// The version as it is told: nobody shall take it for the real one's.
    pub(super) fn version(&self) -> String {
        format!("{}+SIMULATED", self.profile.version)
    }
}
