//! Configures the Rhai interpreter (limits, hooks, modules) and runs scripts on their own thread.
//!
//! The interpreter is recursive and needs a large stack. A panic of the interpreter ends the script, not the program. The
//! caller can interrupt the script through the host's `Tasks`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::Builder;

use rhai::{AST, ASTNode, Dynamic, Engine, EvalAltResult, Expr, Map, OptimizationLevel, Position, Scope, Stmt};
use serde_json::Value;

use super::diagnose::{Diagnostic, diagnose};
use super::form::FormOptions;
use super::main_script::Main;
use super::meter::{ARRAY, CALL_LEVELS, MAP, STRING};
use super::params::{Declared, Param, declared};
use super::resolver::Resolver;
use super::source::Source;
use super::{Caught, Host, api, convert, meter, options, own_calls, resolver};
use crate::fault::Fault;
use crate::run::Event;
use crate::world;

/// An interpreter with the whole API. Imports are relative to the importing file and must stay below `root`.
pub fn interpreter(host: &Arc<Host>, root: &Path) -> Engine {
    let mut engine = bare(host, root);
    // Variables are checked before the script runs. `describe_params` cannot do so, because it lacks the API.
    engine.set_strict_variables(true);
    api::register(&mut engine);
    engine
}

/// An interpreter with all limits and hooks but without the API.
pub(super) fn bare(host: &Arc<Host>, root: &Path) -> Engine {
    let mut engine = Engine::new();
    // All limits are set explicitly, because the defaults of debug and release builds differ.
    engine
        .set_max_call_levels(CALL_LEVELS)
        .set_max_expr_depths(128, 64)
        .set_max_array_size(ARRAY)
        .set_max_map_size(MAP)
        .set_max_string_size(STRING)
        .set_max_modules(64)
        .set_max_variables(10_000)
        .set_max_functions(1_000)
        // The meter counts operations instead: between two API calls, not in total.
        .set_max_operations(0)
        .set_fail_on_invalid_map_property(true)
        // `Full` would call API functions at compile time; `Simple` panics in Rhai 1.27.
        .set_optimization_level(OptimizationLevel::None)
        .disable_symbol("eval")
        .set_module_resolver(Resolver::new(
            root.to_owned(),
            Arc::clone(&host.sources),
            Arc::clone(&host.run),
            host.permits.clone(),
        ))
        .set_default_tag(Dynamic::from(Arc::clone(host)));
    meter::register(&mut engine);
    own_calls::register(&mut engine);
    let metered = Arc::clone(host);
    engine.on_progress(move |_| metered.meter.step(&metered.tasks).map(Dynamic::from));
    let printing = Arc::clone(host);
    engine.on_print(move |text| print(&printing, text.to_owned()));
    let debugging = Arc::clone(host);
    engine.on_debug(move |text, source, at| {
        let source = source.unwrap_or("script");
        print(&debugging, format!("{source}:{at}: {text}"));
    });
    engine
}

/// Longer lines are truncated, in bytes.
const LINE: usize = 64 << 10;

/// Notes a printed line as an event. The hook cannot fail, so a fault ends the script at its next operation.
fn print(host: &Host, mut text: String) {
    if text.len() > LINE {
        let whole = text.len();
        let end = (0..=LINE).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push_str(&format!("… ({whole} bytes in all)"));
    }
    if let Err(fault) = host.run.note(Event::Print { text }) {
        host.meter.fail(fault);
    }
}

/// Stack size. The system allocates only the pages that are used. Evaluation needs a few MiB; dropping a value that a
/// script nested as deeply as memory allows needs the rest.
pub(crate) const STACK: usize = 640 << 20;

/// Runs the main script and returns the value of its last expression.
///
/// For a shipped script, an error that the user can fix shows no line, because the user wrote none of it.
pub fn run(host: &Arc<Host>, main: &Main) -> Result<Value, Box<Diagnostic>> {
    on_thread(|| evaluate(host, main)).map_err(|diagnostic| {
        if main.shipped && !diagnostic.fault.kind.is_bug() {
            Box::new(diagnostic.fault.into())
        } else {
            diagnostic
        }
    })
}

/// Runs `work` on a thread with a stack that is large enough for the interpreter.
pub fn on_thread<T: Send>(work: impl FnOnce() -> Result<T, Box<Diagnostic>> + Send) -> Result<T, Box<Diagnostic>> {
    let world = world::current();
    std::thread::scope(|scope| {
        let thread = Builder::new()
            .name("script".into())
            .stack_size(STACK)
            .spawn_scoped(scope, || world::within(world, || guarded(work)))
            .map_err(|error| Fault::no_thread("script's thread", &error))?;
        thread
            .join()
            .unwrap_or_else(|panic| Err(panicked(panic.as_ref()).into()))
    })
}

/// Runs `work` on the current thread and turns a panic of the interpreter into a fault.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Box<Diagnostic>>) -> Result<T, Box<Diagnostic>> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref()).into()))
}

pub(super) fn panicked(panic: &(dyn Any + Send)) -> Fault {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    Fault::internal(format!("the script engine panicked: {text}")).hint("please report this, with the script")
}

fn evaluate(host: &Arc<Host>, main: &Main) -> Result<Value, Box<Diagnostic>> {
    host.sources.insert(main.source.clone());
    let engine = interpreter(host, &main.root);
    let has_params = |ast: &AST| {
        if host.settings.set.is_empty() || calls_params(ast) {
            Ok(())
        } else {
            Err(Fault::usage("parameters are set, but this script takes no parameters")
                .hint("a script declares them with `params(#{ … })`"))
        }
    };
    run_source(host, &engine, &main.source, has_params)
}

/// Runs a text, and explains errors with their positions. Calls `check` first.
pub(super) fn run_source(
    host: &Host,
    engine: &Engine,
    source: &Source,
    check: impl FnOnce(&AST) -> Result<(), Fault>,
) -> Result<Value, Box<Diagnostic>> {
    let explain = |error| Box::new(diagnose(engine, &host.sources, &source.key, error));
    let ast = resolver::compile(engine, source).map_err(explain)?;
    check(&ast)?;
    let value: Dynamic = engine.eval_ast_with_scope(&mut Scope::new(), &ast).map_err(explain)?;
    Ok(convert::from_script(&value)?)
}

/// Whether the script itself contains a call of `params`.
fn calls_params(ast: &AST) -> bool {
    !ast.walk(&mut |path| {
        !matches!(
            path.last(),
            Some(ASTNode::Expr(Expr::FnCall(call, _)) | ASTNode::Stmt(Stmt::FnCall(call, _))) if call.name == "params"
        )
    })
}

/// The declared parameters, sorted by name; empty if the script does not call `params`.
pub fn describe_params(host: &Arc<Host>, main: &Main) -> Result<Vec<Declared>, Box<Diagnostic>> {
    on_thread(|| evaluate_params(host, main))
}

/// The beginning of the fault's message if the parameters cannot be listed without running the script.
pub const CANNOT_LIST: &str = "cannot list the parameters";

fn evaluate_params(host: &Arc<Host>, main: &Main) -> Result<Vec<Declared>, Box<Diagnostic>> {
    host.sources.insert(main.source.clone());
    let mut engine = bare(host, &main.root);
    engine
        .register_fn("param", |default: Dynamic, meaning: &str| Param {
            default,
            meaning: meaning.to_owned(),
            form: FormOptions::default(),
        })
        .register_fn("param", |default: Dynamic, meaning: &str, form: Map| -> Caught<Param> {
            Ok(Param {
                default,
                meaning: meaning.to_owned(),
                form: options(form)?,
            })
        })
        .register_fn("params", |map: Map| -> Caught<Dynamic> {
            // The result travels as the token of a termination error, which no script can catch.
            Err(EvalAltResult::ErrorTerminated(Dynamic::from(declared(map)?), Position::NONE).into())
        });
    let explain = |error| Box::new(diagnose(&engine, &host.sources, &main.source.key, error));
    let ast = resolver::compile(&engine, &main.source).map_err(explain)?;
    if !calls_params(&ast) {
        return Ok(Vec::new());
    }
    let Err(error) = engine.eval_ast_with_scope::<Dynamic>(&mut Scope::new(), &ast) else {
        return Ok(Vec::new());
    };
    if let EvalAltResult::ErrorTerminated(token, _) = &*error
        && let Some(declared) = token.read_lock::<Vec<Declared>>()
    {
        return Ok(declared.clone());
    }
    let mut diagnostic = explain(error);
    if diagnostic.fault.message.starts_with("there is no function") {
        diagnostic.fault = diagnostic.fault.while_doing(CANNOT_LIST).hint(
            "call `params` before anything else, so that the parameters can be listed without running the script",
        );
    }
    Err(diagnostic)
}
