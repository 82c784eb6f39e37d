//! Names for completion and hints: the script API, Rhai's functions, and the session's variables.

use std::collections::BTreeSet;

use rhai::Engine;

use crate::script::reference::{self, FunctionDoc, FunctionKind};

/// Rhai keywords.
const KEYWORDS: [&str; 25] = [
    "break", "catch", "const", "continue", "do", "else", "export", "false", "fn", "for", "global", "if", "import",
    "in", "let", "loop", "private", "return", "switch", "this", "throw", "true", "try", "until", "while",
];

#[derive(Clone, Debug, Default)]
pub(super) struct Vocabulary {
    /// Functions beyond Rhai's own, including those of the session.
    pub(super) functions: Vec<FunctionDoc>,
    /// Rhai's own functions: name, and receiver type of methods.
    builtin: Vec<(String, Option<String>)>,
    pub(super) variables: Vec<Variable>,
    /// Modules that can be imported by name.
    pub(super) modules: Vec<String>,
}

/// A variable of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type, as scripts call it.
    pub kind: String,
    /// Whether it is a constant.
    pub constant: bool,
    /// Its value on one short line.
    pub value: String,
    /// Its keys, if it is a map.
    pub(super) keys: Vec<String>,
}

impl Vocabulary {
    pub(super) fn new(engine: &Engine, variables: Vec<Variable>, modules: Vec<String>) -> Self {
        let functions = reference::functions(engine);
        let builtin = engine.collect_fn_metadata(
            None,
            |info| {
                let name = info.metadata.name.as_str();
                let first = info
                    .metadata
                    .params_info
                    .first()
                    .and_then(|param| param.split_once(':'));
                let on = first.and_then(|(_, kind)| reference::type_name(kind));
                let is_name = name.chars().all(crate::script::lexer::is_word) && info.namespace.is_empty();
                is_name.then(|| (name.to_owned(), on))
            },
            true,
        );
        Self {
            functions,
            builtin,
            variables,
            modules,
        }
    }

    /// Names that can start an expression or statement.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let functions = self.functions.iter().filter_map(|function| match function.kind {
            FunctionKind::Function => Some(match &function.module {
                Some(module) if !module.contains('/') => format!("{module}::"),
                Some(_) => return None,
                None => function.name.clone(),
            }),
            _ => None,
        });
        let global = ["print", "debug", "type_of"].map(str::to_owned);
        KEYWORDS
            .map(str::to_owned)
            .into_iter()
            .chain(functions)
            .chain(global)
            .chain(self.variables.iter().map(|variable| variable.name.clone()))
            .collect()
    }

    /// Functions of `module::`.
    pub(super) fn inside<'a>(&'a self, module: &'a str) -> impl Iterator<Item = &'a FunctionDoc> {
        self.functions
            .iter()
            .filter(move |function| function.module.as_deref() == Some(module))
    }

    /// The type of a variable.
    pub(super) fn kind_of(&self, name: &str) -> Option<&str> {
        self.variable(name).map(|variable| variable.kind.as_str())
    }

    fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().rev().find(|variable| variable.name == name)
    }

    /// Methods and properties of a type, of all API types if it is unknown; and the keys of the variable `value`.
    pub(super) fn members(&self, value: &str, kind: Option<&str>) -> BTreeSet<String> {
        let fits = |on: Option<&str>| match (on, kind) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(on), Some(kind)) => on == kind,
        };
        let own = self
            .functions
            .iter()
            .filter(|function| matches!(function.kind, FunctionKind::Method | FunctionKind::Property))
            .filter(|function| fits(function.on.as_deref()))
            .map(|function| function.name.clone());
        let builtin = self
            .builtin
            .iter()
            // For an unknown type, Rhai's hundreds of methods would hide ours.
            .filter(|(_, on)| kind.is_some() && fits(on.as_deref()))
            .map(|(name, _)| name.clone());
        let keys = self
            .variable(value)
            .into_iter()
            .flat_map(|variable| variable.keys.clone());
        own.chain(builtin).chain(keys).collect()
    }

    /// The functions that a call may mean, fewest parameters first. `on` is as in [`super::complete::Call`].
    pub(super) fn called(&self, path: &str, on: Option<&str>) -> Vec<&FunctionDoc> {
        let kind = on.and_then(|value| self.kind_of(value));
        let mut found: Vec<&FunctionDoc> = self
            .functions
            .iter()
            .filter(|function| match on {
                Some(_) => function.kind == FunctionKind::Method && function.name == path,
                None => function.kind == FunctionKind::Function && function.path() == path,
            })
            .filter(|function| kind.is_none() || function.on.as_deref() == kind)
            .collect();
        found.sort_by_key(|function| function.params.len());
        found
    }
}
