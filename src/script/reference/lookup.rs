//! Finds entries of the documentation by name.

use crate::fault::{Fault, Result};
use crate::script::nearest::nearest;

use super::function::alias;
use super::metadata::STANDARD;
use super::{FunctionDoc, RHAI_BOOK, Reference, Section, SectionKind};

/// An entry of the documentation.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// A namespace, a type or a module.
    Section(&'a Section),
    /// A function, method or property.
    Function(&'a FunctionDoc),
}

impl Reference {
    /// Finds `docker`, `std/search`, `Engine`, `docker::start`, `Engine.probe`, `map.record`, or just `probe`; the last
    /// two may have several results. Never empty: for an unknown name, the fault suggests the closest one.
    pub fn find(&self, name: &str) -> Result<Vec<Found<'_>>> {
        let name = name.trim().trim_end_matches("()").trim_end_matches("::");
        let mut found: Vec<Found> = self
            .sections
            .iter()
            .filter(|section| section.kind != SectionKind::Global)
            .filter(|section| section.name == name || alias(&section.name) == name)
            .map(Found::Section)
            .collect();
        found.extend(
            self.functions()
                .filter(|function| names(function).contains(&name.to_owned()))
                .map(Found::Function),
        );
        // Variables have any name: `engine.probe` and `map.record` are methods too.
        if let (true, Some((_, method))) = (found.is_empty(), name.rsplit_once('.')) {
            let methods = self
                .functions()
                .filter(|function| function.name == method && function.title().contains('.'));
            found.extend(methods.map(Found::Function));
        }
        match found.is_empty() {
            true => Err(self.unknown(name)),
            false => Ok(found),
        }
    }

    fn unknown(&self, name: &str) -> Fault {
        let fault = Fault::usage(format!("nothing is called `{name}`"));
        if STANDARD.contains(name) {
            return fault.hint(format!("`{name}` is part of Rhai: {RHAI_BOOK}"));
        }
        match self.nearest(name) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault.hint("`profiler doc` lists everything"),
        }
    }

    fn nearest(&self, name: &str) -> Option<String> {
        let sections = self.sections.iter().map(|section| section.name.clone());
        let known: Vec<String> = sections.chain(self.functions().flat_map(names)).collect();
        nearest(name, known.iter().map(String::as_str)).map(str::to_owned)
    }
}

/// All ways to write a function's name.
fn names(function: &FunctionDoc) -> [String; 3] {
    [function.title(), function.path(), function.name.clone()]
}
