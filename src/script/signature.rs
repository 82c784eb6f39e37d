//! Names and signatures of functions for people, such as `sleep(seconds: int)`: the closest known name for a mistyped
//! one, and errors for calls that match no function.

use std::collections::BTreeSet;

use rhai::{Engine, FnAccess, FnNamespace, ScriptFnMetadata};

use super::convert::type_name;
use super::lexer::is_word;
use super::source::Sources;
use super::suggest::{did_you_mean, guessed, nearest, quoted};
use crate::engine::COORDINATES;
use crate::fault::{Fault, Kind};

/// Numeric types that Rhai's standard library has functions for, but scripts never have.
const UNREACHABLE: [&str; 11] = [
    "i8", "u8", "i16", "u16", "i32", "u32", "u64", "i128", "u128", "f32", "usize",
];

/// A function that scripts can call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// `docker`, or empty.
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Names and types of the parameters. Script functions have no types.
    pub(crate) params: Vec<(String, String)>,
    /// Whether it can also be called without its namespace, as methods can.
    pub(crate) global: bool,
    /// Whether it is private to its script, so that importers cannot call it.
    pub(crate) private: bool,
    /// The remedy, if its doc comment begins with `Deprecated: `.
    pub(crate) deprecated: Option<String>,
}

impl Signature {
    /// From a function written in a script.
    pub(crate) fn from_function(function: &ScriptFnMetadata) -> Self {
        let untyped = |name: &&str| ((*name).to_owned(), String::new());
        Self {
            namespace: String::new(),
            name: function.name.to_owned(),
            params: function.params.iter().map(untyped).collect(),
            global: false,
            private: function.access == FnAccess::Private,
            deprecated: function.comments.first().and_then(|line| deprecation(line)),
        }
    }

    /// Name and type of its first parameter.
    pub(crate) fn first_param(&self) -> Option<(&str, &str)> {
        let (name, kind) = self.params.first()?;
        Some((name, kind))
    }
}

/// The rest of the line of a doc comment that begins with `Deprecated: `.
fn deprecation(comment: &str) -> Option<String> {
    let line = comment.lines().next()?.trim_start_matches('/').trim();
    Some(line.strip_prefix("Deprecated: ")?.trim_end_matches('.').to_owned())
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}::", self.namespace)?;
        }
        let params: Vec<_> = self
            .params
            .iter()
            .map(|(name, kind)| match (name.as_str(), kind.as_str()) {
                (name, "") => name.to_owned(),
                ("" | "_", kind) => kind.to_owned(),
                (name, kind) => format!("{name}: {kind}"),
            })
            .collect();
        write!(f, "{}({})", self.name, params.join(", "))
    }
}

/// All native functions, including Rhai's standard library.
pub(crate) fn natives(engine: &Engine) -> Vec<Signature> {
    engine.collect_fn_metadata(
        None,
        |info| {
            let data = info.metadata;
            let foreign = data
                .params_info
                .iter()
                .any(|param| param.rsplit(' ').next().is_some_and(|kind| UNREACHABLE.contains(&kind)));
            if foreign {
                return None;
            }
            let named = data.params_info.iter().map(|param| {
                let (name, kind) = param.split_once(':').unwrap_or((param, ""));
                (name.trim().to_owned(), type_name(kind))
            });
            let mut params: Vec<_> = named.collect();
            params.resize(data.num_params, ("_".to_owned(), "any".to_owned()));
            Some(Signature {
                namespace: info.namespace.to_string(),
                name: data.name.to_string(),
                params,
                global: data.namespace == FnNamespace::Global,
                private: false,
                deprecated: None,
            })
        },
        true,
    )
}

/// The fault for a call, written `name (type, type)` by the interpreter, that matches no function.
pub(super) fn not_found(engine: &Engine, sources: &Sources, file: &str, call: &str) -> Fault {
    let (path, given) = call.split_once(" (").unwrap_or((call, ""));
    let given = given.trim_end_matches(')').split(", ");
    let given: Vec<String> = given.filter(|name| !name.is_empty()).map(type_name).collect();
    let (namespace, name) = path.rsplit_once("::").unwrap_or(("", path));
    let mut known = natives(engine);
    let own = sources.get(file).and_then(|source| engine.compile(&*source.text).ok());
    let own = own.iter().flat_map(|ast| ast.iter_functions());
    known.extend(own.map(|function| Signature::from_function(&function)));
    known.retain(|signature| signature.namespace == namespace && is_name(&signature.name) == is_name(name));
    let overloads: Vec<_> = known.iter().filter(|signature| signature.name == name).collect();
    if !name.contains(is_word) {
        let fault = Fault::new(Kind::Script, format!("`{name}` does not take {}", given.join(" and ")));
        let mixed =
            given.iter().any(|kind| kind == "string") && given.iter().any(|kind| kind == "int" || kind == "float");
        return if mixed {
            fault.hint("`parse_int(text)` or `parse_float(text)` makes a number of a string")
        } else {
            fault
        };
    }
    if overloads.is_empty() {
        let fault = Fault::new(Kind::Script, format!("there is no function `{path}`"));
        let near = nearest(name, known.iter().map(|signature| signature.name.as_str()));
        let near = near.map(|near| match namespace {
            "" => near.to_owned(),
            namespace => format!("{namespace}::{near}"),
        });
        let otherwise = guessed(name).unwrap_or("`profiler doc` lists the functions");
        return did_you_mean(fault, near, otherwise);
    }
    let fault = Fault::new(Kind::Script, format!("`{path}` does not take ({})", given.join(", ")));
    if let Some(position) = overloads.iter().find_map(|signature| float_wanted(signature, &given)) {
        return fault.hint(format!(
            "argument {} must be a float: write `3.0` instead of `3`, or `.to_float()`",
            position + 1
        ));
    }
    fault.hint(format!("it is {}", forms(&overloads, given.first())))
}

/// The possible signatures; only those with the same receiver type, if there are any.
pub(super) fn forms(overloads: &[&Signature], receiver: Option<&String>) -> String {
    let first = |one: &&&Signature| one.params.first().map_or("", |(_, kind)| kind.as_str()).to_owned();
    // Numbers are rarely receivers, and Rhai's own functions on ranges share common names with ours.
    let receiver = receiver.filter(|kind| !matches!(kind.as_str(), "int" | "float"));
    let groups: [&dyn Fn(&String) -> bool; 3] = [&|kind| Some(kind) == receiver, &|kind| kind != "range", &|_| true];
    let group = |fits: &&dyn Fn(&String) -> bool| {
        let fitting = overloads.iter().filter(|one| fits(&first(one)));
        let forms: BTreeSet<String> = fitting.map(|one| format!("`{one}`")).collect();
        (!forms.is_empty()).then_some(forms)
    };
    let forms = groups.iter().find_map(group).unwrap_or_default();
    let more = match forms.len().saturating_sub(6) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown: Vec<String> = forms.into_iter().take(6).collect();
    format!("{}{more}", shown.join(" or "))
}

/// Whether it is a name rather than an operator or an accessor.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && !name.contains('$')
}

/// The fault for a missing property of a value of type `kind`.
pub(super) fn no_property(engine: &Engine, property: &str, kind: &str) -> Fault {
    let kind = type_name(kind);
    let fault = Fault::new(
        Kind::Script,
        format!("a value of type {kind} has no property `{property}`"),
    );
    let known = natives(engine);
    let mut properties: Vec<_> = known
        .iter()
        .filter(|signature| signature.params.first().is_some_and(|(_, of)| *of == kind))
        .filter_map(|signature| signature.name.strip_prefix("get$"))
        .collect();
    properties.sort_unstable();
    match nearest(property, properties.iter().copied()) {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None if properties.is_empty() => fault,
        None => fault.hint(format!("it has {}", quoted(&properties))),
    }
}

/// The position of the first int where a float is expected, if everything else matches.
fn float_wanted(signature: &Signature, given: &[String]) -> Option<usize> {
    let pairs = || {
        signature
            .params
            .iter()
            .map(|(_, wanted)| wanted.as_str())
            .zip(given.iter().map(String::as_str))
    };
    let is_int = |pair: (&str, &str)| pair == ("float", "int");
    let fits = |pair: (&str, &str)| pair.0 == pair.1 || pair.0 == "any" || is_int(pair);
    if signature.params.len() != given.len() || !pairs().all(fits) {
        return None;
    }
    pairs().position(is_int)
}

/// The fault for an axis whose name is almost that of a coordinate of engine points. Other names may be a script's own.
pub(super) fn misspelt_axis(name: &str) -> Option<Fault> {
    if COORDINATES.contains(&name) {
        return None;
    }
    let near = nearest(name, COORDINATES)?;
    let fault = Fault::new(Kind::Compile, format!("an engine's points have no axis `{name}`"));
    Some(fault.hint(format!("did you mean `{near}`?")))
}
