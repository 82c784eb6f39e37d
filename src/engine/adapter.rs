//! What an adapter says of its engine. `script/adapter.rs` implements [`Adapter`] by calling the functions of a Rhai file;
//! these are the shapes that those functions return, each an object map with just these keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::boundary::{Point, Verdict};
use crate::fault::Result;
use crate::prompt::PromptForm;
use crate::runtime::Launch;

/// How one engine is launched, asked and read. Called on the script's thread only, outside the async runtime.
pub trait Adapter: Send + Sync {
    /// `vllm`, or the file's stem.
    fn name(&self) -> &str;

    /// Whether it ships with the program (its images may see the model cache and the token).
    fn shipped(&self) -> bool;

    /// `launch(options)`: neutral options, with `limits` and `runtime` among them, as the engine's own launch.
    fn launch(&self, options: &Value) -> Result<Launch>;

    /// `ready(engine)`: whether it can be asked now. `base_url` is where it listens, `options` what `launch` got.
    fn ready(&self, base_url: &str, options: &Value) -> Result<Readiness>;

    /// `request(point)`: the request for exactly this input and output. `limits` are those of the start that serves it; none before a
    /// start, and where the engine was attached to.
    fn request(&self, point: &Point, limits: Option<&Limits>) -> Result<RequestForm>;

    /// `facts()`: what logs, metrics and information pages mean.
    fn facts(&self) -> Result<Facts>;

    /// `failures()`: what messages mean, first match first.
    fn failures(&self) -> Result<Vec<FailureRule>>;

    /// `flags(limits)`: what to paste into a production command line.
    fn flags(&self, limits: &Limits) -> Result<Vec<String>>;

    /// `settings(options)`, which an adapter may leave out: what else the engine was given that a production command line needs for the same limits to
    /// fit, such as number formats, its share of memory and the GPUs that share a layer.
    fn settings(&self, options: &Value) -> Result<Vec<String>>;
}

/// What `ready(engine)` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can be asked.
    Ready,
    /// It is still starting, or does not answer.
    NotYet,
    /// It lives and will not become ready: what it said. Ollama survives a model that does not load.
    Failed(String),
}

/// What one start of an engine can serve, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Longest input.
    pub input: u64,
    /// Longest output.
    pub output: u64,
    /// Longest input and output together.
    pub total: u64,
    /// Sequences at once.
    pub concurrency: u64,
}

/// The wire protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// `POST /v1/completions`.
    OpenaiCompletions,
    /// `POST /v1/chat/completions`.
    OpenaiChat,
    /// `POST /generate_stream`.
    Tgi,
    /// `POST /completion`.
    Llamacpp,
    /// `POST /api/generate`.
    Ollama,
}

/// The request for one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestForm {
    /// How the answer is read.
    pub protocol: Protocol,
    /// Path below the base URL.
    pub path: String,
    /// `tokens`: the prompt is sent as ids; `text`: as text proven to re-encode to N.
    pub prompt: PromptForm,
    /// Everything but the prompt.
    pub body: Value,
}

/// What an engine's words mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// By fact (`kv_tokens`, `weights_bytes`, `kv_bytes`, `max_model_len`, `version`, …): regular expressions of log
    /// lines, oldest wording last, first capture group the value. A unit follows the name: `kv_gib` is turned into bytes as `kv_bytes`.
    /// Groups may have names: `value`, `unit` (`MiB`: then the fact's name bears none) and `device` (`CUDA0`).
    pub log: BTreeMap<String, Vec<String>>,
    /// What stands before a log line and tells the tensor-parallel rank that wrote it: regular expressions, first capture group the
    /// number, from 0.
    pub rank: Vec<String>,
    /// By fact, as `log`: regular expressions of lines of the Prometheus page, for figures that stay as they are.
    pub gauges: BTreeMap<String, Vec<String>>,
    /// The Prometheus page.
    pub metrics: MetricRules,
    /// By fact, fields of `engine.info()` among them: where the engine tells it, newest first; one place may stand alone.
    /// The numbers of a map are added up.
    #[serde(deserialize_with = "one_or_more")]
    pub info: BTreeMap<String, Vec<InfoRule>>,
    /// By fact, what lies on the GPUs, the fact of the whole: where it is less, the rest lies on the host, and the engine serves another
    /// configuration than asked.
    pub parts: BTreeMap<String, String>,
    /// By which lines the phases of a start are known. Before the first of them, weights are loaded.
    pub progress: Vec<ProgressRule>,
}

/// The line with which a phase of the start begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgressRule {
    /// A regular expression, searched in one log line.
    pub pattern: String,
    /// What begins: `profiling`, `kv_cache`, `graph_capture`, `warm_up`, …
    pub phase: String,
}

/// Names on the metrics page, newest wording first: the first that is there counts.
///
/// A name may say which labels its samples must have, `requests_total{reason="abort"}`, and several joined with ` + ` are added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricRules {
    /// `/metrics`; empty: the engine has none.
    pub path: String,
    /// How the page is written.
    pub format: MetricFormat,
    /// Requests being served.
    pub running: Vec<String>,
    /// Requests waiting.
    pub waiting: Vec<String>,
    /// KV cache in use, 0 to 1.
    pub kv_usage: Vec<String>,
    /// Preemptions since the start.
    pub preemptions: Vec<String>,
    /// Sequences that are thrown out of the KV cache at the moment, where the engine tells that instead of a count since the start.
    pub paused: Vec<String>,
    /// What was looked up in the prefix cache since the start, in tokens or blocks.
    pub prefix_queries: Vec<String>,
    /// What of it was there, in the same unit.
    pub prefix_hits: Vec<String>,
    /// Tokens of prompts since the start.
    pub prompt_tokens: Vec<String>,
    /// Tokens generated since the start.
    pub generated_tokens: Vec<String>,
    /// Requests that ended since the start, by how they did: `length`, `stop`, `abort`, …
    pub finished: BTreeMap<String, Vec<String>>,
}

/// How a metrics page is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricFormat {
    /// The Prometheus text format; rules give names of samples.
    #[default]
    Prometheus,
    /// JSON: a list of moments, oldest first, or one of them. Rules give JSON pointers into a moment; `/a of /b` is a share, `/a + /b` a sum.
    Json,
}

/// Where one fact is told. A unit follows its name as in `log`: a number as `weights_gib` is turned into bytes as `weights_bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InfoRule {
    /// Path below the base URL.
    pub path: String,
    /// JSON pointer into the answer. Where it leads to a map, its numbers are added up.
    pub pointer: String,
}

/// What a message means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureRule {
    /// A regular expression, searched in one log line, response body or stream error. A group `input` is the engine's count of the prompt.
    pub pattern: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Its cause: `cuda`, `host`, `allocator`, `memory`, `kv_cache`, `length_limit`, …
    pub cause: Option<String>,
    /// Only before the engine was ready (`start`), only after (`request`), or both (`any`).
    #[serde(default)]
    pub phase: RulePhase,
    /// A regular expression of lines that take back what they and the lines before them say: the engine went on in another way.
    #[serde(default)]
    pub unless: Option<String>,
}

/// When a failure rule holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RulePhase {
    /// At any time.
    #[default]
    Any,
    /// Before the engine was ready.
    Start,
    /// After it was.
    Request,
}

/// Places as a list, or one of them.
fn one_or_more<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<String, Vec<InfoRule>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a map with `path` and `pointer`, or a list of such maps")]
    enum Places {
        One(InfoRule),
        More(Vec<InfoRule>),
    }
    let places = BTreeMap::<String, Places>::deserialize(deserializer)?.into_iter();
    let listed = places.map(|(fact, places)| match places {
        Places::One(rule) => (fact, vec![rule]),
        Places::More(rules) => (fact, rules),
    });
    Ok(listed.collect())
}
