//! Each assumption, from figures of which only it is wrong; and silence where none is.

use crate::memory::compare::{Comparison, ExternalEstimate, Facts, Term};
use crate::memory::{Breakdown, Component, Part, Provenance};

const GIB: i64 = 1 << 30;

/// What an engine with a model of 8 B parameters holds: 128 KiB of KV a token, a pool for 400,000 tokens.
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

fn facts() -> Facts {
    Facts {
        parameters: Some(8.03e9),
        layers: Some(32),
        heads: Some(32),
        kv_heads: Some(8),
        ..Facts::default()
    }
}

/// The assumptions that are named.
fn named(measured: &Breakdown, facts: &Facts, figures: &[(Term, i64)], said: Facts) -> Vec<&'static str> {
    let external = ExternalEstimate {
        figures: figures.to_vec(),
        facts: said,
        ..ExternalEstimate::default()
    };
    let comparison = Comparison::new(measured, facts, &external);
    comparison.explanations.iter().map(|one| one.assumption).collect()
}

#[test]
fn keys_and_values_for_every_query_head() {
    let used = measured(&[(Component::KvUsed, GIB)]);
    assert_eq!(
        named(&used, &facts(), &[(Term::Kv, 4 * GIB)], Facts::default()),
        ["gqa"]
    );
    let both = Facts {
        kv_dtype: Some("fp8_e4m3".into()),
        ..facts()
    };
    assert_eq!(named(&used, &both, &[(Term::Kv, 8 * GIB)], Facts::default()), ["gqa"]);
    assert!(named(&used, &facts(), &[(Term::Kv, 3 * GIB)], Facts::default()).is_empty());
    assert!(
        named(&used, &Facts::default(), &[(Term::Kv, 4 * GIB)], Facts::default()).is_empty(),
        "heads are not known"
    );
}

#[test]
fn a_figure_that_was_computed_may_itself_be_wrong() {
    let mut used = measured(&[(Component::KvUsed, 4 * GIB)]);
    let said = [(Term::Kv, GIB)];
    assert!(
        named(&used, &facts(), &said, Facts::default()).is_empty(),
        "what was measured is right"
    );
    for part in &mut used.parts {
        part.provenance = Provenance::Computed;
    }
    assert_eq!(named(&used, &facts(), &said, Facts::default()), ["gqa"]);
}

#[test]
fn elements_of_another_width() {
    let used = measured(&[(Component::KvUsed, GIB)]);
    let narrow = Facts {
        kv_dtype: Some("fp8".into()),
        ..facts()
    };
    assert_eq!(
        named(&used, &narrow, &[(Term::Kv, 2 * GIB)], Facts::default()),
        ["kv_dtype"]
    );
    assert_eq!(
        named(&used, &facts(), &[(Term::Kv, GIB / 2)], Facts::default()),
        ["kv_dtype"]
    );
}

#[test]
fn a_pool_is_set_aside_whatever_is_used() {
    let whole = measured(&[(Component::KvPool, 50 * GIB), (Component::KvUsed, GIB)]);
    assert_eq!(
        named(&whole, &facts(), &[(Term::Kv, 50 * GIB)], Facts::default()),
        ["kv_pool"]
    );
    let pool = measured(&[(Component::KvPool, 400_000 * 131_072)]);
    let holds = Facts {
        kv_tokens: Some(400_000),
        ..facts()
    };
    let tokens = |tokens| Facts {
        tokens: Some(tokens),
        ..Facts::default()
    };
    let said = [(Term::Kv, 2048 * 131_072)];
    assert_eq!(named(&pool, &holds, &said, tokens(2048)), ["kv_pool"]);
    // A token of four times the size, though far fewer bytes in all.
    assert_eq!(named(&pool, &holds, &said, tokens(512)), ["gqa"]);
    assert!(
        named(&pool, &holds, &said, Facts::default()).is_empty(),
        "for how many tokens is not known"
    );
}

#[test]
fn another_number_of_tokens() {
    let used = measured(&[(Component::KvUsed, 1000 * 131_072)]);
    let held = Facts {
        tokens: Some(1000),
        ..facts()
    };
    let said = Facts {
        tokens: Some(1500),
        ..Facts::default()
    };
    assert_eq!(named(&used, &held, &[(Term::Kv, 1500 * 131_072)], said), ["kv_tokens"]);
}

#[test]
fn weights_of_another_width() {
    let quantized = measured(&[(Component::Weights, 4_400_000_000)]);
    let known = Facts {
        quantization: Some("awq".into()),
        ..facts()
    };
    let sixteen = [(Term::Weights, 16_060_000_000)];
    assert_eq!(named(&quantized, &known, &sixteen, Facts::default()), ["weight_dtype"]);
    let whole = measured(&[(Component::Weights, 16_060_000_000)]);
    assert!(named(&whole, &facts(), &[(Term::Weights, 15_500_000_000)], Facts::default()).is_empty());
    assert_eq!(
        named(
            &whole,
            &Facts::default(),
            &[(Term::Weights, 4_015_000_000)],
            Facts::default()
        ),
        ["weight_dtype"],
        "even where the parameters are not known"
    );
}

#[test]
fn a_gigabyte_is_not_a_gibibyte() {
    let whole = measured(&[(Component::Weights, 13_500_000_000)]);
    let external = ExternalEstimate::parse("weights=13.5").unwrap();
    assert_eq!(named(&whole, &facts(), &external.figures, Facts::default()), ["gb_gib"]);
    let external = ExternalEstimate::parse("weights=13.5GB").unwrap();
    assert!(named(&whole, &facts(), &external.figures, Facts::default()).is_empty());
}

#[test]
fn the_pool_is_no_overhead() {
    let whole = measured(&[(Component::Weights, 15 * GIB), (Component::KvPool, 14 * GIB)]);
    let said = [
        (Term::Weights, 15 * GIB),
        (Term::Kv, GIB / 4),
        (Term::Overhead, 14 * GIB),
    ];
    assert_eq!(named(&whole, &facts(), &said, Facts::default()), ["pool_as_overhead"]);
    // A tool that does not know the pool, compared with an estimate that does.
    let unexplained = measured(&[(Component::Weights, 15 * GIB)]);
    let said = [(Term::Weights, 15 * GIB), (Term::KvPool, GIB)];
    assert_eq!(
        named(&unexplained, &facts(), &said, Facts::default()),
        ["pool_as_overhead"]
    );
}

#[test]
fn one_rank_is_not_all_of_them() {
    let four = measured(&[(Component::Weights, 140 * GIB)]);
    let shared = Facts {
        parameters: Some(75.2e9),
        tensor_parallel: Some(4),
        ..facts()
    };
    let found = named(&four, &shared, &[(Term::Weights, 35 * GIB)], Facts::default());
    assert!(found.contains(&"tensor_parallel"), "{found:?}");
    assert!(named(&four, &facts(), &[(Term::Weights, 120 * GIB)], Facts::default()).is_empty());
}

#[test]
fn layers_run_one_after_the_other() {
    let whole = measured(&[(Component::Activations, GIB)]);
    assert_eq!(
        named(&whole, &facts(), &[(Term::Activations, 32 * GIB)], Facts::default()),
        ["all_layers_at_once"]
    );
}
