//! Measures the memory of a running engine.

use std::io::{BufWriter, Write as _};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::engine::Engine;
use super::server::Server;
use super::state::{Live, Running};
use super::usage::{MemoryStages, Stage, Usage, UsageFile, emptied, over};
use crate::fault::Result;
use crate::run::EnginePhase;
use crate::run::{Event, WrittenFile, hide};
use crate::runtime::{RuntimeKind, server_url};
use crate::telemetry::host::{Cgroup, Roots, Tree};
use crate::telemetry::{
    Phase, Polled, Reading, SETTLE_SLACK, Sampler, Settled, Source, files, never_settled, require_alone, settle,
    unsettled,
};
use crate::warning::Warning;
use crate::{http, world};

/// Maximum wait for the release of memory before the last reading after a stop. The next start waits longer if needed.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two readings.
const PAUSE: Duration = Duration::from_millis(50);

/// Result of `engine.memory()`, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// In use on all devices of the engine.
    pub used: Option<u64>,
    /// Capacity of these devices.
    pub total: Option<u64>,
    /// The source: `nvml`, `amd`, `host` or `sim`.
    pub source: Option<String>,
    /// Each device.
    pub per_gpu: Vec<crate::telemetry::Device>,
    /// The processes on them, if the source reports any.
    pub processes: Vec<crate::telemetry::Tenant>,
}

/// Memory in use now; empty if the engine does not run or its memory cannot be read.
pub fn memory(engine: &Engine) -> Memory {
    let live = engine.lock();
    let sampler = live.running.as_ref().and_then(|running| running.sampler.as_ref());
    sampler.map_or_else(Memory::default, |sampler| {
        let reading = sampler.latest();
        Memory {
            used: Some(reading.used()),
            total: Some(reading.total()),
            source: Some(sampler.source().to_owned()),
            per_gpu: reading.devices,
            processes: reading.tenants,
        }
    })
}

/// Sends the current memory to the live view.
pub(crate) fn show_memory(engine: &Engine, sampler: &Sampler) -> Result<()> {
    let reading = sampler.latest();
    engine.context.run.note(Event::Memory {
        used: reading.used(),
        total: reading.total(),
    })
}

/// The memory source of the GPUs that the engine uses. A script's default `gpus: [0]` on a machine without GPUs
/// means host memory.
pub(crate) fn gpus(engine: &Engine) -> Result<Option<Box<dyn Source>>> {
    // A server on another machine does not use this machine's GPUs.
    let url = engine.options.url.as_deref().and_then(|url| server_url(url).ok());
    let elsewhere = url.is_some_and(|url| !http::is_loopback(&url));
    if engine.runtime == RuntimeKind::Sim || engine.options.gpus.is_empty() || elsewhere {
        return Ok(None);
    }
    (engine.context.gpus)(&engine.options.gpus)
}

/// Number of GPUs that the engine uses while it runs. The simulated engine has at least one.
pub(crate) fn gpu_count(engine: &Engine) -> Result<u64> {
    let named = engine.options.gpus.len() as u64;
    if engine.runtime == RuntimeKind::Sim {
        return Ok(named.max(1));
    }
    Ok(if gpus(engine)?.is_some() { named } else { 0 })
}

/// Waits until GPU memory is back to the baseline of the first start, and refuses GPUs that other processes use. Returns
/// what was seen; `None` if there is nothing to wait for. With `isolate`, memory that does not come back is a warning.
pub(crate) fn wait_for_baseline(engine: &Engine, baseline: &mut Option<Reading>) -> Result<Option<Settled>> {
    let (isolates, shared) = (engine.options.isolates(), engine.context.shared_gpu);
    if shared && !isolates {
        return Ok(None);
    }
    let Some(mut source) = gpus(engine)? else {
        return Ok(None);
    };
    let mut seen = Settled {
        back: true,
        ..Settled::default()
    };
    match baseline {
        Some(before) => {
            let patience = Duration::from_secs_f64(engine.options.settle_timeout.0);
            let (settled, now) = engine.wait(settle(source.as_mut(), before, patience))?;
            if !settled.back && !isolates {
                return Err(never_settled(before, &now, patience));
            }
            seen = settled;
        }
        None => *baseline = Some(source.read()?),
    }
    if !shared {
        // None of our processes run before a start.
        require_alone(&source.read()?, |_| false)?;
    }
    Ok(Some(seen))
}

/// The memory before a start of an engine that gets a fresh one for each point: as [`wait_for_baseline`] saw it, else
/// as it was after the last stop.
pub(crate) fn isolated(engine: &Engine, stages: &MemoryStages, seen: Option<Settled>) -> Result<Option<Settled>> {
    if !engine.options.isolates() {
        return Ok(None);
    }
    let stopped = stages.usage.baseline.as_ref().zip(stages.usage.after.as_ref());
    let of_stages = |(before, after): (&Stage, &Stage)| {
        let above = after.sum.saturating_sub(before.sum);
        Settled {
            seconds: 0.0,
            above,
            back: above <= SETTLE_SLACK,
        }
    };
    let seen = seen.or(stopped.map(of_stages)).unwrap_or(Settled {
        back: true,
        ..Settled::default()
    });
    if !seen.back {
        let (mib, seconds) = (seen.above >> 20, seen.seconds);
        let message = format!(
            "{mib} MiB of the last engine's memory were still in use {seconds:.0} s after it ended: the next point was not isolated from it"
        );
        engine
            .context
            .run
            .warn(Warning::new("not_isolated", message).sized(seen.above as f64))?;
    }
    Ok(Some(seen))
}

/// Starts to sample the memory of a server, if it can be read.
pub(crate) fn sample_memory(
    engine: &Engine,
    server: &Server,
    stages: &mut MemoryStages,
    phase: Phase,
) -> Result<Option<Sampler>> {
    match source(engine, server)? {
        Some(mut source) => {
            stages.watch(server, source.as_mut())?;
            Sampler::start_in(phase, stages.before.as_ref(), source, engine.options.sample_hz.0).map(Some)
        }
        None => {
            let message = format!("the memory of `{}` cannot be read: peaks are unknown", engine.name());
            engine.warn("memory_unknown", message)?;
            Ok(None)
        }
    }
}

fn source(engine: &Engine, server: &Server) -> Result<Option<Box<dyn Source>>> {
    // Samplers are threads that use the real clock, so a simulated world gets none.
    if world::current().is_some() {
        return Ok(None);
    }
    if let Some(read) = server.simulated() {
        return Ok(Some(Box::new(Polled::new("sim", move || Ok(read())))));
    }
    if let Some(source) = gpus(engine)? {
        return Ok(Some(source));
    }
    let roots = Roots::default();
    if let Some(folder) = engine.wait(server.service.cgroup())?
        && let Some(cgroup) = Cgroup::at(&folder, &roots)
    {
        return Ok(Some(Box::new(cgroup)));
    }
    let pids = engine.wait(server.service.pids())?;
    Ok(pids
        .first()
        .map(|pid| Box::new(Tree::new(*pid, roots)) as Box<dyn Source>))
}

/// Reads a server's memory, including processes, once; `None` if that is not possible now.
pub(crate) fn read_memory(engine: &Engine, server: &Server) -> Result<Option<Reading>> {
    let Some(mut source) = source(engine, server)? else {
        return Ok(None);
    };
    match source.read() {
        Ok(reading) => Ok(Some(reading)),
        // A cgroup disappears with its engine; the exit itself is reported elsewhere.
        Err(fault) => {
            let message = format!("memory could not be read: {fault}");
            engine.warn("memory_unread", message)?;
            Ok(None)
        }
    }
}

/// Reads the devices once they are back to `before`, or after a timeout.
pub(crate) fn read_settled_memory(
    engine: &Engine,
    before: Option<&Reading>,
    server: &Server,
) -> Result<Option<Reading>> {
    let deadline = Instant::now() + RELEASE_TIMEOUT.min(Duration::from_secs_f64(engine.options.settle_timeout.0));
    loop {
        let reading = read_memory(engine, server)?;
        let back = match (before, &reading) {
            (Some(before), Some(now)) => unsettled(before, now).is_empty(),
            (None, _) | (_, None) => true,
        };
        if back || Instant::now() >= deadline {
            return Ok(reading);
        }
        engine.context.tasks.sleep(PAUSE)?;
    }
}

/// Writes a server's memory samples to the run's folder: the files of [`files`], and `<name>.usage.json` with the
/// [`Usage`] and the sampler's health as `sampling`.
pub(crate) fn write_memory(engine: &Engine, name: &str, sampler: Option<Sampler>, usage: &Usage) -> Result<()> {
    if let Some(sampler) = sampler {
        let record = sampler.stop();
        for (end, text) in files(&record) {
            // Command lines of processes can hold secrets.
            let text = hide(&String::from_utf8_lossy(&text)).into_owned();
            let write = |out: &mut BufWriter<WrittenFile>| out.write_all(text.as_bytes());
            engine.context.run.write("memory", &format!("{name}{end}"), write)?;
        }
        // Late, lost and failed samples belong to the results.
        let kept = json!(UsageFile {
            usage: usage.clone(),
            sampling: record.health,
        });
        let name = format!("{name}.usage.json");
        engine
            .context
            .run
            .write("memory", &name, |file| writeln!(file, "{kept:#}"))?;
    }
    Ok(())
}

/// Memory by the stages of the newest start.
///
/// # Errors
///
/// Errors of listing the engine's processes.
pub fn usage(engine: &Engine) -> Result<Usage> {
    let mut live = engine.lock();
    let Live { running, stages, .. } = &mut *live;
    if let Some(running) = running {
        record_processes(engine, stages, &running.server)?;
        if stages.first.is_none() {
            record_loaded(engine, stages, running)?;
        }
        if let Some(sampler) = &running.sampler {
            stages.record_peak(sampler);
        }
    }
    Ok(stages.usage.clone())
}

/// Reads the memory of the engine now that it is ready.
pub(crate) fn record_ready(engine: &Engine, stages: &mut MemoryStages, server: &Server) -> Result<()> {
    record_processes(engine, stages, server)?;
    stages.ready = Some(Instant::now());
    if !stages.attached {
        stages.usage.start_seconds = stages.began.map(|began| began.elapsed().as_secs_f64());
    }
    Ok(())
}

pub(crate) fn record_processes(engine: &Engine, stages: &mut MemoryStages, server: &Server) -> Result<()> {
    stages.ours.extend(engine.wait(server.service.pids())?);
    Ok(())
}

/// Call before requests. The first call ends the stage `loaded`.
pub(crate) fn begin_requests(engine: &Engine, live: &mut Live) -> Result<()> {
    let Live { running, stages, .. } = live;
    let Some(running) = running else { return Ok(()) };
    if stages.first.is_none() {
        record_processes(engine, stages, &running.server)?;
        record_loaded(engine, stages, running)?;
        stages.first = Some(Instant::now());
    }
    if let Some(sampler) = &running.sampler {
        let is_warm = stages.usage.warmed.is_some();
        sampler.mark(if is_warm { Phase::Load } else { Phase::WarmUp });
    }
    Ok(())
}

/// Call after requests; `whole` if one completed. The first completion ends the warm-up.
pub(crate) fn end_requests(engine: &Engine, live: &mut Live, whole: bool) -> Result<()> {
    let Live { running, stages, .. } = live;
    let Some(running) = running else { return Ok(()) };
    let Some(sampler) = &running.sampler else { return Ok(()) };
    if whole && stages.usage.warmed.is_none() {
        record_processes(engine, stages, &running.server)?;
        if let Some(stage) = read_stage(engine, stages, running, Phase::WarmUp, stages.first)? {
            stages.usage.warmed = Some(stage);
        }
    }
    sampler.mark(Phase::Ready);
    Ok(())
}

/// Stops a server, reads the memory once more after its release, and writes the recorded samples.
pub(crate) fn end_server(
    engine: &Engine,
    stages: &mut MemoryStages,
    server: &Server,
    sampler: Option<Sampler>,
    shown: &str,
) -> Result<()> {
    // Not interruptible, because the engine is stopped in any case.
    stages.ours.extend(engine.context.tasks.finish(server.service.pids())?);
    if let Some(sampler) = &sampler {
        stages.record_peak(sampler);
        if !stages.attached {
            sampler.mark(Phase::After);
        }
    }
    engine.context.tasks.finish(server.service.stop(engine.grace()))?;
    let ended = record_after_stop(engine, stages, server, sampler.as_ref());
    write_memory(engine, server.service.name(), sampler, &stages.usage)?;
    ended?;
    engine.phase(EnginePhase::Stopped, shown)
}

fn record_after_stop(
    engine: &Engine,
    stages: &mut MemoryStages,
    server: &Server,
    sampler: Option<&Sampler>,
) -> Result<()> {
    let Some(sampler) = sampler else { return Ok(()) };
    stages.record_peak(sampler);
    // An attached engine keeps running.
    if stages.attached {
        return Ok(());
    }
    let reading = if stages.alone {
        // The memory of the engine's own processes is gone with them.
        Some(emptied(sampler.latest()))
    } else {
        read_settled_memory(engine, stages.before.as_ref(), server)?
    };
    if let Some(reading) = reading {
        sampler.add(&reading);
        stages.usage.after = Some(stages.stage(&reading));
    }
    Ok(())
}

fn record_loaded(engine: &Engine, stages: &mut MemoryStages, running: &Running) -> Result<()> {
    if let Some(stage) = read_stage(engine, stages, running, Phase::Ready, stages.ready)? {
        stages.usage.loaded = Some(stage);
    }
    Ok(())
}

/// Reads the memory at the end of a stage. Its `over_time` covers `phase` since `from`.
fn read_stage(
    engine: &Engine,
    stages: &MemoryStages,
    running: &Running,
    phase: Phase,
    from: Option<Instant>,
) -> Result<Option<Stage>> {
    let Some(sampler) = &running.sampler else {
        return Ok(None);
    };
    let Some(reading) = read_memory(engine, &running.server)? else {
        return Ok(None);
    };
    sampler.add(&reading);
    Ok(Some(Stage {
        over_time: over(sampler, &[phase], from),
        ..stages.stage(&reading)
    }))
}

impl Drop for Engine {
    /// Writes the memory recorded so far: a script may end without stopping its engine, which the run then stops.
    fn drop(&mut self) {
        let mut live = self.lock();
        let Some(running) = live.running.take() else { return };
        if let Some(sampler) = &running.sampler {
            live.stages.record_peak(sampler);
        }
        let usage = live.stages.usage.clone();
        if let Err(fault) = write_memory(self, running.server.service.name(), running.sampler, &usage) {
            // The run continues; the warning says what is missing.
            let message = format!("the memory series was not written: {fault}");
            let _ = self.warn("series_not_written", message);
        }
    }
}
