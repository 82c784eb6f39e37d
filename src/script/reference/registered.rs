//! Reads the documentation of functions from the interpreter's metadata: native functions, and the modules of the
//! standard library.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rhai::Engine;
use serde::Deserialize;

use super::model::{Example, FunctionDoc, FunctionKind, Needs, Param, Section, SectionKind};
use crate::script::convert::type_name;
use crate::script::lexer::is_word;
use crate::script::own_calls::CLOSURE;

/// Names of the functions in Rhai's standard packages.
pub(super) static STANDARD: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let functions = Metadata::read(&Engine::new(), true).functions;
    functions.into_iter().map(|function| function.name).collect()
});

/// Functions that every adapter exports. They are documented once in `std/engines`.
const ADAPTER: [&str; 6] = ["facts", "failures", "flags", "launch", "ready", "request"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Comment {
    /// The first paragraph, on one line.
    summary: String,
    /// The text after the summary.
    docs: String,
    /// The `rhai` code blocks.
    examples: Vec<Example>,
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

/// Sections as they fill.
#[derive(Default)]
pub(super) struct Sections(BTreeMap<(SectionKind, String), Section>);

impl Sections {
    pub(super) fn section(&mut self, kind: SectionKind, name: &str) -> &mut Section {
        self.0.entry((kind, name.to_owned())).or_insert_with(|| Section {
            name: name.to_owned(),
            kind,
            docs: String::new(),
            functions: Vec::new(),
            is_whole: true,
        })
    }

    pub(super) fn sorted(self) -> Vec<Section> {
        let mut sections: Vec<Section> = self.0.into_values().collect();
        for section in &mut sections {
            section.functions.sort_by_cached_key(FunctionDoc::order);
        }
        sections
    }

    /// Adds a module of the standard library. Skips it if its source does not compile, because its own tests report
    /// that.
    pub(super) fn add_standard(&mut self, engine: &Engine, name: &str, source: &str) {
        if let Ok(ast) = engine.compile(source) {
            self.section(SectionKind::Standard, name);
            let metadata = Engine::new_raw().gen_fn_metadata_with_ast_to_json(&ast, false);
            self.add(&Metadata::parse(metadata), Some(name));
        }
    }

    pub(super) fn add(&mut self, metadata: &Metadata, module: Option<&str>) {
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
            function.access != "private" && !name.starts_with(CLOSURE) && !(is_adapter && ADAPTER.contains(&name))
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
pub(super) struct Metadata {
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
    pub(super) fn read(engine: &Engine, standard: bool) -> Self {
        Self::parse(engine.gen_fn_metadata_to_json(standard))
    }

    fn parse(text: serde_json::Result<String>) -> Self {
        text.and_then(|text| serde_json::from_str(&text))
            .expect("the interpreter's metadata has the shape of its version")
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
