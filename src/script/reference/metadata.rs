//! Deserializes the relevant parts of Rhai's function metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rhai::Engine;
use serde::Deserialize;

/// A module; the root contains what is registered globally.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) doc: String,
    #[serde(default)]
    pub(super) functions: Vec<Function>,
    #[serde(default)]
    pub(super) modules: BTreeMap<String, Metadata>,
    #[serde(default)]
    pub(super) custom_types: Vec<CustomType>,
}

/// A function. Getters are named `get$name`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Function {
    pub(super) name: String,
    /// `script` or `native`.
    #[serde(rename = "type")]
    pub(super) origin: String,
    /// `global`: visible without the module's name.
    pub(super) namespace: String,
    pub(super) access: String,
    #[serde(default)]
    pub(super) params: Vec<Argument>,
    #[serde(default)]
    pub(super) return_type: String,
    #[serde(default)]
    pub(super) doc_comments: Vec<String>,
}

/// A parameter with its Rust type.
#[derive(Deserialize)]
pub(super) struct Argument {
    pub(super) name: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CustomType {
    pub(super) type_name: String,
    pub(super) display_name: String,
    #[serde(default)]
    pub(super) doc_comments: Vec<String>,
}

impl Metadata {
    /// Functions and types beyond Rhai's standard packages.
    pub(super) fn new(engine: &Engine) -> Self {
        Self::read(engine, false)
    }

    fn read(engine: &Engine, standard: bool) -> Self {
        engine
            .gen_fn_metadata_to_json(standard)
            .and_then(|text| serde_json::from_str(&text))
            .expect("the interpreter's metadata has the shape of its version")
    }
}

/// Names of the functions in Rhai's standard packages.
pub(super) static STANDARD: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let functions = Metadata::read(&Engine::new(), true).functions;
    functions.into_iter().map(|function| function.name).collect()
});
