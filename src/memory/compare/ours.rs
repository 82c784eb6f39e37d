//! Our own estimate of a model, in the form in which estimates from elsewhere are compared with a measurement.

use serde_json::Value;

use super::{ExternalEstimate, ModelFacts, Term};
use crate::fault::Result;
use crate::memory::{Breakdown, Component, Estimate, EstimateRequest, ModelFiles, estimate};

/// The conditions under which something was measured, as far as known.
fn request(facts: &ModelFacts) -> EstimateRequest {
    let default = EstimateRequest::default();
    EstimateRequest {
        input: facts.input.unwrap_or(default.input),
        output: facts.output.unwrap_or(default.output),
        concurrency: facts.concurrency.unwrap_or(default.concurrency),
        dtype: facts.weight_dtype.clone(),
        quantization: facts.quantization.clone(),
        kv_cache_dtype: facts.kv_dtype.clone(),
        tensor_parallel: facts.tensor_parallel.unwrap_or(1),
        prefill_chunk: facts.prefill_chunk,
        ..default
    }
}

/// Facts of the model's files.
///
/// # Errors
///
/// As [`estimate`].
pub fn model_facts(known: &ModelFiles) -> Result<ModelFacts> {
    Ok(architecture(known, &estimate(known, &EstimateRequest::default())?))
}

fn architecture(known: &ModelFiles, estimate: &Estimate) -> ModelFacts {
    let config = known.config.get("text_config").unwrap_or(&known.config);
    let number = |key: &str| config.get(key).and_then(Value::as_u64);
    ModelFacts {
        parameters: Some(estimate.parameters as f64),
        layers: Some(estimate.layers.iter().map(|kind| kind.count).sum()),
        heads: number("num_attention_heads"),
        kv_heads: number("num_key_value_heads"),
        head_dim: number("head_dim"),
        hidden_size: number("hidden_size"),
        ..ModelFacts::default()
    }
}

/// Our estimate of a model, of all ranks, under the conditions in `measured`. KV is estimated for as many tokens as the pool in
/// `breakdown` holds and uses, if known.
///
/// # Errors
///
/// As [`estimate`].
pub fn our_estimate(
    model: &str,
    known: &ModelFiles,
    measured: &ModelFacts,
    breakdown: Option<&Breakdown>,
) -> Result<ExternalEstimate> {
    let estimate = estimate(known, &request(measured))?;
    let question = &estimate.question;
    let facts = ModelFacts {
        kv_dtype: Some(estimate.kv_cache_dtype.to_string()),
        quantization: estimate.quantization.clone(),
        kv_tokens: measured.kv_tokens,
        tensor_parallel: Some(question.tensor_parallel),
        input: Some(question.input),
        output: Some(question.output),
        concurrency: Some(question.concurrency),
        ..architecture(known, &estimate)
    };
    let mut claim =
        ExternalEstimate::from_breakdown(format!("our estimate of {model}"), &estimate.total, facts.counted());
    // The total follows from the compared components, whose number of tokens may differ from the requested one.
    claim.figures.retain(|(term, _)| *term != Term::Total);
    claim.notes.extend(estimate.notes.iter().cloned());
    claim.notes.push(match question.prefill_chunk {
        Some(chunk) => format!("activations are estimated for a full step of {chunk} tokens, as the engine reports"),
        None => format!(
            "activations are estimated for a step of all {} input tokens: the engine does not report the size of a full step",
            question.input
        ),
    });
    let each = estimate
        .kv_bytes_per_token_per_rank
        .saturating_mul(question.tensor_parallel);
    let part = |component| {
        u64::try_from(breakdown?.part(component)?.bytes)
            .ok()
            .filter(|bytes| *bytes > 0)
    };
    if let (Some(pool), Some(capacity)) = (part(Component::KvPool), measured.kv_tokens) {
        claim.figures.retain(|(term, _)| *term != Term::KvUsed);
        let mut add = |term, tokens: u64| {
            let bytes = i64::try_from(each.saturating_mul(tokens)).unwrap_or(i64::MAX);
            claim.figures.push((term, bytes));
        };
        add(Term::KvPool, capacity);
        claim.facts.tokens = None;
        if let Some(used) = part(Component::KvUsed) {
            // The number of tokens according to the source, else in proportion to the pool.
            let share = u128::from(used) * u128::from(capacity) / u128::from(pool);
            let used_tokens = measured.tokens.or(u64::try_from(share).ok()).unwrap_or(u64::MAX);
            add(Term::KvUsed, used_tokens);
            claim.facts.tokens = Some(used_tokens);
        }
        claim.notes.push(format!(
            "KV is estimated for the tokens that the engine's pool holds ({capacity}), {each} bytes each on all ranks"
        ));
    } else {
        claim.notes.push(format!(
            "estimated for {} concurrent requests of {} tokens in and {} out",
            question.concurrency, question.input, question.output
        ));
    }
    claim.figures.sort_by_key(|(term, _)| *term);
    Ok(claim)
}
