//! Runs a script on its own thread.
//!
//! The interpreter is recursive and needs a large stack. A panic of the interpreter ends the script, not the program.
//! The caller can interrupt the script through the host's `Tasks`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;

use rhai::{AST, ASTNode, Dynamic, Expr, Scope, Stmt};
use serde_json::Value;

use super::diagnose::{Diagnostic, diagnose};
use super::source::Main;
use super::{Host, convert, engine, resolver};
use crate::fault::Fault;

/// Stack size. The system allocates only the pages that are used. Evaluation needs a few MiB; dropping a value that a
/// script nested as deeply as memory allows needs the rest.
pub(crate) const STACK: usize = 640 << 20;

/// Runs the main script and returns the value of its last expression.
pub fn run(host: &Arc<Host>, main: &Main) -> Result<Value, Box<Diagnostic>> {
    on_thread(|| evaluate(host, main))
}

/// Compiles the main script without running it or reading its imports.
pub fn compile(host: &Arc<Host>, main: &Main) -> Result<(), Box<Diagnostic>> {
    on_thread(|| {
        host.sources.insert(main.source.clone());
        let engine = engine::interpreter(host, &main.root);
        let compiled = resolver::compile(&engine, &main.source);
        compiled
            .map(drop)
            .map_err(|error| Box::new(diagnose(&engine, &host.sources, &main.source.key, error)))
    })
}

/// Runs `work` on a thread with a stack that is large enough for the interpreter.
pub fn on_thread<T: Send>(work: impl FnOnce() -> Result<T, Box<Diagnostic>> + Send) -> Result<T, Box<Diagnostic>> {
    std::thread::scope(|scope| {
        let thread = Builder::new()
            .name("script".into())
            .stack_size(STACK)
            .spawn_scoped(scope, || guarded(work))
            .map_err(|error| Fault::internal(format!("cannot start the script's thread: {error}")))?;
        thread
            .join()
            .unwrap_or_else(|panic| Err(panicked(panic.as_ref()).into()))
    })
}

/// Runs `work` on the current thread and turns a panic of the interpreter into a fault.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Box<Diagnostic>>) -> Result<T, Box<Diagnostic>> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic.as_ref()).into()))
}

fn panicked(panic: &(dyn Any + Send)) -> Fault {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    Fault::internal(format!("the script engine panicked: {text}")).hint("please report this, with the script")
}

fn evaluate(host: &Arc<Host>, main: &Main) -> Result<Value, Box<Diagnostic>> {
    host.sources.insert(main.source.clone());
    let engine = engine::interpreter(host, &main.root);
    let explain = |error| Box::new(diagnose(&engine, &host.sources, &main.source.key, error));
    let ast = resolver::compile(&engine, &main.source).map_err(explain)?;
    if !host.settings.set.is_empty() && !calls_params(&ast) {
        let fault = Fault::usage("parameters are set, but this script takes no parameters");
        return Err(fault.hint("a script declares them with `params(#{ … })`").into());
    }
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
