//! Things mistaken for overhead, and activations counted for all layers at once.

use super::{Case, Explanation, near, ratio};
use crate::memory::Component;
use crate::memory::compare::{Gib, Term};

/// How far the pool may be from the supposed overhead.
const ROUGHLY: f64 = 0.15;

pub(super) fn explain(case: &Case<'_>) -> Vec<Explanation> {
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
    (ratio(a, b) - 1.0).abs() <= ROUGHLY
}
