//! What `estimate` does: a model's files are looked at once, and a resumed run goes by what they were.

use rhai::Map;
use serde_json::{Value, json};

use super::Host;
use crate::engine::{Architecture, Engine};
use crate::fault::{Fault, Kind, Result};
use crate::memory::{self, Known, Question};
use crate::prompt::{Hub, known};
use crate::run::Event;

/// What the journal calls an estimate: what a script makes of one must not change when the hub is not there at a resume, or is there again.
const KIND: &str = "estimate";

/// What is asked of an estimate: the question, and whether only this machine may be looked at.
pub(super) struct Asked {
    question: Question,
    offline: bool,
}

impl Asked {
    /// The options of a script.
    pub(super) fn of_script(mut options: Map) -> Result<Self> {
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

/// What a model needs, by its name.
pub(super) fn of_model(host: &Host, model: &str, asked: &Asked) -> Result<Value> {
    estimated(host, &Architecture::Model(model.to_owned()), asked)
}

/// What the model of an engine needs.
pub(super) fn of_engine(host: &Host, engine: &Engine, asked: &Asked) -> Result<Value> {
    estimated(host, &engine.architecture()?, asked)
}

/// What a model needs; one that is not there is kept as well.
fn estimated(host: &Host, model: &Architecture, asked: &Asked) -> Result<Value> {
    let mut args = json!({ "question": asked.question });
    match model {
        Architecture::Config(config) => args["config"] = config.clone(),
        Architecture::Model(name) => args["model"] = json!(name),
    }
    if asked.offline {
        args["offline"] = json!(true);
    }
    if let Some(answer) = host.run.replay(KIND, &args) {
        return again(answer);
    }
    let found = fresh(host, model, asked);
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

/// What an earlier life of the run found.
fn again(mut answer: Value) -> Result<Value> {
    let Some(missing) = answer["missing"].as_str() else {
        return Ok(answer["estimate"].take());
    };
    let fault = Fault::new(Kind::Missing, missing);
    Err(match answer["hint"].as_str() {
        Some(hint) => fault.hint(hint),
        None => fault,
    })
}

fn fresh(host: &Host, model: &Architecture, asked: &Asked) -> Result<Value> {
    let known = match model {
        Architecture::Config(config) => Known {
            config: config.clone(),
            ..Known::default()
        },
        Architecture::Model(name) => files(host, name, asked.offline)?,
    };
    let estimate = memory::estimate(&known, &asked.question)?;
    serde_json::to_value(estimate).map_err(|error| Fault::internal(error.to_string()))
}

/// What the files of a model say.
fn files(host: &Host, model: &str, offline: bool) -> Result<Known> {
    let model = host.permits.check_model(model, &host.settings.root())?;
    host.tasks.wait(async {
        let mut hub = Hub::from_env()?;
        hub.offline |= offline;
        known(&model, &hub).await
    })
}
