//! Measures the memory of a running engine for probes and scripts.

use std::io::{BufWriter, Write as _};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::handle::{Live, Running};
use super::start::Server;
use super::usage::{MemoryStages, emptied, over};
use super::{Engine, Stage, Usage, UsageFile};
use crate::fault::Result;
use crate::run::{Event, ProbeAnswer, WrittenFile, hide};
use crate::runtime::{RuntimeKind, server_url};
use crate::telemetry::host::{Cgroup, Roots, Tree};
use crate::telemetry::{Phase, Polled, Reading, Sampler, Series, Source, files, require_alone, settle, unsettled};
use crate::{http, world};

/// How long memory may take to be released before the last reading after a stop. The next start waits longer if needed.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two readings.
const PAUSE: Duration = Duration::from_millis(50);

/// Maximum rows of the series in a probe's answer; the run's folder has all of them.
const MAX_ROWS: usize = 200;

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

impl Engine {
    /// Memory in use now; empty if the engine does not run or its memory cannot be read.
    pub fn memory(&self) -> Memory {
        let live = self.lock();
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
    pub(super) fn show_memory(&self, sampler: &Sampler) -> Result<()> {
        let reading = sampler.latest();
        self.context.run.note(Event::Memory {
            used: reading.used(),
            total: reading.total(),
        })
    }

    /// The memory source of the GPUs that the engine uses. A script's default `gpus: [0]` on a machine without GPUs
    /// means host memory.
    pub(super) fn gpus(&self) -> Result<Option<Box<dyn Source>>> {
        // The GPUs of a server on another machine are not this machine's.
        let url = self.options.url.as_deref().and_then(|url| server_url(url).ok());
        let elsewhere = url.is_some_and(|url| !http::is_loopback(&url));
        if self.runtime == RuntimeKind::Sim || self.options.gpus.is_empty() || elsewhere {
            return Ok(None);
        }
        (self.context.gpus)(&self.options.gpus)
    }

    /// Number of GPUs that the engine uses while it runs. The simulated engine has at least one.
    pub(super) fn gpu_count(&self) -> Result<u64> {
        let named = self.options.gpus.len() as u64;
        if self.runtime == RuntimeKind::Sim {
            return Ok(named.max(1));
        }
        Ok(if self.gpus()?.is_some() { named } else { 0 })
    }

    /// Waits until GPU memory is back to the baseline before the first start, and refuses GPUs that other processes
    /// use.
    pub(super) fn wait_for_baseline(&self, baseline: &mut Option<Reading>) -> Result<()> {
        if self.context.shared_gpu {
            return Ok(());
        }
        let Some(mut source) = self.gpus()? else { return Ok(()) };
        match baseline {
            Some(before) => {
                let patience = Duration::from_secs_f64(self.options.settle_timeout.0);
                self.wait(settle(source.as_mut(), before, patience))?;
            }
            None => *baseline = Some(source.read()?),
        }
        // None of our processes run before a start.
        require_alone(&source.read()?, |_| false)
    }

    /// Starts to sample the memory of a server, if it can be read.
    pub(super) fn sample_memory(
        &self,
        server: &Server,
        stages: &mut MemoryStages,
        phase: Phase,
    ) -> Result<Option<Sampler>> {
        match self.source(server)? {
            Some(mut source) => {
                stages.watch(server, source.as_mut())?;
                Sampler::start_in(phase, stages.before.as_ref(), source, self.options.sample_hz.0).map(Some)
            }
            None => {
                let message = format!("the memory of `{}` cannot be read: peaks are unknown", self.name());
                self.warn("memory_unknown", message)?;
                Ok(None)
            }
        }
    }

    fn source(&self, server: &Server) -> Result<Option<Box<dyn Source>>> {
        // Samplers are threads that live by the clock of the real machine.
        if world::current().is_some() {
            return Ok(None);
        }
        if let Some(read) = server.simulated() {
            return Ok(Some(Box::new(Polled::new("sim", move || Ok(read())))));
        }
        if let Some(source) = self.gpus()? {
            return Ok(Some(source));
        }
        let roots = Roots::default();
        if let Some(folder) = self.wait(server.service.cgroup())?
            && let Some(cgroup) = Cgroup::at(&folder, &roots)
        {
            return Ok(Some(Box::new(cgroup)));
        }
        let pids = self.wait(server.service.pids())?;
        Ok(pids
            .first()
            .map(|pid| Box::new(Tree::new(*pid, roots)) as Box<dyn Source>))
    }

    /// Reads a server's memory, including processes, once; `None` if that is not possible now.
    pub(super) fn read_memory(&self, server: &Server) -> Result<Option<Reading>> {
        let Some(mut source) = self.source(server)? else {
            return Ok(None);
        };
        match source.read() {
            Ok(reading) => Ok(Some(reading)),
            // A cgroup disappears with its engine; the exit itself is reported elsewhere.
            Err(fault) => {
                let message = format!("memory could not be read: {fault}");
                self.warn("memory_unread", message)?;
                Ok(None)
            }
        }
    }

    /// Reads the devices once they are back to `before`, or after a timeout.
    pub(super) fn read_settled_memory(&self, before: Option<&Reading>, server: &Server) -> Result<Option<Reading>> {
        let deadline = Instant::now() + RELEASE_TIMEOUT.min(Duration::from_secs_f64(self.options.settle_timeout.0));
        loop {
            let reading = self.read_memory(server)?;
            let back = match (before, &reading) {
                (Some(before), Some(now)) => unsettled(before, now).is_empty(),
                (None, _) | (_, None) => true,
            };
            if back || Instant::now() >= deadline {
                return Ok(reading);
            }
            self.context.tasks.sleep(PAUSE)?;
        }
    }

    /// Writes a server's memory samples to the run's folder: the files of [`files`], and `<name>.usage.json` with the
    /// [`Usage`] and the sampler's health as `sampling`.
    pub(super) fn write_memory(&self, name: &str, sampler: Option<Sampler>, usage: &Usage) -> Result<()> {
        if let Some(sampler) = sampler {
            let record = sampler.stop();
            for (end, text) in files(&record) {
                // Command lines of processes can hold secrets.
                let text = hide(&String::from_utf8_lossy(&text)).into_owned();
                let write = |out: &mut BufWriter<WrittenFile>| out.write_all(text.as_bytes());
                self.context.run.write("memory", &format!("{name}{end}"), write)?;
            }
            // Late, lost and failed samples belong to the results.
            let kept = json!(UsageFile {
                usage: usage.clone(),
                sampling: record.health,
            });
            let name = format!("{name}.usage.json");
            self.context
                .run
                .write("memory", &name, |file| writeln!(file, "{kept:#}"))?;
        }
        Ok(())
    }
}

/// Notes in an answer what memory the engine used in a time window.
pub(super) fn describe_memory(answer: &mut ProbeAnswer, sampler: &Sampler, from: Instant) {
    let to = Instant::now();
    let series = sampler.between(from, to);
    // The peak of a longer output is not this point's.
    let of_point = answer.evidence.longer_output.is_none();
    answer.peak = series.peak().filter(|_| of_point);
    answer.evidence.memory = series.rows().last().map(|row| row.total);
    answer.series = downsample(&series);
}

/// Seconds since the first row, and bytes. Adjacent rows are merged to their peak if there are too many.
fn downsample(series: &Series) -> Vec<(f64, u64)> {
    let rows = series.rows();
    let Some(first) = rows.first() else { return Vec::new() };
    rows.chunks(rows.len().div_ceil(MAX_ROWS).max(1))
        .map(|chunk| {
            let peak = chunk.iter().map(|row| row.total).max().unwrap_or_default();
            ((chunk[0].from - first.from) as f64 / 1e6, peak)
        })
        .collect()
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

    /// Records that the engine is ready.
    pub(super) fn record_ready(&self, stages: &mut MemoryStages, server: &Server) -> Result<()> {
        self.record_processes(stages, server)?;
        stages.ready = Some(Instant::now());
        if !stages.attached {
            stages.usage.start_seconds = stages.began.map(|began| began.elapsed().as_secs_f64());
        }
        Ok(())
    }

    pub(super) fn record_processes(&self, stages: &mut MemoryStages, server: &Server) -> Result<()> {
        stages.ours.extend(self.wait(server.service.pids())?);
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
            let is_warm = stages.usage.warmed.is_some();
            sampler.mark(if is_warm { Phase::Load } else { Phase::WarmUp });
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
            if let Some(stage) = self.read_stage(stages, running, Phase::WarmUp, stages.first)? {
                stages.usage.warmed = Some(stage);
            }
        }
        sampler.mark(Phase::Ready);
        Ok(())
    }

    /// Stops a server, reads its memory a last time once it was released, and writes what was recorded.
    pub(super) fn end_server(
        &self,
        stages: &mut MemoryStages,
        server: &Server,
        sampler: Option<Sampler>,
        shown: &str,
    ) -> Result<()> {
        // Not interruptible, because the engine is stopped in any case.
        stages.ours.extend(self.context.tasks.finish(server.service.pids())?);
        if let Some(sampler) = &sampler {
            stages.record_peak(sampler);
            if !stages.attached {
                sampler.mark(Phase::After);
            }
        }
        self.context.tasks.finish(server.service.stop(self.grace()))?;
        let ended = self.record_after_stop(stages, server, sampler.as_ref());
        self.write_memory(server.service.name(), sampler, &stages.usage)?;
        ended?;
        self.phase("stopped", shown)
    }

    fn record_after_stop(&self, stages: &mut MemoryStages, server: &Server, sampler: Option<&Sampler>) -> Result<()> {
        let Some(sampler) = sampler else { return Ok(()) };
        stages.record_peak(sampler);
        // An attached engine keeps running.
        if stages.attached {
            return Ok(());
        }
        let reading = match stages.alone {
            // The memory of the engine's own processes is gone with them.
            true => Some(emptied(sampler.latest())),
            false => self.read_settled_memory(stages.before.as_ref(), server)?,
        };
        if let Some(reading) = reading {
            sampler.add(&reading);
            stages.usage.after = Some(stages.stage(&reading));
        }
        Ok(())
    }

    fn record_loaded(&self, stages: &mut MemoryStages, running: &Running) -> Result<()> {
        if let Some(stage) = self.read_stage(stages, running, Phase::Ready, stages.ready)? {
            stages.usage.loaded = Some(stage);
        }
        Ok(())
    }

    /// Reads the memory at the end of a stage, which was a phase since a moment.
    fn read_stage(
        &self,
        stages: &MemoryStages,
        running: &Running,
        phase: Phase,
        from: Option<Instant>,
    ) -> Result<Option<Stage>> {
        let Some(sampler) = &running.sampler else {
            return Ok(None);
        };
        let Some(reading) = self.read_memory(&running.server)? else {
            return Ok(None);
        };
        sampler.add(&reading);
        Ok(Some(Stage {
            over_time: over(sampler, &[phase], from),
            ..stages.stage(&reading)
        }))
    }
}
