//! Rewrites Rhai's errors in our style: lower case, names in backticks, script type names.

use rhai::{Dynamic, Engine, EvalAltResult};

use super::parse;
use crate::fault::{Fault, Kind};
use crate::script::nearest::nearest;
use crate::script::signature::{self, type_name};
use crate::script::source::Sources;

/// The fault for an error without wrappers, raised in `file`.
pub(super) fn fault(engine: &Engine, sources: &Sources, file: &str, mut error: EvalAltResult) -> Fault {
    use EvalAltResult as E;
    let script = |message: String| Fault::new(Kind::Script, message);
    let limit = |message: &str| Fault::new(Kind::Limit, message);
    let near = |name: &str| nearest_word(sources, file, name);
    match &error {
        E::ErrorRuntime(value, _) => thrown(value),
        E::ErrorTerminated(value, _) => value
            .read_lock::<Fault>()
            .map_or_else(Fault::interrupted, |fault| fault.clone()),
        E::ErrorParsing(error, _) => parse::fault(engine, error, near),
        E::ErrorFunctionNotFound(call, _) => signature::not_found(engine, sources, file, call),
        E::ErrorVariableNotFound(name, _) => {
            let fault = script(format!("unknown variable `{name}`"));
            match near(name) {
                Some(near) => fault.hint(format!("a similar name is in use: `{near}`")),
                None => fault.hint("functions see only their parameters; a constant of the file is `global::NAME`"),
            }
        }
        E::ErrorPropertyNotFound(name, _) => script(format!("the map has no key `{name}`"))
            .hint(format!("if it may be absent, write `.get(\"{name}\") ?? default`")),
        E::ErrorDotExpr(text, _) => match unknown_property(text) {
            Some((property, kind)) => signature::no_property(engine, property, kind),
            None => script(rephrase(text)),
        },
        E::ErrorMismatchDataType(wanted, found, _) | E::ErrorMismatchOutputType(wanted, found, _) => {
            script(match (type_name(wanted), type_name(found)) {
                (wanted, found) if found.is_empty() => format!("expected {wanted}"),
                (wanted, found) if wanted.is_empty() => format!("{found} does not fit here"),
                (wanted, found) => format!("expected {wanted}, found {found}"),
            })
        }
        E::ErrorArrayBounds(length, index, _) => {
            script(format!("index {index} is outside an array of {length} elements"))
        }
        E::ErrorStringBounds(length, index, _) => {
            script(format!("index {index} is outside a string of {length} characters"))
        }
        E::ErrorAssignmentToConstant(name, _) => {
            script(format!("`{name}` is constant")).hint("define it with `let` to change it")
        }
        E::ErrorUnboundThis(_) => {
            script("`this` is not bound".into()).hint("call the function as a method: `value.f()`")
        }
        E::ErrorFor(_) => script("`for` needs something to iterate over".into())
            .hint("an array, a range such as `0..10`, or `map.keys()`"),
        E::ErrorStackOverflow(_) => limit("calls nest deeper than 64 levels").hint("replace the recursion by a loop"),
        E::ErrorDataTooLarge(what, _) => limit(&format!("too much data: {}", rephrase(what)))
            .hint("limits, including nested values: arrays 4,000,000 elements, maps 2,000,000 entries, strings 64 MiB"),
        E::ErrorTooManyModules(_) => limit("more than 64 imports").hint("import once, at the top of the file"),
        E::ErrorTooManyVariables(_) => limit("more than 10,000 variables"),
        _ => {
            error.clear_position();
            script(rephrase(&error.to_string()))
        }
    }
}

/// Extracts property and type from `Unknown property 'x' - a getter is not registered for type 'T'`.
fn unknown_property(text: &str) -> Option<(&str, &str)> {
    let mut quoted = text.strip_prefix("Unknown property ")?.split('\'');
    Some((quoted.nth(1)?, quoted.nth(1)?))
}

/// The fault for an uncaught `throw`.
fn thrown(value: &Dynamic) -> Fault {
    if let Some(fault) = value.read_lock::<Fault>() {
        return fault.clone();
    }
    if value.is_unit() {
        return Fault::new(Kind::Script, "the script failed");
    }
    Fault::new(Kind::Script, value.to_string())
}

/// The word of the file that is closest to `name`.
fn nearest_word(sources: &Sources, file: &str, name: &str) -> Option<String> {
    let source = sources.get(file)?;
    let words = source
        .text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'));
    nearest(name, words).map(str::to_owned)
}

/// Rewrites a sentence of the interpreter: `Foo 'bar'.` becomes ``foo `bar` ``.
pub(super) fn rephrase(sentence: &str) -> String {
    let mut chars = sentence.chars();
    let first = chars.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    let rest = chars.as_str().replace('\'', "`");
    format!("{first}{}", rest.trim_end_matches('.'))
}
