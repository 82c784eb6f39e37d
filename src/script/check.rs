//! Checks a script without running it: it parses, its imports exist, the functions it calls exist with that number of
//! arguments, the parameters it reads are declared, axes are not misspelt, and an adapter has all exports. Also reads
//! the parts of an adapter that need no engine (rules, the form of a request).
//!
//! Each file is read as an [`Outline`]. Facts that are unknown until the script runs are not reported.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rhai::{AST, Engine, EvalAltResult, ParseErrorType, Position};
use serde_json::Value;

use super::adapter::{self, CLUSTER, EXPORTS, missing_exports};
use super::diagnose::{Diagnostic, Place, byte_at, diagnose};
use super::interpreter::{CANNOT_LIST, run_source};
use super::main_script::Main;
use super::outline::{Call, Outline, Parameters};
use super::params::{Declared, check_values, in_script, merge_values, search_options};
use super::resolver::locate;
use super::signature::{Signature, forms, is_name, natives};
use super::source::Source;
use super::strategy::{Subject, subject};
use super::suggest::{guessed, nearest, suggest};
use super::{Host, describe_params, interpreter, on_thread, resolver, shipped};
use crate::boundary::Cause;
use crate::engine::check_adapter;
use crate::fault::{Fault, Kind, Result};
use crate::fmt::Count;

/// All errors in a script: a path, a shipped script by name, or a shipped module `std/…`. Also checks parameters in the
/// host's settings.
pub fn check(host: &Arc<Host>, script: &Path) -> Vec<Diagnostic> {
    match open(script) {
        Ok(main) => check_main(host, &main),
        Err(fault) => vec![fault.into()],
    }
}

/// All errors in an open script.
pub fn check_main(host: &Arc<Host>, main: &Main) -> Vec<Diagnostic> {
    on_thread(|| Ok(find_all(host, main))).unwrap_or_else(|diagnostic| vec![*diagnostic])
}

/// Warnings about a script without errors: calls of deprecated functions and dropped searches, each with its location,
/// and causes in an adapter's failure rules that are almost known ones. Such a cause may be the adapter's own, so it is
/// no error.
pub fn warnings(host: &Arc<Host>, script: &Path) -> Vec<String> {
    let found = on_thread(|| {
        let main = open(script)?;
        let mut checker = Checker::new(host, &main);
        checker.file(&main.source);
        let mut warnings = checker.warnings;
        if matches!(subject(host, &main, None), Ok(Subject::Adapter)) {
            warnings.extend(misspelt_causes(host, &main)?);
        }
        Ok(warnings)
    });
    found.unwrap_or_default()
}

fn misspelt_causes(host: &Arc<Host>, adapter: &Main) -> Result<Vec<String>> {
    let rules = adapter::from_source(host, &adapter.source.key, &adapter.source)?.failures()?;
    let misspelt = rules.iter().enumerate().filter_map(|(index, rule)| match &rule.cause {
        Some(Cause::Other(name)) => Some((index, name, nearest(name, Cause::ALL.iter().map(Cause::name))?)),
        _ => None,
    });
    let warning = |(index, name, near)| {
        format!("`failures()[{index}]` has the cause `{name}`, which is none of the known ones: did you mean `{near}`?")
    };
    Ok(misspelt.map(warning).collect())
}

fn find_all(host: &Arc<Host>, main: &Main) -> Vec<Diagnostic> {
    let mut checker = Checker::new(host, main);
    checker.file(&main.source);
    let mut found = checker.found;
    if found.is_empty() && !host.settings.set.is_empty() {
        match describe_params(host, main) {
            Ok(declared) => {
                let home = host.settings.script.parent().unwrap_or(Path::new(""));
                let values = merge_values(&declared, &host.settings.set);
                let checked = values.and_then(|values| check_values(&declared, &values, home).map(|()| values));
                found.extend(
                    checked
                        .map_err(|fault| Box::new(Diagnostic::from(fault)))
                        .and_then(|values| check_search(host, main, &declared, &values))
                        .err()
                        .map(|found| *found),
                );
            }
            // Parameters that only a running script declares are unknown here.
            Err(diagnostic) if diagnostic.fault.message.starts_with(CANNOT_LIST) => {}
            Err(diagnostic) => found.push(*diagnostic),
        }
    }
    found
}

/// Checks the options of a search of the standard library, which knows the valid ones.
fn check_search(
    host: &Arc<Host>,
    main: &Main,
    declared: &[Declared],
    values: &serde_json::Map<String, Value>,
) -> Result<(), Box<Diagnostic>> {
    let Some(options) = values.get("search").filter(|_| !search_options(declared).is_empty()) else {
        return Ok(());
    };
    let text = format!(
        "import \"std/search/options\" as options; options::check({});",
        in_script(options)
    );
    let source = Source::new("parameter search", &text);
    let checked = run_source(host, &interpreter(host, &main.root), &source, |_| Ok(()));
    // The position in that generated text means nothing to the user.
    checked.map(drop).map_err(|found| Box::new(found.fault.into()))
}

fn open(script: &Path) -> Result<Main> {
    let name = script.to_string_lossy();
    let module = name.strip_prefix("std/").filter(|_| !script.exists());
    match module.and_then(|module| shipped::module(module.trim_end_matches(".rhai"))) {
        Some(text) => Ok(Main {
            source: Source::new(&format!("{}.rhai", name.trim_end_matches(".rhai")), &text),
            root: ".".into(),
            shipped: true,
        }),
        None => Main::open(script),
    }
}

struct Checker<'a> {
    engine: Engine,
    host: &'a Arc<Host>,
    main: &'a Main,
    natives: Vec<Signature>,
    /// Exports of the files checked so far.
    files: BTreeMap<String, Vec<Signature>>,
    importing: Vec<String>,
    found: Vec<Diagnostic>,
    /// Warnings about calls.
    warnings: Vec<String>,
}

impl<'a> Checker<'a> {
    fn new(host: &'a Arc<Host>, main: &'a Main) -> Self {
        host.sources.insert(main.source.clone());
        let engine = interpreter(host, &main.root);
        Self {
            natives: natives(&engine),
            engine,
            host,
            main,
            files: BTreeMap::new(),
            importing: Vec::new(),
            found: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Checks a file and its imports. Returns its exports, if it parses.
    fn file(&mut self, source: &Source) -> Option<Vec<Signature>> {
        if let Some(known) = self.files.get(&*source.key) {
            return Some(known.clone());
        }
        let ast = self.compile(source)?;
        let mut outline = Outline::from_ast(&ast);
        if let Some(params) = &mut outline.params
            && source.key == self.main.source.key
        {
            let declared = || describe_params(self.host, self.main).ok();
            let names = |declared: Vec<_>| declared.into_iter().map(|one: Declared| one.name).collect();
            params.names = params.names.take().or_else(|| declared().map(names));
        }
        self.importing.push(source.key.to_string());
        let mut modules = BTreeMap::new();
        for import in &outline.imports {
            let exports = self.import(source, &import.path, import.at);
            modules.insert(import.alias.clone(), exports);
        }
        self.importing.pop();
        for (at, end) in std::mem::take(&mut outline.lost) {
            if !is_value(&source.text, end) {
                continue;
            }
            let fault = Fault::new(Kind::Compile, "the value of a `catch` block is lost: the block gives `()`")
                .hint("write `return` before it, end it with `;`, or call `attempt(|| …)`, which returns `#{ ok, value, error }`");
            self.report(source, fault, at);
        }
        for (fault, at) in find_errors(&outline, &self.natives, &modules) {
            self.report(source, fault, at);
        }
        for call in &outline.calls {
            let module = modules.get(&call.namespace).and_then(Option::as_ref);
            let called = module.and_then(|module| module.iter().find(|one| one.name == call.name));
            let own = outline
                .functions
                .iter()
                .find(|one| call.namespace.is_empty() && one.name == call.name);
            if let Some(variable) = &call.dropped
                && let Some(("search", _)) = called.or(own).and_then(Signature::first_param)
            {
                let place = Place::new(source.clone(), call.at);
                let warning = format!(
                    "{place}: the search that `{0}` returns is dropped: write `{variable} = {0}({variable}, …)`",
                    call.path()
                );
                self.warnings.push(warning);
            }
            if let Some(remedy) = called.and_then(|called| called.deprecated.as_ref()) {
                let place = Place::new(source.clone(), call.at);
                let warning = format!("{place}: `{}::{}` is deprecated: {remedy}", call.namespace, call.name);
                self.warnings.push(warning);
            }
        }
        if outline.is_meant(EXPORTS) {
            self.adapter(source, &ast);
        } else if outline.is_meant(CLUSTER) {
            for problem in missing_exports(&ast, CLUSTER) {
                let fault = Fault::new(Kind::Compile, format!("this cluster {problem}"));
                self.report(source, fault, Position::NONE);
            }
        }
        let exports: Vec<_> = outline.functions.into_iter().filter(|one| !one.private).collect();
        self.files.insert(source.key.to_string(), exports.clone());
        Some(exports)
    }

    /// Compiles a file. Reports an unknown variable, and then continues to find further errors.
    fn compile(&mut self, source: &Source) -> Option<AST> {
        for strict in [true, false] {
            self.engine.set_strict_variables(strict);
            let compiled = resolver::parse(&self.engine, source);
            self.engine.set_strict_variables(true);
            let error = match compiled {
                Ok(ast) => return Some(ast),
                Err(error) => error,
            };
            let is_variable = matches!(
                &*error,
                EvalAltResult::ErrorParsing(ParseErrorType::VariableUndefined(_), _)
            );
            let diagnostic = diagnose(&self.engine, &self.host.sources, &source.key, error);
            self.found.push(diagnostic);
            if !is_variable {
                break;
            }
        }
        None
    }

    /// Checks an adapter: its functions and, if nothing else is wrong with the main file, what they return.
    fn adapter(&mut self, source: &Source, ast: &AST) {
        let missing = missing_exports(ast, EXPORTS);
        for problem in &missing {
            let fault = Fault::new(Kind::Compile, format!("this adapter {problem}"));
            self.report(source, fault, Position::NONE);
        }
        if !self.found.is_empty() || source.key != self.main.source.key {
            return;
        }
        match adapter::from_source(self.host, &source.key, source) {
            Ok(adapter) => {
                for (function, fault) in check_adapter(adapter.as_ref()) {
                    let place = Place::of_function(source.clone(), function);
                    self.found.push(Diagnostic::at(fault, Some(place)));
                }
            }
            Err(fault) => self.report(source, fault, Position::NONE),
        }
    }

    /// The exports of an import; `None`, after reporting an error, if it cannot be read.
    fn import(&mut self, importer: &Source, path: &str, at: Position) -> Option<Vec<Signature>> {
        let opened = locate(&self.main.root, Some(&importer.key), path).and_then(|found| {
            match self.importing.iter().position(|key| *key == found.key) {
                Some(start) => Err(resolver::cycle(&self.importing[start..], &found.key)),
                None => Ok(Source::new(&found.key, &found.read()?)),
            }
        });
        match opened {
            Ok(source) => {
                self.host.sources.insert(source.clone());
                self.file(&source)
            }
            Err(fault) => {
                self.report(importer, fault, at);
                None
            }
        }
    }

    fn report(&mut self, source: &Source, fault: Fault, at: Position) {
        self.found
            .push(Diagnostic::at(fault, Some(Place::new(source.clone(), at))));
    }
}

/// Whether the expression before the end of a block is its value: no `;` follows it.
fn is_value(text: &str, end: Position) -> bool {
    let at = end
        .line()
        .map_or(0, |line| byte_at(text, line, end.position().unwrap_or(1)));
    let before = text.get(..at).map_or("", str::trim_end);
    // The position is at the bracket or after it.
    let mut before = before.strip_suffix('}').unwrap_or(before).trim_end();
    while !before.ends_with(';') {
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        let Some(comment) = before[line..].rfind("//") else {
            return true;
        };
        before = before[..line + comment].trim_end();
    }
    false
}

/// Calls that match no function, and parameters that are read but not declared. `modules` contains the imports by
/// alias; `None` for an unreadable one.
fn find_errors(
    outline: &Outline,
    natives: &[Signature],
    modules: &BTreeMap<String, Option<Vec<Signature>>>,
) -> Vec<(Fault, Position)> {
    let mut found = outline.problems.clone();
    for call in &outline.calls {
        if let Some(fault) = check_call(call, outline, natives, modules) {
            found.push((fault, call.at));
        }
    }
    if let Some(Parameters {
        variable,
        names: Some(declared),
    }) = &outline.params
    {
        for (on, property, at) in &outline.reads {
            if on == variable && !declared.contains(property) {
                let fault = Fault::new(Kind::Compile, format!("the script declares no parameter `{property}`"));
                let otherwise = format!("add `{property}: param(default, \"meaning\")`");
                let known = declared.iter().map(String::as_str);
                found.push((suggest(fault, property, known, otherwise), *at));
            }
        }
    }
    found
}

fn check_call(
    call: &Call,
    outline: &Outline,
    natives: &[Signature],
    modules: &BTreeMap<String, Option<Vec<Signature>>>,
) -> Option<Fault> {
    // Rhai's metadata lacks these.
    let built_in = [
        "Fn",
        "call",
        "curry",
        "is_def_fn",
        "is_def_var",
        "is_shared",
        "print",
        "debug",
        "type_of",
    ];
    if !is_name(&call.name) || built_in.contains(&call.name.as_str()) {
        return None;
    }
    // It may be a closure stored in a map under this name.
    if call.method && outline.keys.contains(&call.name) {
        return None;
    }
    let is_seen = |one: &&Signature| !call.method || outline.methods.contains(&(one.name.clone(), one.params.len()));
    let own = outline.functions.iter().filter(is_seen);
    let candidates: Vec<&Signature> = if call.namespace.is_empty() {
        let visible = |one: &&Signature| one.namespace.is_empty() || one.global || call.method;
        natives.iter().filter(visible).chain(own).collect()
    } else if let Some(module) = modules.get(&call.namespace) {
        module.as_ref()?.iter().collect()
    } else {
        let inside: Vec<_> = natives.iter().filter(|one| one.namespace == call.namespace).collect();
        // A module inside a module is not checked.
        if inside.is_empty() {
            return None;
        }
        inside
    };
    let same: Vec<&Signature> = candidates.iter().copied().filter(|one| one.name == call.name).collect();
    let takes = |one: &&Signature| {
        one.params.len() == call.args + usize::from(call.method) || (call.method && one.params.len() == call.args)
    };
    if same.iter().any(takes) {
        return None;
    }
    let path = call.path();
    if same.is_empty() {
        if outline.functions.iter().any(|own| call.method && own.name == call.name) {
            let fault = Fault::new(
                Kind::Compile,
                format!("the function `{path}` of this file uses no `this`"),
            );
            return Some(fault.hint("call it like a function, with the value first"));
        }
        let fault = Fault::new(Kind::Compile, format!("there is no function `{path}`"));
        let known = candidates.iter().map(|one| one.name.as_str());
        let otherwise = guessed(&call.name).unwrap_or("`profiler doc` lists the functions");
        return Some(suggest(fault, &call.name, known, otherwise));
    }
    let given = Count(call.args, "argument");
    let fault = Fault::new(Kind::Compile, format!("`{path}` does not take {given}"));
    Some(fault.hint(format!("it is {}", forms(&same, None))))
}
