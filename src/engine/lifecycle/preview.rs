//! Checks and previews a start without starting anything: its requirements, and the preview of `--dry-run`.

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::architecture::simulated_profile;
use super::engine::Engine;
use super::start::find_server;
use super::state::Info;
use crate::engine::adapter::{Readiness, Rejection};
use crate::fault::{Fault, Kind, Result};
use crate::run::{Event, Limits};
use crate::runtime::{Launch, RuntimeKind, image_is_present};
use crate::telemetry::select;

/// Records the launch that would serve the limits `whole`, and returns the fault that ends the script.
pub(crate) fn preview(engine: &Engine, whole: Limits) -> Result<Fault> {
    let launch = match engine.runtime {
        RuntimeKind::Attach => None,
        _ => Some(engine.launch_for(whole)?),
    };
    let origin = engine.origin()?;
    let check = |launch| {
        let grant = engine.context.permits.check_launch(engine.runtime, launch, &origin)?;
        engine.options.clone().check_files(&engine.context).map(|()| grant)
    };
    let (refused, withheld) = match launch.as_ref().map(check) {
        Some(Ok(grant)) => (None, grant.withheld),
        Some(Err(fault)) => (Some(refusal_text(fault)), Vec::new()),
        None => (check_container(engine).err().map(refusal_text), Vec::new()),
    };
    let simulated = engine.runtime == RuntimeKind::Sim;
    if simulated {
        engine.context.run.set_simulated();
    }
    // Where no GPU is named, a launch is often previewed on a machine without one.
    // The NVIDIA toolkit accepts names that NVML does not list, such as MIG instances.
    let are_indices = |launch: &&Launch| launch.gpus.iter().all(|name| name.parse::<u32>().is_ok());
    let indexed = launch.as_ref().filter(are_indices).filter(|_| !simulated);
    let no_gpu = indexed.and_then(|launch| devices(&launch.gpus).err());
    engine.context.run.note(Event::Engine {
        info: json!({
            "info": Info::before(engine.name(), engine.options.model.as_deref(), simulated),
            "runtime": engine.runtime,
            "limits": whole,
            "launch": launch,
            "not_allowed": refused,
            "no_gpu": no_gpu.map(refusal_text),
            "withheld": withheld,
            "options": engine.shown,
        }),
    })?;
    Ok(dry_run_fault(engine))
}

/// Checks that the container to attach to is permitted. A URL was checked earlier.
fn check_container(engine: &Engine) -> Result<()> {
    engine
        .options
        .container
        .iter()
        .try_for_each(|name| engine.context.permits.check_attach(name))
}

pub(crate) fn dry_run_fault(engine: &Engine) -> Fault {
    Fault::dry_run(match engine.runtime {
        RuntimeKind::Attach => format!("`{}` would be sent requests", engine.name()),
        _ => format!("`{}` would be started", engine.name()),
    })
}

/// The reason and the remedy of a refused launch.
fn refusal_text(fault: Fault) -> String {
    match fault.hint {
        Some(hint) => format!("{}: {hint}", fault.message),
        None => fault.message,
    }
}

/// The requirements of a start.
#[derive(Clone, Debug, Serialize)]
pub struct Needs {
    /// The runtime.
    pub runtime: RuntimeKind,
    /// Whether the engine is simulated.
    pub simulated: bool,
    /// Docker: the image.
    pub image: Option<String>,
    /// Docker: whether the image is present; `None` if Docker does not answer.
    pub image_here: Option<bool>,
    /// Process: the program and its arguments.
    pub command: Vec<String>,
    /// The devices that it would use, if they can be read.
    pub devices: Vec<Device>,
    /// Faults that prevent the start.
    pub missing: Vec<Fault>,
    /// Things that the start would do without, and how to allow them.
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

/// Checks the requirements of a start with this engine's limits.
///
/// # Errors
///
/// `interrupted`. Missing things are part of the answer.
pub fn needs(engine: &Engine) -> Result<Needs> {
    let mut needs = Needs {
        runtime: engine.runtime,
        simulated: engine.runtime == RuntimeKind::Sim,
        image: None,
        image_here: None,
        command: Vec::new(),
        devices: Vec::new(),
        missing: Vec::new(),
        withheld: Vec::new(),
    };
    if engine.runtime == RuntimeKind::Attach {
        let answers = answers(engine);
        needs.require(answers)?;
        needs.devices = devices(&engine.options.gpus).unwrap_or_default();
        return Ok(needs);
    }
    let Some(launch) = needs.require(engine.launch_for(Limits::SMALLEST))? else {
        return Ok(needs);
    };
    let permits = &engine.context.permits;
    let grant = needs.require(permits.check_launch(engine.runtime, &launch, &engine.origin()?))?;
    needs.withheld = grant.map(|grant| grant.withheld).unwrap_or_default();
    match engine.runtime {
        RuntimeKind::Docker => {
            let image = launch.image.clone().unwrap_or_default();
            let here = engine.wait(image_is_present(&image));
            needs.image_here = needs.require(here)?;
            needs.image = Some(image);
        }
        RuntimeKind::Process if engine.options.container.is_some() => needs.command.clone_from(&launch.command),
        RuntimeKind::Process => {
            needs.require(found(launch.command.first()))?;
            needs.command.clone_from(&launch.command);
        }
        RuntimeKind::Sim | RuntimeKind::Attach => {}
    }
    let seen = devices_of(engine, &launch.gpus);
    needs.devices = needs.require(seen)?.unwrap_or_default();
    Ok(needs)
}

/// Whether the attached engine is ready.
fn answers(engine: &Engine) -> Result<()> {
    match engine.readiness(&find_server(engine)?, &engine.adapter_options(None))? {
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

fn devices_of(engine: &Engine, gpus: &[String]) -> Result<Vec<Device>> {
    let Some(profile) = simulated_profile(engine)? else {
        return devices(gpus);
    };
    let count = engine.options.tensor_parallel.unwrap_or(1);
    let device = |index: u64| Device {
        id: index.to_string(),
        name: profile.gpu.clone(),
        total: profile.memory.total(),
    };
    Ok((0..count).map(device).collect())
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
    let here = if program.contains('/') {
        Path::new(program).is_file()
    } else {
        !program.is_empty() && std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    };
    if here {
        return Ok(());
    }
    Err(Fault::missing(
        format!("there is no program `{program}`"),
        "install it, or name it with the option `program`",
    ))
}
