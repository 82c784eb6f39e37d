//! The state of one engine: the running server, and the results of starts and requests so far.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::server::Server;
use super::speed::RequestSpeed;
use super::usage::MemoryStages;
use crate::engine::facts::log::ReportedFact;
use crate::engine::verdict::bounds::EngineBounds;
use crate::engine::verdict::sizes::KnownSizes;
use crate::engine::wire::forms::Accepted;
use crate::engine::wire::prompting::Prompting;
use crate::http::ApiKey;
use crate::run::Limits;
use crate::telemetry::{Reading, Sampler, Settled};

/// Mutable state of an engine.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) running: Option<Running>,
    pub(crate) speed: RequestSpeed,
    pub(crate) prompting: Option<Prompting>,
    pub(crate) health: Health,
    /// Probes answered by a dry run.
    pub(crate) dry_run_probes: u64,
    /// Memory stages of the newest start.
    pub(crate) stages: MemoryStages,
    /// Number of start attempts.
    pub(crate) tried: u64,
    /// GPU memory before the first start.
    pub(crate) baseline: Option<Reading>,
    /// Memory before the newest start, with the option `isolate`.
    pub(crate) isolated: Option<Settled>,
    /// The number of the prompt that the next load begins with, for each file of prompts.
    pub(crate) next_prompts: HashMap<String, u64>,
}

/// Says whether a running engine must be checked before the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    #[default]
    Good,
    /// Something failed: check whether it still serves.
    Suspect,
    /// It no longer serves, even if its process is alive.
    Lost,
}

impl Health {
    pub(crate) fn after(well: bool) -> Self {
        if well { Self::Good } else { Self::Suspect }
    }
}

/// A running engine.
pub(crate) struct Running {
    pub(crate) server: Server,
    pub(crate) key: Option<ApiKey>,
    pub(crate) sampler: Option<Sampler>,
    /// Limits of this start; `None` for an attached engine.
    pub(crate) limits: Option<Limits>,
    pub(crate) info: Info,
    pub(crate) accepted: Accepted,
    pub(crate) sizes: KnownSizes,
    /// Facts that it reported until it was ready.
    pub(crate) facts: Vec<ReportedFact>,
    /// Number of log lines read by then.
    pub(crate) facts_read: u64,
    /// Requests that it temporarily rejected and that were sent again, and the time waited for it.
    pub(crate) rejected: u64,
    pub(crate) waited: Duration,
}

/// The facts of an engine that scripts and reports show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// The engine's name, such as `vllm` or `sim`.
    pub engine: String,
    /// The engine's version.
    pub version: Option<String>,
    /// The model's name in requests: as the engine lists it, or as the user gave it if the engine accepts that too.
    pub model: Option<String>,
    /// The only model that the engine lists, if requests use another name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed: Option<String>,
    /// Maximum input and output together, in tokens.
    pub max_model_len: Option<u64>,
    /// KV cache size in tokens.
    pub kv_tokens: Option<u64>,
    /// Vocabulary size, if reported. Prompt ids must be below it.
    #[serde(skip)]
    pub(crate) vocabulary: Option<u32>,
    /// The engine's own bounds, for verdicts.
    #[serde(skip)]
    pub(crate) reported: EngineBounds,
    /// Whether this is the simulated engine, so that nothing was measured.
    pub simulated: bool,
}

impl Info {
    pub(crate) fn before(engine: &str, model: Option<&str>, simulated: bool) -> Self {
        Self {
            engine: engine.to_owned(),
            model: model.map(str::to_owned),
            simulated,
            ..Self::default()
        }
    }
}
