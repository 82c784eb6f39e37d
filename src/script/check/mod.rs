//! Checks a script without running it: that it parses, its imports exist, the functions it calls exist and take as many
//! arguments, the parameters it reads are declared, and an adapter exports what it must.
//!
//! Rhai resolves functions at run time, so this works on the syntax tree: `outline` collects what a file defines and
//! uses, `calls` compares. What cannot be known before the script runs is not reported.

mod calls;
mod outline;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use rhai::{Engine, Position};

use super::adapter::{EXPORTS, missing_exports};
use super::diagnose::{Diagnostic, Place, diagnose};
use super::params::{describe, merge_values};
use super::resolver::{self, locate};
use super::signature::{Signature, natives};
use super::source::{Main, Source};
use super::{Host, interpreter, shipped};
use crate::fault::{Fault, Kind};
use outline::Outline;

/// All errors in a script: a path, a shipped script by name, or a shipped module `std/…`. Also checks parameters in the
/// host's settings.
pub fn check(host: &Arc<Host>, script: &Path) -> Vec<Diagnostic> {
    let main = match open(script) {
        Ok(main) => main,
        Err(fault) => return vec![fault.into()],
    };
    host.sources.insert(main.source.clone());
    let engine = interpreter(host, &main.root);
    let mut checker = Checker {
        natives: natives(&engine),
        engine,
        host,
        main: &main,
        files: BTreeMap::new(),
        importing: Vec::new(),
        found: Vec::new(),
    };
    checker.file(&main.source);
    let mut found = checker.found;
    if found.is_empty() && !host.settings.set.is_empty() {
        match describe(host, &main) {
            Ok(declared) => found.extend(merge_values(&declared, &host.settings.set).err().map(Diagnostic::from)),
            Err(diagnostic) => found.push(*diagnostic),
        }
    }
    found
}

fn open(script: &Path) -> Result<Main, Fault> {
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
}

impl Checker<'_> {
    /// Checks a file and its imports. Returns its exports, if it parses.
    fn file(&mut self, source: &Source) -> Option<Vec<Signature>> {
        if let Some(known) = self.files.get(&*source.key) {
            return Some(known.clone());
        }
        let ast = match resolver::compile(&self.engine, source) {
            Ok(ast) => ast,
            Err(error) => {
                let diagnostic = diagnose(&self.engine, &self.host.sources, &source.key, error);
                self.found.push(diagnostic);
                return None;
            }
        };
        let mut outline = Outline::from_ast(&ast);
        if let Some(params) = &mut outline.params
            && source.key == self.main.source.key
        {
            params.names = params.names.take().or_else(|| self.parameter_names());
        }
        self.importing.push(source.key.to_string());
        let mut modules = BTreeMap::new();
        for import in &outline.imports {
            let exports = self.import(source, &import.path, import.at);
            modules.insert(import.alias.clone(), exports);
        }
        self.importing.pop();
        for (fault, at) in calls::find_errors(&outline, &self.natives, &modules) {
            self.report(source, fault, at);
        }
        if is_adapter(&outline) {
            for problem in missing_exports(&ast) {
                let fault = Fault::new(Kind::Compile, format!("this adapter {problem}"));
                self.report(source, fault, Position::NONE);
            }
        }
        let exports: Vec<_> = outline
            .functions
            .into_iter()
            .filter(|one| !one.private)
            .map(|one| one.signature)
            .collect();
        self.files.insert(source.key.to_string(), exports.clone());
        Some(exports)
    }

    /// The names of the declared parameters.
    fn parameter_names(&self) -> Option<BTreeSet<String>> {
        let declared = describe(self.host, self.main).ok()?;
        Some(declared.into_iter().map(|param| param.name).collect())
    }

    /// The exports of an import; `None`, after report an error, if it cannot be read.
    fn import(&mut self, importer: &Source, path: &str, at: Position) -> Option<Vec<Signature>> {
        let found = match locate(&self.main.root, Some(&importer.key), path) {
            Ok(found) => found,
            Err(fault) => {
                self.report(importer, fault, at);
                return None;
            }
        };
        if let Some(start) = self.importing.iter().position(|key| key == found.key()) {
            let fault = resolver::cycle(&self.importing[start..], found.key());
            self.report(importer, fault, at);
            return None;
        }
        match found.read() {
            Ok(text) => {
                let source = Source::new(found.key(), &text);
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

/// Whether a file is meant to be an adapter: it defines at least half of the required functions.
fn is_adapter(outline: &Outline) -> bool {
    let defined = EXPORTS
        .iter()
        .filter(|(name, _)| outline.functions.iter().any(|one| one.signature.name == *name));
    defined.count() * 2 >= EXPORTS.len()
}
