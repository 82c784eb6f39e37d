//! One model under one question: its parts, what fits, what is left out.

use super::activations::activations;
use super::answer::{Estimate, LayerKind};
use super::fits::{Fits, largest};
use super::kv::Kv;
use super::weights::Weights;
use super::{Known, Question};
use crate::fault::{Fault, Result};
use crate::memory::shape::{Dtype, Shape};
use crate::memory::{Breakdown, Component, Part, Provenance};

/// CUDA context, libraries and the framework's own, before the first weight: 15,333 MiB in use after vLLM 0.24 had loaded 13.54 GiB on an
/// H200, less 615 MiB in use before (`tests/data/vllm-starts.csv`).
const CONTEXT: u64 = 853 << 20;
/// Longer than any sequence, where the model does not say how many positions it has.
const LONGEST: u64 = 1 << 32;
/// More sequences than any engine holds.
const MOST_SEQUENCES: u64 = 1 << 32;

/// A model as one estimate sees it.
pub(super) struct Model {
    pub(super) shape: Shape,
    pub(super) weights: Weights,
    pub(super) kv: Kv,
}

impl Model {
    /// The whole estimate.
    pub(super) fn answer(self, known: &Known, question: &Question) -> Result<Estimate> {
        let ranks = question.tensor_parallel;
        let parts = self.parts(question)?;
        let rank = |number: u64| Breakdown::new(Some(format!("rank {number}")), total(&parts), parts.clone());
        let all: Vec<Part> = parts
            .iter()
            .map(|part| {
                let bytes = part.bytes.checked_mul(i64::try_from(ranks).unwrap_or(i64::MAX));
                bytes.map(|bytes| Part { bytes, ..part.clone() }).ok_or_else(too_large)
            })
            .collect::<Result<_>>()?;
        let whole = Kv { ranks: 1, ..self.kv };
        let mut layers: Vec<LayerKind> = Vec::new();
        for layer in &self.shape.layers {
            let kind = LayerKind {
                count: 0,
                kv_bytes_per_token: whole.token_of(layer),
                window: layer.per_token.as_ref().and_then(|kept| kept.window),
                state_bytes: whole.state_of(layer),
            };
            match layers.iter_mut().find(|known| {
                LayerKind {
                    count: 0,
                    ..(*known).clone()
                } == kind
            }) {
                Some(known) => known.count += layer.count,
                None => layers.push(LayerKind {
                    count: layer.count,
                    ..kind
                }),
            }
        }
        Ok(Estimate {
            parameters: self.shape.parameters(),
            positions: self.shape.longest,
            weight_bytes: self.weights.bytes,
            dtype: self.weights.dtype,
            quantization: self.weights.quantization.clone(),
            kv_cache_dtype: self.kv.dtype,
            kv_bytes_per_token: whole.token(&self.shape),
            kv_bytes_per_token_per_rank: self.kv.token(&self.shape),
            state_bytes_per_sequence: whole.state(&self.shape),
            layers,
            total: Breakdown::new(None, total(&all), all)?,
            ranks: (0..ranks).map(rank).collect::<Result<_>>()?,
            fits: question.gpu_memory.map(|memory| self.fits(memory, question)),
            notes: self.notes(known, question),
            question: question.clone(),
            family: self.shape.family,
        })
    }

    /// The parts of what one rank needs.
    fn parts(&self, question: &Question) -> Result<Vec<Part>> {
        let activations = activations(&self.shape, question, self.weights.dtype);
        let kv = self.kv_bytes(question);
        let part = |component, bytes: u64, provenance, source: String| {
            Ok(Part {
                component,
                bytes: i64::try_from(bytes).map_err(|_| too_large())?,
                provenance,
                source,
                within: None,
            })
        };
        Ok(vec![
            part(
                Component::Weights,
                self.weights.on_rank,
                Provenance::Computed,
                self.weights.source.clone(),
            )?,
            part(Component::KvUsed, kv, Provenance::Computed, self.kv_source(question))?,
            part(
                Component::Activations,
                activations.bytes,
                Provenance::Computed,
                activations.source,
            )?,
            part(
                Component::RuntimeContext,
                CONTEXT,
                Provenance::Assumed,
                "as one H200 had it with vLLM 0.24 before the first weight".to_owned(),
            )?,
        ])
    }

    fn kv_source(&self, question: &Question) -> String {
        let sequences = match question.concurrency {
            1 => "1 sequence".to_owned(),
            several => format!("{several} sequences"),
        };
        let state = match self.kv.state(&self.shape) {
            0 => String::new(),
            bytes => format!(", and {bytes} of each sequence"),
        };
        format!(
            "{sequences} of {} tokens; {} bytes of each token in {}{state}",
            question.tokens(),
            self.kv.token(&self.shape),
            self.kv.dtype,
        )
    }

    fn kv_bytes(&self, question: &Question) -> u64 {
        self.kv
            .sequence(&self.shape, question.tokens())
            .saturating_mul(question.concurrency)
    }

    /// Bytes that one rank needs beside the KV cache.
    fn beside(&self, question: &Question) -> u64 {
        let activations = activations(&self.shape, question, self.weights.dtype).bytes;
        self.weights.on_rank.saturating_add(activations).saturating_add(CONTEXT)
    }

    fn fits(&self, memory: u64, question: &Question) -> Fits {
        let budget = (memory as f64 * question.memory_fraction) as u64;
        let need = |question: &Question| self.beside(question).saturating_add(self.kv_bytes(question));
        let kv_bytes = budget.saturating_sub(self.beside(question));
        let longest = self.shape.longest.unwrap_or(LONGEST);
        Fits {
            budget,
            kv_bytes,
            tokens: kv_bytes.checked_div(self.kv.token(&self.shape)),
            sequences: largest(MOST_SEQUENCES, |concurrency| {
                need(&Question {
                    concurrency,
                    ..question.clone()
                }) <= budget
            }),
            longest: largest(longest, |input| {
                need(&Question {
                    input,
                    output: 0,
                    concurrency: 1,
                    ..question.clone()
                }) <= budget
            }),
            fits: need(question) <= budget,
        }
    }

    fn notes(&self, known: &Known, question: &Question) -> Vec<String> {
        let mut notes = known.notes.clone();
        notes.extend(
            self.shape
                .left_out
                .clone()
                .filter(|_| self.shape.by_headers || (known.headers.is_none() && known.indexed.is_none())),
        );
        notes.extend(beyond(self, known));
        if self.weights.dtype == Dtype::Float32 && question.dtype.is_none() {
            notes.push(
                "the weights are float32: an engine that loads them as 16 bits needs half; give that as `dtype`"
                    .to_owned(),
            );
        }
        if let Some(positions) = self.shape.longest.filter(|&positions| positions < question.tokens()) {
            notes.push(format!(
                "the model was made for {positions} positions, fewer than the {} tokens asked for",
                question.tokens()
            ));
        }
        if question.tensor_parallel > 1 {
            notes.push(
                "buffers of communication between ranks are not in it: they are measured, not computed".to_owned(),
            );
        }
        notes.push("CUDA graphs, workspaces of libraries and what the allocator cannot reuse are not in it".to_owned());
        notes
    }
}

/// What the files hold beyond the language model, where their numbers are not packed.
fn beyond(model: &Model, known: &Known) -> Option<String> {
    let headers = known
        .headers
        .as_ref()
        .filter(|_| model.weights.quantization.is_none())?;
    let more = headers
        .numbers()
        .checked_sub(model.shape.parameters())
        .filter(|more| *more > 0)?;
    Some(format!(
        "the files hold {more} parameters more than the language model has: a vision tower, heads that predict further tokens, or an output \
         matrix that is also the embedding; engines may leave them out"
    ))
}

fn total(parts: &[Part]) -> u64 {
    let bytes = parts.iter().map(|part| u64::try_from(part.bytes).unwrap_or(0));
    bytes.fold(0, u64::saturating_add)
}

fn too_large() -> Fault {
    Fault::usage("the estimate is more bytes than any device has")
}
