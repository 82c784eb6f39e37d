//! Collects the documentation: of functions registered by Rust, from the interpreter's metadata, and of the standard modules,
//! from their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rhai::{Engine, FnAccess, ScriptFnMetadata};
use serde::Deserialize;

use super::{Comment, FunctionDoc, FunctionKind, Param, Section, SectionKind};
use crate::script::convert::type_name;
use crate::script::lexer::is_word;

/// Functions that Rhai calls to print a value.
const HOOKS: [&str; 2] = ["to_string", "to_debug"];

/// Sections for global functions, namespaces, and types.
pub(super) fn native_sections(engine: &Engine) -> Vec<Section> {
    let mut sections = Sections::default();
    sections.add(&Metadata::read(engine, false), None);
    let mut sections: Vec<Section> = sections.0.into_values().collect();
    for section in &mut sections {
        section.functions.sort_by_cached_key(FunctionDoc::order);
    }
    sections
}

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

    fn add(&mut self, metadata: &Metadata, module: Option<&str>) {
        for custom in &metadata.custom_types {
            let docs = Comment::parse(custom.doc_comments.iter().map(String::as_str)).markdown();
            if !docs.is_empty() {
                self.section(SectionKind::Type, &custom.display_name).docs = docs;
            }
        }
        let is_listed = |function: &&Function| function.access != "private" && !function.name.starts_with("anon$");
        for function in metadata.functions.iter().filter(is_listed) {
            let module = module.filter(|_| function.namespace != "global");
            let documented = document(function, module);
            let section = match (&documented.on, &documented.module) {
                (Some(on), _) => self.section(SectionKind::Type, on),
                (None, Some(module)) => self.section(SectionKind::Namespace, module),
                (None, None) => self.section(SectionKind::Global, ""),
            };
            section.functions.push(documented);
        }
        // A module that only has methods of a type gets no section.
        if let Some(module) = module
            && let Some(section) = self.0.get_mut(&(SectionKind::Namespace, module.to_owned()))
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
    let is_script = function.origin == SCRIPT;
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
    let on = match module.is_none() && function.params.first().is_some_and(is_method) {
        true => params.remove(0).kind,
        false => None,
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

/// A module; the root contains what is registered globally.
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

/// The origin of functions that are written in Rhai, and have no types.
const SCRIPT: &str = "script";

/// A function. Getters are named `get$name`.
#[derive(Default, Deserialize)]
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
        engine
            .gen_fn_metadata_to_json(standard)
            .and_then(|text| serde_json::from_str(&text))
            .expect("the interpreter's metadata has the shape of its version")
    }
}

/// Names of the functions in Rhai's standard packages.
pub(super) static STANDARD: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let functions = Metadata::read(&Engine::new(), true).functions;
    functions.into_iter().map(|function| function.name).collect()
});

/// Functions that every adapter exports. They are documented once in `std/engines`.
const ADAPTER: [&str; 6] = ["facts", "failures", "flags", "launch", "ready", "request"];

/// The section of a module; `None` if its source does not compile, which its own tests report.
pub(super) fn stdlib_section(engine: &Engine, name: &str, source: &str) -> Option<Section> {
    let ast = engine.compile(source).ok()?;
    let is_adapter = name.starts_with("std/engines/");
    let mut functions: Vec<FunctionDoc> = ast
        .iter_functions()
        .filter(|function| function.access == FnAccess::Public && !function.name.starts_with("anon$"))
        .filter(|function| !(is_adapter && ADAPTER.contains(&function.name)))
        .map(|function| document(&function.into(), Some(name)))
        .collect();
    functions.sort_by_cached_key(FunctionDoc::order);
    Some(Section {
        name: name.to_owned(),
        kind: SectionKind::Standard,
        docs: Comment::parse([ast.doc()]).markdown(),
        functions,
        is_whole: true,
    })
}

impl From<ScriptFnMetadata<'_>> for Function {
    fn from(function: ScriptFnMetadata<'_>) -> Self {
        let argument = |name: &&str| Argument {
            name: Some((*name).to_owned()),
            kind: None,
        };
        Self {
            name: function.name.to_owned(),
            origin: SCRIPT.to_owned(),
            params: function.params.iter().map(argument).collect(),
            doc_comments: function.comments.iter().map(|line| (*line).to_owned()).collect(),
            ..Self::default()
        }
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
        native_sections(&engine)
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

    #[test]
    fn an_adapter_shows_only_its_own_functions() {
        let source = "//! An engine.\nfn launch(options) {}\n/// More.\nfn more() {}";
        let names = |module| -> Vec<String> {
            let section = stdlib_section(&Engine::new(), module, source).unwrap();
            section.functions.into_iter().map(|function| function.name).collect()
        };
        assert_eq!(names("std/engines/mine"), ["more"]);
        assert_eq!(names("std/search"), ["launch", "more"]);
    }

    #[test]
    fn public_functions_and_module_docs_are_documented() {
        let source = "//! Searches.\n//!\n//! Slowly.\n/// Tries all.\n///\n/// ```rhai\n/// 1\n/// ```\n\
                      fn grid(map, probe) { let each = |x| x; each.call(1) }\nprivate fn hidden() {}";
        let section = stdlib_section(&Engine::new(), "std/search", source).unwrap();
        assert_eq!(section.docs, "Searches.\n\nSlowly.");
        assert_eq!(section.functions.len(), 1);
        let grid = &section.functions[0];
        assert_eq!(grid.signature(), "search::grid(map, probe)");
        assert_eq!((grid.summary.as_str(), grid.examples.len()), ("Tries all.", 1));
    }
}
