//! Renders the documentation as a Rhai definition file (`.d.rhai`) for editors with a Rhai language server.
//!
//! Each standard module is a block, named like the alias in the examples, because definition files have no syntax for
//! paths.

use std::fmt::Write;

use super::function::alias;
use super::{FunctionDoc, FunctionKind, Reference, Section, SectionKind};

impl Reference {
    /// The whole documentation in one file.
    #[must_use]
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
