//! Lists a script's parameters without running it: it is evaluated until it calls `params`, in an interpreter that has no
//! other primitive, so that nothing can happen before.

use std::sync::Arc;

use rhai::{Dynamic, EvalAltResult, Map, Position, Scope};

use super::declare::{Declared, Param, declared};
use crate::script::diagnose::{Diagnostic, diagnose};
use crate::script::source::Main;
use crate::script::thread::on_thread;
use crate::script::{Caught, Host, engine, resolver};

/// What a script would take with `--set`, in order of the names; nothing when it calls no `params`.
pub fn describe(host: &Arc<Host>, main: &Main) -> Result<Vec<Declared>, Box<Diagnostic>> {
    on_thread(|| evaluate(host, main))
}

fn evaluate(host: &Arc<Host>, main: &Main) -> Result<Vec<Declared>, Box<Diagnostic>> {
    host.sources.insert(main.source.clone());
    let mut engine = engine::bare(host, &main.root);
    engine
        .register_fn("param", |default: Dynamic, meaning: &str| Param {
            default,
            meaning: meaning.to_owned(),
        })
        .register_fn("params", |map: Map| -> Caught<Dynamic> {
            // What is declared travels as the token of a termination, which no script can catch.
            Err(EvalAltResult::ErrorTerminated(Dynamic::from(declared(map)?), Position::NONE).into())
        });
    let ended = resolver::compile(&engine, &main.source)
        .and_then(|ast| engine.eval_ast_with_scope::<Dynamic>(&mut Scope::new(), &ast));
    match ended {
        Ok(_) => Ok(Vec::new()),
        Err(error) => {
            if let EvalAltResult::ErrorTerminated(token, _) = &*error
                && let Some(declared) = token.read_lock::<Vec<Declared>>()
            {
                return Ok(declared.clone());
            }
            let mut diagnostic = diagnose(&engine, &host.sources, &main.source.key, error);
            if diagnostic.fault.message.starts_with("there is no function") {
                diagnostic.fault = diagnostic
                    .fault
                    .while_doing("cannot tell the parameters")
                    .hint("call `params` before anything else: only then can a script be described without running it");
            }
            Err(Box::new(diagnostic))
        }
    }
}
