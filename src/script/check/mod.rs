//! Looks at a script without running it: does it parse, do its imports lead somewhere, are the functions that it calls there
//! and take as many arguments, are the parameters that it reads declared, and, for an adapter, does it export what it must.
//!
//! The interpreter resolves functions when they are called, so that this looks at the parsed text: `outline` gathers what a
//! file defines and uses, `calls` compares. What cannot be known before the script runs is never complained about.

mod calls;
mod outline;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use rhai::{Engine, Position};

use super::adapter::{EXPORTS, missing_exports};
use super::diagnose::{Diagnostic, Place, diagnose};
use super::params::{describe, lay_over};
use super::resolver::{self, locate};
use super::signature::{Signature, natives};
use super::source::{Main, Source};
use super::{Host, interpreter, shipped};
use crate::fault::{Fault, Kind};
use outline::Outline;

/// Everything that is wrong with a script: a path, the name of a shipped script, or a shipped module `std/…`. With parameters
/// set in the host's settings, those as well.
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
        under_way: Vec::new(),
        found: Vec::new(),
    };
    checker.file(&main.source);
    let mut found = checker.found;
    if found.is_empty() && !host.settings.set.is_empty() {
        match describe(host, &main) {
            Ok(declared) => found.extend(lay_over(&declared, &host.settings.set).err().map(Diagnostic::from)),
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
    /// What every file looked at so far exports.
    files: BTreeMap<String, Vec<Signature>>,
    under_way: Vec<String>,
    found: Vec<Diagnostic>,
}

impl Checker<'_> {
    /// Looks at one file and at what it imports; gives what it exports, if it parses.
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
        let mut outline = Outline::of(&ast);
        if let Some(params) = &mut outline.params
            && source.key == self.main.source.key
        {
            params.names = params.names.take().or_else(|| self.described());
        }
        self.under_way.push(source.key.to_string());
        let mut modules = BTreeMap::new();
        for import in &outline.imports {
            let exports = self.import(source, &import.path, import.at);
            modules.insert(import.alias.clone(), exports);
        }
        self.under_way.pop();
        for (fault, at) in calls::complaints(&outline, &self.natives, &modules) {
            self.complain(source, fault, at);
        }
        if is_adapter(&outline) {
            for complaint in missing_exports(&ast) {
                let fault = Fault::new(Kind::Compile, format!("this adapter {complaint}"));
                self.complain(source, fault, Position::NONE);
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

    /// The names of the script's parameters, as it declares them when it is evaluated up to there.
    fn described(&self) -> Option<BTreeSet<String>> {
        let declared = describe(self.host, self.main).ok()?;
        Some(declared.into_iter().map(|param| param.name).collect())
    }

    /// What an import leads to; nothing when it leads nowhere, which is complained about.
    fn import(&mut self, importer: &Source, path: &str, at: Position) -> Option<Vec<Signature>> {
        let found = match locate(&self.main.root, Some(&importer.key), path) {
            Ok(found) => found,
            Err(fault) => {
                self.complain(importer, fault, at);
                return None;
            }
        };
        if let Some(start) = self.under_way.iter().position(|key| key == found.key()) {
            let fault = resolver::cycle(&self.under_way[start..], found.key());
            self.complain(importer, fault, at);
            return None;
        }
        match found.read() {
            Ok(text) => {
                let source = Source::new(found.key(), &text);
                self.host.sources.insert(source.clone());
                self.file(&source)
            }
            Err(fault) => {
                self.complain(importer, fault, at);
                None
            }
        }
    }

    fn complain(&mut self, source: &Source, fault: Fault, at: Position) {
        self.found
            .push(Diagnostic::at(fault, Some(Place::of(source.clone(), at))));
    }
}

/// Whether a file means to be an adapter: it defines half of what one must export.
fn is_adapter(outline: &Outline) -> bool {
    let defined = EXPORTS
        .iter()
        .filter(|(name, _)| outline.functions.iter().any(|one| one.signature.name == *name));
    defined.count() * 2 >= EXPORTS.len()
}
