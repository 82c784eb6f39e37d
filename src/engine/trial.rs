//! One start of an experiment: measured once, and answered from the journal after that.

use serde_json::{Value, json};

use super::{Engine, Limits};
use crate::fault::Fault;
use crate::run::Event;

impl Engine {
    /// The answer of `work`, kept in the journal under this engine's launch and `what`; an earlier life's answer, where there is one, with no work. What
    /// `work` asks of engines counts for nothing without its end: an earlier life that did not come to it is forgotten, loads and all.
    ///
    /// A dry run previews the launch, the first time, and gives null.
    ///
    /// # Errors
    ///
    /// What `work` fails with, and `missing` when the journal cannot be written.
    pub fn trial<E: From<Fault>>(&self, what: &Value, work: impl FnOnce() -> Result<Value, E>) -> Result<Value, E> {
        let run = &self.context.run;
        if self.context.dry_run {
            self.rehearse_trial()?;
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

    fn rehearse_trial(&self) -> Result<(), Fault> {
        let mut live = self.lock();
        live.rehearsed += 1;
        if live.rehearsed == 1 {
            // What it gives would end the script here; an experiment goes on to its next setting.
            let _end = self.preview(self.whole(Limits::SMALLEST))?;
        }
        Ok(())
    }
}
