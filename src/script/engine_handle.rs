//! The handle by which scripts hold an engine.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use rhai::{Dynamic, Map};

use super::{Host, adapter, from_script, options};
use crate::boundary::Point;
use crate::engine::{Context, Engine, LaunchOptions};
use crate::fault::{Fault, Result};
use crate::telemetry;

/// An engine shared by all copies of its handle.
#[derive(Clone)]
pub struct EngineHandle(pub Arc<Engine>);

impl EngineHandle {
    /// Describes the engine `name`. Options that are `()` or `""` count as not given.
    pub(super) fn describe(host: &Arc<Host>, name: &str, given: Map) -> Result<Self> {
        let options: LaunchOptions = options(given.into_iter().filter(|(_, value)| is_given(value)).collect())?;
        let adapter = adapter(host, name)?;
        let engine = Arc::new(Engine::describe(context(host), adapter, options)?);
        host.state().engine = Arc::downgrade(&engine);
        Ok(Self(engine))
    }
}

/// Converts a script's point.
pub(super) fn point(map: Map) -> Result<Point> {
    serde_json::from_value(from_script(&Dynamic::from(map))?).map_err(|_| {
        Fault::usage("a point is a map of numbers").hint("such as `#{ input: 512, output: 128, concurrency: 1 }`")
    })
}

fn is_given(value: &Dynamic) -> bool {
    !value.is_unit() && !value.as_immutable_string_ref().is_ok_and(|text| text.is_empty())
}

fn context(host: &Arc<Host>) -> Context {
    let axes = Arc::downgrade(host);
    let home = host.settings.script.parent().unwrap_or(Path::new(""));
    Context {
        tasks: host.tasks.clone(),
        run: Arc::clone(&host.run),
        permits: host.permits.clone(),
        services: Arc::clone(&host.services),
        prompt_cache: Arc::clone(&host.prompts),
        axes: Arc::new(move || {
            let host = axes.upgrade()?;
            let state = host.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.axes.clone()
        }),
        gpus: Arc::new(telemetry::gpus_if_any),
        home: home.to_owned(),
        seed: host.settings.seed,
        shared_gpu: host.settings.shared_gpu,
        dry_run: host.settings.dry_run,
    }
}
