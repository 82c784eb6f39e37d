//! `--dry-run`: what would be started, without starting it.

use serde_json::{Value, json};

use super::info::Info;
use super::{Engine, Limits};
use crate::fault::{Fault, Result};
use crate::run::Event;
use crate::runtime::RuntimeKind;

impl Engine {
    /// Notes the launch that `whole` would lead to, and gives the fault that ends the script there.
    pub(super) fn preview(&self, whole: Limits) -> Result<Fault> {
        let launch = match self.runtime {
            RuntimeKind::Attach => Value::Null,
            _ => json!(self.adapter.launch(&self.adapter_options(Some(whole)))?),
        };
        let simulated = self.runtime == RuntimeKind::Sim;
        if simulated {
            self.context.run.set_simulated();
        }
        self.context.run.note(Event::Engine {
            info: json!({
                "info": Info::before(self.name(), self.options.model.as_deref(), simulated),
                "runtime": self.runtime,
                "limits": whole,
                "launch": launch,
                "options": self.options.shown(),
            }),
        })?;
        Ok(Fault::dry_run(match self.runtime {
            RuntimeKind::Attach => format!("`{}` would be asked", self.name()),
            _ => format!("`{}` would be started", self.name()),
        }))
    }
}
