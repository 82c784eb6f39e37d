//! Checks and previews a start without starting anything: what it needs, and `--dry-run`, which answers probes from a
//! simple memory model.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::info::Info;
use super::{Engine, Limits, Readiness, Rejection};
use crate::boundary::{Overload, Point, Verdict};
use crate::fault::{Fault, Kind, Result};
use crate::run::{Event, ProbeAnswer};
use crate::runtime::{RuntimeKind, image_is_present};
use crate::telemetry::select;

/// Maximum probes of a dry run.
const MAX_PROBES: u64 = 300;

impl Engine {
    /// Answers a probe of a boundary as if half of the memory between the search range's smallest and largest point
    /// were available. The first probe fits where there is no boundary yet. Any other probe, and one beyond the
    /// maximum, ends the script.
    pub(super) fn dry_run_probe(&self, point: &Point, requested: Limits, overload: Overload) -> Result<Value> {
        let mut live = self.lock();
        let whole = self.full_limits(requested);
        let fault = match live.dry_run_probes {
            0 => {
                let each = self.all().map(|engine| engine.preview(whole));
                each.collect::<Result<Vec<_>>>()?.swap_remove(0)
            }
            _ => self.dry_run_fault(),
        };
        let fits = match (self.context.axes)() {
            Some(axes) if live.dry_run_probes < MAX_PROBES => {
                let largest = Limits::from_axes(Some(&axes), requested).resident();
                requested.resident() <= requested.lower_ends(&axes).resident().midpoint(largest)
            }
            None if live.dry_run_probes == 0 => true,
            _ => return Err(fault),
        };
        live.dry_run_probes += 1;
        let verdict = if fits { Verdict::Ok } else { Verdict::Oom };
        let answer = ProbeAnswer {
            verdict,
            moves: verdict.moves(None, overload),
            point: point.clone(),
            ..ProbeAnswer::default()
        };
        serde_json::to_value(answer).map_err(Fault::internal)
    }

    /// Records the launch that would serve `whole`, and returns the fault that ends the script.
    pub(super) fn preview(&self, whole: Limits) -> Result<Fault> {
        let launch = match self.runtime {
            RuntimeKind::Attach => None,
            _ => Some(self.adapter.launch(&self.adapter_options(Some(whole)))?),
        };
        let origin = self.origin()?;
        let check = |launch| {
            let grant = self.context.permits.check_launch(self.runtime, launch, &origin)?;
            self.options.clone().check_files(&self.context).map(|()| grant)
        };
        let (refused, withheld) = match launch.as_ref().map(check) {
            Some(Ok(grant)) => (None, grant.withheld),
            Some(Err(fault)) => (Some(refusal_text(fault)), Vec::new()),
            None => (self.check_container().err().map(refusal_text), Vec::new()),
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
                "options": self.shown,
            }),
        })?;
        Ok(self.dry_run_fault())
    }

    /// Checks that the container to attach to is allowed. A URL was checked before.
    fn check_container(&self) -> Result<()> {
        let mut container = self.options.container.iter();
        container.try_for_each(|name| self.context.permits.check_attach(name))
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

/// What a start needs.
#[derive(Clone, Debug, Serialize)]
pub struct Needs {
    /// The runtime.
    pub runtime: RuntimeKind,
    /// Whether it is the simulated engine.
    pub simulated: bool,
    /// Docker: the image.
    pub image: Option<String>,
    /// Docker: whether the image is present; `None` if Docker does not answer.
    pub image_here: Option<bool>,
    /// Process: the program and its arguments.
    pub command: Vec<String>,
    /// The devices that it would use, as far as they can be read.
    pub devices: Vec<Device>,
    /// What prevents the start.
    pub missing: Vec<Fault>,
    /// What the start would go without, and how to allow it.
    pub withheld: Vec<String>,
}

/// A device with memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// UUID; for a simulated device its index.
    pub id: String,
    /// Product name.
    pub name: String,
    /// Capacity in bytes.
    pub total: u64,
}

impl Needs {
    /// Records an error as missing and returns `None`. Interruptions and internal errors are passed on.
    fn require<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(fault) if matches!(fault.kind, Kind::Interrupted | Kind::Internal) => Err(fault),
            Err(fault) => {
                self.missing.push(fault);
                Ok(None)
            }
        }
    }
}

impl Engine {
    /// Checks what a start with this engine's limits needs.
    ///
    /// # Errors
    ///
    /// `interrupted`. Missing things are part of the answer.
    pub fn needs(&self) -> Result<Needs> {
        let mut needs = Needs {
            runtime: self.runtime,
            simulated: self.runtime == RuntimeKind::Sim,
            image: None,
            image_here: None,
            command: Vec::new(),
            devices: Vec::new(),
            missing: Vec::new(),
            withheld: Vec::new(),
        };
        if self.runtime == RuntimeKind::Attach {
            let answers = self.answers();
            needs.require(answers)?;
            needs.devices = devices(&self.options.gpus).unwrap_or_default();
            return Ok(needs);
        }
        let Some(launch) = needs.require(self.launch_for(Limits::SMALLEST))? else {
            return Ok(needs);
        };
        let permits = &self.context.permits;
        let grant = needs.require(permits.check_launch(self.runtime, &launch, &self.origin()?))?;
        needs.withheld = grant.map(|grant| grant.withheld).unwrap_or_default();
        match self.runtime {
            RuntimeKind::Docker => {
                let image = launch.image.clone().unwrap_or_default();
                let here = self.wait(image_is_present(&image));
                needs.image_here = needs.require(here)?;
                needs.image = Some(image);
            }
            RuntimeKind::Process => {
                needs.require(found(launch.command.first()))?;
                needs.command.clone_from(&launch.command);
            }
            RuntimeKind::Sim | RuntimeKind::Attach => {}
        }
        let seen = self.devices_of(&launch.gpus);
        needs.devices = needs.require(seen)?.unwrap_or_default();
        Ok(needs)
    }

    /// Whether the attached engine is ready.
    fn answers(&self) -> Result<()> {
        match self.readiness(&self.find()?, &self.adapter_options(None))? {
            Readiness::Ready => Ok(()),
            Readiness::NotYet => Err(Fault::missing(
                "no ready engine answers there",
                "start it, or name the URL or container where it runs",
            )),
            Readiness::Rejecting(Rejection { message, remedy, .. }) => Err(Fault::missing(
                format!("the engine there is not ready: {message}"),
                remedy
                    .as_deref()
                    .unwrap_or("start it, or name the URL or container where it runs"),
            )),
            Readiness::Failed(why) => Err(Fault::missing(
                format!("the engine there is not ready: {}", why.trim()),
                "fix the engine",
            )),
        }
    }

    fn devices_of(&self, gpus: &[String]) -> Result<Vec<Device>> {
        let Some(profile) = self.simulated_profile()? else {
            return devices(gpus);
        };
        let count = self.options.tensor_parallel.unwrap_or(1);
        let device = |index: u64| Device {
            id: index.to_string(),
            name: profile.gpu.clone(),
            total: profile.memory.total(),
        };
        Ok((0..count).map(device).collect())
    }
}

fn devices(names: &[String]) -> Result<Vec<Device>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let chosen = select(names)?.into_iter();
    Ok(chosen
        .map(|gpu| Device {
            id: gpu.id,
            name: gpu.name,
            total: gpu.total,
        })
        .collect())
}

/// Whether a program is found in PATH.
fn found(program: Option<&String>) -> Result<()> {
    let program = program.map_or("", String::as_str);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let here = match program.contains('/') {
        true => Path::new(program).is_file(),
        false => !program.is_empty() && std::env::split_paths(&folders).any(|folder| folder.join(program).is_file()),
    };
    if here {
        return Ok(());
    }
    Err(Fault::missing(
        format!("there is no program `{program}`"),
        "install it, or name it with the option `program`",
    ))
}
