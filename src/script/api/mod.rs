//! The script API, grouped by subject. Every function has a doc comment with shapes, units, errors and an example. A test
//! requires them and runs every example.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "export_module wants `pub` functions and unwraps arguments"
)]
mod basics;
mod boundary;
mod engine;
mod files;
pub(super) mod jobs;
mod load;
mod memory;
mod output;
mod search;
mod service;
mod state;
mod trials;
mod verify;

use rhai::{Engine, Module, Variant, exported_module};

use super::adapter::Server;
use super::host::Service;
use super::params::Param;
use crate::cost::Costs;
use crate::fault::Fault;

pub(super) fn register(engine: &mut Engine) {
    name_type::<super::boundary::BoundaryHandle>(
        engine,
        "Boundary",
        "Which points fit and which fail, over given axes.",
    );
    engine.register_global_module(exported_module!(boundary::boundary).into());
    engine.register_global_module(exported_module!(basics::basics).into());
    engine.register_static_module("draw", exported_module!(output::draw).into());
    engine.register_global_module(exported_module!(search::search).into());
    name_type::<super::search::Search>(engine, "Search", "A search: its probes, their cost, and why it ended.");
    name_type::<Costs>(engine, "Costs", "The cost of the probes of a search, measured.");
    engine.register_global_module(exported_module!(state::state).into());
    engine.register_global_module(exported_module!(verify::verify).into());
    name_type::<super::host::EngineHandle>(engine, "Engine", "An engine under test, started by its first probe.");
    engine.register_static_module("host", exported_module!(engine::described).into());
    engine.register_static_module("server", exported_module!(engine::server).into());
    engine.register_static_module("trials", exported_module!(trials::trials).into());
    engine.register_global_module(exported_module!(engine::methods).into());
    engine.register_static_module("files", exported_module!(files::files).into());
    engine.register_static_module("command", exported_module!(jobs::command).into());
    engine.register_static_module("jobs", exported_module!(jobs::jobs).into());
    name_type::<Fault>(engine, "Fault", "An error of an API function, as `catch` receives it.");
    name_type::<Param>(
        engine,
        "Param",
        "A parameter declared by `param`: its default and its meaning.",
    );
    engine.register_static_module("gpu", exported_module!(basics::gpu).into());
    engine.register_static_module("levels", exported_module!(load::levels).into());
    engine.register_static_module("breakdown", exported_module!(memory::breakdown).into());
    engine.register_global_module(exported_module!(memory::memory).into());
    name_type::<super::host::ModelHandle>(
        engine,
        "MemoryModel",
        "A memory model fitted to measured peaks: a prediction, never a proof.",
    );
    engine.register_static_module("probe", exported_module!(service::probe).into());
    engine.register_static_module("plot", exported_module!(output::plot).into());
    engine.register_static_module("prompt", exported_module!(load::prompt).into());
    engine.register_global_module(exported_module!(output::record).into());
    name_type::<Server>(engine, "Server", "The server that an adapter's `ready(engine)` checks.");
    name_type::<Service>(engine, "Service", "A server that a script started.");
    engine.register_global_module(exported_module!(service::service).into());
    engine.register_static_module("docker", exported_module!(service::docker).into());
    engine.register_static_module("process", exported_module!(service::process).into());
    name_type::<super::host::TruthHandle>(
        engine,
        "Truth",
        "A known boundary, against which searches are measured.",
    );
}

/// Registers the script name of a type, and its description for the documentation.
fn name_type<T: Variant + Clone>(engine: &mut Engine, name: &str, about: &str) {
    let mut types = Module::new();
    types.set_custom_type_with_comments::<T>(name, &[&format!("/// {about}")]);
    engine.register_global_module(types.into());
}
