//! The documentation of the script API, generated from what is registered. `profiler doc`, `:help`, completion and
//! hints all use the same [`FunctionDoc`]s. It is rendered as Markdown, as a Rhai definition file (`.d.rhai`) for editors,
//! and as JSON:
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

mod collect;
mod model;

pub use model::{Example, FunctionDoc, FunctionKind, Needs, Param, Section, SectionKind};

use std::fmt::Write as _;

use collect::STANDARD;
use model::alias;
use rhai::Engine;
use serde_json::{Value, json};

use super::shipped;
use super::signature::suggest;
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

impl Reference {
    /// The whole documentation, with a heading per section.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# Script API\n\nLengths are in tokens, memory in bytes, times in seconds, unless the name says otherwise. \
             Arithmetic, strings, arrays and maps are Rhai's own: <{RHAI_BOOK}>.\n"
        );
        for section in &self.sections {
            text.push('\n');
            text.push_str(&section_text(section, 2));
        }
        text
    }

    /// Without the heading of the whole: sections, and then single functions.
    pub fn excerpt(&self) -> String {
        let (whole, parts): (Vec<&Section>, Vec<&Section>) = self.sections.iter().partition(|section| section.is_whole);
        let sections = whole.into_iter().map(|section| section_text(section, 1));
        let functions = parts.into_iter().flat_map(|section| &section.functions);
        let texts: Vec<String> = sections
            .chain(functions.map(|function| function_text(function, 1)))
            .collect();
        texts.join("\n")
    }

    /// The documentation as data.
    pub fn json(&self) -> Value {
        let section = |section: &Section| {
            let functions: Vec<Value> = section.functions.iter().map(function).collect();
            json!({ "name": section.name, "kind": section.kind, "docs": section.docs, "functions": functions })
        };
        let sections: Vec<Value> = self.sections.iter().map(section).collect();
        json!({ "schema": SCHEMA, "program": env!("CARGO_PKG_VERSION"), "sections": sections })
    }

    /// The whole documentation in one file.
    pub fn definitions(&self) -> String {
        let mut text = "module static;\n".to_owned();
        for section in &self.sections {
            text.push('\n');
            match section.kind {
                SectionKind::Global | SectionKind::Type => text.push_str(&items(section, "")),
                SectionKind::Namespace | SectionKind::Standard => {
                    let name = alias(&section.name);
                    let _ = write!(text, "module {name} {{\n{}}}\n", items(section, "    "));
                }
            }
        }
        text
    }
}

fn section_text(section: &Section, level: usize) -> String {
    let mut text = format!("{} {}\n", "#".repeat(level), section.title());
    if !section.docs.is_empty() {
        let _ = write!(text, "\n{}\n", shift_headings(&section.docs, level));
    }
    for function in &section.functions {
        text.push('\n');
        text.push_str(&function_text(function, level + 1));
    }
    text
}

fn function_text(function: &FunctionDoc, level: usize) -> String {
    let mut text = format!("{} `{}`\n", "#".repeat(level), function.signature());
    let paragraphs = [function.summary.as_str(), function.docs.as_str()];
    for paragraph in paragraphs.into_iter().filter(|paragraph| !paragraph.is_empty()) {
        let _ = write!(text, "\n{}\n", shift_headings(paragraph, level));
    }
    if function.kind == FunctionKind::Property && function.settable {
        text.push_str("\nCan be assigned.\n");
    }
    text
}

/// Shifts the headings of a comment below `level`, except in code. Removes `needs-…` from examples.
fn shift_headings(markdown: &str, level: usize) -> String {
    let mut code = false;
    let lines: Vec<String> = markdown
        .lines()
        .map(|line| {
            if line.trim_start().starts_with("```") {
                code = !code;
                return match line.trim_start().starts_with("```rhai") {
                    true => "```rhai".to_owned(),
                    false => line.to_owned(),
                };
            }
            match !code && line.starts_with('#') {
                true => format!("{}{line}", "#".repeat(level)),
                false => line.to_owned(),
            }
        })
        .collect();
    lines.join("\n")
}

/// The version of this format.
const SCHEMA: u32 = 1;

fn function(function: &FunctionDoc) -> Value {
    let mut value = json!(function);
    value["signature"] = function.signature().into();
    value
}

fn items(section: &Section, indent: &str) -> String {
    let shown: Vec<String> = section
        .functions
        .iter()
        .map(|function| item(function, indent))
        .collect();
    shown.join("\n")
}

fn item(function: &FunctionDoc, indent: &str) -> String {
    let mut text = String::new();
    let comment = [function.summary.as_str(), function.docs.as_str()].join("\n\n");
    for line in comment.trim().lines() {
        let _ = writeln!(text, "{indent}{}", format!("/// {line}").trim_end());
    }
    let returns = function.returns.as_deref().map_or("()", definition_type);
    let receiver = function.on.as_ref().map(|on| format!("this: {on}"));
    let params = function.params.iter().map(|param| {
        let kind = param.kind.as_deref().map_or("?", definition_type);
        format!("{}: {kind}", param.name)
    });
    let params: Vec<String> = receiver.into_iter().chain(params).collect();
    let params = params.join(", ");
    let _ = match function.kind {
        FunctionKind::Property => writeln!(text, "{indent}fn get {}({params}) -> {returns};", function.name),
        FunctionKind::Operator if !function.name.starts_with(char::is_alphabetic) => {
            writeln!(text, "{indent}op {}({params}) -> {returns};", function.name)
        }
        _ => writeln!(text, "{indent}fn {}({params}) -> {returns};", function.name),
    };
    text
}

/// Definition files write `?` for any type.
fn definition_type(word: &str) -> &str {
    match word {
        "any" => "?",
        "closure" => "Fn",
        "string" => "String",
        "array" => "Array",
        "map" => "Map",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_comments_are_below_their_function() {
        let text = shift_headings("# Example\n\n```rhai,needs-docker\n# not a heading\n```\n\n# Errors", 2);
        assert_eq!(text, "### Example\n\n```rhai\n# not a heading\n```\n\n### Errors");
    }
}
