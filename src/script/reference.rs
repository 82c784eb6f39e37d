//! The documentation of the script API, generated from the registered functions. `profiler doc`, `:help`, completion
//! and hints all use the same [`FunctionDoc`]s. It is rendered as Markdown, as a Rhai definition file (`.d.rhai`) for
//! editors, and as JSON:
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
//!
//! The texts are the doc comments of the functions, and the `//!` lines of modules (or the docs of their Rust modules).
//! Rhai's standard packages are left out, because Rhai documents them.

mod model;
mod registered;
mod text;

use std::cmp::Reverse;
use std::fmt::Write as _;

use rhai::Engine;

use self::model::alias;
pub use self::model::{Example, FunctionDoc, FunctionKind, Needs, Param, Section, SectionKind};
use self::registered::{Metadata, STANDARD, Sections};
use super::shipped;
use super::suggest::suggest;
use crate::boundary::Cause;
use crate::fault::{Fault, Result};

/// Documentation of functions that are not listed here: arithmetic, strings, arrays, maps.
const RHAI_BOOK: &str = "https://rhai.rs/book/";

/// All functions that scripts can call beyond Rhai's own.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Global functions first, then namespaces, types and standard modules, each sorted by name.
    pub sections: Vec<Section>,
}

impl Reference {
    /// Documents everything registered in `engine`, and the exports of the standard modules.
    pub fn new(engine: &Engine) -> Self {
        let mut sections = Sections::default();
        sections.add(&Metadata::read(engine, false), None);
        for name in shipped::modules() {
            let text = shipped::module(name).unwrap_or_default();
            sections.add_standard(engine, &format!("std/{name}"), &text);
        }
        let failures = sections.section(SectionKind::Standard, "std/failures");
        failures.docs.push_str(&known_causes());
        Self {
            sections: sections.sorted(),
        }
    }

    /// All functions, methods and properties, in the order of the sections.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionDoc> {
        self.sections.iter().flat_map(|section| &section.functions)
    }
}

/// All functions, methods and properties that scripts can call beyond Rhai's own.
pub fn functions(engine: &Engine) -> Vec<FunctionDoc> {
    Reference::new(engine)
        .sections
        .into_iter()
        .flat_map(|section| section.functions)
        .collect()
}

impl Reference {
    /// The part about `docker`, `std/search`, `Engine`, `docker::start`, `Engine.probe`, `map.record`, or just `probe`; the
    /// last two may be several functions. Never empty: for an unknown name, the fault suggests the closest one.
    pub fn find(&self, name: &str) -> Result<Self> {
        let name = name.trim().trim_end_matches("()").trim_end_matches("::");
        let is_named = |section: &Section| section.name == name || alias(&section.name) == name;
        let mut found = self.part(
            |section| section.kind != SectionKind::Global && is_named(section),
            |function| names(function).iter().any(|known| known == name),
        );
        // Variables can have any name: `engine.probe` and `map.record` are methods too.
        if let (true, Some((_, method))) = (found.sections.is_empty(), name.rsplit_once('.')) {
            found = self.part(
                |_| false,
                |function| function.name == method && function.title().contains('.'),
            );
        }
        if found.sections.is_empty() {
            Err(self.unknown(name))
        } else {
            Ok(found)
        }
    }

    /// The wanted sections, and the wanted functions of the others.
    fn part(&self, is_wanted: impl Fn(&Section) -> bool, has: impl Fn(&FunctionDoc) -> bool) -> Self {
        let mut sections = self.sections.clone();
        for section in &mut sections {
            section.is_whole = is_wanted(section);
            if !section.is_whole {
                section.functions.retain(&has);
            }
        }
        sections.retain(|section| section.is_whole || !section.functions.is_empty());
        Self { sections }
    }

    /// The functions whose name or text has a word with each of these beginnings, best first. A match in the name
    /// counts more than one in the first sentence, and that more than one in the rest.
    pub fn search(&self, words: &str) -> Vec<&FunctionDoc> {
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let mut found: Vec<(usize, &FunctionDoc)> = Vec::new();
        for function in self
            .functions()
            .filter(|function| function.kind != FunctionKind::Operator)
        {
            let texts = [&function.title(), &function.summary, &function.docs].map(|text| text.to_lowercase());
            let weight = |word: &String| {
                let counts = texts.iter().zip(WEIGHTS).filter(|(text, _)| has_word(text, word));
                counts.map(|(_, weight)| weight).sum::<usize>()
            };
            let weights: Vec<usize> = words.iter().map(weight).collect();
            if weights.iter().all(|weight| *weight > 0) {
                found.push((weights.iter().sum(), function));
            }
        }
        found.sort_by_key(|(weight, function)| (Reverse(*weight), function.docs.len()));
        found.into_iter().map(|(_, function)| function).collect()
    }

    fn unknown(&self, name: &str) -> Fault {
        let fault = Fault::usage(format!("nothing is called `{name}`"));
        if STANDARD.contains(name) {
            return fault.hint(format!("`{name}` is part of Rhai: {RHAI_BOOK}"));
        }
        let sections = self.sections.iter().map(|section| section.name.clone());
        let known: Vec<String> = sections.chain(self.functions().flat_map(names)).collect();
        let known = known.iter().map(String::as_str);
        suggest(fault, name, known, "`profiler doc` lists everything")
    }
}

/// A list of the causes that reports and searches know, for authors of failure rules.
fn known_causes() -> String {
    let mut text =
        "\n\nKnown causes of verdicts; a rule may also give one of its own, which is shown by its name:\n".to_owned();
    for cause in Cause::ALL {
        let _ = write!(text, "\n- `{cause}`: {}", cause.meaning());
    }
    text
}

/// Whether the text has a word that begins with `begun`.
fn has_word(text: &str, begun: &str) -> bool {
    let mut places = text.match_indices(begun);
    places.any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
}

/// The weights of a match in a function's name, its first sentence and the rest of its text.
const WEIGHTS: [usize; 3] = [100, 10, 1];

/// All ways to write a function's name.
fn names(function: &FunctionDoc) -> [String; 3] {
    [function.title(), function.path(), function.name.clone()]
}
