//! Resolves imports: `std/…` from the binary, others relative to the importing file and below the main script's folder,
//! or else by the name of an added script.
//!
//! Import cycles are refused, because the interpreter would recurse until the process dies. A module is read, compiled
//! and run once, when it is first imported.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use rhai::{AST, ASTFlags, Engine, EvalAltResult, Module, ModuleResolver, ParseError, Position, Scope, Shared, Stmt};

use super::main_script::{module_name, path_key};
use super::source::{Source, Sources, normalize};
use super::suggest::{did_you_mean, nearest, quoted, suggest};
use super::{Caught, Host, added, own_calls, requirements, shipped};
use crate::fault::{Fault, Result};
use crate::run::Run;
use crate::runtime::Permits;
use crate::task::lock;

/// Deepest nesting of imports: each level is an evaluation on the stack.
const MAX_DEPTH: usize = 32;

pub(super) struct Resolver {
    root: PathBuf,
    sources: Arc<Sources>,
    run: Arc<Run>,
    permits: Permits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Keys of the files being imported, outermost first.
    importing: Vec<String>,
    done: HashMap<String, Shared<Module>>,
}

impl Resolver {
    /// Imports must stay below `root`. Texts are added to `sources` and to the folder of `run`.
    pub(super) fn new(root: PathBuf, sources: Arc<Sources>, run: Arc<Run>, permits: Permits) -> Self {
        Self {
            root,
            sources,
            run,
            permits,
            state: Mutex::default(),
        }
    }

    /// Starts importing a file. Fails if it is already being imported.
    fn enter(&self, importer: Option<&str>, key: &str) -> Result<()> {
        let mut state = lock(&self.state);
        if state.importing.is_empty()
            && let Some(importer) = importer
        {
            state.importing.push(importer.to_owned());
        }
        if let Some(start) = state.importing.iter().position(|other| other == key) {
            return Err(cycle(&state.importing[start..], key));
        }
        if state.importing.len() > MAX_DEPTH {
            return Err(Fault::usage(format!("imports nest deeper than {MAX_DEPTH} files")));
        }
        state.importing.push(key.to_owned());
        Ok(())
    }

    fn leave(&self) {
        let mut state = lock(&self.state);
        state.importing.pop();
        if state.importing.len() == 1 {
            state.importing.clear();
        }
    }

    fn open(&self, found: &ResolvedImport) -> Result<Source> {
        if let Some(known) = self.sources.get(&found.key) {
            return Ok(known);
        }
        let source = Source::new(&found.key, &found.read()?);
        let name = module_name(&self.root, &source.key);
        self.run.module(&name, &source.text, &source.sha256)?;
        if !source.key.starts_with("std/") {
            self.permits.load_file();
        }
        self.sources.insert(source.clone());
        Ok(source)
    }
}

impl ModuleResolver for Resolver {
    fn resolve(&self, engine: &Engine, importer: Option<&str>, path: &str, at: Position) -> Caught<Shared<Module>> {
        let at_import = |fault: Fault| {
            let mut error: Box<EvalAltResult> = fault.into();
            error.set_position(at);
            error
        };
        // A path that a shipped script imports was named by the user, and is relative to the current folder.
        let by_shipped = |key: &&str| {
            let text = self.sources.get(key).filter(|_| self.root == Path::new("."));
            key.starts_with("scripts/") && text.is_some_and(|text| shipped::is_shipped(&text.sha256))
        };
        let relative_to = importer.filter(|key| path.starts_with("std/") || !by_shipped(key));
        let found = locate(&self.root, relative_to, path).map_err(at_import)?;
        if let Some(module) = lock(&self.state).done.get(&found.key) {
            return Ok(Shared::clone(module));
        }
        self.enter(importer, &found.key).map_err(at_import)?;
        let module = self.open(&found).map_err(at_import).and_then(|source| {
            compile(engine, &source)
                .and_then(|ast| Module::eval_ast_as_new(Scope::new(), &ast, engine))
                .map_err(|error| match *error {
                    // An interruption is reported where it happened, without the import chain.
                    EvalAltResult::ErrorTerminated(..) => error,
                    _ => Box::new(EvalAltResult::ErrorInModule(found.key.clone(), error, at)),
                })
        });
        self.leave();
        let module = Shared::new(module?);
        lock(&self.state).done.insert(found.key, Shared::clone(&module));
        Ok(module)
    }
}

/// The fault for an import cycle: the files of `chain` import each other, and the last one imports `key`.
pub(super) fn cycle(chain: &[String], key: &str) -> Fault {
    let names: Vec<_> = chain
        .iter()
        .map(String::as_str)
        .chain([key])
        .map(|key| format!("`{key}`"))
        .collect();
    Fault::usage(format!("import cycle: {}", names.join(" -> "))).hint("move shared code into a third module")
}

/// Compiles a text to run it.
pub(super) fn compile(engine: &Engine, source: &Source) -> Caught<AST> {
    checked(source, || own_calls::compile(engine, source))
}

/// Compiles a text to examine it: its calls have the names that they have in the text.
pub(super) fn parse(engine: &Engine, source: &Source) -> Caught<AST> {
    checked(source, || engine.compile(&*source.text))
}

/// Attaches the source's key, so that errors and functions know their file.
fn checked(source: &Source, compile: impl FnOnce() -> Result<AST, ParseError>) -> Caught<AST> {
    requirements::check(&source.text).map_err(|(fault, at)| {
        let mut error: Box<EvalAltResult> = fault.into();
        error.set_position(at);
        error
    })?;
    let mut ast = compile().map_err(|error| EvalAltResult::ErrorParsing(*error.0, error.1))?;
    ast.set_source(&*source.key);
    Ok(ast)
}

/// Statements of a script, with some functions, as a script of their own.
pub(super) fn part_of<'a>(
    source: &Source,
    statements: impl IntoIterator<Item = &'a Stmt>,
    functions: impl Into<Shared<Module>>,
) -> AST {
    let mut ast = AST::new(statements.into_iter().cloned(), functions);
    ast.set_source(&*source.key);
    ast
}

/// Whether a statement is `const ...`.
pub(super) fn is_constant(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Var(_, flags, _) if flags.contains(ASTFlags::CONSTANT))
}

/// The target of an import.
pub(super) struct ResolvedImport {
    pub(super) key: String,
    /// The file; shipped modules have none.
    file: Option<PathBuf>,
}

impl ResolvedImport {
    pub(super) fn read(&self) -> Result<String> {
        if let Some(file) = &self.file {
            return added::read(file);
        }
        let name = self.key.trim_start_matches("std/").trim_end_matches(".rhai");
        let text = shipped::module(name).map(Into::into);
        text.ok_or_else(|| Fault::internal(format!("the module `std/{name}` is not in the binary")))
    }
}

/// Resolves an import path written in the file `importer` (its key).
pub(super) fn locate(root: &Path, importer: Option<&str>, path: &str) -> Result<ResolvedImport> {
    if let Some(name) = path.strip_prefix("std/") {
        return shipped_module(name, path);
    }
    let relative = Path::new(path);
    if relative.is_absolute() {
        return Err(Fault::usage(format!("import `{path}` is absolute"))
            .hint("imports are relative to the importing file, or `std/…`"));
    }
    if let Some(name) = importer.and_then(|key| key.strip_prefix("std/")) {
        // Only embedded modules have such keys.
        return Err(Fault::internal(format!(
            "the shipped module `std/{name}` imports `{path}` outside `std/`"
        )));
    }
    // An added module has its own folder.
    let added = importer.and_then(added::of_key);
    let (root, importer) = match &added {
        Some(added) => (&*added.root, Some(&*added.file)),
        None => (root, importer.map(Path::new)),
    };
    let folder = importer
        .and_then(Path::parent)
        .filter(|folder| normalize(folder).starts_with(normalize(root)))
        .unwrap_or(root);
    let joined = folder.join(with_extension(relative));
    match added::find(path) {
        Ok(Some(found)) if !joined.exists() => resolve_below(&found.root, &found.file, path),
        Err(fault) if !joined.exists() => Err(fault),
        _ => resolve_below(root, &joined, path),
    }
}

fn shipped_module(name: &str, path: &str) -> Result<ResolvedImport> {
    let name = name.strip_suffix(".rhai").unwrap_or(name);
    match shipped::modules().find(|known| *known == name) {
        Some(known) => {
            let key = format!("std/{known}.rhai");
            Ok(ResolvedImport { key, file: None })
        }
        None => {
            let fault = Fault::usage(format!("there is no module `{path}`"));
            let near = nearest(name, shipped::modules()).map(|near| format!("std/{near}"));
            let otherwise = "`profiler list` shows the modules of the standard library";
            Err(did_you_mean(fault, near, otherwise))
        }
    }
}

/// The file at `joined`, if it really is below `root`. `written` is the path as the script wrote it.
pub(super) fn resolve_below(root: &Path, joined: &Path, written: &str) -> Result<ResolvedImport> {
    let escapes = |target: &Path| {
        Fault::usage(format!(
            "`{written}` leaves the script's folder: it is `{}`, outside `{}`",
            target.display(),
            root.display()
        ))
        .hint("a script can only use files in or below its own folder; copy the file there")
    };
    let normalized = normalize(joined);
    let inside = normalized
        .strip_prefix(normalize(root))
        .is_ok_and(|rest| !rest.components().any(|part| part == Component::ParentDir));
    if !inside {
        return Err(escapes(&normalized));
    }
    let real_root = root.canonicalize().map_err(|error| Fault::io(root, &error))?;
    let real = normalized.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Fault::usage(format!("there is no file `{}`", normalized.display())),
        _ => Fault::io(&normalized, &error),
    })?;
    if !real.starts_with(&real_root) {
        return Err(escapes(&real));
    }
    Ok(ResolvedImport {
        key: path_key(&normalized),
        file: Some(real),
    })
}

/// Opens an adapter or a probe (`what`) that a script names: the shipped one with this name, or a user's file that ends
/// with `extension`, relative to the main script. Stores its text in the run.
pub(super) fn open_named(
    host: &Host,
    (name, file): (&str, &Path),
    (what, extension): (&str, &str),
    shipped: Option<Source>,
    known: impl Iterator<Item = &'static str>,
) -> Result<Source> {
    let root = host.settings.root();
    let source = if name.contains('/') || name.ends_with(extension) {
        let found = resolve_below(&root, &root.join(file), name);
        let found = found.map_err(|fault| fault.while_doing(format!("{what} `{name}`")))?;
        Source::new(&found.key, &found.read()?)
    } else {
        let known: Vec<&str> = known.collect();
        let fault = Fault::usage(format!("there is no {what} `{name}`"));
        let names = quoted(&known);
        let otherwise = format!("available: {names}; give your own by its path, such as `./mine{extension}`");
        shipped.ok_or_else(|| suggest(fault, name, known, otherwise))?
    };
    let module = module_name(&root, &source.key);
    host.run.module(&module, &source.text, &source.sha256)?;
    Ok(source)
}

/// Appends `.rhai` unless it is there.
pub(super) fn with_extension(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|extension| extension == "rhai") {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".rhai");
    PathBuf::from(name)
}
