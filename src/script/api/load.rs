//! Script API of load results (the row of a load, the findings of several) and of prompts of exactly N tokens.

use rhai::plugin::*;
use rhai::{Array, Map};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::compare::{LoadMetric, load_metrics};
use crate::fault::{Fault, Kind, Result};
use crate::load::LoadAnswer;
use crate::load::engine_side::{LevelFigures, SweepAxis, SweepFindings};
use crate::prompt::{Content, Origin, PromptForm, PromptSpec};
use crate::run::Event;
use crate::script::convert::deserialize_as;
use crate::script::form::type_with_article;
use crate::script::{Caught, Host, begin_call, from_script, to_script};
use crate::sim::ForecastLoad;

/// Analysis of several loads. A row is any map with the level and the results of `engine.load`.
#[export_module]
pub mod levels {
    /// The answer of `engine.load` as one flat map, the row of a table: every name of `levels::columns()`, `()` if
    /// unknown. Names are those of vLLM's bench (`mean_ttft_ms`, `median_ttft_ms`, `p99_e2el_ms`, `output_throughput`);
    /// shares are from 0 to 1. Each percentile `NAME` has `NAME_low` and `NAME_high`, its 95 % interval by order
    /// statistics, and `NAME_thin`, true if too few independent requests support it, so that it has no interval.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/engines" as engines;
    /// let engine = engines::describe("sim", #{});
    /// let row = levels::row(engine.load(#{ concurrency: 2, requests: 8, input: 128, output: 8 }));
    /// assert(row.completed == 8 && row.p99_ttft_ms > 0.0 && row.p99_ttft_ms_thin && row.p99_ttft_ms_low == ());
    /// ```
    #[rhai_fn(return_raw)]
    pub fn row(answer: Map) -> Caught<Dynamic> {
        let answer = LoadAnswer::read(&from_script(&answer.into())?);
        Ok(to_script(&load_metrics::row(&answer))?)
    }

    /// The names of all cells of `levels::row`, in order. They do not depend on the measured values.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(levels::columns()[0] == "issued" && "p95_ttft_ms_thin" in levels::columns());
    /// ```
    pub fn columns() -> Array {
        load_metrics::columns().into_iter().map(Dynamic::from).collect()
    }

    /// The metrics of a load in the order of tables, each `#{ name, heading, unit, better, scale, percentile }`.
    /// `heading` is for people, with its unit; a value times `scale` is in that unit; `percentile` is true if it has an
    /// interval and a mark.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let kv = levels::metrics().find(|metric| metric.name == "kv_usage");
    /// assert(kv.heading == "KV cache used, %" && kv.scale == 100.0);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn metrics() -> Caught<Dynamic> {
        let metrics = LoadMetric::all().iter().map(|metric| {
            json!({
                "name": metric.name, "heading": metric.heading, "unit": metric.unit, "better": metric.better,
                "scale": metric.scale(), "percentile": metric.is_percentile(),
            })
        });
        Ok(to_script(&metrics.collect::<Value>())?)
    }

    /// Findings from the rows of a sweep over `axis` (`"concurrency"` or `"rate"`): `#{ finding, rows, notes,
    /// knee, preemption, queue, waiting, best, cheapest }`. `finding` is the answer in one sentence, `rows` has a row
    /// for each level that stands out, `#{ finding, at, output_throughput, mean_ttft_ms, why }`, and `notes` are further
    /// sentences. Each of the others is `()` if the rows do not determine it.
    ///
    /// `knee` is the saturation point, `#{ x, y, low, high, distance }`: with both axes scaled to the curve of output
    /// throughput, the point farthest from the straight line between its ends (Satopää et al. 2011, "Finding a
    /// 'Kneedle' in a Haystack"). `low` and `high` are the smallest and largest levels that are indistinguishable from
    /// it if each value may be wrong by 2 % of the highest; `distance` is how far it stands out, as a share of the
    /// range of values. Where the highest throughput is over 1.25 times that, it is the smallest level that no other exceeds
    /// so far, if the curve is flat from there on: it rises by less than half as much as the level. Rows of the same level are
    /// averaged. Choose levels from far below to beyond the knee.
    ///
    /// `preemption`, `queue` and `waiting` say where preemptions, a growing queue (at a rate) and a queue in the engine
    /// begin, as `#{ last_without, first_with, contradicting }`: between `last_without` (`()` if the smallest level
    /// already has some) and `first_with`; `contradicting` lists larger levels without any. `best` and `cheapest` are
    /// the levels with the highest output throughput and the lowest cost of all tokens.
    ///
    /// # Errors
    ///
    /// `usage` for a row without `axis`, or with a figure that is not a number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let rising = [[1, 20.0], [8, 160.0], [32, 640.0], [64, 650.0], [256, 655.0]];
    /// let rows = rising.map(|at| #{ concurrency: at[0], output_throughput: at[1], preemptions: if at[0] > 32 { 3 } else { 0 } });
    /// let found = levels::findings(rows, "concurrency");
    /// assert(found.finding.starts_with("saturates at 32 concurrent requests: 640 output tokens/s"));
    /// assert(found.rows[0].finding == "saturates" && found.rows[0].at == 32);
    /// assert(found.knee.x == 32 && found.preemption.first_with == 64 && found.best == 256 && found.cheapest == ());
    /// ```
    #[rhai_fn(return_raw)]
    pub fn findings(rows: Array, axis: &str) -> Caught<Dynamic> {
        Ok(found_over(&rows, axis)?)
    }

    /// Forecasts closed loads on the scheduler of the simulated engine, in model time: hundreds a second.
    ///
    /// A load is `#{ concurrency, input, output, max_num_seqs, max_num_batched_tokens, chunked_prefill (true), kv_tokens,
    /// block_tokens (16), percentile (0.95), cost }`; lengths are as in `engine.load`. `cost` is seconds of a step,
    /// `#{ step, decode, prefill, kv }`: of each step, and for each decoding sequence, prompt token and token read from
    /// the KV cache in it. The answer has for each load `#{ output_throughput, ttft_ms, tpot_ms, e2el_ms, preemptions,
    /// kv_usage, per_token, per_tpot, per_ttft }`: latencies at the percentile, and the counts (in the order of `cost`)
    /// whose products with `cost` add up to the seconds of an output token, the mean TPOT and the mean TTFT. The counts
    /// do not depend on `cost`, so it can be fitted to measurements by linear equations.
    ///
    /// # Errors
    ///
    /// `usage` for a KV cache in which the longest request does not fit, or an impossible size.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let cost = #{ step: 0.01, decode: 0.0001, prefill: 0.00001, kv: 0.0 };
    /// let engine = #{ max_num_seqs: 256, max_num_batched_tokens: 2048, kv_tokens: 100000, cost: cost };
    /// let seen = levels::forecast([1, 8].map(|level| engine + #{ concurrency: level, input: 512, output: 128 }));
    /// assert(seen[0].tpot_ms > 10.0 && seen[1].output_throughput > 6.0 * seen[0].output_throughput);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn forecast(context: NativeCallContext, loads: Array) -> Caught<Dynamic> {
        begin_call(&context);
        let loads = loads
            .iter()
            .map(|load| deserialize_as::<ForecastLoad>("option", from_script(load)?));
        let seen = loads.map(|load| load?.run()).collect::<Result<Vec<_>>>()?;
        Ok(to_script(&seen)?)
    }

    /// Announces the loads that the script runs next, as a list of options of `engine.load`, so that the progress
    /// display can show which load is running and estimate the remaining time.
    ///
    /// # Example
    ///
    /// ```rhai
    /// levels::plan([1, 8, 64].map(|level| #{ concurrency: level, requests: 5 * level, input: 128, output: 8 }));
    /// ```
    #[rhai_fn(return_raw)]
    pub fn plan(context: NativeCallContext, loads: Array) -> Caught<()> {
        let loads = loads.iter().map(from_script).collect::<Result<_>>()?;
        Ok(begin_call(&context).run.note(Event::Planned { loads })?)
    }
}

/// The findings from the rows of a sweep, with levels as they were written.
fn found_over(rows: &Array, axis: &str) -> Result<Dynamic> {
    let (mut levels, mut written) = (Vec::new(), Vec::new());
    for row in rows {
        let row: Value = from_script(row)?;
        let Some(level) = row.get(axis) else {
            return Err(Fault::usage(format!("a row has no `{axis}`")));
        };
        if level.is_null() {
            continue;
        }
        let at = level.as_f64();
        let at = at.ok_or_else(|| Fault::usage(format!("`{axis}` is {}, not a number", type_with_article(level))))?;
        written.push(level.clone());
        let figures = deserialize_as::<LevelFigures>("key", row)?;
        levels.push(LevelFigures { level: at, ..figures });
    }
    let mut found = json!(SweepFindings::new(SweepAxis::named(axis), &levels));
    restore_levels(&mut found, "", &written);
    to_script(&found)
}

/// The keys of findings whose values are levels.
const LEVELS: [&str; 9] = [
    "at",
    "best",
    "cheapest",
    "x",
    "low",
    "high",
    "last_without",
    "first_with",
    "contradicting",
];

/// Restores each level to its form in the rows: a whole number stays one.
fn restore_levels(found: &mut Value, key: &str, written: &[Value]) {
    match found {
        Value::Object(map) => map
            .iter_mut()
            .for_each(|(key, value)| restore_levels(value, key, written)),
        Value::Array(items) => items.iter_mut().for_each(|item| restore_levels(item, key, written)),
        level if LEVELS.contains(&key) => {
            if let Some(same) = written.iter().find(|one| one.as_f64() == level.as_f64()) {
                *level = same.clone();
            }
        }
        _ => {}
    }
}

/// Longest prompt that a script can hold, in tokens. `engine.probe` sends longer ones.
const MAX_TOKENS: usize = 1_000_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PromptOptions {
    tokenizer: Option<String>,
    model: Option<String>,
    vocabulary: Option<u32>,
    form: Option<PromptForm>,
    chat: bool,
    shared_prefix: usize,
    seed: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Made {
    ids: Option<Vec<u32>>,
    text: Option<String>,
    count: usize,
}

impl PromptOptions {
    fn origin(&self, host: &Host) -> Result<Origin> {
        match (self.tokenizer.as_ref().or(self.model.as_ref()), self.vocabulary) {
            (Some(name), None) => {
                let name = host.permits.check_model(name, &host.settings.root())?;
                Ok(Origin::Tokenizer(name))
            }
            (None, Some(size)) => Ok(Origin::Vocabulary(size)),
            (None, None) => Err(Fault::usage("a prompt needs a model or a vocabulary")
                .hint("give `model` or `tokenizer`, or `vocabulary` (the number of token ids)")),
            (Some(_), Some(_)) => Err(Fault::usage("`vocabulary` is for models without a tokenizer")
                .hint("leave out `vocabulary`, or `model` and `tokenizer`")),
        }
    }
}

fn make(host: &Host, tokens: i64, wanted: &PromptOptions) -> Result<Made> {
    let tokens = usize::try_from(tokens)
        .ok()
        .filter(|&tokens| tokens > 0)
        .ok_or_else(|| Fault::usage(format!("a prompt of {tokens} tokens is impossible")).hint("ask for at least 1"))?;
    if tokens > MAX_TOKENS {
        let message = format!("a prompt of {tokens} tokens is too long for a script, which may hold {MAX_TOKENS}");
        return Err(Fault::new(Kind::Limit, message).hint("let `engine.probe` make and send it"));
    }
    let ask = PromptSpec {
        tokens,
        form: wanted.form.unwrap_or(PromptForm::Tokens),
        chat: wanted.chat,
        shared_prefix: wanted.shared_prefix,
    };
    let seed = wanted.seed.unwrap_or(host.settings.seed);
    let prompts = host.tasks.wait(host.prompts.prompts(&wanted.origin(host)?, seed))?;
    if let Some(why) = prompts.chat_unknown().filter(|_| ask.chat) {
        return Err(Fault::usage(format!("a chat message cannot be counted: {why}")));
    }
    let (ids, text) = match prompts.make(&ask)? {
        Content::Tokens(ids) => (Some(ids), None),
        Content::Text(text) => (None, Some(text)),
    };
    Ok(Made {
        ids,
        text,
        count: ask.tokens,
    })
}

/// Prompts of exactly N tokens.
#[export_module]
pub mod prompt {
    /// A prompt of exactly `n` tokens (1 to 1,000,000), as a map of `ids` (token ids), `text` and `count`; either `ids`
    /// or `text` is `()`. Each call returns another prompt, different from its first token on, so that no prefix cache
    /// can serve it.
    ///
    /// Options: `model` or `tokenizer` (a folder or file with `tokenizer.json` below the script's folder or one
    /// permitted with `--allow mount=DIR`, or a model of the Hugging Face hub), or instead `vocabulary` (the number of
    /// token ids); `form`: `"tokens"` (default) or `"text"`, which is verified to encode to exactly that number,
    /// including special tokens; `chat` (false): the text becomes the content of one user message, and the chat
    /// template counts; `shared_prefix` (0): tokens at the start that all prompts of the same seed share; `seed`
    /// (default: the seed of the run).
    ///
    /// # Errors
    ///
    /// `usage` if `n` is less than the number of tokens that the engine adds (the hint has the minimum), or for text
    /// without a tokenizer; `missing` if there is no tokenizer; `not_allowed` for a file or folder elsewhere; `limit`
    /// for more than 1,000,000 tokens.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let one = prompt::tokens(512, #{ vocabulary: 32000, seed: 1 });
    /// let two = prompt::tokens(512, #{ vocabulary: 32000, seed: 1 });
    /// assert(one.ids.len() == 512 && one.count == 512);
    /// assert(one.ids[0] != two.ids[0]);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn tokens(context: NativeCallContext, n: i64, options: Map) -> Caught<Dynamic> {
        let wanted: PromptOptions = crate::script::options(options)?;
        Ok(to_script(&make(&begin_call(&context), n, &wanted)?)?)
    }
}
