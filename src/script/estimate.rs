//! Implements `estimate`: reads a model's files once; a resumed run replays the answer.

use rhai::Map;
use serde_json::{Value, json};

use super::Host;
use crate::engine::{Architecture, Engine};
use crate::fault::{Fault, Kind, Result};
use crate::memory::{self, EstimateRequest, ModelFiles};
use crate::prompt::{self, Hub};
use crate::run::Event;

/// The kind of these events in the journal. On a resume the answer must not depend on whether the hub is reachable.
const KIND: &str = "estimate";

/// Arguments of an estimate.
pub(super) struct EstimateOptions {
    question: EstimateRequest,
    offline: bool,
}

impl EstimateOptions {
    /// Parses a script's options.
    pub(super) fn from_options(mut options: Map) -> Result<Self> {
        let offline = match options.remove("offline") {
            None => false,
            Some(value) => value
                .as_bool()
                .map_err(|_| Fault::usage("option `offline` must be true or false"))?,
        };
        let question = super::options(options)?;
        Ok(Self { question, offline })
    }
}

/// Estimates a model by its name.
pub(super) fn estimate_model(host: &Host, model: &str, options: &EstimateOptions) -> Result<Value> {
    estimate(host, &Architecture::Model(model.to_owned()), options)
}

/// Estimates the model of an engine.
pub(super) fn estimate_engine(host: &Host, engine: &Engine, options: &EstimateOptions) -> Result<Value> {
    estimate(host, &engine.architecture()?, options)
}

/// Estimates, or replays the journal. A missing model is recorded as well.
fn estimate(host: &Host, model: &Architecture, options: &EstimateOptions) -> Result<Value> {
    let mut args = json!({ "question": options.question });
    match model {
        Architecture::Config(config) => args["config"] = config.clone(),
        Architecture::Model(name) => args["model"] = json!(name),
    }
    if options.offline {
        args["offline"] = json!(true);
    }
    if let Some(answer) = host.run.replay(KIND, &args) {
        return replayed(answer);
    }
    let found = compute(host, model, options);
    let answer = match &found {
        Ok(value) => json!({ "estimate": value }),
        Err(fault) if fault.kind == Kind::Missing => json!({ "missing": fault.message, "hint": fault.hint }),
        Err(_) => return found,
    };
    host.run.note(Event::Done {
        kind: KIND.to_owned(),
        args,
        answer,
    })?;
    found
}

/// Converts a recorded answer.
fn replayed(mut answer: Value) -> Result<Value> {
    let Some(missing) = answer["missing"].as_str() else {
        return Ok(answer["estimate"].take());
    };
    let fault = Fault::new(Kind::Missing, missing);
    Err(match answer["hint"].as_str() {
        Some(hint) => fault.hint(hint),
        None => fault,
    })
}

fn compute(host: &Host, model: &Architecture, options: &EstimateOptions) -> Result<Value> {
    let known = match model {
        Architecture::Config(config) => ModelFiles {
            config: config.clone(),
            ..ModelFiles::default()
        },
        Architecture::Model(name) => read_model(host, name, options.offline)?,
    };
    let estimate = memory::estimate(&known, &options.question)?;
    serde_json::to_value(estimate).map_err(|error| Fault::internal(error.to_string()))
}

/// Reads the files of a model.
fn read_model(host: &Host, model: &str, offline: bool) -> Result<ModelFiles> {
    let model = host.permits.check_model(model, &host.settings.root())?;
    host.tasks.wait(async {
        let mut hub = Hub::from_env()?;
        hub.offline |= offline;
        prompt::read_model(&model, &hub).await
    })
}
