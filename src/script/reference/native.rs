//! Documents the functions registered by Rust, from the interpreter's metadata.

use std::collections::BTreeMap;

use rhai::Engine;

use super::comment::Comment;
use super::metadata::{Argument, Function, Metadata};
use super::types::{TypeNames, script_type};
use super::{FunctionDoc, FunctionKind, Param, Section, SectionKind};

/// Functions that Rhai calls to print a value.
const HOOKS: [&str; 2] = ["to_string", "to_debug"];

/// Sections for global functions, namespaces, and types.
pub(super) fn sections(engine: &Engine) -> Vec<Section> {
    let metadata = Metadata::new(engine);
    let mut sections = Sections::default();
    name_types(&metadata, &mut sections.types);
    sections.add(&metadata, None);
    sections.finish()
}

fn name_types(metadata: &Metadata, names: &mut TypeNames) {
    for custom in &metadata.custom_types {
        let rust = custom.type_name.rsplit("::").next().unwrap_or_default();
        names.insert(rust.to_owned(), custom.display_name.clone());
    }
    for inner in metadata.modules.values() {
        name_types(inner, names);
    }
}

#[derive(Default)]
struct Sections {
    found: BTreeMap<(SectionKind, String), Section>,
    types: TypeNames,
}

impl Sections {
    fn section(&mut self, kind: SectionKind, name: &str) -> &mut Section {
        self.found.entry((kind, name.to_owned())).or_insert_with(|| Section {
            name: name.to_owned(),
            kind,
            docs: String::new(),
            functions: Vec::new(),
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
            let documented = document(function, module, &self.types);
            let section = match (&documented.on, &documented.module) {
                (Some(on), _) => self.section(SectionKind::Type, on),
                (None, Some(module)) => self.section(SectionKind::Namespace, module),
                (None, None) => self.section(SectionKind::Global, ""),
            };
            section.functions.push(documented);
        }
        // A module that only has methods of a type gets no section.
        if let Some(module) = module
            && let Some(section) = self.found.get_mut(&(SectionKind::Namespace, module.to_owned()))
        {
            section.docs = Comment::parse([metadata.doc.as_str()]).markdown();
        }
        for (name, inner) in &metadata.modules {
            let path = module.map_or_else(|| name.clone(), |outer| format!("{outer}::{name}"));
            self.add(inner, Some(&path));
        }
    }

    fn finish(self) -> Vec<Section> {
        let mut sections: Vec<Section> = self.found.into_values().collect();
        for section in &mut sections {
            section.functions = properties(std::mem::take(&mut section.functions));
            section
                .functions
                .sort_by(|a, b| (&a.name, a.params.len()).cmp(&(&b.name, b.params.len())));
        }
        sections
    }
}

/// Documents a function; getters and setters still have their registered names.
fn document(function: &Function, module: Option<&str>, types: &TypeNames) -> FunctionDoc {
    let comment = Comment::parse(function.doc_comments.iter().map(String::as_str));
    let mut params: Vec<(Param, bool)> = function
        .params
        .iter()
        .enumerate()
        .map(|numbered| parameter(numbered, types))
        .collect();
    let is_script = function.origin == "script";
    if is_script {
        // Script functions have no types.
        params.iter_mut().for_each(|(param, _)| param.kind = None);
    }
    let is_operator =
        HOOKS.contains(&function.name.as_str()) || !function.name.contains(|c: char| c.is_alphanumeric() || c == '_');
    let is_property = function.name.starts_with(GETTER) || function.name.starts_with(SETTER);
    // A function is a method of its first parameter if that is taken by mutable reference.
    let is_method = params.first().is_some_and(|(_, by_reference)| *by_reference);
    let on = (is_method && module.is_none())
        .then(|| params.remove(0).0.kind)
        .flatten();
    FunctionDoc {
        name: function.name.clone(),
        kind: match (is_operator, is_property, &on) {
            (true, ..) => FunctionKind::Operator,
            (_, true, _) => FunctionKind::Property,
            (_, _, Some(_)) => FunctionKind::Method,
            _ => FunctionKind::Function,
        },
        module: module.map(str::to_owned),
        on,
        params: params.into_iter().map(|(param, _)| param).collect(),
        returns: script_type(&function.return_type, types).filter(|_| !is_script),
        settable: false,
        summary: comment.summary,
        docs: comment.docs,
        examples: comment.examples,
    }
}

/// A parameter, and whether it is taken by mutable reference.
fn parameter((index, argument): (usize, &Argument), types: &TypeNames) -> (Param, bool) {
    let kind = argument.kind.as_deref().unwrap_or("?");
    let param = Param {
        name: argument.name.clone().unwrap_or_else(|| format!("value{index}")),
        kind: script_type(kind, types).or_else(|| Some("()".to_owned())),
    };
    (
        param,
        kind.trim_start().starts_with("&mut") || kind.trim_start().starts_with("& mut"),
    )
}

const GETTER: &str = "get$";
const SETTER: &str = "set$";

/// Merges getters and setters into properties. A setter alone is a property too.
fn properties(functions: Vec<FunctionDoc>) -> Vec<FunctionDoc> {
    let (setters, mut rest): (Vec<_>, Vec<_>) = functions
        .into_iter()
        .partition(|function| function.name.starts_with(SETTER));
    for function in &mut rest {
        if let Some(name) = function.name.strip_prefix(GETTER) {
            function.name = name.to_owned();
        }
    }
    for mut setter in setters {
        setter.name = setter.name[SETTER.len()..].to_owned();
        setter.settable = true;
        match rest
            .iter_mut()
            .find(|getter| getter.kind == FunctionKind::Property && getter.name == setter.name)
        {
            Some(getter) => getter.settable = true,
            None => {
                setter.returns = setter.params.pop().and_then(|value| value.kind);
                rest.push(setter);
            }
        }
    }
    rest
}

#[cfg(test)]
mod tests {
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

        #[rhai_fn(global, set = "total")]
        pub fn set_total(counter: &mut Counter, value: INT) {
            let _ = (counter, value);
        }
    }

    fn found() -> Vec<Section> {
        let mut engine = Engine::new();
        engine.register_type_with_name::<Counter>("Counter");
        engine.register_static_module("counting", exported_module!(counting).into());
        sections(&engine)
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
        assert!(total.settable && total.kind == FunctionKind::Property);
    }
}
