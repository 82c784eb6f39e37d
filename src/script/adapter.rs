//! An engine's Rhai file as a Rust [`Adapter`]: `stdlib/engines/NAME.rhai`, or a file of the user's.
//!
//! Every function of the file is called in an interpreter of the adapter's own, with arguments and results as JSON; a result of
//! the wrong shape is answered with the adapter, the function and the path.

use std::path::Path;
use std::sync::Arc;

use rhai::{AST, Dynamic, Engine, FuncArgs, Scope};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::asking::{PATIENCE, Server};
use super::diagnose::diagnose;
use super::nearest::nearest;
use super::options::shaped;
use super::resolver::{self, below, with_extension};
use super::source::{self, Source};
use super::{Host, convert, interpreter, shipped};
use crate::boundary::Point;
use crate::engine::{Adapter, Facts, FailureRule, Limits, Readiness, RequestForm};
use crate::fault::{Fault, Kind, Result};
use crate::runtime::Launch;

/// What an adapter must export: the functions and their parameters.
pub(super) const EXPORTS: [(&str, &[&str]); 6] = [
    ("launch", &["options"]),
    ("ready", &["engine"]),
    ("request", &["point"]),
    ("facts", &[]),
    ("failures", &[]),
    ("flags", &["limits"]),
];

struct RhaiAdapter {
    name: String,
    shipped: bool,
    host: Arc<Host>,
    engine: Engine,
    ast: AST,
    key: String,
    client: reqwest::Client,
}

/// The adapter `name`: an engine of the standard library, or a path such as `./mine.rhai` relative to the main script.
///
/// A path is what ends in `.rhai` or has a slash.
pub fn adapter(host: &Arc<Host>, name: &str) -> Result<Arc<dyn Adapter>> {
    let root = host.settings.root();
    let by_path = name.contains('/') || name.ends_with(".rhai");
    let source = if by_path {
        own(&root, name)?
    } else {
        of_the_library(name)?
    };
    let module = source::module_name(&root, &source.key);
    host.run.module(&module, &source.text, &source.sha256)?;
    host.sources.insert(source.clone());
    let engine = interpreter(host, &root);
    let ast = resolver::compile(&engine, &source)
        .map_err(|error| located(name, diagnose(&engine, &host.sources, &source.key, error)))?;
    if let Some(complaint) = missing_exports(&ast).into_iter().next() {
        return Err(Fault::usage(format!("adapter `{name}` {complaint}"))
            .hint("`profiler check` says what an adapter must export; a shipped one is a pattern to copy"));
    }
    let stem = Path::new(name).file_stem().unwrap_or_default();
    Ok(Arc::new(RhaiAdapter {
        name: stem.to_string_lossy().into_owned(),
        shipped: !by_path,
        host: Arc::clone(host),
        key: source.key.to_string(),
        client: crate::http::build(crate::http::direct().timeout(PATIENCE))?,
        engine,
        ast,
    }))
}

fn own(root: &Path, name: &str) -> Result<Source> {
    let found = below(root, &root.join(with_extension(Path::new(name))), name)
        .map_err(|fault| fault.while_doing(format!("adapter `{name}`")))?;
    Ok(Source::new(found.key(), &found.read()?))
}

fn of_the_library(name: &str) -> Result<Source> {
    let file = format!("engines/{name}");
    if let Some(text) = shipped::module(&file) {
        return Ok(Source::new(&format!("std/{file}.rhai"), &text));
    }
    let known = || shipped::modules().filter_map(|module| module.strip_prefix("engines/"));
    let fault = Fault::usage(format!("there is no engine adapter `{name}`"));
    Err(match nearest(name, known()) {
        Some(near) => fault.hint(format!("an adapter has a similar name: `{near}`")),
        None => {
            let names: Vec<_> = known().map(|name| format!("`{name}`")).collect();
            fault.hint(format!(
                "there are {}; your own is named by its path, such as `./mine.rhai`",
                names.join(", ")
            ))
        }
    })
}

/// What an adapter lacks, each as the end of a sentence about it.
pub(super) fn missing_exports(ast: &AST) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, params) in EXPORTS {
        let wanted = format!("{name}({})", params.join(", "));
        let arities: Vec<_> = ast
            .iter_functions()
            .filter(|function| function.name == name && !function.access.is_private())
            .map(|function| function.params.len())
            .collect();
        match arities.as_slice() {
            [] => complaints.push(format!("does not export `{wanted}`")),
            some if !some.contains(&params.len()) => {
                complaints.push(format!("exports `{name}` with {} parameters, not `{wanted}`", some[0]));
            }
            _ => {}
        }
    }
    complaints
}

/// An error inside an adapter, in one line.
fn located(name: &str, diagnostic: super::Diagnostic) -> Fault {
    let at = diagnostic
        .location()
        .map(|place| format!(" ({place})"))
        .unwrap_or_default();
    let mut fault = diagnostic.fault;
    if fault.kind != Kind::Interrupted {
        fault.message = format!("adapter `{name}`: {}{at}", fault.message);
    }
    fault
}

impl RhaiAdapter {
    fn call(&self, function: &str, args: impl FuncArgs) -> Result<Dynamic> {
        self.engine
            .call_fn(&mut Scope::new(), &self.ast, function, args)
            .map_err(|error| {
                let diagnostic = diagnose(&self.engine, &self.host.sources, &self.key, error);
                located(&self.name, diagnostic)
            })
    }

    /// Calls a function whose result has the shape `T`.
    fn answer<T: DeserializeOwned>(&self, function: &str, args: impl FuncArgs) -> Result<T> {
        let value = self.call(function, args)?;
        convert::from_script(&value)
            .and_then(|value| shaped("key", value))
            .map_err(|fault| fault.while_doing(format!("adapter `{}`: result of `{function}`", self.name)))
    }
}

impl Adapter for RhaiAdapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn shipped(&self) -> bool {
        self.shipped
    }

    fn launch(&self, options: &Value) -> Result<Launch> {
        self.answer("launch", (convert::to_script(options)?,))
    }

    fn ready(&self, base_url: &str, options: &Value) -> Result<Readiness> {
        let server = Server::new(base_url, self.client.clone(), convert::to_script(options)?);
        let said = self.call("ready", (server,))?;
        match (said.as_bool(), said.is_string()) {
            (Ok(true), _) => Ok(Readiness::Ready),
            (Ok(false), _) => Ok(Readiness::NotYet),
            (Err(_), true) => Ok(Readiness::Failed(said.to_string())),
            (Err(kind), false) => Err(Fault::usage(format!(
                "adapter `{}`: `ready` must give a bool, or why the engine will not become ready as a string, but gives a {}",
                self.name,
                super::signature::type_name(kind)
            ))),
        }
    }

    fn request(&self, point: &Point, limits: Option<&Limits>) -> Result<RequestForm> {
        let mut asked = serde_json::to_value(point).map_err(|error| Fault::internal(error.to_string()))?;
        asked["limits"] = json!(limits);
        self.answer("request", (convert::to_script(&asked)?,))
    }

    fn facts(&self) -> Result<Facts> {
        self.answer("facts", ())
    }

    fn failures(&self) -> Result<Vec<FailureRule>> {
        self.answer("failures", ())
    }

    fn flags(&self, limits: &Limits) -> Result<Vec<String>> {
        self.answer("flags", (convert::to_script(limits)?,))
    }

    fn settings(&self, options: &Value) -> Result<Vec<String>> {
        let told = |function: rhai::ScriptFnMetadata| {
            function.name == "settings" && function.params.len() == 1 && !function.access.is_private()
        };
        if self.ast.iter_functions().any(told) {
            self.answer("settings", (convert::to_script(options)?,))
        } else {
            Ok(Vec::new())
        }
    }
}
