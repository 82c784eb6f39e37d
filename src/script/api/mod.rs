//! The script API: one thin file per script module, without logic of its own. Every function has a doc comment with
//! shapes, units, errors and an example; a test refuses one without, and runs every example.

#![allow(unreachable_pub, reason = "export_module wants `pub` functions")]
#![allow(clippy::unwrap_used, reason = "export_module writes it for methods")]

mod assert;
mod boundary;
mod fault;
mod strategy;
mod time;

use rhai::{Engine, exported_module};

use crate::fault::Fault;

/// Registers every module.
pub(super) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<super::boundary::Handle>("Boundary");
    engine.register_global_module(exported_module!(assert::assert).into());
    engine.register_global_module(exported_module!(boundary::boundary).into());
    engine.register_global_module(exported_module!(strategy::strategy).into());
    engine.register_type_with_name::<Fault>("Fault");
    engine.register_global_module(exported_module!(fault::fault).into());
    engine.register_global_module(exported_module!(time::time).into());
}
