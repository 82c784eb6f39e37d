//! Memory by the stages of an engine's life, for `engine.usage()`.
//!
//! Each stage is read once at the moment it ends: before the start, ready, after the first complete response, after the
//! stop. The peak comes from the sampler. This file decides when stages are read; `stage` defines one.

mod stage;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Instant;

use serde::Serialize;

pub use stage::{DeviceUsage, OverTime, ProcessUsage, Stage};

use super::Engine;
use super::handle::{Live, Running};
use super::server::Server;
use crate::fault::Result;
use crate::telemetry::{Phase, Reading, Sampler, Source};
use stage::Ownership;

/// Result of `engine.usage()`: the stages of the newest start; `None` for those not reached yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// The source: `nvml`, `amd`, `host` or `sim`.
    pub source: Option<String>,
    /// Seconds from launch to ready; `None` for an attached engine.
    pub start_seconds: Option<f64>,
    /// Before the start; `None` for an attached engine.
    pub baseline: Option<Stage>,
    /// Ready and idle, before the first request.
    pub loaded: Option<Stage>,
    /// After the first complete response; `over_time` begins with the first request.
    pub warmed: Option<Stage>,
    /// The peak since the start.
    pub peak: Option<Stage>,
    /// After the stop, once memory was released or the wait timed out; `None` for an attached engine.
    pub after: Option<Stage>,
}

/// The memory stages of one start so far.
#[derive(Default)]
pub(super) struct MemoryStages {
    /// Before the start.
    before: Option<Reading>,
    /// Every process id that ever belonged to the engine.
    ours: BTreeSet<u32>,
    /// Whether nobody else can use these devices: the memory of a process tree or a cgroup.
    alone: bool,
    /// Whether the engine was attached to.
    attached: bool,
    /// Times of the launch, of readiness and of the first request.
    began: Option<Instant>,
    ready: Option<Instant>,
    first: Option<Instant>,
    usage: Usage,
}

impl MemoryStages {
    fn ownership(&self, started: bool) -> Ownership<'_> {
        Ownership {
            ours: &self.ours,
            started,
            alone: self.alone,
            before: self.before.as_ref(),
            name: &command,
        }
    }

    fn stage(&self, reading: &Reading) -> Stage {
        Stage::at(reading, &self.ownership(true))
    }

    /// An attached engine; the memory before its start is unknown.
    pub(super) fn attached() -> Self {
        Self {
            attached: true,
            began: Some(Instant::now()),
            ..Self::default()
        }
    }

    /// Memory before the start, if known.
    pub(super) fn before(&self) -> Option<&Reading> {
        self.before.as_ref()
    }

    /// Sets the memory source. If only the engine's own processes count, nothing was in use before them.
    pub(super) fn watch(&mut self, server: &Server, source: &mut dyn Source) -> Result<()> {
        self.usage.source = Some(source.name().to_owned());
        self.alone = source.name() == "host";
        if self.attached {
            return Ok(());
        }
        if self.alone {
            self.before = Some(emptied(source.read()?));
        } else if let Some(before) = server.simulated_before() {
            self.before = Some(before);
        }
        self.usage.baseline = self
            .before
            .as_ref()
            .map(|before| Stage::at(before, &self.ownership(false)));
        Ok(())
    }

    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(super) fn record_peak(&mut self, sampler: &Sampler) {
        let mut peak = Stage::at_peak(&sampler.peak_snapshot(), &self.ownership(true));
        peak.over_time = over(sampler, &Phase::ALL, self.began, Instant::now());
        self.usage.peak = Some(peak);
    }
}

impl Engine {
    /// Memory by the stages of the newest start.
    ///
    /// # Errors
    ///
    /// Errors of listing the engine's processes.
    pub fn usage(&self) -> Result<Usage> {
        let mut live = self.lock();
        let Live { running, stages, .. } = &mut *live;
        if let Some(running) = running {
            self.record_processes(stages, &running.server)?;
            if stages.first.is_none() {
                self.record_loaded(stages, running)?;
            }
            if let Some(sampler) = &running.sampler {
                stages.record_peak(sampler);
            }
        }
        Ok(stages.usage.clone())
    }

    /// Begins a start: forgets the previous one and reads the GPUs.
    pub(super) fn begin_stages(&self, stages: &mut MemoryStages) -> Result<()> {
        *stages = MemoryStages {
            before: self.gpus()?.map(|mut source| source.read()).transpose()?,
            began: Some(Instant::now()),
            ..MemoryStages::default()
        };
        Ok(())
    }

    /// Records that the engine is ready.
    pub(super) fn record_ready(&self, stages: &mut MemoryStages, server: &Server) -> Result<()> {
        self.record_processes(stages, server)?;
        stages.ready = Some(Instant::now());
        if !stages.attached {
            stages.usage.start_seconds = stages.began.map(|began| began.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// Remembers the engine's process ids, because exited processes are no longer listed anywhere.
    pub(super) fn record_processes(&self, stages: &mut MemoryStages, server: &Server) -> Result<()> {
        stages.ours.extend(self.context.tasks.wait(server.pids())?);
        Ok(())
    }

    /// Requests begin. The first one ends the stage `loaded`.
    pub(super) fn begin_requests(&self, live: &mut Live) -> Result<()> {
        let Live { running, stages, .. } = live;
        let Some(running) = running else { return Ok(()) };
        if stages.first.is_none() {
            self.record_processes(stages, &running.server)?;
            self.record_loaded(stages, running)?;
            stages.first = Some(Instant::now());
        }
        if let Some(sampler) = &running.sampler {
            let warm = stages.usage.warmed.is_some();
            sampler.mark(if warm { Phase::Load } else { Phase::WarmUp });
        }
        Ok(())
    }

    /// Requests have ended; `whole` if one completed. The first completion ends the warm-up.
    pub(super) fn end_requests(&self, live: &mut Live, whole: bool) -> Result<()> {
        let Live { running, stages, .. } = live;
        let Some(running) = running else { return Ok(()) };
        let Some(sampler) = &running.sampler else { return Ok(()) };
        if whole && stages.usage.warmed.is_none() {
            self.record_processes(stages, &running.server)?;
            if let Some(reading) = self.read_memory(&running.server)? {
                sampler.add(&reading);
                stages.usage.warmed = Some(Stage {
                    over_time: over(sampler, &[Phase::WarmUp], stages.first, Instant::now()),
                    ..stages.stage(&reading)
                });
            }
        }
        sampler.mark(Phase::Ready);
        Ok(())
    }

    /// The engine is about to be stopped.
    pub(super) fn record_stopping(
        &self,
        stages: &mut MemoryStages,
        server: &Server,
        sampler: Option<&Sampler>,
    ) -> Result<()> {
        // Not interruptible, because the engine is stopped next in any case.
        stages.ours.extend(self.context.tasks.finish(server.pids())?);
        if let Some(sampler) = sampler {
            stages.record_peak(sampler);
            if !stages.attached {
                sampler.mark(Phase::After);
            }
        }
        Ok(())
    }

    /// The engine was stopped: waits for memory to be released and reads it a last time.
    pub(super) fn record_after_stop(
        &self,
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
            // Its processes are gone, and their memory with them.
            Some(emptied(sampler.latest()))
        } else {
            self.read_settled_memory(stages.before.as_ref(), server)?
        };
        if let Some(reading) = reading {
            sampler.add(&reading);
            stages.usage.after = Some(stages.stage(&reading));
        }
        Ok(())
    }

    fn record_loaded(&self, stages: &mut MemoryStages, running: &Running) -> Result<()> {
        let Some(sampler) = &running.sampler else { return Ok(()) };
        if let Some(reading) = self.read_memory(&running.server)? {
            sampler.add(&reading);
            stages.usage.loaded = Some(Stage {
                over_time: over(sampler, &[Phase::Ready], stages.ready, Instant::now()),
                ..stages.stage(&reading)
            });
        }
        Ok(())
    }
}

/// The same devices with nothing in use.
fn emptied(mut reading: Reading) -> Reading {
    reading.tenants.clear();
    reading.devices.iter_mut().for_each(|device| device.used = 0);
    reading
}

fn over(sampler: &Sampler, phases: &[Phase], from: Option<Instant>, to: Instant) -> Option<OverTime> {
    let from = from?;
    Some(OverTime {
        seconds: to.saturating_duration_since(from).as_secs_f64(),
        spread: sampler.spread(phases, from, to)?,
    })
}

/// The name of a process that is visible from here.
fn command(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}
