//! What a run is compared with: our estimate of its model, another run or file, figures given by hand.

use std::path::Path;

use serde_json::Value;

use crate::cli::program::Program;
use crate::compare::{Case, ComparisonInput};
use crate::fault::{Fault, Result};
use crate::memory::compare::{Claim, Facts, Term};
use crate::memory::{Component, Estimate, Known, Question, estimate};
use crate::prompt::{Hub, known};
use crate::report::partner;

/// What to compare with, and how to learn of a model.
pub(super) struct With<'a> {
    what: What,
    model: Option<&'a str>,
    program: &'a Program,
}

enum What {
    /// Our estimate of the model.
    Estimate,
    /// Another run or file.
    ComparisonInput(Box<ComparisonInput>),
    /// Figures given by hand.
    Figures(Box<Claim>),
}

impl<'a> With<'a> {
    /// Reads what `--with` says; `model` is what `--model` says.
    pub(super) fn read(text: &str, model: Option<&'a str>, program: &'a Program) -> Result<Self> {
        let path = Path::new(text);
        let what = match text {
            "estimate" => What::Estimate,
            _ if path.exists() => What::ComparisonInput(Box::new(super::open(path)?)),
            _ if text.contains('=') => What::Figures(Box::new(Claim::parse(text)?)),
            _ => {
                return Err(
                    Fault::usage(format!("`{text}` is no file, and nothing else to compare with"))
                        .hint("write `--with estimate`, `--with FILE`, or figures: --with weights=13.5,kv=0.4"),
                );
            }
        };
        Ok(Self { what, model, program })
    }

    /// What is said of a case; none where nothing is.
    pub(super) fn claim(&self, subject: &ComparisonInput, case: &Case) -> Result<Option<Claim>> {
        let said = match &self.what {
            What::Estimate => {
                let model = self.model.or(subject.model.as_deref()).ok_or_else(|| {
                    Fault::usage(format!("`{}` does not say which model it is of", subject.title))
                        .hint("say it: --model, with a folder or a model of the hub")
                })?;
                let named = |fault| if self.model.is_some() { fault } else { elsewhere(fault) };
                let known = self.known(model).map_err(named)?;
                let estimate = estimate(&known, &question(&case.facts)).map_err(|fault| cannot(model, fault))?;
                return Ok(Some(estimated(model, &known, &estimate, case)));
            }
            What::Figures(claim) => Some(claim.as_ref().clone()),
            What::ComparisonInput(other) => {
                let said = partner(case, &subject.cases, &other.cases).map(|index| &other.cases[index]);
                said.and_then(|said| of_case(other, said))
            }
        };
        let Some(mut claim) = said else { return Ok(None) };
        if let Some(model) = self.model {
            let known = self.known(model)?;
            let whole = estimate(&known, &Question::default()).map_err(|fault| cannot(model, fault))?;
            claim.facts = claim.facts.or(&architecture(&known, &whole));
        }
        Ok(Some(claim))
    }

    fn known(&self, model: &str) -> Result<Known> {
        self.program.tasks.wait(async { known(model, &Hub::from_env()?).await })
    }
}

fn cannot(model: &str, fault: Fault) -> Fault {
    fault.while_doing(format!("cannot estimate `{model}`"))
}

/// The model as the run names it cannot be read from here.
fn elsewhere(fault: Fault) -> Fault {
    let hint = "or name another copy of it with --model: a folder with its `config.json`, or a model of the hub";
    match fault.hint.clone() {
        Some(first) => fault.hint(format!("{first}; {hint}")),
        None => fault.hint(hint),
    }
}

/// What a case of another run or file says.
fn of_case(other: &ComparisonInput, said: &Case) -> Option<Claim> {
    let by = format!("{} of {}", said.name, other.title);
    let mut claim = Claim::of(by, said.breakdown.as_ref()?, said.facts.clone());
    claim.notes.extend(other.notes.iter().cloned());
    let implausible = said.implausible.iter();
    let implausible = implausible.map(|found| format!("implausible: {}: {}", found.name, found.text));
    claim.notes.extend(implausible);
    Some(claim)
}

/// What the case was measured with, as far as it is known.
fn question(facts: &Facts) -> Question {
    let default = Question::default();
    Question {
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

/// What a model's files say of it.
fn architecture(known: &Known, estimate: &Estimate) -> Facts {
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

/// An estimate as a claim: of all ranks, and of as many tokens of KV as the measured pool holds and has in use, where that is known.
fn estimated(model: &str, known: &Known, estimate: &Estimate, case: &Case) -> Claim {
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
    let mut claim = Claim::of(format!("our estimate of {model}"), &estimate.total, facts.counted());
    // The total is made of what is compared, which may be other tokens than were asked for.
    claim.figures.retain(|(term, _)| *term != Term::Total);
    claim.notes.extend(estimate.notes.iter().cloned());
    claim.notes.push(match question.prefill_chunk {
        Some(chunk) => format!("activations are estimated for the full step of {chunk} tokens that the engine tells"),
        None => format!(
            "activations are estimated for a step of all {} input tokens: the engine does not tell how many a full step has",
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
    if let (Some(pool), Some(room)) = (part(Component::KvPool), case.facts.kv_tokens) {
        claim.figures.retain(|(term, _)| *term != Term::KvUsed);
        let mut add = |term, tokens: u64| {
            let bytes = i64::try_from(each.saturating_mul(tokens)).unwrap_or(i64::MAX);
            claim.figures.push((term, bytes));
        };
        add(Term::KvPool, room);
        claim.facts.tokens = None;
        if let Some(used) = part(Component::KvUsed) {
            // What the source says that was held; else what the share of the pool comes to.
            let share = u128::from(used) * u128::from(room) / u128::from(pool);
            let held = case.facts.tokens.or(u64::try_from(share).ok()).unwrap_or(u64::MAX);
            add(Term::KvUsed, held);
            claim.facts.tokens = Some(held);
        }
        claim.notes.push(format!(
            "KV is estimated for the tokens that the engine's pool holds ({room}), {each} bytes each on all ranks"
        ));
    } else {
        claim.notes.push(format!(
            "estimated for {} at once of {} tokens in and {} out",
            question.concurrency, question.input, question.output
        ));
    }
    claim.figures.sort_by_key(|(term, _)| *term);
    claim
}
