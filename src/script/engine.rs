//! Configures the Rhai interpreter: limits, hooks, modules.

use std::path::Path;
use std::sync::Arc;

use rhai::{Dynamic, Engine, OptimizationLevel};

use super::limits::{ARRAY, CALL_LEVELS, MAP, STRING};
use super::resolver::Resolver;
use super::{Host, api, bounds, host};
use crate::run::Event;

/// An interpreter with the whole API. Imports are relative to the importing file and must stay below `root`.
#[must_use]
pub fn interpreter(host: &Arc<Host>, root: &Path) -> Engine {
    let mut engine = bare(host, root);
    // Variables are checked before the script runs. `describe` cannot do so, as it lacks the API.
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
        ))
        .set_default_tag(host::tag(host));
    bounds::register(&mut engine);
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
