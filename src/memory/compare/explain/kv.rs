//! KV cache: heads that share keys and values, the width of its elements, the tokens counted, the pool that is set aside.

use super::{Case, Explanation, near, ratio};
use crate::memory::compare::{Gib, Term};
use crate::memory::{Component, Provenance};

/// What a KV cache of so many bytes holds, in tokens, where that is known.
struct Held {
    bytes: i64,
    tokens: Option<u64>,
    /// Whether a formula gave it, and nobody who held it.
    formula: bool,
}

impl Held {
    /// Bytes of a token.
    fn each(&self) -> Option<f64> {
        self.tokens
            .filter(|tokens| *tokens > 0)
            .map(|tokens| self.bytes as f64 / tokens as f64)
    }
}

/// Every assumption on the KV cache that fits.
pub(super) fn explain(case: &Case<'_>) -> Vec<Explanation> {
    let Some((term, bytes)) = case.claim.kv().filter(|(_, bytes)| *bytes > 0) else {
        return Vec::new();
    };
    let tokens = if term == Term::KvPool {
        case.claim.facts.kv_tokens
    } else {
        case.claim.facts.tokens
    };
    let said = Held {
        bytes,
        tokens,
        formula: true,
    };
    let held = |component, tokens| {
        let part = case.measured.part(component).filter(|part| part.bytes > 0)?;
        Some(Held {
            bytes: part.bytes,
            tokens,
            formula: part.provenance >= Provenance::Computed,
        })
    };
    let pool = held(Component::KvPool, case.measured_facts.kv_tokens);
    let mut used = held(Component::KvUsed, case.measured_facts.tokens);
    if let (Some(used), Some(pool)) = (&mut used, &pool) {
        // Computed as a share of the pool, it is as good as the pool.
        used.formula &= matches!((used.each(), pool.each()), (Some(a), Some(b)) if !near(a / b, 1.0));
    }
    let mut found = Vec::new();
    if term != Term::KvPool
        && let Some(pool) = &pool
    {
        found.extend(set_aside(&said, used.as_ref(), pool));
    }
    let beside = if term == Term::KvPool {
        pool.or(used)
    } else {
        used.or(pool)
    };
    let Some(beside) = beside else { return found };
    found.extend(width(case, &said, &beside));
    found.extend(counted(&said, &beside).filter(|_| term != Term::KvPool && found.is_empty()));
    found
}

/// The engine sets a pool aside, whatever is used of it.
fn set_aside(said: &Held, used: Option<&Held>, pool: &Held) -> Option<Explanation> {
    let text = match used {
        Some(used) if near(ratio(said.bytes, pool.bytes), 1.0) && !near(ratio(used.bytes, pool.bytes), 1.0) => format!(
            "KV of {} is that of the pool of {} that the engine sets aside, of which {} are used: compare it with `kv_pool`",
            Gib(said.bytes),
            Gib(pool.bytes),
            Gib(used.bytes)
        ),
        None => {
            let (told, room) = (said.tokens.filter(|tokens| *tokens > 0)?, pool.tokens?);
            let same = near(pool.each()? / said.each()?, 1.0) && room != told;
            same.then(|| {
                format!(
                    "a token takes the same on both sides; the KV of {} is for {told} tokens, and the engine sets aside {} for {room}, used or not",
                    Gib(said.bytes),
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

/// Heads and element width: from bytes of a token where both sides tell tokens, else from the bytes.
fn width(case: &Case<'_>, said: &Held, beside: &Held) -> Vec<Explanation> {
    let (times, what) = match (said.each(), beside.each()) {
        (Some(a), Some(b)) => (
            a / b,
            format!("{a:.0} bytes a token are {:.2} times the {b:.0} measured", a / b),
        ),
        // A pool of unknown size beside some tokens would compare apples and pears.
        _ if said.tokens.is_some() != beside.tokens.is_some() => return Vec::new(),
        _ => {
            let times = ratio(said.bytes, beside.bytes);
            (
                times,
                format!(
                    "KV of {} is {times:.2} times the {} measured",
                    Gib(said.bytes),
                    Gib(beside.bytes)
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
    let mut say = |assumption, text: String| {
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
            say(
                "gqa",
                format!(
                    ", and {heads} query heads share {kv_heads} KV heads, {group} each: keys and values were counted for every query head"
                ),
            );
            // With two query heads to one, both explanations would fit: the one that is known to hold is enough.
            return found;
        }
        if near(times, 1.0 / group) && beside.formula {
            say(
                "gqa",
                format!(
                    ", and {heads} query heads share {kv_heads} KV heads, {group} each: the figure beside it was not measured but computed, with keys \
                     and values for every query head"
                ),
            );
            return found;
        }
        if near(times, 2.0 * group) && narrow {
            say(
                "gqa",
                format!(
                    ", which is {group} for {heads} query heads over {kv_heads} KV heads, and 2 for elements of 8 bit counted as 16: both were left out"
                ),
            );
            return found;
        }
    }
    let dtype = case.facts.kv_dtype.as_deref();
    if near(times, 2.0) {
        match dtype {
            Some(dtype) if narrow => say(
                "kv_dtype",
                format!(": the cache is {dtype}, and elements of 16 bit were counted"),
            ),
            Some(dtype) => say("kv_dtype", format!(": as if elements were twice as wide as {dtype}")),
            None => say(
                "kv_dtype",
                ", as elements of twice the width would take: 16 bit counted, and a cache of 8 bit".to_owned(),
            ),
        }
    } else if near(times, 0.5) {
        match dtype {
            Some(dtype) => say("kv_dtype", format!(": as if elements were half as wide as {dtype}")),
            None => say(
                "kv_dtype",
                ", as elements of half the width would take: 8 bit counted, and a cache of 16 bit".to_owned(),
            ),
        }
    }
    found
}

/// Another number of tokens was counted.
fn counted(said: &Held, beside: &Held) -> Option<Explanation> {
    let (told, held) = (said.tokens?, beside.tokens?);
    let same = near(said.each()? / beside.each()?, 1.0) && told != held && !near(ratio(said.bytes, beside.bytes), 1.0);
    same.then(|| Explanation {
        about: "kv",
        assumption: "kv_tokens",
        text: format!(
            "KV of {} is for {told} tokens, and that measured of {} for {held}: a token takes the same on both sides",
            Gib(said.bytes),
            Gib(beside.bytes)
        ),
    })
}
