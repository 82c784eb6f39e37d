//! Lists a script's parameters: runs it until it calls `params`, in an interpreter without any other API function, so
//! that nothing else can happen before.

use std::sync::Arc;

use rhai::{Dynamic, EvalAltResult, Map, Position, Scope};

use super::declare::{Declared, Param, declared};
use crate::script::diagnose::{Diagnostic, diagnose};
use crate::script::source::Main;
use crate::script::thread::on_thread;
use crate::script::{Caught, Host, engine, resolver};

/// The declared parameters, sorted by name; empty if the script does not call `params`.
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
            // The result travels as the token of a termination error, which no script can catch.
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
                    .while_doing("cannot list the parameters")
                    .hint("call `params` before anything else, so that the parameters can be listed without running the script");
            }
            Err(Box::new(diagnostic))
        }
    }
}
