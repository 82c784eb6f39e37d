//! The script API: one file per script module, without logic of its own. Every function has a doc comment with shapes,
//! units, errors and an example. A test requires them and runs every example.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "export_module wants `pub` functions and unwraps arguments"
)]
mod assert;
mod boundary;
mod docker;
mod draw;
mod effort;
mod engine;
mod estimate;
mod experiment;
mod fault;
mod files;
mod gpu;
mod load;
mod loading;
mod memory;
mod memory_model;
mod params;
mod plot;
mod probe;
mod process;
mod prompt;
mod proof;
mod record;
mod report;
mod results;
mod server;
mod service;
mod strategy;
mod time;
mod truth;

use rhai::{Engine, Module, Variant, exported_module};

use super::params::Param;
use super::ready_server::Server;
use super::service::Service;
use crate::fault::Fault;

pub(super) fn register(engine: &mut Engine) {
    name_type::<super::boundary::BoundaryHandle>(
        engine,
        "Boundary",
        "Which points fit and which fail, over given axes.",
    );
    engine.register_global_module(exported_module!(assert::assert).into());
    engine.register_global_module(exported_module!(boundary::boundary).into());
    engine.register_static_module("draw", exported_module!(draw::draw).into());
    engine.register_global_module(exported_module!(proof::proof).into());
    engine.register_global_module(exported_module!(effort::effort).into());
    name_type::<super::engine_handle::EngineHandle>(
        engine,
        "Engine",
        "An engine under test, started by its first probe.",
    );
    engine.register_static_module("engine", exported_module!(self::engine::engine).into());
    engine.register_global_module(exported_module!(self::engine::methods).into());
    engine.register_global_module(exported_module!(loading::loading).into());
    engine.register_static_module("files", exported_module!(files::files).into());
    engine.register_global_module(exported_module!(self::estimate::estimate).into());
    engine.register_global_module(exported_module!(self::experiment::experiment).into());
    engine.register_global_module(exported_module!(strategy::strategy).into());
    name_type::<Fault>(engine, "Fault", "An error of an API function, as `catch` receives it.");
    engine.register_global_module(exported_module!(fault::fault).into());
    name_type::<Param>(
        engine,
        "Param",
        "A parameter declared by `param`: its default and its meaning.",
    );
    engine.register_static_module("gpu", exported_module!(gpu::gpu).into());
    engine.register_static_module("load", exported_module!(self::load::load).into());
    engine.register_global_module(exported_module!(memory::memory).into());
    name_type::<super::memory_model::ModelHandle>(
        engine,
        "MemoryModel",
        "A memory model fitted to measured peaks: a prediction, never a proof.",
    );
    engine.register_global_module(exported_module!(memory_model::memory_model).into());
    engine.register_global_module(exported_module!(params::params).into());
    engine.register_static_module("probe", exported_module!(probe::probe).into());
    engine.register_global_module(exported_module!(probe::methods).into());
    engine.register_static_module("plot", exported_module!(self::plot::plot).into());
    engine.register_static_module("prompt", exported_module!(prompt::prompt).into());
    engine.register_global_module(exported_module!(record::record).into());
    engine.register_global_module(exported_module!(report::report).into());
    engine.register_global_module(exported_module!(results::results).into());
    name_type::<Server>(engine, "Server", "The server that an adapter's `ready(engine)` checks.");
    engine.register_global_module(exported_module!(server::server).into());
    name_type::<Service>(engine, "Service", "A server that a script started.");
    engine.register_global_module(exported_module!(service::service).into());
    engine.register_static_module("docker", exported_module!(docker::docker).into());
    engine.register_static_module("process", exported_module!(process::process).into());
    engine.register_global_module(exported_module!(time::time).into());
    name_type::<super::truth::TruthHandle>(
        engine,
        "Truth",
        "A known boundary, against which searches are measured.",
    );
    engine.register_global_module(exported_module!(truth::truth).into());
}

/// Registers the script name of a type, and its description for the documentation.
fn name_type<T: Variant + Clone>(engine: &mut Engine, name: &str, about: &str) {
    let mut types = Module::new();
    types.set_custom_type_with_comments::<T>(name, &[&format!("/// {about}")]);
    engine.register_global_module(types.into());
}
