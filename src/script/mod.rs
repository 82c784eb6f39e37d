//! The Rhai host: everything that knows Rhai is below this folder.
//!
//! `engine` configures the interpreter, `meter` and `bounds` limit what a script uses, `resolver` finds modules, `source` keeps their
//! texts, `shipped` are those in the binary, `thread` runs a script on a thread of its own, `diagnose` shows errors in the right
//! file, `convert` checks options, `params` reads parameters, `check` looks at a script without running it, `adapter` makes an
//! engine's Rhai file a Rust trait, `reference` writes the documentation; `api/` has one thin file per script module. Primitives
//! reach the program through the [`Host`] that the interpreter carries as its tag.

mod adapter;
pub mod api;
mod asking;
mod boundary;
mod bounds;
mod check;
mod convert;
mod diagnose;
mod engine;
mod engine_handle;
mod estimating;
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
mod probe;
pub mod reference;
pub mod repl;
mod reporting;
mod resolver;
mod results;
mod service;
pub mod shipped;
mod signature;
mod source;
mod spent;
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
pub use source::{Main, Source, Sources, module_hash};
pub use spent::Spent;
pub(crate) use thread::STACK;
pub use thread::{compile, guarded, on_thread, run};
