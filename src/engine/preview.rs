//! `--dry-run`: what would be started, without starting it, and answers with which a search can be rehearsed.

use serde_json::{Value, json};

use super::answer::ProbeAnswer;
use super::info::Info;
use super::{Engine, Limits};
use crate::boundary::{Overload, Point, Verdict};
use crate::fault::{Fault, Result};
use crate::run::Event;
use crate::runtime::RuntimeKind;

/// Probes that are rehearsed at most.
const MOST: u64 = 300;

impl Engine {
    /// Answers a probe of a boundary as an engine would that has room for half of what the box asks between its smallest and its
    /// largest point. Any other probe, and the last that is rehearsed, ends the script.
    pub(super) fn rehearse(&self, point: &Point, asked: Limits, overload: Overload) -> Result<Value> {
        let mut live = self.lock();
        let whole = self.whole(asked);
        let end = match live.rehearsed {
            0 => self.preview(whole)?,
            _ => self.end_of_preview(),
        };
        let axes = match (self.context.axes)() {
            Some(axes) if live.rehearsed < MOST => axes,
            _ => return Err(end),
        };
        live.rehearsed += 1;
        let largest = Limits::of_box(Some(&axes), asked).resident();
        let room = asked.smallest_of_box(&axes).resident().midpoint(largest);
        let verdict = if asked.resident() <= room {
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

    /// Notes the launch that `whole` would lead to, and gives the fault that ends the script there.
    pub(super) fn preview(&self, whole: Limits) -> Result<Fault> {
        let launch = match self.runtime {
            RuntimeKind::Attach => None,
            _ => Some(self.adapter.launch(&self.adapter_options(Some(whole)))?),
        };
        let shipped = self.shipped_image();
        let asked = |launch| self.context.permits.check_launch(self.runtime, launch, shipped);
        let (refused, withheld) = match launch.as_ref().map(asked) {
            Some(Ok(grant)) => (None, grant.withheld),
            Some(Err(fault)) => (Some(told(fault)), Vec::new()),
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
        Ok(self.end_of_preview())
    }

    fn end_of_preview(&self) -> Fault {
        Fault::dry_run(match self.runtime {
            RuntimeKind::Attach => format!("`{}` would be asked", self.name()),
            _ => format!("`{}` would be started", self.name()),
        })
    }
}

/// What a start would be refused for, and the remedy.
fn told(fault: Fault) -> String {
    match fault.hint {
        Some(hint) => format!("{}: {hint}", fault.message),
        None => fault.message,
    }
}
