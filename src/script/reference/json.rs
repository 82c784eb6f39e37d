//! Renders the documentation as JSON, for editors and other tools.
//!
//! ```text
//! { "schema": 1, "program": "0.1.0", "sections": [
//!     { "name": "docker", "kind": "global" | "namespace" | "type" | "standard", "docs": "Markdown",
//!       "functions": [
//!         { "name": "start", "kind": "function" | "method" | "property" | "operator",
//!           "module": "docker" | null, "on": "Engine" | null, "signature": "docker::start(options: map) -> Container",
//!           "params": [{ "name": "options", "type": "map" | null }], "returns": "Container" | null,
//!           "settable": false, "summary": "one sentence", "docs": "Markdown",
//!           "examples": [{ "code": "…", "needs": "docker" | "gpu" | null }] } ] } ] }
//! ```
//!
//! `schema` increases if a key is removed or changes its meaning; new keys do not change it.

use serde_json::{Value, json};

use super::{Found, FunctionDoc, Reference, Section};

/// The version of this format.
const SCHEMA: u32 = 1;

impl Reference {
    /// The whole documentation.
    #[must_use]
    pub fn json(&self) -> Value {
        document(self.sections.iter().map(section).collect())
    }
}

impl Found<'_> {
    /// Only these entries, in the same format. Functions are in their section, without the others.
    #[must_use]
    pub fn json(found: &[Found<'_>], reference: &Reference) -> Value {
        let wanted = |function: &FunctionDoc| {
            found
                .iter()
                .any(|one| matches!(one, Found::Function(f) if *f == function))
        };
        let sections = reference.sections.iter().filter_map(|whole| {
            if found
                .iter()
                .any(|one| matches!(one, Found::Section(s) if s.name == whole.name && s.kind == whole.kind))
            {
                return Some(section(whole));
            }
            let mut part = whole.clone();
            part.functions.retain(wanted);
            (!part.functions.is_empty()).then(|| section(&part))
        });
        document(sections.collect())
    }
}

fn document(sections: Vec<Value>) -> Value {
    json!({ "schema": SCHEMA, "program": env!("CARGO_PKG_VERSION"), "sections": sections })
}

fn section(section: &Section) -> Value {
    let functions: Vec<Value> = section.functions.iter().map(function).collect();
    json!({ "name": section.name, "kind": section.kind, "docs": section.docs, "functions": functions })
}

fn function(function: &FunctionDoc) -> Value {
    let mut value = json!(function);
    value["signature"] = function.signature().into();
    value
}
