//! Finds the model architecture that memory estimates are based on.

use std::path::Path;

use serde_json::Value;

use super::{Engine, Limits};
use crate::fault::{Fault, Result};
use crate::runtime::RuntimeKind;
use crate::sim::Spec;

/// Where the model architecture comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Architecture {
    /// The contents of `config.json`.
    Config(Value),
    /// A local folder or a Hugging Face model id.
    Model(String),
}

impl Engine {
    /// The source of the model architecture. A simulated engine uses the model of its profile. An attached engine is
    /// asked which model it serves, unless a local folder was given.
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

    /// The architecture in the simulated engine's profile, if it has one.
    fn simulated_shape(&self) -> Result<Option<Value>> {
        if self.runtime != RuntimeKind::Sim {
            return Ok(None);
        }
        let whole = self.full_limits(Limits::SMALLEST);
        let launch = self.adapter.launch(&self.adapter_options(Some(whole)))?;
        let Some(spec) = launch.sim else { return Ok(None) };
        let (profile, _) = Spec::from_script(spec, &self.context.home)?.resolve()?;
        profile.shape.map(|shape| shape.config()).transpose()
    }
}
