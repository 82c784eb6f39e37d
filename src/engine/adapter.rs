//! The adapter contract: the trait [`Adapter`] and the maps that an adapter's Rhai functions return.
//! `script/adapter.rs` implements the trait by calling those functions. Unknown keys in the maps are errors.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::boundary::{Cause, Point, Verdict};
use crate::fault::{Fault, Result};
use crate::http::ApiKey;
use crate::prompt::{Content, PromptForm};
use crate::run::Limits;
use crate::runtime::Launch;

/// Defines how to launch one kind of engine, send it requests and read its output. Called only on the script's thread,
/// outside the async runtime.
pub trait Adapter: Send + Sync {
    /// The engine's name: `vllm`, or the stem of the adapter's file.
    fn name(&self) -> &str;

    /// Whether the adapter ships with the program. Its images may then use the model cache and the Hugging Face token.
    fn shipped(&self) -> bool;

    /// `launch(options)`: turns neutral options, including `limits` and `runtime`, into the engine's launch
    /// description.
    fn launch(&self, options: &Value) -> Result<Launch>;

    /// `ready(engine)`: whether the engine accepts requests now. `options` are the options of `launch`. `key` is sent
    /// to it.
    fn ready(&self, base_url: &str, options: &Value, key: Option<&ApiKey>) -> Result<Readiness>;

    /// `request(point)`: the request with exactly this input and output length, or its alternatives in order of
    /// preference; never empty. `limits` are the limits of the running start; `None` before a start and for an attached
    /// engine.
    fn request(&self, point: &Point, limits: Option<&Limits>) -> Result<Vec<RequestForm>>;

    /// `facts()`: patterns for log lines, metrics and information pages.
    fn facts(&self) -> Result<Facts>;

    /// `failures()`: patterns for error messages. The first rule that matches wins.
    fn failures(&self) -> Result<Vec<FailureRule>>;

    /// `flags(limits)`: command-line flags for production. Without `concurrency`, `limits.concurrency` is `()`, and the
    /// engine keeps its default if it has one.
    fn flags(&self, limits: &Limits, concurrency: bool) -> Result<Vec<String>>;

    /// `settings(options)`, optional: further flags that production needs for the same limits to fit, such as dtypes,
    /// memory fraction and tensor parallelism.
    fn settings(&self, options: &Value) -> Result<Vec<String>>;

    /// `harmless()`, optional: variables and flags that a script may set without losing the Hugging Face token.
    fn harmless(&self) -> Result<Harmless> {
        Ok(Harmless::default())
    }

    /// `tunable()`, optional: launch settings that a search may choose.
    fn tunable(&self) -> Result<Vec<Setting>> {
        Ok(Vec::new())
    }

    /// Whether it has `answer(engine, request)`.
    fn answers(&self) -> bool {
        false
    }

    /// `answer(engine, request)`, optional: tokens and their log-probabilities; `None` if the adapter has no such
    /// function. `options` are the options of `launch`.
    fn answer(
        &self,
        _base_url: &str,
        _options: &Value,
        _key: Option<&ApiKey>,
        _request: &AnswerRequest<'_>,
    ) -> Result<Option<Answer>> {
        Ok(None)
    }
}

/// Argument of `answer(engine, request)`.
#[derive(Debug, Serialize)]
pub struct AnswerRequest<'a> {
    /// A text, or token ids.
    pub prompt: &'a Content,
    /// Most tokens to generate, each the most likely one.
    pub output: u64,
    /// Ids of tokens after the prompt that are scored instead; empty: none.
    pub tokens: &'a [u32],
    /// Timeout of each request in seconds.
    pub timeout: f64,
}

/// Result of `answer(engine, request)`: tokens after a prompt, with the natural logarithm of the probability that the
/// model gives each of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Ids of the prompt; empty if the server does not tell them.
    #[serde(default)]
    pub prompt: Vec<u32>,
    /// The tokens.
    pub tokens: Vec<Token>,
    /// One for each token.
    pub logprobs: Vec<f64>,
    /// The most likely token in the place of each; empty if the server does not tell it of generated ones.
    #[serde(default)]
    pub top: Vec<Token>,
}

/// A token: its id, or its text from servers that tell no ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a token id or a text")]
pub enum Token {
    /// In the model's vocabulary.
    Id(u32),
    /// As it is shown.
    Text(String),
}

/// A launch setting that a search may choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Our name for it.
    pub name: String,
    /// Its flag on the engine's command line.
    pub flag: String,
    /// Other spellings of the flag, such as a short one.
    #[serde(default)]
    pub also: Vec<String>,
    /// The flag that turns a switch off, if `flag` turns it on.
    #[serde(default)]
    pub off: String,
    /// The launch option that sets it, as a path; empty: the flag is an engine argument.
    #[serde(default)]
    pub option: String,
    /// Kind of its values.
    pub kind: SettingKind,
    /// Values that a search tries, in their order of size where they have one.
    /// Empty: only what the user names.
    pub values: Vec<Value>,
    /// The engine's default; null if it depends on model and device.
    #[serde(default)]
    pub usual: Value,
    /// Cost of another value.
    pub cost: SettingCost,
    /// Effect of a larger (later) value on the KV cache; unknown if not given.
    #[serde(default)]
    pub kv: Option<MemoryEffect>,
    /// Effect of a larger (later) value on the memory that is left for steps; unknown if not given.
    #[serde(default)]
    pub spare: Option<MemoryEffect>,
    /// Combinations that the engine refuses.
    #[serde(default)]
    pub excludes: Vec<Exclusion>,
}

/// Kind of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    /// Whole numbers.
    Count,
    /// Numbers from 0 to 1.
    Share,
    /// True or false.
    Switch,
    /// Words of `values`.
    Choice,
    /// Any word.
    Word,
    /// Maps as the launch option `speculation` takes them; off by default.
    Speculation,
}

/// Cost of another value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingCost {
    /// A start that finds compiled kernels in its caches.
    Restart,
    /// A start that compiles or loads anew.
    ColdRestart,
}

/// Effect of a larger value on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryEffect {
    /// More of it.
    More,
    /// Less of it.
    Less,
    /// None.
    Same,
}

/// A combination that the engine refuses: `setting` is below the value of `than`, a setting or `total` (the longest
/// input and output together), or above `most`, while this setting has the value `value` (any if null; of a speculation,
/// its method, or `on`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclusion {
    /// Value of the setting with this exclusion.
    #[serde(default)]
    pub value: Value,
    /// The other setting.
    pub setting: String,
    /// The setting, or `total`, that it must reach; empty if there is none.
    #[serde(default)]
    pub than: String,
    /// The most that it may be: a number, or false for a switch.
    #[serde(default)]
    pub most: Value,
}

/// Names of variables and flags that cannot send the Hugging Face token elsewhere, whatever their value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Harmless {
    /// Environment variables.
    env: Vec<String>,
    /// Flags of the command line, with dashes.
    flags: Vec<String>,
}

impl Harmless {
    /// The variables and arguments that are not in these lists.
    pub(super) fn unlisted(&self, args: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
        let flag = |word: &&String| word.starts_with('-') && word.parse::<f64>().is_err();
        let flags = args
            .iter()
            // Without a list of flags, every argument may mean anything.
            .filter(|word| self.flags.is_empty() || flag(word))
            .map(|word| word.split('=').next().unwrap_or(word))
            .filter(|name| !self.flags.contains(&name.replace('_', "-")));
        let env = env.keys().filter(|name| !self.env.contains(name));
        env.map(String::as_str).chain(flags).map(str::to_owned).collect()
    }
}

/// Result of `ready(engine)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The engine accepts requests.
    Ready,
    /// The engine is still starting or does not answer.
    NotYet,
    /// The server answered a page with a status other than success.
    Rejecting(Rejection),
    /// The process is alive but will never be ready; the text is its reason. Ollama, for one, survives a failed model
    /// load.
    Failed(String),
}

/// A page's answer with a status other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// HTTP status; 0 if there was no answer.
    pub status: u16,
    /// Status, page and the server's message.
    pub message: String,
    /// The remedy, if the answer would stay the same.
    pub remedy: Option<String>,
    /// Delay that the server requests (`Retry-After`).
    pub retry_after: Option<Duration>,
}

impl Rejection {
    /// Whether the server is worth waiting for.
    pub fn passes(&self) -> bool {
        self.remedy.is_none() && passes(self.status, self.retry_after)
    }
}

/// Whether a server that answers with this status and `Retry-After` is worth waiting for.
pub(super) fn passes(status: u16, retry_after: Option<Duration>) -> bool {
    status == 503 || status == 429 && retry_after.is_some()
}

/// Wire protocols.
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
    /// Decides how the response is decoded.
    pub protocol: Protocol,
    /// Path below the base URL.
    pub path: String,
    /// `tokens`: send token ids. `text`: send text that encodes to exactly the requested number of tokens.
    pub prompt: PromptForm,
    /// The JSON body without the prompt.
    pub body: Value,
}

/// A regular expression, validated when it is deserialized.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern(Regex);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(pattern: String) -> std::result::Result<Self, String> {
        Regex::new(&pattern).map(Self).map_err(|error| {
            // The last line of the error states the reason; the lines before it show the pattern.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!(
                "the pattern `{pattern}` is wrong: {reason}; patterns are those of Rust's regex crate: no look-around, no \
                 back-references"
            )
        })
    }
}

impl Deref for Pattern {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.0
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Patterns by the name of the fact that they find.
pub type Patterns = BTreeMap<String, Vec<Pattern>>;

/// Result of `facts()`: patterns and names for reading the engine's output.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// Regular expressions for log lines, by fact (`kv_tokens`, `weights_bytes`, `max_model_len`, `version`, …), newest
    /// wording first. The first capture group is the value. A unit suffix in the name is converted: `kv_gib` becomes
    /// `kv_bytes`. Named groups: `value`, `unit` (such as `MiB`; the name then has no suffix) and `device` (`CUDA0`).
    pub log: Patterns,
    /// Regular expressions for the log prefix that names the tensor-parallel rank. The first capture group is the rank,
    /// from 0.
    pub rank: Vec<Pattern>,
    /// As `log`, but for lines of the Prometheus page whose values do not change while the engine runs.
    pub gauges: Patterns,
    /// Names on the metrics page.
    pub metrics: MetricRules,
    /// Locations of each fact in the engine's HTTP API, newest version first. A single rule needs no list. The numbers
    /// of a JSON map are summed.
    #[serde(deserialize_with = "one_or_more")]
    pub info: BTreeMap<String, Vec<InfoRule>>,
    /// Maps a fact to the fact that holds its total. If it is smaller than the total, the rest is on the host, and the
    /// engine runs a different configuration than requested.
    pub parts: BTreeMap<String, String>,
    /// Log lines that begin a phase of the start. Before the first match the phase is `weights`.
    pub progress: Vec<ProgressRule>,
}

/// A log line that begins a phase of the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgressRule {
    /// Searched in each log line.
    pub pattern: Pattern,
    /// The phase: `profiling`, `kv_cache`, `graph_capture`, `warm_up`, …
    pub phase: String,
}

/// Metric names, newest wording first; the first one present on the page is used.
///
/// A name may require labels (`requests_total{reason="abort"}`). Names joined with ` + ` are summed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricRules {
    /// Path of the page, such as `/metrics`. Empty if the engine has none.
    pub path: String,
    /// Format of the page.
    pub format: MetricFormat,
    /// Running requests.
    pub running: Vec<String>,
    /// Queued requests.
    pub waiting: Vec<String>,
    /// KV cache usage, 0 to 1.
    pub kv_usage: Vec<String>,
    /// Preemptions since the start.
    pub preemptions: Vec<String>,
    /// Currently preempted sequences, for engines that do not count preemptions since the start.
    pub paused: Vec<String>,
    /// Prefix cache lookups since the start, in tokens or blocks.
    pub prefix_queries: Vec<String>,
    /// Prefix cache hits since the start, in the same unit.
    pub prefix_hits: Vec<String>,
    /// Tokens drafted by speculation since the start.
    pub drafted: Vec<String>,
    /// Drafted tokens that were accepted, since the start.
    pub accepted: Vec<String>,
    /// Prompt tokens since the start.
    pub prompt_tokens: Vec<String>,
    /// Generated tokens since the start.
    pub generated_tokens: Vec<String>,
    /// Finished requests since the start, by finish reason: `length`, `stop`, `abort`, …
    pub finished: BTreeMap<String, Vec<String>>,
}

/// Format of a metrics page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricFormat {
    /// Prometheus text format; the rules are sample names.
    #[default]
    Prometheus,
    /// JSON: one snapshot or a list of snapshots, oldest first. The rules are JSON pointers into a snapshot; `/a of /b`
    /// is a ratio, `/a + /b` a sum.
    Json,
}

/// Location of a fact in the engine's HTTP API. A unit suffix in the fact's name is converted as in `log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InfoRule {
    /// Path below the base URL.
    pub path: String,
    /// JSON pointer into the response. If it points to a map, its numbers are summed.
    pub pointer: String,
}

/// Classifies an error message.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureRule {
    /// Searched in each log line, response body and stream error. Groups: `input` is the engine's count of the prompt's
    /// tokens, `limit` its longest input and output together, `input_limit` its longest input, `state_slots` the
    /// sequences for which it has room for the state of recurrent layers, `slots_needed` what this start would need of
    /// them.
    pub pattern: Pattern,
    /// The verdict.
    pub verdict: Verdict,
    /// The cause: a known one, or one defined by the adapter.
    pub cause: Option<Cause>,
    /// Whether the rule holds before the engine is ready (`start`), afterwards (`request`), or always (`any`).
    #[serde(default)]
    pub phase: RulePhase,
    /// Finds lines that cancel earlier matches, because the engine recovered.
    pub unless: Option<Pattern>,
    /// How much the words prove.
    #[serde(default)]
    pub rank: RuleRank,
    /// Where the words count.
    #[serde(default)]
    pub place: RulePlace,
    /// The remedy, in this engine's flags; by default that of the cause.
    pub remedy: Option<String>,
}

#[cfg(test)]
impl FailureRule {
    /// A rule that holds in every phase and place, of rank `error`.
    pub(crate) fn new(pattern: &str, verdict: Verdict, cause: Option<&str>) -> Self {
        Self {
            pattern: pattern.to_owned().try_into().unwrap(),
            verdict,
            cause: cause.map(Into::into),
            phase: RulePhase::default(),
            unless: None,
            rank: RuleRank::default(),
            place: RulePlace::default(),
            remedy: None,
        }
    }
}

/// How conclusive a matching line is, most conclusive first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleRank {
    /// The engine ends, or refuses the request, with these words. Later messages are consequences.
    Fatal,
    /// A failure, unless a later one explains more.
    #[default]
    Error,
    /// Engines write these words also about what they can do without: they count only if nothing else explains the
    /// failure, and no exception that no rule knows follows.
    Warning,
    /// Another process ended for a reason of its own: explains nothing.
    Consequence,
}

/// Where the words of a failure rule count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RulePlace {
    /// In every line.
    #[default]
    Anywhere,
    /// In the line of a Python exception, from its type on.
    Exception,
}

/// Phase in which a failure rule holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RulePhase {
    /// At any time.
    #[default]
    Any,
    /// Before the engine is ready.
    Start,
    /// After the engine is ready.
    Request,
}

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

/// Rejects a path that would redirect a request to another host: after `http://127.0.0.1:8000`, `@elsewhere/` would.
pub(super) fn check_path(path: &str) -> Result<()> {
    if path.starts_with('/') {
        return Ok(());
    }
    let wrong = Fault::usage(format!("the path `{path}` does not begin with `/`"));
    Err(wrong.hint("an adapter's paths are below the address of its engine"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_pattern_is_named() {
        let wrong = Pattern::try_from("a(".to_owned()).unwrap_err();
        assert!(wrong.contains("`a(` is wrong: unclosed group"), "{wrong}");
    }

    #[test]
    fn only_listed_variables_and_flags_are_harmless() {
        let args = ["--max_num_seqs=8", "--seed", "-1", "--middleware", "x:y"].map(str::to_owned);
        let env = [("OMP_NUM_THREADS", "1"), ("NCCL_NET_PLUGIN", "/x")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let listed: Harmless =
            serde_json::from_value(json!({ "env": ["OMP_NUM_THREADS"], "flags": ["--max-num-seqs", "--seed"] }))
                .unwrap();
        assert_eq!(listed.unlisted(&args, &env), ["NCCL_NET_PLUGIN", "--middleware"]);
        let all = Harmless::default().unlisted(&args, &env);
        assert_eq!(all.len(), 2 + args.len(), "without lists nothing is: {all:?}");
    }
}
