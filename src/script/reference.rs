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

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use rhai::Engine;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::convert::type_name;
use super::lexer::is_word;
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

    /// The sort key of functions.
    fn order(&self) -> (String, usize, String) {
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
fn alias(module: &str) -> &str {
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
    /// Whether it is the whole section, not only the functions that were looked up.
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
struct Comment {
    /// The first paragraph, on one line.
    summary: String,
    /// The text after the summary.
    docs: String,
    /// The `rhai` code blocks.
    examples: Vec<Example>,
}

/// A code block of a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The code.
    pub code: String,
    /// The environment that it needs to run.
    pub needs: Option<Needs>,
}

/// The environment that an example needs to run.
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
    fn parse<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Self {
        let text: Vec<&str> = pieces.into_iter().flat_map(str::lines).map(without_marker).collect();
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

    fn markdown(&self) -> String {
        if self.docs.is_empty() {
            self.summary.clone()
        } else {
            format!("{}\n\n{}", self.summary, self.docs)
        }
    }
}

/// A line without `///` or `//!`.
fn without_marker(line: &str) -> &str {
    let line = line.trim();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
    let text = text.unwrap_or(line);
    text.strip_prefix(' ').unwrap_or(text)
}

/// The fenced code blocks with language `rhai`.
fn examples(markdown: &str) -> Vec<Example> {
    let blocks = markdown.split("```").skip(1).step_by(2);
    let example = |block: &str| {
        let (info, code) = block.split_once('\n')?;
        let mut words = info.split(',').map(str::trim);
        let needs = |word| match word {
            "needs-docker" => Some(Needs::Docker),
            "needs-gpu" => Some(Needs::Gpu),
            _ => None,
        };
        (words.next() == Some("rhai")).then(|| Example {
            code: code.to_owned(),
            needs: words.find_map(needs),
        })
    };
    blocks.filter_map(example).collect()
}

/// Functions that Rhai calls to print a value.
const HOOKS: [&str; 2] = ["to_string", "to_debug"];

#[derive(Default)]
struct Sections(BTreeMap<(SectionKind, String), Section>);

impl Sections {
    fn section(&mut self, kind: SectionKind, name: &str) -> &mut Section {
        self.0.entry((kind, name.to_owned())).or_insert_with(|| Section {
            name: name.to_owned(),
            kind,
            docs: String::new(),
            functions: Vec::new(),
            is_whole: true,
        })
    }

    fn sorted(self) -> Vec<Section> {
        let mut sections: Vec<Section> = self.0.into_values().collect();
        for section in &mut sections {
            section.functions.sort_by_cached_key(FunctionDoc::order);
        }
        sections
    }

    /// Adds a module of the standard library. Skips it if its source does not compile, because its own tests report
    /// that.
    fn add_standard(&mut self, engine: &Engine, name: &str, source: &str) {
        if let Ok(ast) = engine.compile(source) {
            self.section(SectionKind::Standard, name);
            let metadata = Engine::new_raw().gen_fn_metadata_with_ast_to_json(&ast, false);
            self.add(&Metadata::parse(metadata), Some(name));
        }
    }

    fn add(&mut self, metadata: &Metadata, module: Option<&str>) {
        let kind = if module.is_some_and(|module| module.starts_with("std/")) {
            SectionKind::Standard
        } else {
            SectionKind::Namespace
        };
        let is_adapter = module.is_some_and(|module| module.starts_with("std/engines/"));
        for custom in &metadata.custom_types {
            let docs = Comment::parse(custom.doc_comments.iter().map(String::as_str)).markdown();
            if !docs.is_empty() {
                self.section(SectionKind::Type, &custom.display_name).docs = docs;
            }
        }
        let is_listed = |function: &&Function| {
            let name = function.name.as_str();
            function.access != "private" && !name.starts_with("anon$") && !(is_adapter && ADAPTER.contains(&name))
        };
        for function in metadata.functions.iter().filter(is_listed) {
            let module = module.filter(|_| kind == SectionKind::Standard || function.namespace != "global");
            let documented = document(function, module);
            let section = match (&documented.on, &documented.module) {
                (Some(on), _) => self.section(SectionKind::Type, on),
                (None, Some(module)) => self.section(kind, module),
                (None, None) => self.section(SectionKind::Global, ""),
            };
            section.functions.push(documented);
        }
        // A module that only has methods of a type gets no section.
        if let Some(module) = module
            && let Some(section) = self.0.get_mut(&(kind, module.to_owned()))
        {
            section.docs = Comment::parse([metadata.doc.as_str()]).markdown();
        }
        for (name, inner) in &metadata.modules {
            let path = module.map_or_else(|| name.clone(), |outer| format!("{outer}::{name}"));
            self.add(inner, Some(&path));
        }
    }
}

/// Documents a function.
fn document(function: &Function, module: Option<&str>) -> FunctionDoc {
    let Comment {
        summary,
        docs,
        examples,
    } = Comment::parse(function.doc_comments.iter().map(String::as_str));
    // Script functions have no types.
    let is_script = function.origin == "script";
    let rust_type = |argument: &Argument| argument.kind.clone().unwrap_or_else(|| "?".to_owned());
    let numbered = function.params.iter().enumerate();
    let mut params: Vec<Param> = numbered
        .map(|(index, argument)| Param {
            name: argument.name.clone().unwrap_or_else(|| format!("value{index}")),
            kind: (!is_script).then(|| type_name(&rust_type(argument))),
        })
        .collect();
    let is_operator = HOOKS.contains(&function.name.as_str()) || !function.name.contains(is_word);
    let property = function.name.strip_prefix("get$");
    // A function is a method of its first parameter if that is taken by mutable reference.
    let is_method = |first: &Argument| rust_type(first).replace(' ', "").starts_with("&mut");
    let on = if module.is_none() && function.params.first().is_some_and(is_method) {
        params.remove(0).kind
    } else {
        None
    };
    let returns = type_name(&function.return_type);
    FunctionDoc {
        name: property.unwrap_or(&function.name).to_owned(),
        kind: match (is_operator, property, &on) {
            (true, ..) => FunctionKind::Operator,
            (_, Some(_), _) => FunctionKind::Property,
            (_, _, Some(_)) => FunctionKind::Method,
            _ => FunctionKind::Function,
        },
        module: module.map(str::to_owned),
        on,
        params,
        returns: Some(returns).filter(|kind| !is_script && !matches!(kind.as_str(), "" | "()")),
        summary,
        docs,
        examples,
    }
}

/// A module; the root contains the globally registered items.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    doc: String,
    #[serde(default)]
    functions: Vec<Function>,
    #[serde(default)]
    modules: BTreeMap<String, Metadata>,
    #[serde(default)]
    custom_types: Vec<CustomType>,
}

/// A function. Getters are named `get$name`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Function {
    name: String,
    /// `script` or `native`.
    #[serde(rename = "type")]
    origin: String,
    /// `global`: visible without the module's name.
    namespace: String,
    access: String,
    #[serde(default)]
    params: Vec<Argument>,
    #[serde(default)]
    return_type: String,
    #[serde(default)]
    doc_comments: Vec<String>,
}

/// A parameter with its Rust type.
#[derive(Deserialize)]
struct Argument {
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CustomType {
    display_name: String,
    #[serde(default)]
    doc_comments: Vec<String>,
}

impl Metadata {
    /// Functions and types beyond Rhai's standard packages, or with them.
    fn read(engine: &Engine, standard: bool) -> Self {
        Self::parse(engine.gen_fn_metadata_to_json(standard))
    }

    fn parse(text: serde_json::Result<String>) -> Self {
        text.and_then(|text| serde_json::from_str(&text))
            .expect("the interpreter's metadata has the shape of its version")
    }
}

/// Names of the functions in Rhai's standard packages.
static STANDARD: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let functions = Metadata::read(&Engine::new(), true).functions;
    functions.into_iter().map(|function| function.name).collect()
});

/// Functions that every adapter exports. They are documented once in `std/engines`.
const ADAPTER: [&str; 6] = ["facts", "failures", "flags", "launch", "ready", "request"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_comments_are_below_their_function() {
        let text = shift_headings("# Example\n\n```rhai,needs-docker\n# not a heading\n```\n\n# Errors", 2);
        assert_eq!(text, "### Example\n\n```rhai\n# not a heading\n```\n\n### Errors");
    }
}

#[cfg(test)]
mod model_tests {
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
    fn a_comment_has_a_summary_and_more() {
        let comment = Comment::parse(["/// Starts it\n/// now.\n///\n/// # Errors\n///\n/// None."]);
        assert_eq!(comment.summary, "Starts it now.");
        assert_eq!(comment.docs, "# Errors\n\nNone.");
        assert_eq!(comment.markdown(), "Starts it now.\n\n# Errors\n\nNone.");
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

#[cfg(test)]
mod native_tests {
    #![allow(unreachable_pub, clippy::unwrap_used, reason = "what export_module wants and writes")]

    use rhai::plugin::*;
    use rhai::{Engine, INT, Map};

    use super::*;

    /// A thing to count with.
    #[derive(Clone)]
    pub(crate) struct Counter;

    /// Counts things.
    #[export_module]
    #[allow(
        unreachable_pub,
        clippy::needless_pass_by_ref_mut,
        reason = "what export_module wants"
    )]
    mod counting {
        /// Makes a counter.
        ///
        /// ```rhai
        /// counting::start(#{})
        /// ```
        #[rhai_fn(return_raw)]
        pub fn start(context: NativeCallContext, options: Map) -> Result<Counter, Box<EvalAltResult>> {
            let _ = (context, options);
            Ok(Counter)
        }

        /// Counts up.
        #[rhai_fn(global)]
        pub fn add(counter: &mut Counter, by: Dynamic) -> INT {
            let _ = (counter, by);
            1
        }

        /// How far it is.
        #[rhai_fn(global, get = "total")]
        pub fn total(counter: &mut Counter) -> INT {
            let _ = counter;
            1
        }
    }

    fn found() -> Vec<Section> {
        let mut engine = Engine::new();
        engine.register_type_with_name::<Counter>("Counter");
        engine.register_static_module("counting", exported_module!(counting).into());
        let mut sections = Sections::default();
        sections.add(&Metadata::read(&engine, false), None);
        sections.sorted()
    }

    #[test]
    fn functions_are_grouped_by_namespace_and_type() {
        let shown: Vec<(String, Vec<String>)> = found()
            .iter()
            .map(|section| {
                (
                    section.title(),
                    section.functions.iter().map(FunctionDoc::signature).collect(),
                )
            })
            .collect();
        let expected = [
            ("`counting::`", vec!["counting::start(options: map) -> Counter"]),
            (
                "Type `Counter`",
                vec!["Counter.add(by: any) -> int", "Counter.total: int"],
            ),
        ];
        assert_eq!(shown.len(), expected.len(), "{shown:?}");
        for ((title, functions), (wanted, signatures)) in shown.iter().zip(expected) {
            assert_eq!(title, wanted);
            assert_eq!(*functions, signatures);
        }
    }

    #[test]
    fn a_module_and_its_functions_have_their_comments() {
        let sections = found();
        assert_eq!(sections[0].docs, "Counts things.");
        assert_eq!(sections[0].functions[0].summary, "Makes a counter.");
        assert_eq!(sections[0].functions[0].examples.len(), 1);
        let total = &sections[1].functions[1];
        assert_eq!(total.kind, FunctionKind::Property);
    }
}

#[cfg(test)]
mod stdlib_tests {
    use super::*;

    fn section(name: &str, source: &str) -> Section {
        let mut sections = Sections::default();
        sections.add_standard(&Engine::new(), name, source);
        sections.sorted().remove(0)
    }

    #[test]
    fn an_adapter_shows_only_its_own_functions() {
        let source = "//! An engine.\nfn launch(options) {}\n/// More.\nfn more() {}";
        let names = |module| -> Vec<String> {
            section(module, source)
                .functions
                .into_iter()
                .map(|function| function.name)
                .collect()
        };
        assert_eq!(names("std/engines/mine"), ["more"]);
        assert_eq!(names("std/search"), ["launch", "more"]);
    }

    #[test]
    fn public_functions_and_module_docs_are_documented() {
        let source = "//! Searches.\n//!\n//! Slowly.\n/// Tries all.\n///\n/// ```rhai\n/// 1\n/// ```\n\
                      fn grid(map, probe) { let each = |x| x; each.call(1) }\nprivate fn hidden() {}";
        let section = section("std/search", source);
        assert_eq!(section.docs, "Searches.\n\nSlowly.");
        assert_eq!(section.functions.len(), 1);
        let grid = &section.functions[0];
        assert_eq!(grid.signature(), "search::grid(map, probe)");
        assert_eq!((grid.summary.as_str(), grid.examples.len()), ("Tries all.", 1));
    }
}
