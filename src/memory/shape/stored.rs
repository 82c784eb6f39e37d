//! The shape of a model of an unknown family, as far as the headers of its files tell.
//!
//! The headers list every tensor, so bytes are exact. Keys and values have as many elements as the matrices that
//! produce them have outputs. What the headers do not tell is named in a note: windows, states of other layers,
//! activations, and how ranks share the tensors.

use std::collections::BTreeMap;

use super::config::Config;
use super::headers::StoredTensor;
use super::{Headers, Layer, PerToken, Shape, Split, Tensor};
use crate::fault::{Fault, Result};

/// Names under which layers are numbered.
const LAYERS: [&str; 3] = ["layers", "h", "blocks"];

pub(super) fn read(config: &Config, headers: &Headers) -> Result<Shape> {
    let family = config.family()?;
    let embedding = headers
        .tensors
        .iter()
        .find(|tensor| ends(tensor, &["embed_tokens", "wte", "embed_in", "word_embeddings"]))
        .and_then(|tensor| Some((*tensor.dims.first()?, *tensor.dims.get(1)?)));
    let (vocabulary, hidden) =
        embedding.ok_or_else(|| unclear(family, "no tensor has the name of a token embedding"))?;
    let mut kept: BTreeMap<u64, u64> = BTreeMap::new();
    for tensor in &headers.tensors {
        let Some(layer) = layer(&tensor.name) else {
            continue;
        };
        let numbers = kept.entry(layer).or_default();
        if ends(tensor, &["k_proj", "v_proj", "kv_a_proj_with_mqa"]) {
            *numbers = numbers.saturating_add(tensor.dims.first().copied().unwrap_or(0));
        }
    }
    if kept.values().all(|numbers| *numbers == 0) {
        return Err(unclear(family, "no matrix has a name that makes keys or values"));
    }
    let silent = kept.values().filter(|numbers| **numbers == 0).count();
    let mut left_out = format!(
        "the family `{family}` is not known: weights, keys and values are read from the headers; every token is assumed to be kept in \
         every layer; of activations only the logits are counted"
    );
    if silent > 0 {
        left_out.push_str(&format!(
            "; {silent} layers have no matrices of keys and values: what they keep is not counted"
        ));
    }
    let layers = kept.into_values().map(|numbers| Layer {
        per_token: (numbers > 0).then_some(PerToken {
            heads: 1,
            width: numbers,
            window: None,
        }),
        ..Layer::default()
    });
    Ok(Shape {
        family: family.to_owned(),
        hidden,
        vocabulary,
        heads: 1,
        max_positions: config.optional(&["max_position_embeddings"])?,
        dtype: config.dtype()?,
        tied: false,
        ends: vec![Tensor::vector("everything", headers.numbers(), Split::Replicated)],
        layers: super::layer::group_equal(layers),
        left_out: Some(left_out),
        by_headers: true,
    })
}

/// Whether this is the weight of a module with one of these names.
fn ends(tensor: &StoredTensor, modules: &[&str]) -> bool {
    let mut steps = tensor.name.rsplit('.');
    steps.next() == Some("weight") && steps.next().is_some_and(|module| modules.contains(&module))
}

/// The number of the layer that a tensor belongs to.
fn layer(name: &str) -> Option<u64> {
    let steps: Vec<&str> = name.split('.').collect();
    let pair = steps.windows(2).find(|pair| LAYERS.contains(&pair[0]))?;
    pair[1].parse().ok()
}

fn unclear(family: &str, why: &str) -> Fault {
    Fault::usage(format!(
        "the family `{family}` is not known, and the headers of its files do not give its KV cache per token: {why}"
    ))
    .hint("start an engine with it: `profiler run memory_breakdown` measures what it needs")
}

#[cfg(test)]
mod tests;
