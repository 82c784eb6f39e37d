//! Runs Rhai scripts. Only this module uses the `rhai` crate.
//!
//! `engine` configures the interpreter, `meter` and `bounds` limit what a script uses, `resolver` finds modules,
//! `source` keeps their texts, `shipped` holds those in the binary, `thread` runs a script on its own thread,
//! `diagnose` explains errors, `convert` and `options` translate values, `params` reads parameters, `check` examines a
//! script without running it, `adapter` turns an engine's Rhai file into a Rust trait, `reference` writes the
//! documentation. `api/` has one file per script module; its functions reach the program through the [`Host`], which
//! the interpreter carries as its tag.

mod adapter;
pub mod api;
mod boundary;
mod boundary_report;
mod bounds;
mod check;
mod convert;
mod diagnose;
mod engine;
mod engine_handle;
mod estimate;
mod files;
mod fork;
mod header;
mod host;
mod limits;
mod memory_model;
mod meter;
mod nearest;
mod options;
pub mod params;
mod point_cost;
mod probe;
mod ready_server;
pub mod reference;
pub mod repl;
mod resolver;
mod results;
mod service;
pub mod shipped;
mod signature;
mod source;
mod sweep;
mod thread;
mod truth;

pub use adapter::adapter;
pub use boundary::BoundaryHandle;
pub use check::check;
pub use convert::{Caught, from_script, to_script, type_of};
pub use diagnose::{Diagnostic, diagnose};
pub use engine::interpreter;
pub use engine_handle::EngineHandle;
pub use fork::fork;
pub(crate) use header::description;
pub use host::{Host, Settings, State, host};
pub use meter::Meter;
pub use options::options;
pub use point_cost::PointCost;
pub use source::{Main, Source, Sources, module_hash};
pub(crate) use thread::STACK;
pub use thread::{compile, guarded, on_thread, run};
