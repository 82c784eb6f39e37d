//! The Rhai host: everything that knows Rhai is below this folder.
//!
//! `engine` configures the interpreter, `resolver` finds modules, `thread` runs a script on a thread of its own, `diagnose` shows
//! errors in the right file, `convert` checks options, `reference` writes the documentation; `api/` has one thin file per
//! script module. Primitives reach the program through the [`Host`] that the interpreter carries as its tag.

pub mod api;
mod boundary;
mod convert;
mod engine;
mod host;
pub mod reference;

pub use boundary::Handle as BoundaryHandle;
pub use convert::{Caught, from_script, options, to_script};
pub use engine::interpreter;
pub use host::{Host, Settings, host};
