//! Compares what a file uses with what is defined.

use std::collections::BTreeMap;

use rhai::Position;

use super::outline::{Call, Outline, Parameters};
use crate::fault::{Fault, Kind};
use crate::script::nearest::nearest;
use crate::script::signature::{Signature, forms, is_name};

/// Functions that the interpreter handles itself.
const BUILT_IN: [&str; 9] = [
    "Fn",
    "call",
    "curry",
    "is_def_fn",
    "is_def_var",
    "is_shared",
    "print",
    "debug",
    "type_of",
];

/// Calls that match no function, and parameters that are read but not declared. `modules` contains the imports by
/// alias; `None` for one that could not be read.
pub(super) fn find_errors(
    outline: &Outline,
    natives: &[Signature],
    modules: &BTreeMap<String, Option<Vec<Signature>>>,
) -> Vec<(Fault, Position)> {
    let mut found = Vec::new();
    for call in &outline.calls {
        if let Some(fault) = check_call(call, outline, natives, modules) {
            found.push((fault, call.at));
        }
    }
    if let Some(Parameters {
        variable,
        names: Some(declared),
    }) = &outline.params
    {
        for (on, property, at) in &outline.reads {
            if on == variable && !declared.contains(property) {
                let fault = Fault::new(Kind::Compile, format!("the script declares no parameter `{property}`"));
                let near = nearest(property, declared.iter().map(String::as_str));
                found.push((
                    match near {
                        Some(near) => fault.hint(format!("a similar parameter exists: `{near}`")),
                        None => fault.hint(format!("add `{property}: param(default, \"meaning\")`")),
                    },
                    *at,
                ));
            }
        }
    }
    found
}

fn check_call(
    call: &Call,
    outline: &Outline,
    natives: &[Signature],
    modules: &BTreeMap<String, Option<Vec<Signature>>>,
) -> Option<Fault> {
    if !is_name(&call.name) || BUILT_IN.contains(&call.name.as_str()) {
        return None;
    }
    // It may be a closure stored in a map under this name.
    if call.method && outline.keys.contains(&call.name) {
        return None;
    }
    let own = outline.functions.iter().map(|one| &one.signature);
    let candidates: Vec<&Signature> = if call.namespace.is_empty() {
        let visible = |one: &&Signature| one.namespace.is_empty() || one.global || call.method;
        natives.iter().filter(visible).chain(own).collect()
    } else if let Some(module) = modules.get(&call.namespace) {
        module.as_ref()?.iter().collect()
    } else {
        let inside: Vec<_> = natives.iter().filter(|one| one.namespace == call.namespace).collect();
        // A module inside a module is not checked.
        if inside.is_empty() {
            return None;
        }
        inside
    };
    let same: Vec<&Signature> = candidates.iter().copied().filter(|one| one.name == call.name).collect();
    let takes = |one: &&Signature| {
        one.params.len() == call.args + usize::from(call.method) || (call.method && one.params.len() == call.args)
    };
    if same.iter().any(takes) {
        return None;
    }
    let path = match call.namespace.as_str() {
        "" => call.name.clone(),
        namespace => format!("{namespace}::{}", call.name),
    };
    if same.is_empty() {
        let fault = Fault::new(Kind::Compile, format!("there is no function `{path}`"));
        return Some(
            match nearest(&call.name, candidates.iter().map(|one| one.name.as_str())) {
                Some(near) => fault.hint(format!("a similar name exists: `{near}`")),
                None => fault.hint("`profiler doc` lists the functions"),
            },
        );
    }
    let plural = if call.args == 1 { "" } else { "s" };
    let fault = Fault::new(
        Kind::Compile,
        format!("`{path}` does not take {} argument{plural}", call.args),
    );
    Some(fault.hint(format!("it is {}", forms(&same, None))))
}
