//! KV cache: grouped-query attention, element width, number of tokens, and the preallocated pool.

use super::{Case, Explanation, near, ratio};
use crate::memory::compare::{Gib, Term};
use crate::memory::{Component, Provenance};

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
pub(super) fn explain(case: &Case<'_>) -> Vec<Explanation> {
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
