//! Finds the assumption that explains a difference. Each rule states its figures. If no rule matches, nothing is
//! reported.

use serde::Serialize;

use super::{ExternalEstimate, ModelFacts, Term, TermComparison};
use crate::fmt::{GIB, Gib};
use crate::memory::{Breakdown, Component, Provenance};

/// Tolerance of a ratio: allocators round, and tables do not count every tensor.
const TOLERANCE: f64 = 0.05;

/// A wrong assumption and the evidence for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The name of the term.
    pub about: &'static str,
    /// The assumption in one word: `gqa`, `kv_dtype`, `kv_tokens`, `kv_pool`, `weight_dtype`, `gb_gib`,
    /// `pool_as_overhead`, `tensor_parallel`, `all_layers_at_once`.
    pub assumption: &'static str,
    /// The figures, the conclusion, and the remedy.
    pub text: String,
}

/// A difference to explain.
pub(super) struct Case<'a> {
    pub(super) measured: &'a Breakdown,
    /// Facts about the settings on the measured side.
    pub(super) measured_facts: &'a ModelFacts,
    pub(super) external: &'a ExternalEstimate,
    /// Facts about the model from either side.
    pub(super) facts: &'a ModelFacts,
    pub(super) rows: &'a [TermComparison],
}

impl Explanation {
    fn new(about: Term, assumption: &'static str, text: String) -> Self {
        Self {
            about: about.name(),
            assumption,
            text,
        }
    }
}

pub(super) fn all(case: &Case<'_>) -> Vec<Explanation> {
    let mut found = Vec::new();
    found.extend(weights(case));
    found.extend(kv(case));
    found.extend(pool_said(case));
    found.extend(pool_measured(case));
    found.extend(all_layers(case));
    found.extend(tensor_parallel(case));
    found.extend(units(case));
    found
}

impl Case<'_> {
    /// The estimate and the measured value of a term, if both are positive.
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

/// Whether a ratio is within `tolerance` of the expected one.
fn within(tolerance: f64, ratio: f64, expected: f64) -> bool {
    (ratio / expected - 1.0).abs() <= tolerance
}

/// Whether a ratio is within the usual [`TOLERANCE`] of the expected one.
fn near(ratio: f64, expected: f64) -> bool {
    within(TOLERANCE, ratio, expected)
}

/// The ratio of two sizes, as the beginning of a sentence.
fn times(term: Term, said: i64, measured: i64) -> String {
    format!(
        "{} of {} is {:.2} times the {} measured",
        term.name(),
        Gib(said),
        ratio(said, measured),
        Gib(measured)
    )
}

/// Widths of weights in bytes, and their names. Scales and zero points of quantized weights are not included.
const WIDTHS: [(f64, &str); 4] = [(4.0, "32 bit"), (2.0, "16 bit"), (1.0, "8 bit"), (0.5, "4 bit")];

/// Tolerance of bytes per parameter: the scales of groups of 32 add an eighth, and embeddings may stay 16-bit.
const WIDTH_TOLERANCE: f64 = 0.15;

fn weights(case: &Case<'_>) -> Option<Explanation> {
    let (said, measured) = case.both(Term::Weights)?;
    let known = |value: &Option<String>, before: &str, after: &str| {
        value
            .as_ref()
            .map_or_else(String::new, |name| format!("{before}{name}{after}"))
    };
    let how = match case.facts.parameters.filter(|count| *count > 0.0) {
        // The widths identify themselves, even if scales distort the ratio.
        Some(count) => {
            let width = |bytes: i64| {
                let each = bytes as f64 / count;
                let fits = |(width, _): &&(f64, &'static str)| within(WIDTH_TOLERANCE, each, *width);
                WIDTHS.iter().find(fits).map(|(_, name)| *name)
            };
            let (assumed, real) = (width(said)?, width(measured)?);
            if assumed == real {
                return None;
            }
            format!(
                "of {:.2} billion parameters, that is {assumed} against {real}",
                count / 1e9
            )
        }
        None => {
            let step = |step: &f64| near(ratio(said, measured), *step);
            [0.125, 0.25, 0.5, 2.0, 4.0, 8.0].iter().find(|width| step(width))?;
            "as if weights had another width".to_owned()
        }
    };
    let text = format!(
        "{}: {how}; the type or quantization{} of the weights was assumed wrongly{}",
        times(Term::Weights, said, measured),
        known(&case.facts.quantization, " (", ")"),
        known(&case.facts.weight_dtype, "; the measured ones are ", ""),
    );
    Some(Explanation::new(Term::Weights, "weight_dtype", text))
}

/// A KV cache in bytes, and the number of its tokens if known.
struct KvFigure {
    bytes: i64,
    tokens: Option<u64>,
    /// Whether it was computed by a formula, not measured.
    formula: bool,
}

impl KvFigure {
    fn bytes_per_token(&self) -> Option<f64> {
        let tokens = self.tokens.filter(|tokens| *tokens > 0)?;
        Some(self.bytes as f64 / tokens as f64)
    }

    /// Whether bytes per token agree and numbers of tokens differ.
    fn differs_in_tokens(&self, other: &Self) -> bool {
        let each = self.bytes_per_token().zip(other.bytes_per_token());
        each.is_some_and(|(a, b)| near(a / b, 1.0)) && self.tokens != other.tokens
    }
}

/// All assumptions about the KV cache that explain the difference.
fn kv(case: &Case<'_>) -> Vec<Explanation> {
    let Some((term, bytes)) = case.external.kv().filter(|(_, bytes)| *bytes > 0) else {
        return Vec::new();
    };
    let of_pool = term == Term::KvPool;
    let (facts, measured) = (&case.external.facts, case.measured_facts);
    let estimated = KvFigure {
        bytes,
        tokens: if of_pool { facts.kv_tokens } else { facts.tokens },
        formula: true,
    };
    let figure = |component, tokens| {
        let part = case.measured.part(component).filter(|part| part.bytes > 0)?;
        Some(KvFigure {
            bytes: part.bytes,
            tokens,
            formula: part.provenance >= Provenance::Computed,
        })
    };
    let pool = figure(Component::KvPool, measured.kv_tokens);
    let mut used = figure(Component::KvUsed, measured.tokens);
    if let (Some(used), Some(pool)) = (&mut used, &pool) {
        // If it was computed as a share of the pool, it is as reliable as the pool.
        let each = used.bytes_per_token().zip(pool.bytes_per_token());
        used.formula &= each.is_some_and(|(a, b)| !near(a / b, 1.0));
    }
    let mut found = Vec::new();
    if let Some(pool) = pool.as_ref().filter(|_| !of_pool) {
        found.extend(set_aside(&estimated, used.as_ref(), pool));
    }
    let Some(measured) = (if of_pool { pool.or(used) } else { used.or(pool) }) else {
        return found;
    };
    found.extend(width(case, &estimated, &measured));
    let same = near(ratio(estimated.bytes, measured.bytes), 1.0);
    if found.is_empty() && !of_pool && !same && estimated.differs_in_tokens(&measured) {
        let text = format!(
            "KV of {} is for {} tokens, and the measured {} for {}: bytes per token agree",
            Gib(estimated.bytes),
            estimated.tokens.unwrap_or_default(),
            Gib(measured.bytes),
            measured.tokens.unwrap_or_default()
        );
        found.push(Explanation::new(Term::Kv, "kv_tokens", text));
    }
    found
}

/// Compares the estimate with the whole pool that the engine reserves, however much of it is used.
fn set_aside(estimated: &KvFigure, used: Option<&KvFigure>, pool: &KvFigure) -> Option<Explanation> {
    let (said, whole) = (Gib(estimated.bytes), Gib(pool.bytes));
    let text = match used {
        Some(used) if near(ratio(estimated.bytes, pool.bytes), 1.0) && !near(ratio(used.bytes, pool.bytes), 1.0) => {
            let used = Gib(used.bytes);
            format!(
                "KV of {said} matches the whole pool of {whole} that the engine reserves, of which {used} are used: compare it with `kv_pool`"
            )
        }
        None if estimated.differs_in_tokens(pool) => {
            let (said_tokens, tokens) = (estimated.tokens?, pool.tokens?);
            format!(
                "bytes per token agree; the KV of {said} is for {said_tokens} tokens, and the engine reserves {whole} for {tokens}, used or not"
            )
        }
        _ => return None,
    };
    Some(Explanation::new(Term::Kv, "kv_pool", text))
}

/// The effect of heads and element width: from bytes per token if both sides know their tokens, else from the bytes.
fn width(case: &Case<'_>, estimated: &KvFigure, measured: &KvFigure) -> Option<Explanation> {
    let (factor, what) = match (estimated.bytes_per_token(), measured.bytes_per_token()) {
        (Some(a), Some(b)) => (
            a / b,
            format!("{a:.0} bytes a token are {:.2} times the {b:.0} measured", a / b),
        ),
        // A pool of unknown size cannot be compared with the KV cache for a known number of tokens.
        _ if estimated.tokens.is_some() != measured.tokens.is_some() => return None,
        _ => (
            ratio(estimated.bytes, measured.bytes),
            times(Term::Kv, estimated.bytes, measured.bytes),
        ),
    };
    let dtype = case.facts.kv_dtype.as_deref();
    let narrow = dtype.is_some_and(|dtype| ["fp8", "int8", "float8"].iter().any(|name| dtype.contains(name)));
    let heads = case.facts.heads.zip(case.facts.kv_heads);
    if let Some((heads, kv_heads)) = heads.filter(|(heads, kv_heads)| *kv_heads > 0 && heads > kv_heads) {
        let group = heads as f64 / kv_heads as f64;
        let why = if near(factor, group) {
            Some("keys and values were counted for every query head")
        } else if near(factor, 1.0 / group) && measured.formula {
            Some("the other figure was not measured but computed, with keys and values for every query head")
        } else if near(factor, 2.0 * group) && narrow {
            Some("this was ignored, and 8-bit elements were counted as 16-bit")
        } else {
            None
        };
        // With two query heads per KV head, the width of the elements would match as well. The explanation that is
        // known to hold suffices.
        if let Some(why) = why {
            let text = format!("{what}, and {heads} query heads share {kv_heads} KV heads, {group} each: {why}");
            return Some(Explanation::new(Term::Kv, "gqa", text));
        }
    }
    let wide = match factor {
        factor if near(factor, 2.0) => "twice",
        factor if near(factor, 0.5) => "half",
        _ => return None,
    };
    let text = match dtype {
        Some(dtype) => format!("{what}: as if elements were {wide} as wide as those of the cache, {dtype}"),
        None => format!("{what}: as if elements were {wide} as wide as those of the cache"),
    };
    Some(Explanation::new(Term::Kv, "kv_dtype", text))
}

/// Tolerance between the pool and the supposed overhead.
const POOL_TOLERANCE: f64 = 0.15;

fn roughly(a: i64, b: i64) -> bool {
    within(POOL_TOLERANCE, ratio(a, b), 1.0)
}

/// The estimate's overhead is the measured pool, minus the part that the estimate counts as KV.
fn pool_said(case: &Case<'_>) -> Option<Explanation> {
    let row = case.rows.iter().find(|row| row.term == Term::Overhead)?;
    let (said, measured) = (row.said?, row.measured?);
    let pool = case.measured.part(Component::KvPool)?.bytes;
    let counted = [Term::Kv, Term::KvUsed]
        .into_iter()
        .find_map(|term| case.external.figure(term));
    let (rest, over) = (pool - counted.unwrap_or(0), said - measured.max(0));
    if over <= 0 || rest <= 0 || !(roughly(said, rest) || roughly(over, rest)) {
        return None;
    }
    let (said, over, rest) = (Gib(said), Gib(over), Gib(rest));
    let text = format!(
        "overhead of {said} is {over} more than measured, and the engine's KV pool has {rest} beyond the KV counted: the pool was taken for \
         overhead"
    );
    Some(Explanation::new(Term::Overhead, "pool_as_overhead", text))
}

/// The unexplained part on the measured side is the pool that the estimate knows.
fn pool_measured(case: &Case<'_>) -> Option<Explanation> {
    let pool = case.external.figure(Term::KvPool)?;
    let used = case.measured.part(Component::KvUsed).map_or(0, |part| part.bytes);
    let left = case.measured.unexplained();
    let measured = case.measured.part(Component::KvPool).is_some();
    if measured || left <= 0 || pool <= used || !roughly(left, pool - used) {
        return None;
    }
    let (left, pool, used) = (Gib(left), Gib(pool), Gib(used));
    let text = format!(
        "{left} are unexplained on the measured side, and a pool of {pool} less {used} of KV counted is as much: its overhead is the pool"
    );
    Some(Explanation::new(Term::Overhead, "pool_as_overhead", text))
}

/// The estimate adds up the activations of all layers, but those of a layer are freed before the next one runs.
fn all_layers(case: &Case<'_>) -> Option<Explanation> {
    let (said, measured) = case.both(Term::Activations)?;
    let layers = case.facts.layers.filter(|layers| *layers > 2)?;
    near(ratio(said, measured), layers as f64).then(|| {
        let what = times(Term::Activations, said, measured);
        let text = format!(
            "{what}, and the model has {layers} layers: they were counted for all layers at once, and are given back after each"
        );
        Explanation::new(Term::Activations, "all_layers_at_once", text)
    })
}

fn tensor_parallel(case: &Case<'_>) -> Vec<Explanation> {
    let Some(ranks) = case.facts.tensor_parallel.filter(|ranks| *ranks > 1) else {
        return Vec::new();
    };
    let explain = |term| {
        let (said, measured) = case.both(term)?;
        let why = match ratio(said, measured) * ranks as f64 {
            one if near(one, 1.0) => "the estimate is for one rank, the measurement for all",
            all if near(all, (ranks * ranks) as f64) => {
                "the estimate is for all ranks, or a whole copy on each, and the measurement for one rank"
            }
            _ => return None,
        };
        let what = times(term, said, measured);
        let text = format!("{what}, and {ranks} ranks share the model: {why}");
        Some(Explanation::new(term, "tensor_parallel", text))
    };
    let terms = [Term::Weights, Term::Kv, Term::KvPool, Term::KvUsed];
    terms.into_iter().filter_map(explain).collect()
}

/// Rounding to two decimals of a GiB is about this share of a small model.
const UNIT_TOLERANCE: f64 = 0.004;

fn units(case: &Case<'_>) -> Option<Explanation> {
    [Term::Weights, Term::Total].into_iter().find_map(|term| {
        let (said, measured) = case.both(term)?;
        let (factor, gib_per_gb) = (ratio(said, measured), GIB / 1e9);
        let (read, is) = if within(UNIT_TOLERANCE, factor, gib_per_gb) {
            ("GiB", "GB (10^9 bytes)")
        } else if within(UNIT_TOLERANCE, factor, 1.0 / gib_per_gb) {
            ("GB (10^9 bytes)", "GiB")
        } else {
            return None;
        };
        let name = term.name();
        let text = format!(
            "{name} of {said} bytes are {factor:.4} times the {measured} measured, the ratio of a GiB to a GB: a figure in {is} was read as {read}"
        );
        Some(Explanation::new(term, "gb_gib", text))
    })
}

#[cfg(test)]
mod tests {
    use crate::memory::compare::{EstimateComparison, ExternalEstimate, ModelFacts, Term};
    use crate::memory::{Breakdown, Component, Part, Provenance};

    const GIB: i64 = 1 << 30;

    /// The memory of an engine with a model of 8 B parameters: 128 KiB of KV per token, a pool for 400,000 tokens.
    fn measured(parts: &[(Component, i64)]) -> Breakdown {
        let pool = parts.iter().any(|(component, _)| *component == Component::KvPool);
        let part = |(component, bytes): &(Component, i64)| Part {
            component: *component,
            bytes: *bytes,
            provenance: Provenance::Measured,
            source: String::new(),
            within: (pool && *component == Component::KvUsed).then_some(Component::KvPool),
        };
        let outer = parts
            .iter()
            .filter(|(component, _)| !pool || *component != Component::KvUsed);
        let total: i64 = outer.map(|(_, bytes)| bytes).sum();
        Breakdown::new(
            None,
            u64::try_from(total + GIB).unwrap(),
            parts.iter().map(part).collect(),
        )
        .unwrap()
    }

    fn facts() -> ModelFacts {
        ModelFacts {
            parameters: Some(8.03e9),
            layers: Some(32),
            heads: Some(32),
            kv_heads: Some(8),
            ..ModelFacts::default()
        }
    }

    /// The names of the assumptions found.
    fn named(measured: &Breakdown, facts: &ModelFacts, figures: &[(Term, i64)], said: ModelFacts) -> Vec<&'static str> {
        let external = ExternalEstimate {
            figures: figures.to_vec(),
            facts: said,
            ..ExternalEstimate::default()
        };
        let comparison = EstimateComparison::new(measured, facts, &external);
        comparison.explanations.iter().map(|one| one.assumption).collect()
    }

    #[test]
    fn keys_and_values_for_every_query_head() {
        let used = measured(&[(Component::KvUsed, GIB)]);
        assert_eq!(
            named(&used, &facts(), &[(Term::Kv, 4 * GIB)], ModelFacts::default()),
            ["gqa"]
        );
        let both = ModelFacts {
            kv_dtype: Some("fp8_e4m3".into()),
            ..facts()
        };
        assert_eq!(
            named(&used, &both, &[(Term::Kv, 8 * GIB)], ModelFacts::default()),
            ["gqa"]
        );
        assert!(named(&used, &facts(), &[(Term::Kv, 3 * GIB)], ModelFacts::default()).is_empty());
        assert!(
            named(
                &used,
                &ModelFacts::default(),
                &[(Term::Kv, 4 * GIB)],
                ModelFacts::default()
            )
            .is_empty(),
            "heads are not known"
        );
    }

    #[test]
    fn a_figure_that_was_computed_may_itself_be_wrong() {
        let mut used = measured(&[(Component::KvUsed, 4 * GIB)]);
        let said = [(Term::Kv, GIB)];
        assert!(
            named(&used, &facts(), &said, ModelFacts::default()).is_empty(),
            "what was measured is right"
        );
        for part in &mut used.parts {
            part.provenance = Provenance::Computed;
        }
        assert_eq!(named(&used, &facts(), &said, ModelFacts::default()), ["gqa"]);
    }

    #[test]
    fn elements_of_another_width() {
        let used = measured(&[(Component::KvUsed, GIB)]);
        let narrow = ModelFacts {
            kv_dtype: Some("fp8".into()),
            ..facts()
        };
        assert_eq!(
            named(&used, &narrow, &[(Term::Kv, 2 * GIB)], ModelFacts::default()),
            ["kv_dtype"]
        );
        assert_eq!(
            named(&used, &facts(), &[(Term::Kv, GIB / 2)], ModelFacts::default()),
            ["kv_dtype"]
        );
    }

    #[test]
    fn a_pool_is_set_aside_whatever_is_used() {
        let whole = measured(&[(Component::KvPool, 50 * GIB), (Component::KvUsed, GIB)]);
        assert_eq!(
            named(&whole, &facts(), &[(Term::Kv, 50 * GIB)], ModelFacts::default()),
            ["kv_pool"]
        );
        let pool = measured(&[(Component::KvPool, 400_000 * 131_072)]);
        let holds = ModelFacts {
            kv_tokens: Some(400_000),
            ..facts()
        };
        let tokens = |tokens| ModelFacts {
            tokens: Some(tokens),
            ..ModelFacts::default()
        };
        let said = [(Term::Kv, 2048 * 131_072)];
        assert_eq!(named(&pool, &holds, &said, tokens(2048)), ["kv_pool"]);
        // Four times the size per token, though far fewer bytes in total.
        assert_eq!(named(&pool, &holds, &said, tokens(512)), ["gqa"]);
        assert!(
            named(&pool, &holds, &said, ModelFacts::default()).is_empty(),
            "for how many tokens is not known"
        );
    }

    #[test]
    fn another_number_of_tokens() {
        let used = measured(&[(Component::KvUsed, 1000 * 131_072)]);
        let held = ModelFacts {
            tokens: Some(1000),
            ..facts()
        };
        let said = ModelFacts {
            tokens: Some(1500),
            ..ModelFacts::default()
        };
        assert_eq!(named(&used, &held, &[(Term::Kv, 1500 * 131_072)], said), ["kv_tokens"]);
    }

    #[test]
    fn weights_of_another_width() {
        let quantized = measured(&[(Component::Weights, 4_400_000_000)]);
        let known = ModelFacts {
            quantization: Some("awq".into()),
            ..facts()
        };
        let sixteen = [(Term::Weights, 16_060_000_000)];
        assert_eq!(
            named(&quantized, &known, &sixteen, ModelFacts::default()),
            ["weight_dtype"]
        );
        let whole = measured(&[(Component::Weights, 16_060_000_000)]);
        assert!(
            named(
                &whole,
                &facts(),
                &[(Term::Weights, 15_500_000_000)],
                ModelFacts::default()
            )
            .is_empty()
        );
        assert_eq!(
            named(
                &whole,
                &ModelFacts::default(),
                &[(Term::Weights, 4_015_000_000)],
                ModelFacts::default()
            ),
            ["weight_dtype"],
            "even where the parameters are not known"
        );
    }

    #[test]
    fn a_gigabyte_is_not_a_gibibyte() {
        let whole = measured(&[(Component::Weights, 13_500_000_000)]);
        let external = ExternalEstimate::parse("weights=13.5").unwrap();
        assert_eq!(
            named(&whole, &facts(), &external.figures, ModelFacts::default()),
            ["gb_gib"]
        );
        let external = ExternalEstimate::parse("weights=13.5GB").unwrap();
        assert!(named(&whole, &facts(), &external.figures, ModelFacts::default()).is_empty());
    }

    #[test]
    fn the_pool_is_no_overhead() {
        let whole = measured(&[(Component::Weights, 15 * GIB), (Component::KvPool, 14 * GIB)]);
        let said = [
            (Term::Weights, 15 * GIB),
            (Term::Kv, GIB / 4),
            (Term::Overhead, 14 * GIB),
        ];
        assert_eq!(
            named(&whole, &facts(), &said, ModelFacts::default()),
            ["pool_as_overhead"]
        );
        // The measuring tool does not know the pool, but the estimate does.
        let unexplained = measured(&[(Component::Weights, 15 * GIB)]);
        let said = [(Term::Weights, 15 * GIB), (Term::KvPool, GIB)];
        assert_eq!(
            named(&unexplained, &facts(), &said, ModelFacts::default()),
            ["pool_as_overhead"]
        );
    }

    #[test]
    fn one_rank_is_not_all_of_them() {
        let four = measured(&[(Component::Weights, 140 * GIB)]);
        let shared = ModelFacts {
            parameters: Some(75.2e9),
            tensor_parallel: Some(4),
            ..facts()
        };
        let found = named(&four, &shared, &[(Term::Weights, 35 * GIB)], ModelFacts::default());
        assert!(found.contains(&"tensor_parallel"), "{found:?}");
        assert!(named(&four, &facts(), &[(Term::Weights, 120 * GIB)], ModelFacts::default()).is_empty());
    }

    #[test]
    fn layers_run_one_after_the_other() {
        let whole = measured(&[(Component::Activations, GIB)]);
        assert_eq!(
            named(
                &whole,
                &facts(),
                &[(Term::Activations, 32 * GIB)],
                ModelFacts::default()
            ),
            ["all_layers_at_once"]
        );
    }
}
