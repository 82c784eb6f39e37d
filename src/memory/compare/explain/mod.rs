//! Finds the assumption that explains a difference. Each rule states its figures; if none fits, nothing is reported.

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::external_estimate::{ExternalEstimate, Facts};
use super::terms::{Term, TermComparison};
use crate::fmt::Gib;
use crate::memory::{Breakdown, Component, Provenance};

/// Tolerance of a ratio: allocators round, and tables do not count every tensor.
const TOLERANCE: f64 = 0.05;

/// A wrong assumption, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The name of the term.
    pub about: &'static str,
    /// The assumption in one word: `gqa`, `kv_dtype`, `kv_tokens`, `kv_pool`, `weight_dtype`, `gb_gib`,
    /// `pool_as_overhead`, `tensor_parallel`, `all_layers_at_once`.
    pub assumption: &'static str,
    /// The figures, what follows from them, and what to do.
    pub text: String,
}

/// A difference to explain.
pub(super) struct Case<'a> {
    pub(super) measured: &'a Breakdown,
    /// What the measured side knows about its settings.
    pub(super) measured_facts: &'a Facts,
    pub(super) external: &'a ExternalEstimate,
    /// What either side knows about the model.
    pub(super) facts: &'a Facts,
    pub(super) rows: &'a [TermComparison],
}

pub(super) fn all(case: &Case<'_>) -> Vec<Explanation> {
    let mut found = Vec::new();
    found.extend(weights(case));
    found.extend(kv(case));
    found.extend(overhead(case));
    found.extend(tensor_parallel(case));
    found.extend(units(case));
    found
}

impl Case<'_> {
    /// The estimate and the measured value of a term, if both are above zero.
    fn both(&self, term: Term) -> Option<(i64, i64)> {
        let row = self.rows.iter().find(|row| row.term == term)?;
        let (said, measured) = (row.said?, row.measured?);
        (said > 0 && measured > 0).then_some((said, measured))
    }
}

/// `a` divided by `b`.
fn ratio(a: i64, b: i64) -> f64 {
    a as f64 / b as f64
}

/// Whether a ratio is within the tolerance of the expected one.
fn near(ratio: f64, expected: f64) -> bool {
    (ratio / expected - 1.0).abs() <= TOLERANCE
}

/// Widths of weights in bytes, and their names. Scales and zero points of quantized weights come on top.
const WIDTHS: [(f64, &str); 4] = [(4.0, "32 bit"), (2.0, "16 bit"), (1.0, "8 bit"), (0.5, "4 bit")];

/// Tolerance of bytes per parameter: the scales of groups of 32 add an eighth, and embeddings may stay 16-bit.
const WIDTH_TOLERANCE: f64 = 0.15;

fn weights(case: &Case<'_>) -> Option<Explanation> {
    let (said, measured) = case.both(Term::Weights)?;
    let times = ratio(said, measured);
    let step = [2.0, 4.0, 8.0]
        .into_iter()
        .find(|step| near(times, *step) || near(times, 1.0 / step));
    let widths = case
        .facts
        .parameters
        .filter(|count| *count > 0.0)
        .map(|count| (nearest_width(said, count), nearest_width(measured, count), count));
    let how = match (step, widths) {
        // The widths identify themselves, even if scales blur the ratio.
        (_, Some((Some(assumed), Some(real), count))) if assumed != real => {
            format!(
                "of {:.2} billion parameters, that is {assumed} against {real}",
                count / 1e9
            )
        }
        // Known widths that agree, or that match none, do not explain the ratio.
        (_, Some(_)) | (None, None) => return None,
        (Some(_), None) => "as if weights had another width".to_owned(),
    };
    let quantization = case.facts.quantization.as_deref().map(|name| format!(" ({name})"));
    let dtype = case
        .facts
        .weight_dtype
        .as_deref()
        .map(|name| format!("; the measured ones are {name}"));
    Some(Explanation {
        about: Term::Weights.name(),
        assumption: "weight_dtype",
        text: format!(
            "weights of {} are {times:.2} times the {} measured: {how}; the type or quantization{} of the weights was assumed wrongly{}",
            Gib(said),
            Gib(measured),
            quantization.unwrap_or_default(),
            dtype.unwrap_or_default()
        ),
    })
}

/// The width that this many bytes for this many parameters come to.
fn nearest_width(bytes: i64, parameters: f64) -> Option<&'static str> {
    let each = bytes as f64 / parameters;
    let fits = |(width, _): &&(f64, &str)| (each / width - 1.0).abs() <= WIDTH_TOLERANCE;
    WIDTHS.iter().find(fits).map(|(_, name)| *name)
}

/// A KV cache of some bytes, and the tokens it holds if known.
struct KvFigure {
    bytes: i64,
    tokens: Option<u64>,
    /// Whether it was computed by a formula, not measured.
    formula: bool,
}

impl KvFigure {
    fn bytes_per_token(&self) -> Option<f64> {
        self.tokens
            .filter(|tokens| *tokens > 0)
            .map(|tokens| self.bytes as f64 / tokens as f64)
    }
}

/// Every assumption about the KV cache that explains the difference.
fn kv(case: &Case<'_>) -> Vec<Explanation> {
    let Some((term, bytes)) = case.external.kv().filter(|(_, bytes)| *bytes > 0) else {
        return Vec::new();
    };
    let tokens = if term == Term::KvPool {
        case.external.facts.kv_tokens
    } else {
        case.external.facts.tokens
    };
    let estimated = KvFigure {
        bytes,
        tokens,
        formula: true,
    };
    let measured_figure = |component, tokens| {
        let part = case.measured.part(component).filter(|part| part.bytes > 0)?;
        Some(KvFigure {
            bytes: part.bytes,
            tokens,
            formula: part.provenance >= Provenance::Computed,
        })
    };
    let pool = measured_figure(Component::KvPool, case.measured_facts.kv_tokens);
    let mut used = measured_figure(Component::KvUsed, case.measured_facts.tokens);
    if let (Some(used), Some(pool)) = (&mut used, &pool) {
        // Computed as a share of the pool, it is as reliable as the pool.
        used.formula &=
            matches!((used.bytes_per_token(), pool.bytes_per_token()), (Some(a), Some(b)) if !near(a / b, 1.0));
    }
    let mut found = Vec::new();
    if term != Term::KvPool
        && let Some(pool) = &pool
    {
        found.extend(set_aside(&estimated, used.as_ref(), pool));
    }
    let measured = if term == Term::KvPool {
        pool.or(used)
    } else {
        used.or(pool)
    };
    let Some(measured) = measured else { return found };
    found.extend(width(case, &estimated, &measured));
    found.extend(token_count(&estimated, &measured).filter(|_| term != Term::KvPool && found.is_empty()));
    found
}

/// The estimate is compared with the pool that the engine reserves, whatever is used of it.
fn set_aside(estimated: &KvFigure, used: Option<&KvFigure>, pool: &KvFigure) -> Option<Explanation> {
    let text = match used {
        Some(used) if near(ratio(estimated.bytes, pool.bytes), 1.0) && !near(ratio(used.bytes, pool.bytes), 1.0) => {
            format!(
                "KV of {} matches the whole pool of {} that the engine reserves, of which {} are used: compare it with `kv_pool`",
                Gib(estimated.bytes),
                Gib(pool.bytes),
                Gib(used.bytes)
            )
        }
        None => {
            let (estimated_tokens, pool_tokens) = (estimated.tokens.filter(|tokens| *tokens > 0)?, pool.tokens?);
            let same =
                near(pool.bytes_per_token()? / estimated.bytes_per_token()?, 1.0) && pool_tokens != estimated_tokens;
            same.then(|| {
                format!(
                    "bytes per token agree; the KV of {} is for {estimated_tokens} tokens, and the engine reserves {} for {pool_tokens}, used or not",
                    Gib(estimated.bytes),
                    Gib(pool.bytes)
                )
            })?
        }
        Some(_) => return None,
    };
    Some(Explanation {
        about: "kv",
        assumption: "kv_pool",
        text,
    })
}

/// Heads and element width: from bytes per token if both sides know their tokens, else from the bytes.
fn width(case: &Case<'_>, estimated: &KvFigure, measured: &KvFigure) -> Vec<Explanation> {
    let (times, what) = match (estimated.bytes_per_token(), measured.bytes_per_token()) {
        (Some(a), Some(b)) => (
            a / b,
            format!("{a:.0} bytes a token are {:.2} times the {b:.0} measured", a / b),
        ),
        // A pool of unknown size cannot be compared with the KV cache of some tokens.
        _ if estimated.tokens.is_some() != measured.tokens.is_some() => return Vec::new(),
        _ => {
            let times = ratio(estimated.bytes, measured.bytes);
            (
                times,
                format!(
                    "KV of {} is {times:.2} times the {} measured",
                    Gib(estimated.bytes),
                    Gib(measured.bytes)
                ),
            )
        }
    };
    let narrow = case
        .facts
        .kv_dtype
        .as_deref()
        .is_some_and(|dtype| dtype.contains("fp8") || dtype.contains("int8") || dtype.contains("float8"));
    let mut found = Vec::new();
    let mut push = |assumption, text: String| {
        found.push(Explanation {
            about: "kv",
            assumption,
            text: format!("{what}{text}"),
        });
    };
    if let (Some(heads), Some(kv_heads)) = (case.facts.heads, case.facts.kv_heads)
        && kv_heads > 0
        && heads > kv_heads
    {
        let group = heads as f64 / kv_heads as f64;
        if near(times, group) {
            push(
                "gqa",
                format!(
                    ", and {heads} query heads share {kv_heads} KV heads, {group} each: keys and values were counted for every query head"
                ),
            );
            // With two query heads per KV head both explanations would fit. The one that is known to hold is enough.
            return found;
        }
        if near(times, 1.0 / group) && measured.formula {
            push(
                "gqa",
                format!(
                    ", and {heads} query heads share {kv_heads} KV heads, {group} each: the other figure was not measured but computed, with keys \
                     and values for every query head"
                ),
            );
            return found;
        }
        if near(times, 2.0 * group) && narrow {
            push(
                "gqa",
                format!(
                    ", which is {group} for {heads} query heads over {kv_heads} KV heads, and 2 for 8-bit elements counted as 16-bit: both were ignored"
                ),
            );
            return found;
        }
    }
    let dtype = case.facts.kv_dtype.as_deref();
    if near(times, 2.0) {
        match dtype {
            Some(dtype) if narrow => push(
                "kv_dtype",
                format!(": the cache is {dtype}, and 16-bit elements were counted"),
            ),
            Some(dtype) => push("kv_dtype", format!(": as if elements were twice as wide as {dtype}")),
            None => push(
                "kv_dtype",
                ", as if 16-bit elements were counted for an 8-bit cache".to_owned(),
            ),
        }
    } else if near(times, 0.5) {
        match dtype {
            Some(dtype) => push("kv_dtype", format!(": as if elements were half as wide as {dtype}")),
            None => push(
                "kv_dtype",
                ", as if 8-bit elements were counted for a 16-bit cache".to_owned(),
            ),
        }
    }
    found
}

/// Another number of tokens was counted.
fn token_count(estimated: &KvFigure, measured: &KvFigure) -> Option<Explanation> {
    let (estimated_tokens, measured_tokens) = (estimated.tokens?, measured.tokens?);
    let same = near(estimated.bytes_per_token()? / measured.bytes_per_token()?, 1.0)
        && estimated_tokens != measured_tokens
        && !near(ratio(estimated.bytes, measured.bytes), 1.0);
    same.then(|| Explanation {
        about: "kv",
        assumption: "kv_tokens",
        text: format!(
            "KV of {} is for {estimated_tokens} tokens, and the measured {} for {measured_tokens}: bytes per token agree",
            Gib(estimated.bytes),
            Gib(measured.bytes)
        ),
    })
}

/// How far the pool may be from the supposed overhead.
const POOL_TOLERANCE: f64 = 0.15;

fn overhead(case: &Case<'_>) -> Vec<Explanation> {
    [pool_said(case), pool_measured(case), all_layers(case)]
        .into_iter()
        .flatten()
        .collect()
}

/// The estimate's overhead is the measured pool, minus what the estimate counts as KV.
fn pool_said(case: &Case<'_>) -> Option<Explanation> {
    let row = case.rows.iter().find(|row| row.term == Term::Overhead)?;
    let (said, measured) = (row.said?, row.measured?);
    let pool = case.measured.part(Component::KvPool)?.bytes;
    let rest = pool
        - case
            .external
            .figure(Term::Kv)
            .or(case.external.figure(Term::KvUsed))
            .unwrap_or(0);
    let over = said - measured.max(0);
    (over > 0 && rest > 0 && (roughly(said, rest) || roughly(over, rest))).then(|| Explanation {
        about: Term::Overhead.name(),
        assumption: "pool_as_overhead",
        text: format!(
            "overhead of {} is {} more than measured, and the engine's KV pool has {} beyond the KV counted: the pool was taken for \
             overhead",
            Gib(said),
            Gib(over),
            Gib(rest)
        ),
    })
}

/// What is unexplained on the measured side is the pool that the estimate knows.
fn pool_measured(case: &Case<'_>) -> Option<Explanation> {
    if case.measured.part(Component::KvPool).is_some() {
        return None;
    }
    let pool = case.external.figure(Term::KvPool)?;
    let used = case.measured.part(Component::KvUsed).map_or(0, |part| part.bytes);
    let left = case.measured.unexplained();
    (left > 0 && pool > used && roughly(left, pool - used)).then(|| Explanation {
        about: Term::Overhead.name(),
        assumption: "pool_as_overhead",
        text: format!(
            "{} are unexplained on the measured side, and a pool of {} less {} of KV counted is as much: its overhead is the pool",
            Gib(left),
            Gib(pool),
            Gib(used)
        ),
    })
}

/// The activations of a layer are freed before the next one runs.
fn all_layers(case: &Case<'_>) -> Option<Explanation> {
    let (said, measured) = case.both(Term::Activations)?;
    let layers = case.facts.layers.filter(|layers| *layers > 2)?;
    near(ratio(said, measured), layers as f64).then(|| Explanation {
        about: Term::Activations.name(),
        assumption: "all_layers_at_once",
        text: format!(
            "activations of {} are {:.1} times the {} measured, and the model has {layers} layers: they were counted for all layers at once, and \
             are given back after each",
            Gib(said),
            ratio(said, measured),
            Gib(measured)
        ),
    })
}

fn roughly(a: i64, b: i64) -> bool {
    (ratio(a, b) - 1.0).abs() <= POOL_TOLERANCE
}

fn tensor_parallel(case: &Case<'_>) -> Vec<Explanation> {
    let Some(ranks) = case.facts.tensor_parallel.filter(|ranks| *ranks > 1) else {
        return Vec::new();
    };
    let times = ranks as f64;
    [Term::Weights, Term::Kv, Term::KvPool, Term::KvUsed]
        .into_iter()
        .filter_map(|term| {
            let (said, measured) = case.both(term)?;
            let factor = ratio(said, measured);
            let what = if near(factor, 1.0 / times) {
                "the estimate is for one rank, the measurement for all"
            } else if near(factor, times) {
                "the estimate is for all ranks, or a whole copy on each, and the measurement for one rank"
            } else {
                return None;
            };
            Some(Explanation {
                about: term.name(),
                assumption: "tensor_parallel",
                text: format!(
                    "{} of {} are {factor:.2} times the {} measured, and {ranks} ranks share the model: {what}",
                    term.name(),
                    Gib(said),
                    Gib(measured)
                ),
            })
        })
        .collect()
}

const GIB_PER_GB: f64 = 1.073_741_824;

/// Two decimals of a GiB are about this much of a small model.
const UNIT_TOLERANCE: f64 = 0.004;

fn units(case: &Case<'_>) -> Option<Explanation> {
    [Term::Weights, Term::Total].into_iter().find_map(|term| {
        let (said, measured) = case.both(term)?;
        let factor = ratio(said, measured);
        let (read, is) = if (factor / GIB_PER_GB - 1.0).abs() <= UNIT_TOLERANCE {
            ("GiB", "GB (10^9 bytes)")
        } else if (factor * GIB_PER_GB - 1.0).abs() <= UNIT_TOLERANCE {
            ("GB (10^9 bytes)", "GiB")
        } else {
            return None;
        };
        Some(Explanation {
            about: term.name(),
            assumption: "gb_gib",
            text: format!(
                "{} of {said} bytes are {factor:.4} times the {measured} measured, the ratio of a GiB to a GB: a figure in {is} was read as {read}",
                term.name()
            ),
        })
    })
}
