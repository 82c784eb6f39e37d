//! Finds modules: `std/…` in the binary, others relative to the importing file and below the main script's folder.
//!
//! A cycle is refused by name, as the interpreter itself would recurse until the process dies. A module is read, compiled
//! and run once, when it is first imported.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rhai::{Engine, EvalAltResult, Module, ModuleResolver, Position, Scope, Shared};

use super::nearest::nearest;
use super::source::{self, Source, Sources};
use super::{Caught, header, shipped};
use crate::fault::{Fault, Result};
use crate::run::Run;

/// How deep imports may nest: each level holds an evaluation on the stack.
const MAX_DEPTH: usize = 32;

/// The module resolver of one interpreter.
pub(super) struct Resolver {
    root: PathBuf,
    sources: Arc<Sources>,
    run: Arc<Run>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Keys of the files that are being imported now, outermost first.
    under_way: Vec<String>,
    done: HashMap<String, Shared<Module>>,
}

impl Resolver {
    /// Imports stay below `root`; texts are kept in `sources`, and in the folder of `run`.
    pub(super) fn new(root: PathBuf, sources: Arc<Sources>, run: Arc<Run>) -> Self {
        Self {
            root,
            sources,
            run,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a file, unless it is being imported already.
    fn enter(&self, importer: Option<&str>, key: &str) -> Result<()> {
        let mut state = self.state();
        if state.under_way.is_empty()
            && let Some(importer) = importer
        {
            state.under_way.push(importer.to_owned());
        }
        if let Some(start) = state.under_way.iter().position(|other| other == key) {
            return Err(cycle(&state.under_way[start..], key));
        }
        if state.under_way.len() > MAX_DEPTH {
            return Err(Fault::usage(format!("imports nest deeper than {MAX_DEPTH} files")));
        }
        state.under_way.push(key.to_owned());
        Ok(())
    }

    fn leave(&self) {
        let mut state = self.state();
        state.under_way.pop();
        if state.under_way.len() == 1 {
            state.under_way.clear();
        }
    }
}

impl ModuleResolver for Resolver {
    fn resolve(&self, engine: &Engine, importer: Option<&str>, path: &str, at: Position) -> Caught<Shared<Module>> {
        let place = |fault: Fault| {
            let mut error: Box<EvalAltResult> = fault.into();
            error.set_position(at);
            error
        };
        let found = locate(&self.root, importer, path).map_err(place)?;
        if let Some(module) = self.state().done.get(&found.key) {
            return Ok(Shared::clone(module));
        }
        self.enter(importer, &found.key).map_err(place)?;
        let module = self.open(&found).map_err(place).and_then(|source| {
            compile(engine, &source)
                .and_then(|ast| Module::eval_ast_as_new(Scope::new(), &ast, engine))
                .map_err(|error| match *error {
                    // The reader wants to know where it was stopped, not where it came from.
                    EvalAltResult::ErrorTerminated(..) => error,
                    _ => Box::new(EvalAltResult::ErrorInModule(found.key.clone(), error, at)),
                })
        });
        self.leave();
        let module = Shared::new(module?);
        self.state().done.insert(found.key, Shared::clone(&module));
        Ok(module)
    }
}

impl Resolver {
    fn open(&self, found: &Located) -> Result<Source> {
        if let Some(known) = self.sources.get(&found.key) {
            return Ok(known);
        }
        let source = Source::new(&found.key, &found.read()?);
        let name = source::module_name(&self.root, &source.key);
        self.run.module(&name, &source.text, &source.sha256)?;
        self.sources.insert(source.clone());
        Ok(source)
    }
}

/// The files of `way` import each other, and the last one imports `key`, the first.
pub(super) fn cycle(way: &[String], key: &str) -> Fault {
    let names: Vec<_> = way
        .iter()
        .map(String::as_str)
        .chain([key])
        .map(|key| format!("`{key}`"))
        .collect();
    Fault::usage(format!("import cycle: {}", names.join(" -> "))).hint("move what both need into a third module")
}

/// Compiles a text so that errors and functions know which file they are of.
pub(super) fn compile(engine: &Engine, source: &Source) -> Caught<rhai::AST> {
    header::check_requirement(&source.text).map_err(|(fault, at)| {
        let mut error: Box<EvalAltResult> = fault.into();
        error.set_position(at);
        error
    })?;
    let mut ast = engine
        .compile(&*source.text)
        .map_err(|error| EvalAltResult::ErrorParsing(*error.0, error.1))?;
    ast.set_source(&*source.key);
    Ok(ast)
}

/// Where an import leads.
pub(super) struct Located {
    key: String,
    place: Place,
}

enum Place {
    Shipped(&'static str),
    File(PathBuf),
}

impl Located {
    /// What people call it.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Its text.
    pub(super) fn read(&self) -> Result<String> {
        match &self.place {
            Place::Shipped(name) => shipped::module(name)
                .map(Into::into)
                .ok_or_else(|| Fault::internal(format!("the module `std/{name}` is not in the binary"))),
            Place::File(path) => source::read(path),
        }
    }
}

/// Resolves an import path as `importer` (the key of a file) wrote it.
pub(super) fn locate(root: &Path, importer: Option<&str>, path: &str) -> Result<Located> {
    if let Some(name) = path.strip_prefix("std/") {
        return shipped_module(name, path);
    }
    let relative = Path::new(path);
    if relative.is_absolute() {
        return Err(Fault::usage(format!("import `{path}` is absolute"))
            .hint("imports are relative to the importing file, or `std/…`"));
    }
    if let Some(name) = importer.and_then(|key| key.strip_prefix("std/")) {
        // Only the binary's own modules have such keys.
        return Err(Fault::internal(format!(
            "the shipped module `std/{name}` imports `{path}` outside `std/`"
        )));
    }
    let folder = importer
        .and_then(|key| Path::new(key).parent())
        .filter(|folder| tidy(folder).starts_with(tidy(root)))
        .unwrap_or(root);
    below(root, &folder.join(with_extension(relative)), path)
}

fn shipped_module(name: &str, path: &str) -> Result<Located> {
    let name = name.strip_suffix(".rhai").unwrap_or(name);
    match shipped::modules().find(|known| *known == name) {
        Some(known) => Ok(Located {
            key: format!("std/{known}.rhai"),
            place: Place::Shipped(known),
        }),
        None => {
            let fault = Fault::usage(format!("there is no module `{path}`"));
            Err(match nearest(name, shipped::modules()) {
                Some(near) => fault.hint(format!("a module has a similar name: `std/{near}`")),
                None => fault.hint("`profiler list` shows the modules of the standard library"),
            })
        }
    }
}

/// The file at `joined`, if it really is below `root`; `written` is how the script named it.
pub(super) fn below(root: &Path, joined: &Path, written: &str) -> Result<Located> {
    let escapes = |target: &Path| {
        Fault::usage(format!(
            "`{written}` leaves the script's folder: it is `{}`, outside `{}`",
            target.display(),
            root.display()
        ))
        .hint("what a script uses must lie beside or below it; copy the file there")
    };
    let tidied = tidy(joined);
    let inside = tidied
        .strip_prefix(tidy(root))
        .is_ok_and(|rest| !rest.components().any(|part| part == Component::ParentDir));
    if !inside {
        return Err(escapes(&tidied));
    }
    let real_root = root.canonicalize().map_err(|error| Fault::io(root, &error))?;
    let real = tidied.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Fault::usage(format!("there is no file `{}`", tidied.display())),
        _ => Fault::io(&tidied, &error),
    })?;
    if !real.starts_with(&real_root) {
        return Err(escapes(&real));
    }
    Ok(Located {
        key: key(&tidied),
        place: Place::File(real),
    })
}

/// What people, and the journal, call a file of the user's.
pub(super) fn key(path: &Path) -> String {
    let key = tidy(path).display().to_string();
    // A user's own folder `std` must not look like ours.
    if key.starts_with("std/") {
        format!("./{key}")
    } else {
        key
    }
}

/// `a` and `a.rhai` both name `a.rhai`.
pub(super) fn with_extension(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|extension| extension == "rhai") {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".rhai");
    PathBuf::from(name)
}

/// The path without `.` and inner `..`, by name alone.
fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match (component, tidy.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                tidy.pop();
            }
            (other, _) => tidy.push(other),
        }
    }
    tidy
}
