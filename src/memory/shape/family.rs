//! Defaults by family, where `config.json` is silent: of its keys, and of properties that no key states. The table
//! `families.toml` is all that depends on the name of a family.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Where the attention has biases, if the keys say that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bias {
    #[default]
    No,
    /// Queries, keys and values, but never the output of the attention.
    Queries,
    All,
}

/// Norms of queries and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum QkNorm {
    #[default]
    No,
    /// Per head, with one vector for all heads.
    Head,
    /// Over all heads together.
    All,
}

/// A matrix of the attention that multiplies its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Gate {
    #[default]
    No,
    /// As wide as the queries.
    Full,
    /// One number for each head.
    Head,
}

/// A family. Its fields are what no key of `config.json` states.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Family {
    /// Values of `model_type`.
    names: Vec<String>,
    /// Values of keys that the file leaves out.
    pub(super) defaults: Map<String, Value>,
    pub(super) bias: Bias,
    pub(super) qk_norm: QkNorm,
    pub(super) gate: Gate,
    /// One learned number per head that takes part in the softmax.
    pub(super) sinks: bool,
    /// Norms per layer; two if none are stated.
    norms: Option<u64>,
    /// As in GPT-2: LayerNorm with a bias, and biases in the feed-forward part.
    pub(super) classic: bool,
    /// The feed-forward part has no gate.
    pub(super) ungated: bool,
    /// Attention and a recurrent part side by side in every layer.
    pub(super) parallel: bool,
}

#[derive(Deserialize)]
struct Table {
    families: Vec<Family>,
}

static FAMILIES: LazyLock<Vec<Family>> = LazyLock::new(|| {
    let table: Table = toml::from_str(include_str!("families.toml")).expect("the table is valid");
    table.families
});

/// The properties of a family that is not known: none.
pub(super) static NONE: LazyLock<Family> = LazyLock::new(Family::default);

impl Family {
    pub(super) fn norms(&self) -> u64 {
        self.norms.unwrap_or(2)
    }
}

pub(super) fn find(name: &str) -> Option<&'static Family> {
    FAMILIES
        .iter()
        .find(|family| family.names.iter().any(|known| known == name))
}

/// The names of all known families, sorted.
pub(super) fn names() -> Vec<&'static str> {
    let mut known: Vec<&str> = FAMILIES
        .iter()
        .flat_map(|family| &family.names)
        .map(String::as_str)
        .collect();
    known.sort_unstable();
    known
}
