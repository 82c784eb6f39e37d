//! Collects the documentation: of functions registered by Rust, from the interpreter's metadata, and of the standard modules,
//! from their sources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rhai::{Engine, FnAccess, ScriptFnMetadata};
use serde::Deserialize;

use super::{Comment, FunctionDoc, FunctionKind, Param, Section, SectionKind};

/// Functions that Rhai calls to print a value.
const HOOKS: [&str; 2] = ["to_string", "to_debug"];

/// Sections for global functions, namespaces, and types.
pub(super) fn native_sections(engine: &Engine) -> Vec<Section> {
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
            section.functions.sort_by_cached_key(FunctionDoc::order);
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
    let is_script = function.origin == SCRIPT;
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

/// A module; the root contains what is registered globally.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) doc: String,
    #[serde(default)]
    pub(super) functions: Vec<Function>,
    #[serde(default)]
    pub(super) modules: BTreeMap<String, Metadata>,
    #[serde(default)]
    custom_types: Vec<CustomType>,
}

/// The origin of functions that are written in Rhai, and have no types.
const SCRIPT: &str = "script";

/// A function. Getters are named `get$name`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Function {
    pub(super) name: String,
    /// `script` or `native`.
    #[serde(rename = "type")]
    pub(super) origin: String,
    /// `global`: visible without the module's name.
    pub(super) namespace: String,
    pub(super) access: String,
    #[serde(default)]
    pub(super) params: Vec<Argument>,
    #[serde(default)]
    return_type: String,
    #[serde(default)]
    doc_comments: Vec<String>,
}

/// A parameter with its Rust type.
#[derive(Deserialize)]
pub(super) struct Argument {
    pub(super) name: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CustomType {
    pub(super) type_name: String,
    display_name: String,
    #[serde(default)]
    doc_comments: Vec<String>,
}

impl Metadata {
    /// Functions and types beyond Rhai's standard packages.
    pub(super) fn new(engine: &Engine) -> Self {
        Self::read(engine, false)
    }

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

/// Registered names of custom types, by Rust name.
pub(super) type TypeNames = BTreeMap<String, String>;

/// The script name of a Rust type as registered; `None` for the unit type.
pub(super) fn script_type(spelled: &str, names: &TypeNames) -> Option<String> {
    let compact: String = spelled.chars().filter(|c| !c.is_whitespace()).collect();
    let bare = compact.trim_start_matches('&');
    // Without white space, `&mut T` is `&mutT`. None of our types starts with `mut`.
    let bare = match compact.starts_with('&') {
        true => bare.strip_prefix("mut").unwrap_or(bare),
        false => bare,
    };
    let (path, inner) = match bare.split_once('<') {
        Some((path, inner)) => (path, inner.strip_suffix('>').unwrap_or(inner)),
        None => (bare, ""),
    };
    let name = path.rsplit("::").next().unwrap_or(path);
    let script_name = match name {
        "" | "()" => return None,
        "Result" | "RhaiResultOf" | "Caught" => return script_type(first_argument(inner), names),
        "Arc" | "Rc" | "Box" | "Shared" => return script_type(inner, names),
        "Option" => format!("{} or ()", script_type(inner, names)?),
        "INT" | "i64" | "i32" | "u64" | "u32" | "usize" => "int".to_owned(),
        "FLOAT" | "f64" | "f32" => "float".to_owned(),
        "bool" => "bool".to_owned(),
        "char" => "char".to_owned(),
        "ImmutableString" | "String" | "str" | "string" | "SmartString" | "Identifier" => "string".to_owned(),
        "Array" | "array" | "Vec" => "array".to_owned(),
        "Blob" => "blob".to_owned(),
        "Map" | "map" => "map".to_owned(),
        "Range" | "RangeInclusive" | "ExclusiveRange" | "InclusiveRange" => "range".to_owned(),
        "Dynamic" | "RhaiResult" | "?" => "any".to_owned(),
        "FnPtr" | "Fn" => "closure".to_owned(),
        other => names.get(other).cloned().unwrap_or_else(|| other.to_owned()),
    };
    Some(script_name)
}

/// `T` of `T,Box<E>`, ignoring commas inside brackets.
fn first_argument(arguments: &str) -> &str {
    let mut depth = 0;
    for (index, c) in arguments.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => return &arguments[..index],
            _ => {}
        }
    }
    arguments
}

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
        .map(|function| document(&function.into(), Some(name), &TypeNames::new()))
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

        #[rhai_fn(global, set = "total")]
        pub fn set_total(counter: &mut Counter, value: INT) {
            let _ = (counter, value);
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
        assert!(total.settable && total.kind == FunctionKind::Property);
    }
}

#[cfg(test)]
mod types_tests {
    use super::*;

    #[test]
    fn a_custom_type_has_its_registered_name() {
        let names = TypeNames::from([("EngineHandle".to_owned(), "Engine".to_owned())]);
        assert_eq!(script_type("&mut EngineHandle", &names).as_deref(), Some("Engine"));
        assert_eq!(
            script_type("Caught<Arc<EngineHandle>>", &names).as_deref(),
            Some("Engine")
        );
    }

    #[test]
    fn rust_types_become_script_types() {
        for (rust, word) in [
            ("INT", Some("int")),
            ("& mut EngineHandle", Some("EngineHandle")),
            ("&mut crate :: engine :: Handle", Some("Handle")),
            ("Result<ImmutableString, Box<EvalAltResult>>", Some("string")),
            ("Caught < () >", None),
            ("Caught < Dynamic >", Some("any")),
            ("Result<Vec<Option<i64>>, Box<rhai::EvalAltResult>>", Some("array")),
            ("RhaiResultOf<Map>", Some("map")),
            ("()", None),
            ("&str", Some("string")),
            ("std::ops::Range<i64>", Some("range")),
            ("FnPtr", Some("closure")),
            ("Option<INT>", Some("int or ()")),
        ] {
            assert_eq!(script_type(rust, &TypeNames::new()).as_deref(), word, "{rust}");
        }
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
