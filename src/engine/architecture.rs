//! Where the architecture of an engine's model is read: what an estimate of its memory stands on.

use std::path::Path;

use serde_json::Value;

use super::{Engine, Limits};
use crate::fault::{Fault, Result};
use crate::runtime::RuntimeKind;
use crate::sim::Spec;

/// What tells the architecture of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum Architecture {
    /// Its `config.json`, at hand.
    Config(Value),
    /// A folder, or a model of the hub.
    Model(String),
}

impl Engine {
    /// Where the architecture of its model is read. A simulated engine stands for the model of its profile, whatever it is called; one that was
    /// attached to knows best which one it serves, unless its folder was named.
    ///
    /// # Errors
    ///
    /// `missing` where no model is named.
    pub fn architecture(&self) -> Result<Architecture> {
        if let Some(config) = self.simulated_shape()? {
            return Ok(Architecture::Config(config));
        }
        let named = self.options.model.clone();
        if let Some(folder) = named.as_ref().filter(|model| Path::new(model).is_absolute()) {
            return Ok(Architecture::Model(folder.clone()));
        }
        let served = match self.runtime {
            RuntimeKind::Attach => self.info().model,
            _ => None,
        };
        served.or(named).map(Architecture::Model).ok_or_else(|| {
            Fault::missing(
                format!("the model of `{}` is not named", self.name()),
                "name it as `model`: its id or its folder",
            )
        })
    }

    /// That of the profile of a simulated engine, where the profile has one.
    fn simulated_shape(&self) -> Result<Option<Value>> {
        if self.runtime != RuntimeKind::Sim {
            return Ok(None);
        }
        let whole = self.whole(Limits::SMALLEST);
        let launch = self.adapter.launch(&self.adapter_options(Some(whole)))?;
        let Some(spec) = launch.sim else { return Ok(None) };
        let (profile, _) = Spec::of_script(spec, &self.context.home)?.resolve()?;
        profile.shape.map(|shape| shape.config()).transpose()
    }
}
