//! What a strategy or an adapter is worth, without an engine: `std/score` does it; here its subject is found and handed over.

use std::path::Path;
use std::sync::Arc;

use rhai::{Engine, Module, Scope, Stmt};
use serde_json::Value;

use super::check::is_adapter_file;
use super::diagnose::{Diagnostic, diagnose};
use super::interpreter::run_source;
use super::source::{Main, Source};
use super::{Caught, Host, interpreter, on_thread, resolver};
use crate::fault::{Fault, Result};

/// What a script is, to be held against something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// It has this function of `map, probe, options`.
    Strategy(String),
    /// It exports what an adapter must.
    Adapter,
}

/// The parameters by which a strategy is known.
const STRATEGY: [&str; 3] = ["map", "probe", "options"];

/// What can be scored in a script.
///
/// # Errors
///
/// `usage` if it is neither a strategy nor an adapter, or has several strategies.
pub fn subject(host: &Arc<Host>, main: &Main) -> Result<Subject> {
    let engine = interpreter(host, &main.root);
    let ast = resolver::compile(&engine, &main.source)
        .map_err(|error| diagnose(&engine, &host.sources, &main.source.key, error).fault)?;
    if is_adapter_file(&ast) {
        return Ok(Subject::Adapter);
    }
    let strategies = ast.iter_functions().filter(|function| function.params == STRATEGY);
    let mut names: Vec<&str> = strategies.map(|function| function.name).collect();
    // Rhai keeps functions in the order of a hash, which differs between builds.
    names.sort_unstable();
    match names.as_slice() {
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
        .hint("keep one in a file, and the parts of it in functions with other parameters")),
    }
}

/// Scores it: the map that `std/score` gives. `servers` are names and addresses for an adapter to drive.
pub fn score(
    host: &Arc<Host>,
    main: &Main,
    subject: &Subject,
    servers: &[(&str, &str)],
) -> Result<Value, Box<Diagnostic>> {
    on_thread(|| evaluate(host, main, subject, servers))
}

fn evaluate(
    host: &Arc<Host>,
    main: &Main,
    subject: &Subject,
    servers: &[(&str, &str)],
) -> Result<Value, Box<Diagnostic>> {
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
}

/// The module by which the strategy's file is known here.
const SUBJECT: &str = "profiler_subject";

/// The functions of a script, with the imports and constants that they see. What the script does with them is left out.
fn definitions(engine: &Engine, main: &Main) -> Caught<Module> {
    let own = resolver::compile(engine, &main.source)?;
    let seen = own.statements().iter();
    let seen = seen.filter(|statement| matches!(statement, Stmt::Import(..)) || resolver::is_constant(statement));
    let ast = resolver::part_of(&main.source, seen, own.shared_lib().clone());
    Module::eval_ast_as_new(Scope::new(), &ast, engine)
}
