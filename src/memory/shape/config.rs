//! The keys of a `config.json` that describe the language model, with the defaults of its family for keys that are
//! missing.

use serde_json::{Map, Value};

use super::family::{Family, find};
use super::model::Dtype;
use crate::fault::{Fault, Result};

/// Larger than any dimension of any model; small enough that products of two do not overflow.
const LARGEST: u64 = 1 << 26;
const MOST_LAYERS: u64 = 4096;

/// Keys under which a multimodal model describes its language model.
const TEXT: [&str; 4] = ["text_config", "llm_config", "language_config", "thinker_config"];

/// Keys that are stated once for the whole file; for tied embeddings the file as a whole decides.
const SHARED: [&str; 5] = [
    "dtype",
    "torch_dtype",
    "quantization_config",
    "compression_config",
    "model_type",
];

/// The part of a `config.json` that describes the language model.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    values: Map<String, Value>,
    family: Option<&'static Family>,
    /// Parts of the model that are not its language model, by their keys.
    towers: Vec<String>,
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
        let mut values = outer.clone();
        while let Some(inner) = TEXT.iter().find_map(|key| values.get(*key)?.as_object()) {
            let mut inner = inner.clone();
            for key in SHARED {
                if let Some(value) = values.get(key).filter(|_| inner.get(key).is_none_or(Value::is_null)) {
                    inner.insert(key.to_owned(), value.clone());
                }
            }
            if let Some(tied) = values.get("tie_word_embeddings").filter(|tied| !tied.is_null()) {
                inner.insert("tie_word_embeddings".to_owned(), tied.clone());
            }
            values = inner;
        }
        let family = values.get("model_type").and_then(Value::as_str).and_then(find);
        let towers = outer.iter().filter(|(key, value)| is_tower(key, value));
        Ok(Self {
            family,
            towers: towers.map(|(key, _)| key.clone()).collect(),
            values,
        })
    }

    /// Keys of the parts that are not the language model: `vision_config`.
    pub(crate) fn towers(&self) -> &[String] {
        &self.towers
    }

    /// `model_type`: the family.
    pub(crate) fn family(&self) -> Result<&str> {
        let name = self.values.get("model_type").and_then(Value::as_str);
        name.ok_or_else(|| unknown("model_type", "it names the model's family"))
    }

    /// The defaults of the family, if it is known.
    pub(super) fn defaults(&self) -> Option<&'static Family> {
        self.family
    }

    /// Names of all keys that the file states.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// The first value under these keys, then the family's default. A size or a list that is stated as null has none:
    /// `"sliding_window": null` is no window.
    pub(crate) fn get(&self, names: &[&str]) -> Option<&Value> {
        let stated = names
            .iter()
            .find_map(|name| self.values.get(*name).filter(|value| !value.is_null()));
        if stated.is_some() {
            return stated;
        }
        let defaults = &self.family?.defaults;
        let default = names.iter().find_map(|name| defaults.get(*name))?;
        let null = names.iter().any(|name| self.values.contains_key(*name));
        (!null || default.is_boolean()).then_some(default)
    }

    /// A positive integer under the first of these keys with a value; 0 means none.
    pub(crate) fn optional(&self, names: &[&str]) -> Result<Option<u64>> {
        let Some(value) = self.get(names) else {
            return Ok(None);
        };
        match whole(value) {
            Some(0) => Ok(None),
            Some(number) if number <= LARGEST => Ok(Some(number)),
            _ => Err(
                Fault::usage(format!("`config.json`: `{}` cannot be {}", names[0], short(value)))
                    .hint(format!("a whole number up to {LARGEST}")),
            ),
        }
    }

    /// Like [`Config::optional`], but required.
    pub(crate) fn number(&self, names: &[&str]) -> Result<u64> {
        self.optional(names)?
            .ok_or_else(|| unknown(names[0], "without it the model's size is not known"))
    }

    /// Like [`Config::optional`], but 0 if it is missing.
    pub(crate) fn number_or_zero(&self, names: &[&str]) -> Result<u64> {
        Ok(self.optional(names)?.unwrap_or(0))
    }

    /// A number of one layer: a single number for all, or a list with an entry for each.
    pub(crate) fn of_layer(&self, names: &[&str], layer: u64) -> Result<Option<u64>> {
        let Some(list) = self.get(names).and_then(Value::as_array) else {
            return self.optional(names);
        };
        let entry = usize::try_from(layer)
            .ok()
            .and_then(|layer| list.get(layer))
            .and_then(whole);
        match entry {
            Some(0) => Ok(None),
            Some(number) if number <= LARGEST => Ok(Some(number)),
            _ => Err(Fault::usage(format!(
                "`config.json`: `{}` has no usable entry for layer {layer}",
                names[0]
            ))),
        }
    }

    /// A boolean under the first of these keys with a value; else `default`.
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
        let names = ["num_hidden_layers", "n_layer", "n_layers", "num_layers"];
        let layers = match (
            self.optional(&names)?,
            self.names(&["layer_types", "layers_block_type"]),
        ) {
            (Some(layers), _) => layers,
            (None, Some(list)) => list.len() as u64,
            (None, None) => self.number(&names)?,
        };
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
        list.iter().map(whole).collect()
    }

    /// The data type of the weights, if stated.
    pub(crate) fn dtype(&self) -> Result<Option<Dtype>> {
        match self.get(&["dtype", "torch_dtype"]).and_then(Value::as_str) {
            None | Some("auto") => Ok(None),
            Some(name) => name.parse().map(Some),
        }
    }
}

/// Whether a key describes another part of a multimodal model.
fn is_tower(key: &str, value: &Value) -> bool {
    let name = key.strip_suffix("_config").or(key.strip_suffix("_cfg"));
    let parts = [
        "vision", "vit", "audio", "speech", "image", "img", "video", "talker", "code2wav", "embd",
    ];
    let named = name.is_some_and(|name| parts.iter().any(|part| name.starts_with(part)));
    (named && value.as_object().is_some_and(|map| !map.is_empty())) || (key == "vision_config" && !value.is_null())
}

/// A number from 0 on, including one that was written as a float.
fn whole(value: &Value) -> Option<u64> {
    let float = || {
        value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number))
    };
    value.as_u64().or_else(|| float().map(|number| number as u64))
}

/// The error for a missing value, with the files that would replace it.
fn unknown(name: &str, why: &str) -> Fault {
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
        let json = json!({"model_type": "gemma3", "dtype": "bfloat16", "vision_config": {"depth": 2},
                          "text_config": {"model_type": "gemma3_text", "hidden_size": 8}});
        let config = Config::new(&json).unwrap();
        assert_eq!(config.family().unwrap(), "gemma3_text");
        assert_eq!(config.dtype().unwrap(), Some(Dtype::Bfloat16));
        assert_eq!(config.towers(), ["vision_config"]);
    }

    #[test]
    fn null_is_no_default_and_zero_is_none() {
        let config = |json| Config::new(&json).unwrap();
        let stated = config(json!({"model_type": "mistral", "sliding_window": null, "num_key_value_heads": 0}));
        assert_eq!(stated.optional(&["sliding_window"]).unwrap(), None);
        assert_eq!(stated.optional(&["num_key_value_heads"]).unwrap(), None);
        assert_eq!(
            config(json!({"model_type": "mistral"}))
                .optional(&["sliding_window"])
                .unwrap(),
            Some(4096)
        );
        assert_eq!(
            config(json!({"hidden_size": 4096.0})).number(&["hidden_size"]).unwrap(),
            4096
        );
    }
}
