//! What was seen beside a load, as it was seen: looks at the engine, and what the sampler saw of its devices.
//!
//! All times are seconds since the load's clock began; what was seen before that has negative ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What an engine's metrics page tells at one moment; `None` where it does not tell. Counters count since the engine's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Requests being served.
    pub running: Option<u64>,
    /// Requests waiting.
    pub waiting: Option<u64>,
    /// KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Preemptions.
    pub preemptions: Option<u64>,
    /// Sequences out of the KV cache at the moment, where the engine tells that instead of a count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<u64>,
    /// What was looked up in the prefix cache, in tokens or blocks.
    pub prefix_queries: Option<u64>,
    /// What was found there, in the same unit.
    pub prefix_hits: Option<u64>,
    /// Tokens of prompts.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub generated_tokens: Option<u64>,
    /// Requests that ended, by how they did: the adapter's words.
    pub finished: BTreeMap<String, u64>,
}

/// One look at the metrics page. When exactly between question and answer the engine was so is unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// When it was asked for.
    pub asked: f64,
    /// When the answer was there, or given up.
    pub at: f64,
    /// What it told; `None` where it did not answer. That is a gap in what is known, not a zero.
    pub state: Option<State>,
}

/// Memory in use on all devices together, for as long as it was the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// The first look that saw it.
    pub from: f64,
    /// The last look that saw it.
    pub to: f64,
    /// Bytes.
    pub bytes: u64,
}

/// Power of the devices at one look, or its mean over neighbouring ones that were merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Power {
    /// The first look.
    pub from: f64,
    /// The last look.
    pub to: f64,
    /// Each device that tells.
    pub devices: Vec<Watts>,
}

/// What one device did at a look.
#[derive(Clone, Debug, PartialEq)]
pub struct Watts {
    /// The device's id.
    pub device: String,
    /// Power drawn, in watts.
    pub power: Option<f64>,
    /// Share of the time in which it computed, in per cent.
    pub busy: Option<f64>,
}

/// Everything that was seen beside one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Looks at the engine that were wanted in a second.
    pub hz: f64,
    /// Looks at the engine's metrics page, oldest first; none where it has no page.
    pub looks: Vec<Look>,
    /// `nvml`, `amd`, `host` or `sim`: whose memory is looked at, where any is.
    pub source: Option<String>,
    /// Memory, oldest first.
    pub memory: Vec<Used>,
    /// Power and utilisation, oldest first; none where no driver tells.
    pub power: Vec<Power>,
    /// Tokens that the engine's KV cache holds, where it tells.
    pub kv_tokens: Option<u64>,
    /// Bytes of the KV cache on all devices together, where the engine tells.
    pub kv_bytes: Option<u64>,
}
