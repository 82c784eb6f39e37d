//! The documentation of the script API, generated from what is registered. `profiler doc`, `:help`, completion and
//! hints all use the same [`FunctionDoc`]s.
//!
//! The texts are the doc comments of the functions, and the `//!` lines of modules (or the docs of their Rust modules).
//! Rhai's standard packages are left out, because Rhai documents them.

mod collect;
mod model;
mod render;

pub use model::{Example, FunctionDoc, FunctionKind, Needs, Param, Section, SectionKind};

use collect::STANDARD;
use model::alias;
use rhai::Engine;

use super::nearest::suggest;
use super::shipped;
use crate::fault::{Fault, Result};

/// Documentation of what is not listed here: arithmetic, strings, arrays, maps.
const RHAI_BOOK: &str = "https://rhai.rs/book/";

/// All functions that scripts can call beyond Rhai's own.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Global functions first, then namespaces, types and standard modules, each sorted by name.
    pub sections: Vec<Section>,
}

impl Reference {
    /// Documents what is registered in `engine` and what the standard modules export.
    pub fn new(engine: &Engine) -> Self {
        let mut sections = collect::native_sections(engine);
        sections.extend(
            shipped::modules()
                .filter_map(|name| collect::stdlib_section(engine, &format!("std/{name}"), &shipped::module(name)?)),
        );
        sections.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        Self { sections }
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

/// The script name of a Rust type; `None` for the unit type.
pub(super) fn type_name(spelled: &str) -> Option<String> {
    collect::script_type(spelled, &collect::TypeNames::new())
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
        // Variables have any name: `engine.probe` and `map.record` are methods too.
        if let (true, Some((_, method))) = (found.sections.is_empty(), name.rsplit_once('.')) {
            found = self.part(
                |_| false,
                |function| function.name == method && function.title().contains('.'),
            );
        }
        match found.sections.is_empty() {
            true => Err(self.unknown(name)),
            false => Ok(found),
        }
    }

    /// These sections, and these functions of the others.
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

/// All ways to write a function's name.
fn names(function: &FunctionDoc) -> [String; 3] {
    [function.title(), function.path(), function.name.clone()]
}
