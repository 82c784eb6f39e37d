//! The documentation of the script API, generated from what is registered. `profiler doc`, `:help`, completion and
//! hints all use the same [`FunctionDoc`]s.
//!
//! The texts are the doc comments of the functions, and the `//!` lines of modules (or the docs of their Rust modules).
//! Rhai's standard packages are left out, because Rhai documents them.

mod comment;
mod definitions;
mod function;
mod json;
mod lookup;
mod markdown;
mod metadata;
mod native;
mod section;
mod stdlib;
mod types;

pub use comment::{Example, Needs};
pub use function::{FunctionDoc, FunctionKind, Param};
pub use lookup::Found;
pub use section::{Section, SectionKind};

use rhai::Engine;

use crate::script::shipped;

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
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        let mut sections = native::sections(engine);
        let modules: Vec<(String, _)> = shipped::modules()
            .filter_map(|name| Some((format!("std/{name}"), shipped::module(name)?)))
            .collect();
        let sources = modules.iter().map(|(name, source)| (name.as_str(), source.as_ref()));
        sections.extend(stdlib::sections(engine, sources));
        sections.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        Self { sections }
    }

    /// All functions, methods and properties, in the order of the sections.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionDoc> {
        self.sections.iter().flat_map(|section| &section.functions)
    }
}

/// All functions, methods and properties that scripts can call beyond Rhai's own.
#[must_use]
pub fn functions(engine: &Engine) -> Vec<FunctionDoc> {
    Reference::new(engine)
        .sections
        .into_iter()
        .flat_map(|section| section.functions)
        .collect()
}

/// The script name of a Rust type; `None` for the unit type.
pub(super) fn type_name(spelled: &str) -> Option<String> {
    types::script_type(spelled, &types::TypeNames::new())
}
