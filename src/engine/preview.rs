//! `--dry-run`: shows what would be started, and answers probes from a simple memory model.

use serde_json::{Value, json};

use super::answer::ProbeAnswer;
use super::info::Info;
use super::{Engine, Limits};
use crate::boundary::{Overload, Point, Verdict};
use crate::fault::{Fault, Result};
use crate::run::Event;
use crate::runtime::RuntimeKind;

/// Maximum probes of a dry run.
const MAX_PROBES: u64 = 300;

impl Engine {
    /// Answers a probe of a boundary as if half of the memory between the search range's smallest and largest point
    /// were available. Any other probe, and one beyond the maximum, ends the script.
    pub(super) fn dry_run_probe(&self, point: &Point, requested: Limits, overload: Overload) -> Result<Value> {
        let mut live = self.lock();
        let whole = self.full_limits(requested);
        let fault = match live.dry_run_probes {
            0 => self.preview(whole)?,
            _ => self.dry_run_fault(),
        };
        let axes = match (self.context.axes)() {
            Some(axes) if live.dry_run_probes < MAX_PROBES => axes,
            _ => return Err(fault),
        };
        live.dry_run_probes += 1;
        let largest = Limits::from_axes(Some(&axes), requested).resident();
        let room = requested.lower_ends(&axes).resident().midpoint(largest);
        let verdict = if requested.resident() <= room {
            Verdict::Ok
        } else {
            Verdict::Oom
        };
        let answer = ProbeAnswer {
            verdict,
            moves: verdict.moves(None, overload),
            ..ProbeAnswer::empty(point)
        };
        serde_json::to_value(answer).map_err(|error| Fault::internal(error.to_string()))
    }

    /// Records the launch that would serve `whole`, and returns the fault that ends the script.
    pub(super) fn preview(&self, whole: Limits) -> Result<Fault> {
        let launch = match self.runtime {
            RuntimeKind::Attach => None,
            _ => Some(self.adapter.launch(&self.adapter_options(Some(whole)))?),
        };
        let shipped = self.shipped_image();
        let check = |launch| self.context.permits.check_launch(self.runtime, launch, shipped);
        let (refused, withheld) = match launch.as_ref().map(check) {
            Some(Ok(grant)) => (None, grant.withheld),
            Some(Err(fault)) => (Some(refusal_text(fault)), Vec::new()),
            None => (None, Vec::new()),
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
                "not_allowed": refused,
                "withheld": withheld,
                "options": self.options.shown(),
            }),
        })?;
        Ok(self.dry_run_fault())
    }

    fn dry_run_fault(&self) -> Fault {
        Fault::dry_run(match self.runtime {
            RuntimeKind::Attach => format!("`{}` would be sent requests", self.name()),
            _ => format!("`{}` would be started", self.name()),
        })
    }
}

/// The reason and the remedy of a refused launch.
fn refusal_text(fault: Fault) -> String {
    match fault.hint {
        Some(hint) => format!("{}: {hint}", fault.message),
        None => fault.message,
    }
}
