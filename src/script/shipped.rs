//! Files embedded in the binary: `scripts/*.rhai`, run by name; `stdlib/**/*.rhai`, imported as `std/…`; the Python
//! programs of `stdlib/probes`; and the data of `stdlib/workloads`.
//!
//! A debug build reads them from the source tree, so that edits take effect without a build.

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
pub fn script(name: &str) -> Option<Cow<'static, str>> {
    text(SCRIPTS, "scripts", name, "rhai")
}

/// The text of a shipped module, by its name below `std/`.
pub fn module(name: &str) -> Option<Cow<'static, str>> {
    text(MODULES, "stdlib", name, "rhai")
}

/// Names of the shipped workloads: `chat`, …
pub(super) fn workloads() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|(name, _)| *name)
}

/// The text of a shipped workload.
pub(super) fn workload(name: &str) -> Option<Cow<'static, str>> {
    text(WORKLOADS, "stdlib/workloads", name, "toml")
}

/// Files that probes import. They are not probes themselves.
const SHARED: [&str; 2] = ["profiler_probe", "profiler_nvml"];

/// Names of the shipped in-process probes: `allocator`, …
pub fn probes() -> impl Iterator<Item = &'static str> {
    let known = PROBES.iter().map(|(name, _)| *name);
    known.filter(|name| !name.contains('/') && !SHARED.contains(name))
}

/// The text of a shipped probe.
pub fn probe(name: &str) -> Option<Cow<'static, str>> {
    probes().find(|known| *known == name).and_then(python)
}

/// The files that probes may import: name and text.
pub fn shared_probe_files() -> Vec<(String, String)> {
    let files = SHARED
        .iter()
        .filter_map(|name| Some((format!("{name}.py"), python(name)?.into_owned())));
    files.collect()
}

fn python(name: &str) -> Option<Cow<'static, str>> {
    text(PROBES, "stdlib/probes", name, "py")
}

/// An entry of `profiler list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shipped {
    /// `adaptive`, `std/search`.
    pub name: String,
    /// The first sentence of its description.
    pub summary: String,
}

/// The shipped scripts with their first sentence.
pub fn described_scripts() -> Vec<Shipped> {
    scripts().map(|name| described(name.to_owned(), script(name))).collect()
}

/// The shipped modules with their first sentence.
pub fn described_modules() -> Vec<Shipped> {
    let shown = |name| described(format!("std/{name}"), module(name));
    modules().map(shown).collect()
}

/// The shipped probes with the first sentence of their docstring.
pub fn described_probes() -> Vec<Shipped> {
    let shown = |name| described(format!("std/probes/{name}"), probe(name));
    probes().map(shown).collect()
}

fn described(name: String, text: Option<Cow<'static, str>>) -> Shipped {
    let summary = text.as_deref().map(summary).unwrap_or_default();
    Shipped { name, summary }
}

/// The first sentence of a script's description, or of a probe's docstring.
pub fn summary(text: &str) -> String {
    match text.strip_prefix("\"\"\"") {
        Some(docstring) => first_sentence(docstring.lines()),
        None => first_sentence(description(text)),
    }
}

/// The first sentence, which may span lines.
fn first_sentence<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let paragraph: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |end| end + 1);
    paragraph[..end].to_owned()
}

fn text(table: &[(&str, &'static str)], folder: &str, name: &str, extension: &str) -> Option<Cow<'static, str>> {
    let (_, embedded) = table.iter().find(|(known, _)| *known == name)?;
    if cfg!(debug_assertions) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(folder)
            .join(format!("{name}.{extension}"));
        if let Ok(text) = std::fs::read_to_string(file) {
            return Some(Cow::Owned(text));
        }
    }
    Some(Cow::Borrowed(embedded))
}
