//! The only place that configures the interpreter: limits, hooks, modules.

use std::sync::Arc;

use rhai::{Dynamic, Engine, OptimizationLevel};

use super::{Host, api};

/// An interpreter that carries `host`.
#[must_use]
pub fn interpreter(host: &Arc<Host>) -> Engine {
    let mut engine = Engine::new();
    engine
        .set_max_call_levels(64)
        .set_max_expr_depths(128, 64)
        .set_strict_variables(true)
        .set_fail_on_invalid_map_property(true)
        // `Full` would run primitives at compile time, and `Simple` has a panic in 1.27.
        .set_optimization_level(OptimizationLevel::None)
        .disable_symbol("eval")
        .set_default_tag(Dynamic::from(Arc::clone(host)));
    api::register(&mut engine);
    engine
}
