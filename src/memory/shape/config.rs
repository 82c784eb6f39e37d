//! Reads `config.json` defensively: a missing or absurd value is an error that names it.

use serde_json::{Map, Value};

use super::model::Dtype;
use crate::fault::{Fault, Result};

/// Larger than any dimension of any model; small enough that products of two do not overflow.
const LARGEST: u64 = 1 << 26;
const MOST_LAYERS: u64 = 4096;

/// The part of a `config.json` that describes the language model.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    values: Map<String, Value>,
    /// The file describes more than text: images, audio.
    multimodal: bool,
}

impl Config {
    /// The language model of a parsed `config.json`: the file itself, or its `text_config`.
    ///
    /// # Errors
    ///
    /// `usage` if it is not an object.
    pub(crate) fn new(json: &Value) -> Result<Self> {
        let Value::Object(outer) = json else {
            return Err(Fault::usage("`config.json` is not an object"));
        };
        let inner = ["text_config", "llm_config"]
            .iter()
            .find_map(|key| outer.get(*key)?.as_object());
        let Some(inner) = inner else {
            return Ok(Self {
                values: outer.clone(),
                multimodal: outer.contains_key("vision_config"),
            });
        };
        let mut values = inner.clone();
        // Stated once for the whole file.
        for key in ["dtype", "torch_dtype", "quantization_config", "tie_word_embeddings"] {
            if let Some(value) = outer.get(key).filter(|_| !values.contains_key(key)) {
                values.insert(key.to_owned(), value.clone());
            }
        }
        Ok(Self {
            values,
            multimodal: true,
        })
    }

    pub(crate) fn is_multimodal(&self) -> bool {
        self.multimodal
    }

    /// `model_type`: the family.
    pub(crate) fn family(&self) -> Result<&str> {
        let name = self.get(&["model_type"]).and_then(Value::as_str);
        name.ok_or_else(|| unknown("model_type", "it names the model's family"))
    }

    /// The value of the first of these keys that has one; null counts as missing.
    pub(crate) fn get(&self, names: &[&str]) -> Option<&Value> {
        names
            .iter()
            .find_map(|name| self.values.get(*name).filter(|value| !value.is_null()))
    }

    /// A positive integer, under the first of these keys that has a value.
    pub(crate) fn optional(&self, names: &[&str]) -> Result<Option<u64>> {
        let Some(value) = self.get(names) else {
            return Ok(None);
        };
        value
            .as_u64()
            .filter(|number| (1..=LARGEST).contains(number))
            .map(Some)
            .ok_or_else(|| {
                Fault::usage(format!("`config.json`: `{}` cannot be {}", names[0], short(value)))
                    .hint(format!("a whole number from 1 to {LARGEST}"))
            })
    }

    /// Like [`Config::optional`], but required.
    pub(crate) fn number(&self, names: &[&str]) -> Result<u64> {
        self.optional(names)?
            .ok_or_else(|| unknown(names[0], "without it the model's size is not known"))
    }

    /// Like [`Config::optional`], but 0 is allowed and is the default.
    pub(crate) fn number_or_zero(&self, names: &[&str]) -> Result<u64> {
        match self.get(names).and_then(Value::as_u64) {
            Some(0) => Ok(0),
            _ => Ok(self.optional(names)?.unwrap_or(0)),
        }
    }

    /// A boolean, under the first of these keys that has a value; else the family's default.
    pub(crate) fn flag(&self, names: &[&str], default: bool) -> Result<bool> {
        match self.get(names) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| {
                Fault::usage(format!(
                    "`config.json`: `{}` must be true or false, and is {}",
                    names[0],
                    short(value)
                ))
            }),
        }
    }

    /// The number of layers.
    pub(crate) fn layers(&self) -> Result<u64> {
        let layers = self.number(&["num_hidden_layers", "n_layer"])?;
        if layers > MOST_LAYERS {
            return Err(Fault::usage(format!(
                "`config.json`: {layers} layers are more than any model has"
            )));
        }
        Ok(layers)
    }

    /// A list of names, one per layer: `layer_types`.
    pub(crate) fn names(&self, names: &[&str]) -> Option<Vec<&str>> {
        let list = self.get(names)?.as_array()?;
        list.iter().map(Value::as_str).collect()
    }

    /// A list of integers: `mlp_only_layers`.
    pub(crate) fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let list = self.get(&[name])?.as_array()?;
        list.iter().map(Value::as_u64).collect()
    }

    /// The data type of the weights, if stated.
    pub(crate) fn dtype(&self) -> Result<Option<Dtype>> {
        match self.get(&["dtype", "torch_dtype"]).and_then(Value::as_str) {
            None | Some("auto") => Ok(None),
            Some(name) => name.parse().map(Some),
        }
    }
}

/// A missing value, and what would replace it.
pub(super) fn unknown(name: &str, why: &str) -> Fault {
    Fault::usage(format!("`config.json` has no `{name}`: {why}"))
        .hint("the headers of its safetensors files would decide it: give a folder that has them")
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absurd_or_missing_is_named() {
        let config = Config::new(&json!({"hidden_size": -1, "n_layer": 5000, "flag": 3, "huge": 1_u64 << 40})).unwrap();
        let says = |result: Result<u64>, text: &str| assert!(result.unwrap_err().message.contains(text));
        says(config.number(&["hidden_size"]), "`hidden_size` cannot be -1");
        says(config.number(&["vocab_size"]), "no `vocab_size`");
        says(config.number(&["huge"]), "cannot be 1099511627776");
        says(config.layers(), "5000 layers");
        assert!(config.flag(&["flag"], true).is_err());
        assert!(Config::new(&json!([1])).is_err());
        assert!(config.family().unwrap_err().hint.unwrap().contains("safetensors"));
    }

    #[test]
    fn the_text_part_of_a_larger_model_is_read() {
        let json = json!({"model_type": "gemma3", "dtype": "bfloat16", "text_config": {"model_type": "gemma3_text", "hidden_size": 8}});
        let config = Config::new(&json).unwrap();
        assert_eq!(config.family().unwrap(), "gemma3_text");
        assert_eq!(config.dtype().unwrap(), Some(Dtype::Bfloat16));
        assert!(config.is_multimodal());
    }
}
