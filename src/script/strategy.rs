//! The strategy or adapter in a script, found without running it, and its score, which needs no engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhai::{AST, Engine, Module, Scope, Stmt};
use serde_json::Value;

use super::adapter::EXPORTS;
use super::diagnose::{Diagnostic, diagnose};
use super::interpreter::run_source;
use super::main_script::Main;
use super::outline::Outline;
use super::source::Source;
use super::{Caught, Host, interpreter, on_thread, resolver};
use crate::fault::{Fault, Result};

/// The kind of script to score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// It has this function of `map, probe, options`.
    Strategy(String),
    /// It exports what an adapter must.
    Adapter,
}

/// The parameters that identify a strategy.
const STRATEGY: [&str; 3] = ["map", "probe", "options"];

/// The strategy or adapter in a script.
///
/// # Errors
///
/// `usage` if it is neither a strategy nor an adapter, or has several strategies and `wanted` is none of them.
pub fn subject(host: &Arc<Host>, main: &Main, wanted: Option<&str>) -> Result<Subject> {
    let engine = interpreter(host, &main.root);
    let ast = resolver::parse(&engine, &main.source)
        .map_err(|error| diagnose(&engine, &host.sources, &main.source.key, error).fault)?;
    let outline = Outline::from_ast(&ast);
    if wanted.is_none() && outline.is_meant(EXPORTS) {
        return Ok(Subject::Adapter);
    }
    let mut names = strategies(&ast);
    names.retain(|name| wanted.is_none_or(|wanted| wanted == *name));
    match names.as_slice() {
        [] if wanted.is_some() => Err(Fault::usage(format!(
            "`{}` has no strategy `{}`",
            main.source.key,
            wanted.unwrap_or_default()
        ))
        .hint("a strategy is a function of `map, probe, options`")),
        [name] => Ok(Subject::Strategy((*name).to_owned())),
        [] => Err(
            Fault::usage(format!("`{}` has no strategy and is no adapter", main.source.key))
                .hint("a strategy is a function of `map, probe, options`: `profiler new strategy NAME` writes one; `profiler run` tries an experiment, `profiler fleet` a cluster"),
        ),
        several => Err(Fault::usage(format!(
            "`{}` has the strategies `{}`",
            main.source.key,
            several.join("`, `")
        ))
        .hint(format!("name one: `profiler test {}::{}`", main.source.key, several[0]))),
    }
}

/// The functions of `map, probe, options`, by name: Rhai keeps functions in hash order, which differs between builds.
fn strategies(ast: &AST) -> Vec<&str> {
    let strategies = ast.iter_functions().filter(|function| function.params == STRATEGY);
    let mut names: Vec<&str> = strategies.map(|function| function.name).collect();
    names.sort_unstable();
    names
}

/// The strategy that a script without one calls in a module beside it, as a fork does: the file of the module, and the
/// name of the function.
///
/// # Errors
///
/// `compile` if the script or a module cannot be parsed.
pub fn called_strategy(host: &Arc<Host>, main: &Main, path: &Path) -> Result<Option<(PathBuf, String)>> {
    let engine = interpreter(host, &main.root);
    let parse = |source: &Source| {
        resolver::parse(&engine, source).map_err(|error| diagnose(&engine, &host.sources, &source.key, error).fault)
    };
    let ast = parse(&main.source)?;
    if main.shipped || !strategies(&ast).is_empty() {
        return Ok(None);
    }
    let outline = Outline::from_ast(&ast);
    for import in &outline.imports {
        let module = path.with_file_name(format!("{}.rhai", import.path.trim_start_matches("./")));
        if !module.is_file() {
            continue;
        }
        let ast = parse(&Main::open(&module)?.source)?;
        let called = strategies(&ast).into_iter().find(|strategy| {
            let mut calls = outline.calls.iter();
            calls.any(|call| call.namespace == import.alias && call.name == *strategy)
        });
        if let Some(called) = called {
            return Ok(Some((module, called.to_owned())));
        }
    }
    Ok(None)
}

/// Scores a script with `std/score` and returns the resulting map. `servers` are names and addresses for an adapter to
/// drive.
pub fn score(
    host: &Arc<Host>,
    main: &Main,
    subject: &Subject,
    servers: &[(&str, &str)],
) -> Result<Value, Box<Diagnostic>> {
    on_thread(|| {
        host.sources.insert(main.source.clone());
        let mut engine = interpreter(host, &main.root);
        let call = match subject {
            Subject::Strategy(name) => {
                let module = definitions(&engine, main)
                    .map_err(|error| Box::new(diagnose(&engine, &host.sources, &main.source.key, error)))?;
                engine.register_static_module(SUBJECT, module.into());
                format!("strategy({name:?}, |map, probe, options| {SUBJECT}::{name}(map, probe, options))")
            }
            Subject::Adapter => {
                let file = Path::new(&*main.source.key)
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy();
                let servers: Vec<String> = servers.iter().map(|(name, url)| format!("{name:?}: {url:?}")).collect();
                format!("adapter({:?}, #{{ {} }})", format!("./{file}"), servers.join(", "))
            }
        };
        let text = format!("import \"std/score\" as score;\nscore::{call}");
        run_source(host, &engine, &Source::new("profiler test", &text), |_| Ok(()))
    })
}

/// The module name of the strategy's file here.
const SUBJECT: &str = "profiler_subject";

/// The functions of a script, with the imports and constants that they use, but without the script's other statements.
fn definitions(engine: &Engine, main: &Main) -> Caught<Module> {
    let own = resolver::compile(engine, &main.source)?;
    let seen = own.statements().iter();
    let seen = seen.filter(|statement| matches!(statement, Stmt::Import(..)) || resolver::is_constant(statement));
    let ast = resolver::part_of(&main.source, seen, own.shared_lib().clone());
    Module::eval_ast_as_new(Scope::new(), &ast, engine)
}
