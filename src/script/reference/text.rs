//! The reference as Markdown, as JSON, and as a definition file for editors.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::model::{FunctionDoc, FunctionKind, Section, SectionKind, alias};
use super::{RHAI_BOOK, Reference};

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

    /// The documentation without the overall heading: whole sections, and then single functions.
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
        let mut sections = json!(self.sections);
        for (at, section) in self.sections.iter().enumerate() {
            for (index, function) in section.functions.iter().enumerate() {
                let shown = &mut sections[at]["functions"][index];
                shown["signature"] = function.signature().into();
                // No property can be assigned. The key is part of schema 1.
                shown["settable"] = false.into();
            }
        }
        json!({ "schema": SCHEMA, "program": env!("CARGO_PKG_VERSION"), "sections": sections })
    }

    /// The whole documentation as one definition file.
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
    text
}

/// Shifts the headings of a comment below `level`, except in code. Removes `needs-…` from examples.
fn shift_headings(markdown: &str, level: usize) -> String {
    let mut code = false;
    let shifted = |line: &str| {
        if line.trim_start().starts_with("```") {
            code = !code;
            let is_rhai = line.trim_start().starts_with("```rhai");
            return if is_rhai { "```rhai".to_owned() } else { line.to_owned() };
        }
        if !code && line.starts_with('#') {
            format!("{}{line}", "#".repeat(level))
        } else {
            line.to_owned()
        }
    };
    markdown.lines().map(shifted).collect::<Vec<_>>().join("\n")
}

/// The version of this format.
const SCHEMA: u32 = 1;

fn items(section: &Section, indent: &str) -> String {
    let shown = section.functions.iter().map(|function| item(function, indent));
    shown.collect::<Vec<_>>().join("\n")
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
        "function" => "Fn",
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
