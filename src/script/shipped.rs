//! The Rhai files that ship inside the binary: `scripts/*.rhai`, run by name, and `stdlib/**/*.rhai`, imported as `std/…`.
//!
//! A debug build reads them from the source tree instead, so that an edit shows without a build.

use std::borrow::Cow;
use std::path::Path;

use serde::Serialize;

use super::header::description;

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Names of the shipped scripts: `adaptive`, …
pub fn scripts() -> impl Iterator<Item = &'static str> {
    SCRIPTS.iter().map(|(name, _)| *name)
}

/// Names of the shipped modules below `std/`: `search`, `engines/vllm`, …
pub fn modules() -> impl Iterator<Item = &'static str> {
    MODULES.iter().map(|(name, _)| *name)
}

/// The text of a shipped script.
#[must_use]
pub fn script(name: &str) -> Option<Cow<'static, str>> {
    text(SCRIPTS, "scripts", name)
}

/// The text of a shipped module, by its name below `std/`.
#[must_use]
pub fn module(name: &str) -> Option<Cow<'static, str>> {
    text(MODULES, "stdlib", name)
}

/// What `profiler list` says of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shipped {
    /// `adaptive`, `std/search`.
    pub name: String,
    /// The first line of its description.
    pub summary: String,
}

/// The shipped scripts with their first line.
#[must_use]
pub fn described_scripts() -> Vec<Shipped> {
    scripts().map(|name| described(name.to_owned(), script(name))).collect()
}

/// The shipped modules with their first line.
#[must_use]
pub fn described_modules() -> Vec<Shipped> {
    modules()
        .map(|name| described(format!("std/{name}"), module(name)))
        .collect()
}

fn described(name: String, text: Option<Cow<'static, str>>) -> Shipped {
    let summary = text
        .as_deref()
        .and_then(|text| description(text).next())
        .unwrap_or_default()
        .to_owned();
    Shipped { name, summary }
}

fn text(table: &[(&str, &'static str)], folder: &str, name: &str) -> Option<Cow<'static, str>> {
    let (_, embedded) = table.iter().find(|(known, _)| *known == name)?;
    if cfg!(debug_assertions) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(folder)
            .join(format!("{name}.rhai"));
        if let Ok(text) = std::fs::read_to_string(file) {
            return Some(Cow::Owned(text));
        }
    }
    Some(Cow::Borrowed(embedded))
}
