//! The architecture of an engine's model.

use std::path::Path;

use serde_json::Value;

use super::engine::Engine;
use super::report::info;
use crate::fault::{Fault, Result};
use crate::outside;
use crate::run::Limits;
use crate::runtime::RuntimeKind;
use crate::sim::{Profile, Spec};

/// Source of the model architecture.
#[derive(Clone, Debug, PartialEq)]
pub enum Architecture {
    /// The contents of `config.json`.
    Config(Value),
    /// A local folder or a Hugging Face model id.
    Model(String),
}

/// Finds the source of the model architecture. A simulated engine uses the model of its profile. An attached engine
/// reports the model that it serves, unless the user gave a local folder.
///
/// # Errors
///
/// `missing` if no model is named.
pub fn architecture(engine: &Engine) -> Result<Architecture> {
    if let Some(shape) = simulated_profile(engine)?.and_then(|profile| profile.shape) {
        return Ok(Architecture::Config(shape.config()?));
    }
    let named = engine.options.model.clone();
    if let Some(folder) = named.as_ref().filter(|model| Path::new(model).is_absolute()) {
        return Ok(Architecture::Model(folder.clone()));
    }
    if let Some(config) = config_in_container(engine)? {
        return Ok(Architecture::Config(config));
    }
    let served = match engine.runtime {
        RuntimeKind::Attach => info(engine).model,
        _ => None,
    };
    served.or(named).map(Architecture::Model).ok_or_else(|| {
        Fault::missing(
            format!("the model of `{}` is not named", engine.name()),
            "name it as `model`: its id or its folder",
        )
    })
}

/// The model's `config.json` in an attached container: from the folder that its command line names, or from its hub
/// cache.
fn config_in_container(engine: &Engine) -> Result<Option<Value>> {
    /// Large models have files of a few KiB.
    const MOST: u64 = 1 << 20;
    let live = engine.lock();
    let Some(running) = live.running.as_ref().filter(|_| engine.options.container.is_some()) else {
        return Ok(None);
    };
    let service = &running.server.service;
    let info = service.info();
    let Some(model) = info["model"]["name"].as_str().or(running.info.model.as_deref()) else {
        return Ok(None);
    };
    let read = async |path: String| service.read_file(&path, MOST).await;
    let text = engine.wait(async {
        if model.starts_with('/') {
            return read(format!("{model}/config.json")).await;
        }
        let variable = |name: &str| info["env"][name].as_str().map(str::to_owned);
        let home = variable("HF_HOME").unwrap_or_else(|| "/root/.cache/huggingface".to_owned());
        let cache = variable("HF_HUB_CACHE").unwrap_or_else(|| format!("{home}/hub"));
        let folder = format!("{cache}/models--{}", model.replace('/', "--"));
        let Some(commit) = read(format!("{folder}/refs/main")).await? else {
            return Ok(None);
        };
        let commit = String::from_utf8_lossy(&commit);
        read(format!("{folder}/snapshots/{}/config.json", commit.trim())).await
    })?;
    // Treat an unreadable file as absent: the hub may have the model.
    Ok(text.and_then(|text| outside::json(&text).ok()))
}

/// The profile of a simulated engine.
pub fn simulated_profile(engine: &Engine) -> Result<Option<Profile>> {
    if engine.runtime != RuntimeKind::Sim {
        return Ok(None);
    }
    let Some(spec) = engine.launch_for(Limits::SMALLEST)?.sim else {
        return Ok(None);
    };
    let (profile, _) = Spec::from_script(spec, &engine.context.home)?.resolve()?;
    Ok(Some(profile))
}
