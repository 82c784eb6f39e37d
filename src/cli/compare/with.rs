//! The value of `--with`: our estimate of the model, another run or file, or numbers given by hand.

use std::path::Path;

use serde_json::Value;

use crate::cli::program::Program;
use crate::compare::{self, Case, ComparisonInput};
use crate::fault::{Fault, Result};
use crate::memory::compare::{ExternalEstimate, Facts, Term};
use crate::memory::{Component, Estimate, EstimateRequest, ModelFiles, estimate};
use crate::report::matching_case;

pub(super) struct With<'a> {
    what: Reference,
    model: Option<&'a str>,
    program: &'a Program,
}

enum Reference {
    Estimate,
    Input(Box<ComparisonInput>),
    /// Numbers given by hand.
    Figures(Box<ExternalEstimate>),
}

impl<'a> With<'a> {
    /// Parses `--with`; `model` is the value of `--model`.
    pub(super) fn read(text: &str, model: Option<&'a str>, program: &'a Program) -> Result<Self> {
        let path = Path::new(text);
        let what = match text {
            "estimate" => Reference::Estimate,
            _ if path.exists() => Reference::Input(Box::new(compare::open(path)?)),
            _ if text.contains('=') => Reference::Figures(Box::new(ExternalEstimate::parse(text)?)),
            _ => {
                return Err(
                    Fault::usage(format!("`{text}` is neither a file nor figures to compare with"))
                        .hint("write `--with estimate`, `--with FILE`, or figures: --with weights=13.5,kv=0.4"),
                );
            }
        };
        Ok(Self { what, model, program })
    }

    /// The estimate to compare a case with, if there is one.
    pub(super) fn claim(&self, input: &ComparisonInput, case: &Case) -> Result<Option<ExternalEstimate>> {
        let claimed = match &self.what {
            Reference::Estimate => {
                let model = self.model.or(input.model.as_deref()).ok_or_else(|| {
                    Fault::usage(format!("`{}` does not name its model", input.title))
                        .hint("name it with --model: a folder, or a model of the hub")
                })?;
                let named = |fault| if self.model.is_some() { fault } else { elsewhere(fault) };
                let known = self.program.read_model(model).map_err(named)?;
                let estimate = estimate(&known, &question(&case.facts)).map_err(|fault| cannot(model, fault))?;
                return Ok(Some(estimated(model, &known, &estimate, case)));
            }
            Reference::Figures(claim) => Some(claim.as_ref().clone()),
            Reference::Input(other) => {
                let claimed = matching_case(case, &input.cases, &other.cases);
                claimed.and_then(|claimed| of_case(other, claimed))
            }
        };
        let Some(mut claim) = claimed else { return Ok(None) };
        if let Some(model) = self.model {
            let known = self.program.read_model(model)?;
            let whole = estimate(&known, &EstimateRequest::default()).map_err(|fault| cannot(model, fault))?;
            claim.facts = claim.facts.or(&architecture(&known, &whole));
        }
        Ok(Some(claim))
    }
}

fn cannot(model: &str, fault: Fault) -> Fault {
    fault.while_doing(format!("cannot estimate `{model}`"))
}

/// Adds a hint for a model path of the run that cannot be read on this machine.
fn elsewhere(fault: Fault) -> Fault {
    let hint = "or name another copy of it with --model: a folder with its `config.json`, or a model of the hub";
    match fault.hint.clone() {
        Some(first) => fault.hint(format!("{first}; {hint}")),
        None => fault.hint(hint),
    }
}

/// A case of another run or file as an estimate.
fn of_case(other: &ComparisonInput, claimed: &Case) -> Option<ExternalEstimate> {
    let by = format!("{} of {}", claimed.name, other.title);
    let mut claim = ExternalEstimate::from_breakdown(by, claimed.breakdown.as_ref()?, claimed.facts.clone());
    claim.notes.extend(other.notes.iter().cloned());
    let implausible = claimed.implausible.iter();
    let implausible = implausible.map(|found| format!("implausible: {}: {}", found.name, found.text));
    claim.notes.extend(implausible);
    Some(claim)
}

/// The conditions under which the case was measured, as far as known.
fn question(facts: &Facts) -> EstimateRequest {
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
fn architecture(known: &ModelFiles, estimate: &Estimate) -> Facts {
    let config = known.config.get("text_config").unwrap_or(&known.config);
    let number = |key: &str| config.get(key).and_then(Value::as_u64);
    Facts {
        parameters: Some(estimate.parameters as f64),
        layers: Some(estimate.layers.iter().map(|kind| kind.count).sum()),
        heads: number("num_attention_heads"),
        kv_heads: number("num_key_value_heads"),
        head_dim: number("head_dim"),
        hidden_size: number("hidden_size"),
        ..Facts::default()
    }
}

/// Our estimate, of all ranks. KV is estimated for as many tokens as the measured pool holds and uses, if
/// known.
fn estimated(model: &str, known: &ModelFiles, estimate: &Estimate, case: &Case) -> ExternalEstimate {
    let question = &estimate.question;
    let facts = Facts {
        kv_dtype: Some(estimate.kv_cache_dtype.to_string()),
        quantization: estimate.quantization.clone(),
        kv_tokens: case.facts.kv_tokens,
        tensor_parallel: Some(question.tensor_parallel),
        input: Some(question.input),
        output: Some(question.output),
        concurrency: Some(question.concurrency),
        ..architecture(known, estimate)
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
        let breakdown = case.breakdown.as_ref()?;
        u64::try_from(breakdown.part(component)?.bytes)
            .ok()
            .filter(|bytes| *bytes > 0)
    };
    if let (Some(pool), Some(capacity)) = (part(Component::KvPool), case.facts.kv_tokens) {
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
            let used_tokens = case.facts.tokens.or(u64::try_from(share).ok()).unwrap_or(u64::MAX);
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
    claim
}
