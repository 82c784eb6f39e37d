//! Rewrites parse errors in our style.

use rhai::{Engine, LexError, ParseErrorType};

use super::message::rephrase;
use crate::fault::{Fault, Kind};
use crate::script::nearest::nearest;
use crate::script::{shipped, signature};

/// The fault for a parse error. `suggest` finds the closest word of the file.
pub(super) fn fault(engine: &Engine, error: &ParseErrorType, suggest: impl Fn(&str) -> Option<String>) -> Fault {
    use ParseErrorType as P;
    let fault = |message: String| Fault::new(Kind::Compile, message);
    match error {
        P::VariableUndefined(name) => {
            let fault = fault(format!("unknown variable `{name}`"));
            match suggest(name) {
                Some(near) => fault.hint(format!("a similar name is in use: `{near}`")),
                None => fault.hint("define it with `let` first; functions see only their parameters"),
            }
        }
        P::ModuleUndefined(name) => module(engine, name, suggest(name)),
        P::MissingToken(token, purpose) => fault(format!("expected `{token}` {purpose}")),
        P::MissingSymbol(purpose) => fault(format!("expected a symbol {purpose}")),
        P::UnexpectedEOF => fault("the script ends in the middle of a statement".into())
            .hint("close what is open: `}`, `)`, `]` or a quote"),
        P::Reserved(word) => fault(format!("`{word}` is a reserved word")).hint("choose another name"),
        P::BadInput(LexError::ImproperSymbol(symbol, _)) if symbol == "eval" => {
            fault("`eval` is disabled".into()).hint("write a function or a closure instead")
        }
        P::ExprTooDeep => fault("the expression nests too deeply".into()).hint("split it with `let`"),
        P::TooManyFunctions => fault("the script defines more than 1,000 functions".into()),
        other => fault(rephrase(&other.to_string())),
    }
}

/// The fault for a namespace that does not exist.
fn module(engine: &Engine, name: &str, suggest: Option<String>) -> Fault {
    let fault = Fault::new(Kind::Compile, format!("unknown module `{name}`"));
    if shipped::modules().any(|module| module == name) {
        return fault.hint(format!("import it: `import \"std/{name}\" as {name};`"));
    }
    let natives = signature::natives(engine);
    let known = natives.iter().map(|signature| signature.namespace.as_str());
    match nearest(name, known).map(str::to_owned).or(suggest) {
        Some(near) => fault.hint(format!("a similar name is in use: `{near}`")),
        None => fault.hint("import your own file with `import \"./file\" as name;`"),
    }
}
