//! Documentation of functions, with script type names and properties instead of getters; the sections that group them;
//! and their doc comments, parsed into summary, text, and examples (which a test runs).

use std::fmt;

use serde::Serialize;

/// One function, method or property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionDoc {
    /// Its name: `start`, `probe`, `used`, `==`.
    pub name: String,
    /// How it is called.
    pub kind: FunctionKind,
    /// Namespace, or path of a standard module (`std/search`); `None` for global functions.
    pub module: Option<String>,
    /// The type that a method or property belongs to.
    pub on: Option<String>,
    /// Its parameters, without the receiver of a method.
    pub params: Vec<Param>,
    /// The return type; `None` if nothing is returned or the type is unknown, as in scripts.
    pub returns: Option<String>,
    /// Whether a property can be assigned to.
    pub settable: bool,
    /// The first sentence of its comment; may be empty.
    pub summary: String,
    /// The rest of its comment as Markdown, including examples.
    pub docs: String,
    /// The `rhai` code blocks of its comment.
    pub examples: Vec<Example>,
}

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionKind {
    /// `name(…)` or `module::name(…)`.
    Function,
    /// `value.name(…)`.
    Method,
    /// `value.name`.
    Property,
    /// An operator, or a function that Rhai calls to print a value.
    Operator,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its script type; `None` if unknown, as in scripts.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

impl FunctionDoc {
    /// The name as called in a script: `docker::start`, `search::adaptive`, `sleep`, `probe`.
    pub fn path(&self) -> String {
        match &self.module {
            Some(module) => format!("{}::{}", alias(module), self.name),
            None => self.name.clone(),
        }
    }

    /// The unique name in the documentation: `Engine.probe`, `docker::start`.
    pub fn title(&self) -> String {
        match (&self.on, &self.module) {
            (Some(on), _) if self.kind != FunctionKind::Operator => format!("{on}.{}", self.name),
            (_, Some(module)) => format!("{module}::{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// The signature on one line: `docker::start(options: map) -> Container`.
    pub fn signature(&self) -> String {
        let subject = match &self.on {
            Some(on) if self.kind != FunctionKind::Operator => format!("{on}.{}", self.name),
            _ => self.path(),
        };
        let params = match self.kind {
            FunctionKind::Property => String::new(),
            _ => format!("({})", self.params_line()),
        };
        match &self.returns {
            Some(returns) if self.kind == FunctionKind::Property => format!("{subject}: {returns}"),
            Some(returns) => format!("{subject}{params} -> {returns}"),
            None => format!("{subject}{params}"),
        }
    }

    /// What functions are sorted by.
    pub(super) fn order(&self) -> (String, usize, String) {
        (self.name.clone(), self.params.len(), self.signature())
    }

    /// The parameters as written between the parentheses.
    pub fn params_line(&self) -> String {
        let parts: Vec<String> = self.params.iter().map(Param::to_string).collect();
        parts.join(", ")
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{}: {kind}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The alias under which examples import a standard module: the last part of its path.
pub(super) fn alias(module: &str) -> &str {
    module.rsplit('/').next().unwrap_or(module)
}

/// A section of the documentation.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Empty for global functions, otherwise `docker`, `Engine`, `std/search`.
    pub name: String,
    /// Its kind.
    pub kind: SectionKind,
    /// Markdown; may be empty.
    pub docs: String,
    /// Its functions, sorted by name.
    pub functions: Vec<FunctionDoc>,
    /// Whether it is all of the section, rather than the functions that were looked up.
    #[serde(skip)]
    pub is_whole: bool,
}

impl Section {
    /// The heading.
    pub fn title(&self) -> String {
        match self.kind {
            SectionKind::Global => "Global functions".to_owned(),
            SectionKind::Namespace => format!("`{}::`", self.name),
            SectionKind::Type => format!("Type `{}`", self.name),
            SectionKind::Standard => format!("Module `{}`", self.name),
        }
    }
}

/// The kind of a section. The order of variants is the order of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionKind {
    /// Functions called by their bare name.
    Global,
    /// Native functions behind `name::`.
    Namespace,
    /// Methods and properties of a type.
    Type,
    /// A Rhai module, imported by its name.
    Standard,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comment {
    /// The first paragraph, on one line.
    pub(super) summary: String,
    /// The text after the summary.
    pub(super) docs: String,
    /// The `rhai` code blocks.
    pub(super) examples: Vec<Example>,
}

/// A code block of a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The code.
    pub code: String,
    /// What it needs to run.
    pub needs: Option<Needs>,
}

/// What an example needs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// A Docker daemon: ```` ```rhai,needs-docker ````.
    Docker,
    /// A usable GPU: ```` ```rhai,needs-gpu ````.
    Gpu,
}

impl Comment {
    /// Parses comments as Rhai stores them: pieces of one or more lines, with comment markers.
    pub(super) fn parse<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Self {
        let text: Vec<String> = pieces.into_iter().flat_map(strip_markers).collect();
        Self::from_text(&text.join("\n"))
    }

    /// Parses text without comment markers.
    fn from_text(text: &str) -> Self {
        let text = text.trim();
        let (summary, docs) = text.split_once("\n\n").unwrap_or((text, ""));
        Self {
            summary: summary.split_whitespace().collect::<Vec<_>>().join(" "),
            docs: docs.trim().to_owned(),
            examples: examples(text),
        }
    }

    pub(super) fn markdown(&self) -> String {
        match self.docs.is_empty() {
            true => self.summary.clone(),
            false => format!("{}\n\n{}", self.summary, self.docs),
        }
    }
}

/// The lines of a piece without `///`, `//!`, or block comment markers.
fn strip_markers(piece: &str) -> Vec<String> {
    let piece = piece.trim();
    let block = piece.strip_prefix("/**").or_else(|| piece.strip_prefix("/*!"));
    let (text, markers) = match block {
        Some(block) => (block.strip_suffix("*/").unwrap_or(block), &["*"][..]),
        None => (piece, &["///", "//!"][..]),
    };
    let line = |line: &str| {
        let line = line.trim();
        let line = markers
            .iter()
            .find_map(|marker| line.strip_prefix(marker))
            .unwrap_or(line);
        line.strip_prefix(' ').unwrap_or(line).to_owned()
    };
    text.lines().map(line).collect()
}

/// The fenced code blocks with language `rhai`.
fn examples(markdown: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut open: Option<Example> = None;
    // Fences inside a block of another language are ignored.
    let mut other = false;
    for line in markdown.lines() {
        let fence = line.trim().strip_prefix("```");
        match (&mut open, fence) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(example), None) => {
                example.code.push_str(line);
                example.code.push('\n');
            }
            (None, Some(_)) if other => other = false,
            (None, Some(info)) => {
                let mut words = info.split(',').map(str::trim);
                if words.next() == Some("rhai") {
                    let needs = words.find_map(|word| match word {
                        "needs-docker" => Some(Needs::Docker),
                        "needs-gpu" => Some(Needs::Gpu),
                        _ => None,
                    });
                    open = Some(Example {
                        code: String::new(),
                        needs,
                    });
                } else {
                    other = true;
                }
            }
            (None, None) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(kind: FunctionKind, module: Option<&str>, on: Option<&str>) -> FunctionDoc {
        FunctionDoc {
            name: "start".to_owned(),
            kind,
            module: module.map(str::to_owned),
            on: on.map(str::to_owned),
            params: vec![
                Param {
                    name: "options".to_owned(),
                    kind: Some("map".to_owned()),
                },
                Param {
                    name: "more".to_owned(),
                    kind: None,
                },
            ],
            returns: Some("int".to_owned()),
            settable: false,
            summary: String::new(),
            docs: String::new(),
            examples: Vec::new(),
        }
    }

    #[test]
    fn a_signature_reads_as_the_call() {
        let signature = |kind, module, on| function(kind, module, on).signature();
        assert_eq!(
            signature(FunctionKind::Function, Some("std/engines"), None),
            "engines::start(options: map, more) -> int"
        );
        assert_eq!(
            signature(FunctionKind::Method, None, Some("Engine")),
            "Engine.start(options: map, more) -> int"
        );
        assert_eq!(
            signature(FunctionKind::Property, None, Some("Engine")),
            "Engine.start: int"
        );
    }

    #[test]
    fn titles_distinguish_modules_and_types() {
        assert_eq!(
            function(FunctionKind::Function, Some("std/engines"), None).title(),
            "std/engines::start"
        );
        assert_eq!(
            function(FunctionKind::Method, None, Some("Engine")).title(),
            "Engine.start"
        );
    }
}

#[cfg(test)]
mod comment_tests {
    use super::*;

    #[test]
    fn line_and_block_comments_read_the_same() {
        let lines = Comment::parse(["/// Starts it\n/// now.\n///\n/// # Errors\n///\n/// None."]);
        let block = Comment::parse(["/** Starts it\n * now.\n *\n * # Errors\n *\n * None.\n */"]);
        assert_eq!(lines, block);
        assert_eq!(lines.summary, "Starts it now.");
        assert_eq!(lines.docs, "# Errors\n\nNone.");
        assert_eq!(lines.markdown(), "Starts it now.\n\n# Errors\n\nNone.");
    }

    #[test]
    fn rhai_blocks_are_examples_and_say_what_they_need() {
        let comment = Comment::from_text(
            "A.\n\n```rhai\nlet x = 1;\n  x\n```\n\n```text\n```\n\n```rhai,needs-docker\ny()\n```\n\n```rhai, needs-gpu\nz()\n```",
        );
        let seen: Vec<_> = comment.examples.iter().map(|e| (e.code.as_str(), e.needs)).collect();
        assert_eq!(
            seen,
            [
                ("let x = 1;\n  x\n", None),
                ("y()\n", Some(Needs::Docker)),
                ("z()\n", Some(Needs::Gpu))
            ]
        );
    }

    #[test]
    fn nothing_is_an_empty_comment() {
        assert_eq!(Comment::parse([]), Comment::default());
    }
}
