//! The documentation of the script API, generated from what is registered: `profiler doc`, `:help`, completion and hints
//! all read the same [`FunctionDoc`]s.
//!
//! It owns no text: a function's words are its doc comment, a module's are its `//!` lines or those of its Rust module.
//! Rhai's own standard packages are left out, as Rhai documents them.

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

/// Where Rhai documents what is not listed here: arithmetic, strings, arrays, maps.
const RHAI_BOOK: &str = "https://rhai.rs/book/";

/// Everything that scripts can call beyond Rhai itself.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Global functions first, then namespaces, types and standard modules, each by name.
    pub sections: Vec<Section>,
}

impl Reference {
    /// What is registered in `engine`, and what the standard modules export.
    #[must_use]
    pub fn of(engine: &Engine) -> Self {
        let mut sections = native::sections(engine);
        let modules: Vec<(String, _)> = shipped::modules()
            .filter_map(|name| Some((format!("std/{name}"), shipped::module(name)?)))
            .collect();
        let sources = modules.iter().map(|(name, source)| (name.as_str(), source.as_ref()));
        sections.extend(stdlib::sections(engine, sources));
        sections.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        Self { sections }
    }

    /// Every function, method and property, in the order of the sections.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionDoc> {
        self.sections.iter().flat_map(|section| &section.functions)
    }
}

/// Every function, method and property that scripts can call beyond Rhai itself.
#[must_use]
pub fn functions(engine: &Engine) -> Vec<FunctionDoc> {
    Reference::of(engine)
        .sections
        .into_iter()
        .flat_map(|section| section.functions)
        .collect()
}

/// The script's word for one of Rhai's own types, as Rust spells it; none for the unit type.
pub(super) fn type_word(spelled: &str) -> Option<String> {
    types::script_type(spelled, &types::TypeNames::new())
}
