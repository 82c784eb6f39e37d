//! Architecture of the simulated model, as in its `config.json`; used for memory estimates.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fault::{Fault, Result};

const SHIPPED: [(&str, &str); 3] = [
    ("llama-1b-shape", include_str!("../shapes/llama-1b-shape.json")),
    ("llama-3.1-8b", include_str!("../shapes/llama-3.1-8b.json")),
    ("llama-8b-shape", include_str!("../shapes/llama-8b-shape.json")),
];

/// A `config.json`: the name of a shipped one, or its keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Shape {
    /// Name of a shipped one.
    Shipped(String),
    /// Keys in the profile itself.
    Inline(Map<String, Value>),
}

impl Shape {
    /// The keys.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown name.
    pub fn config(&self) -> Result<Value> {
        let name = match self {
            Self::Inline(keys) => return Ok(Value::Object(keys.clone())),
            Self::Shipped(name) => name,
        };
        let text = SHIPPED.iter().find(|(known, _)| known == name).map(|(_, text)| *text);
        let text = text.ok_or_else(|| {
            let known = SHIPPED.map(|(known, _)| known).join(", ");
            Fault::usage(format!("unknown `shape` `{name}`")).hint(format!(
                "shipped: {known}; or write the keys of a `config.json` below `[shape]`"
            ))
        })?;
        serde_json::from_str(text).map_err(|error| Fault::internal(format!("shape `{name}`: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::{Component, EstimateRequest, ModelFiles, estimate};
    use crate::sim::profile::{MemoryProfile, Profile, names};

    #[test]
    fn weights_and_kv_of_every_shipped_profile_follow_from_its_shape() {
        for name in names() {
            let profile = Profile::load(name).unwrap();
            let known = ModelFiles {
                config: profile.shape.unwrap().config().unwrap(),
                ..ModelFiles::default()
            };
            let needed = estimate(&known, &EstimateRequest::default()).unwrap();
            let (weights, token) = match profile.memory {
                MemoryProfile::Pool(pool) => (pool.weights_mib, pool.kv.bytes_per_token),
                MemoryProfile::Fixed(fixed) => (fixed.weights_mib, fixed.kv.bytes_per_token),
                // Includes workspaces.
                MemoryProfile::Dynamic(dynamic) => {
                    (dynamic.base_bytes as f64 / 1_048_576.0, dynamic.kv_bytes_per_token)
                }
            };
            let expected = needed.total.part(Component::Weights).unwrap().bytes as f64 / 1_048_576.0;
            assert!(
                (weights / expected - 1.0).abs() < 0.03,
                "{name}: {weights} MiB, by its shape {expected}"
            );
            assert_eq!(token, needed.kv_bytes_per_token, "{name}");
        }
    }

    #[test]
    fn a_profile_may_contain_the_shape_and_an_unknown_name_lists_the_shipped_ones() {
        let text = super::super::shipped::text("llama-8b-24gb-vllm").unwrap();
        let own = text.replace("shape = \"llama-3.1-8b\"", "shape = { hidden_size = 8 }");
        let config = Profile::parse("x", &own).unwrap().shape.unwrap().config().unwrap();
        assert_eq!(config["hidden_size"], 8);
        let unknown = text.replace("shape = \"llama-3.1-8b\"", "shape = \"llama-4\"");
        let fault = Profile::parse("x", &unknown).unwrap_err();
        assert!(fault.message.contains("llama-4") && fault.hint.unwrap().contains("llama-8b-shape"));
    }
}
