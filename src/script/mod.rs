//! Runs Rhai scripts. No other module uses the `rhai` crate, apart from `fault`, which scripts get as a value.
//!
//! `interpreter` configures the interpreter and runs scripts; `meter` limits their resources; `resolver` finds modules,
//! `own_calls` compiles texts, `main_script` opens the script of a run, `source` keeps the texts, `shipped` holds the
//! embedded ones, and `added` those that the user added; `search` keeps the state of a search between two probes;
//! `diagnose` explains errors; `convert` translates values; `params` reads parameters, and `form` their values; `check`
//! examines a script without running it, by the `outline` of its files, and `strategy` scores one without an engine;
//! `adapter` turns an engine's Rhai file into a Rust trait; `reference` generates the documentation. `api/` has the
//! functions that scripts call, grouped by subject. They reach the program through the [`Host`], which the interpreter
//! carries as its tag, and through the handles of `host`.

mod adapter;
mod added;
pub mod api;
mod boundary;
mod check;
mod convert;
mod diagnose;
pub mod form;
mod header;
mod host;
mod interpreter;
mod lexer;
mod main_script;
mod meter;
mod outline;
mod own_calls;
pub mod params;
pub mod reference;
pub mod repl;
mod requirements;
mod resolver;
mod search;
pub mod shipped;
mod signature;
mod source;
mod strategy;
mod suggest;

pub use adapter::load as adapter;
pub use added::{Added, Fetched, Lock, fetch};
pub use boundary::{BoundaryHandle, PointCost};
pub use check::{check, check_main, warnings};
pub use convert::{Caught, from_script, options, to_script, type_of};
pub use diagnose::{Diagnostic, diagnose};
pub use header::Header;
pub(crate) use header::description;
pub use host::{EngineHandle, Host, ScriptState, Settings, begin_call};
pub(crate) use interpreter::STACK;
pub use interpreter::{CANNOT_LIST, describe_params, guarded, interpreter, on_thread, run};
pub use main_script::{Main, STDIN, module_hash, named_modules};
pub use meter::Meter;
pub use shipped::{copies, fork, is_shipped, is_unedited, origin_of};
pub use source::{Source, Sources};
pub use strategy::{Subject, called_strategy, score, subject};
pub(crate) use suggest::suggest;
