//! Journals the measurements of one trial of an experiment.

use serde_json::{Value, json};

use super::{Engine, Limits};
use crate::fault::Fault;
use crate::run::Event;

impl Engine {
    /// Returns the journaled answer of the trial `what`, or runs `work` and journals its answer. What an interrupted
    /// run measured in an unfinished trial is discarded, including its loads.
    ///
    /// A dry run only previews the first launch and returns null.
    ///
    /// # Errors
    ///
    /// Errors of `work`; `missing` if the journal cannot be written.
    pub fn trial<E: From<Fault>>(&self, what: &Value, work: impl FnOnce() -> Result<Value, E>) -> Result<Value, E> {
        let run = &self.context.run;
        if self.context.dry_run {
            self.preview_trial()?;
            return Ok(Value::Null);
        }
        let args = json!({ "engine": self.name(), "launch": self.options.shown(), "trial": what });
        if let Some(answer) = run.replay("experiment", &args) {
            return Ok(answer);
        }
        let kind = || "experiment".to_owned();
        run.note(Event::Began {
            kind: kind(),
            args: args.clone(),
        })?;
        self.phase("measuring", what["setting"].as_str().unwrap_or_default())?;
        match work() {
            Ok(answer) => {
                run.note(Event::Done {
                    kind: kind(),
                    args,
                    answer: answer.clone(),
                })?;
                Ok(answer)
            }
            Err(error) => {
                run.note(Event::GivenUp { kind: kind(), args })?;
                Err(error)
            }
        }
    }

    fn preview_trial(&self) -> Result<(), Fault> {
        let mut live = self.lock();
        live.dry_run_probes += 1;
        if live.dry_run_probes == 1 {
            // The preview's fault would end the script; an experiment continues with its next setting.
            let _end = self.preview(self.full_limits(Limits::SMALLEST))?;
        }
        Ok(())
    }
}
