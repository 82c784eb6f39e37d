//! The rest of the signature, shown after the cursor while a call is written.

use super::cursor::call;
use super::vocabulary::Vocabulary;

/// The hint at the end of `before`, if that is inside a known call.
pub(super) fn hint(vocabulary: &Vocabulary, before: &str) -> Option<String> {
    if before.trim_start().starts_with(':') {
        return None;
    }
    let call = call(before)?;
    let functions = vocabulary.called(call.path, call.on);
    // The overload with the fewest parameters that accepts this argument.
    let function = functions
        .iter()
        .find(|function| function.params.len() > call.argument)
        .or_else(|| {
            functions
                .iter()
                .find(|function| call.argument == 0 && !call.started && function.params.is_empty())
        })?;
    let rest: Vec<String> = function
        .params
        .iter()
        .skip(call.argument + usize::from(call.started))
        .map(ToString::to_string)
        .collect();
    let returns = function.returns.as_ref().map(|kind| format!(" -> {kind}"));
    let comma = if call.started && !rest.is_empty() { ", " } else { "" };
    let space = if !call.started && call.argument > 0 && before.ends_with(',') {
        " "
    } else {
        ""
    };
    Some(format!(
        "{comma}{space}{}){}",
        rest.join(", "),
        returns.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "export_module wants `pub` functions")]

    use rhai::plugin::*;
    use rhai::{Engine, FnPtr, INT, Map};

    use super::*;

    /// Searches.
    #[export_module]
    mod search {
        /// Without options.
        pub fn grid(map: Map, probe: FnPtr) -> INT {
            let _ = (map, probe);
            0
        }

        /// With options.
        #[rhai_fn(name = "grid")]
        pub fn grid_with(map: Map, probe: FnPtr, options: Map) -> INT {
            let _ = (map, probe, options);
            0
        }

        /// Stops.
        pub fn stop() {}
    }

    #[test]
    fn the_rest_of_the_signature_is_shown() {
        let mut engine = Engine::new();
        engine.register_static_module("search", exported_module!(search).into());
        let vocabulary = Vocabulary::new(&engine, Vec::new(), Vec::new());
        let shown = |before| hint(&vocabulary, before);
        assert_eq!(
            shown("search::grid(").as_deref(),
            Some("map: map, probe: closure) -> int")
        );
        assert_eq!(shown("search::grid(m").as_deref(), Some(", probe: closure) -> int"));
        assert_eq!(shown("search::grid(m,").as_deref(), Some(" probe: closure) -> int"));
        assert_eq!(shown("search::grid(m, |p| p.x").as_deref(), Some(") -> int"));
        assert_eq!(shown("search::grid(m, p, ").as_deref(), Some("options: map) -> int"));
        assert_eq!(shown("search::stop(").as_deref(), Some(")"));
        assert_eq!(shown("search::grid(m, p, #{}, "), None);
        assert_eq!(shown("unknown("), None);
        assert_eq!(shown(":help search::grid("), None);
    }
}
