//! Why a script does not parse, in our words.

use rhai::{Engine, LexError, ParseErrorType};

use super::message::lower;
use crate::fault::{Fault, Kind};
use crate::script::nearest::nearest;
use crate::script::{shipped, signature};

/// The fault of a parse error; `word` finds the word of the file that a name most likely stands for.
pub(super) fn fault(engine: &Engine, error: &ParseErrorType, word: impl Fn(&str) -> Option<String>) -> Fault {
    use ParseErrorType as P;
    let fault = |message: String| Fault::new(Kind::Compile, message);
    match error {
        P::VariableUndefined(name) => {
            let fault = fault(format!("unknown variable `{name}`"));
            match word(name) {
                Some(near) => fault.hint(format!("a similar name is in use: `{near}`")),
                None => fault.hint("define it with `let` first; functions see only their parameters"),
            }
        }
        P::ModuleUndefined(name) => module(engine, name, word(name)),
        P::MissingToken(token, purpose) => fault(format!("expected `{token}` {purpose}")),
        P::MissingSymbol(purpose) => fault(format!("expected a symbol {purpose}")),
        P::UnexpectedEOF => fault("the script ends in the middle of a statement".into())
            .hint("close what is open: `}`, `)`, `]` or a quote"),
        P::Reserved(word) => fault(format!("`{word}` is a reserved word")).hint("choose another name"),
        P::BadInput(LexError::ImproperSymbol(symbol, _)) if symbol == "eval" => {
            fault("`eval` is off".into()).hint("a script runs only what it shows; write a function or a closure")
        }
        P::ExprTooDeep => fault("the expression nests too deeply".into()).hint("split it with `let`"),
        P::TooManyFunctions => fault("the script defines more than 1,000 functions".into()),
        other => fault(lower(&other.to_string())),
    }
}

/// A namespace that no import and no primitive has.
fn module(engine: &Engine, name: &str, word: Option<String>) -> Fault {
    let fault = Fault::new(Kind::Compile, format!("unknown module `{name}`"));
    if shipped::modules().any(|module| module == name) {
        return fault.hint(format!("import it: `import \"std/{name}\" as {name};`"));
    }
    let natives = signature::natives(engine);
    let known = natives.iter().map(|signature| signature.namespace.as_str());
    match nearest(name, known).map(str::to_owned).or(word) {
        Some(near) => fault.hint(format!("a similar name is in use: `{near}`")),
        None => fault.hint("a file of yours is imported by `import \"./file\" as name;`"),
    }
}
