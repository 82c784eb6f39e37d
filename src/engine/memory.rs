//! Memory of an engine while it runs: what is looked at, and what a probe and a script are told of it.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::server::Server;
use super::usage::Life;
use super::{Engine, Usage};
use crate::fault::Result;
use crate::run::Event;
use crate::runtime::RuntimeKind;
use crate::telemetry::host::{Cgroup, Measure, Roots, Tree};
use crate::telemetry::{Phase, Polled, Reading, Sampler, Series, Source, files, require_alone, settle, unsettled};

/// How long memory may take to come back before the look after an engine's end; the next start waits longer where it must.
const COMING_BACK: Duration = Duration::from_secs(5);
/// The pause between two such looks.
const PAUSE: Duration = Duration::from_millis(50);

/// The most rows of a series in a probe's answer; the whole is in the run's folder.
const SHOWN: usize = 200;

/// What `engine.memory()` tells, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// In use on all devices of the engine together.
    pub used: Option<u64>,
    /// What these devices have.
    pub total: Option<u64>,
    /// `nvml`, `amd`, `host` or `sim`: what is looked at.
    pub source: Option<String>,
    /// Each device.
    pub per_gpu: Vec<crate::telemetry::Device>,
    /// The processes on them, where the source can tell.
    pub processes: Vec<crate::telemetry::Tenant>,
}

impl Memory {
    fn of(reading: Reading, source: &str) -> Self {
        Self {
            used: Some(reading.used()),
            total: Some(reading.total()),
            source: Some(source.to_owned()),
            per_gpu: reading.devices,
            processes: reading.tenants,
        }
    }
}

/// Memory of a stretch of time, as an answer shows it.
#[derive(Default)]
pub(super) struct Stretch {
    pub(super) peak: Option<u64>,
    /// Memory when it was over.
    pub(super) last: Option<u64>,
    pub(super) series: Vec<(f64, u64)>,
}

impl Engine {
    /// Memory in use now; nothing is known where the engine does not run, or nothing of it can be seen from here.
    pub fn memory(&self) -> Memory {
        let live = self.lock();
        let sampler = live.running.as_ref().and_then(|running| running.sampler.as_ref());
        sampler.map_or_else(Memory::default, |sampler| {
            Memory::of(sampler.latest(), sampler.source())
        })
    }

    /// Shows whoever watches the run what memory is in use now.
    pub(super) fn show_memory(&self, sampler: &Sampler) -> Result<()> {
        let reading = sampler.latest();
        self.context.run.note(Event::Memory {
            used: reading.used(),
            total: reading.total(),
        })
    }

    /// The GPUs whose memory this engine holds: they were named, and are there. The default `gpus: [0]` of a script on a
    /// machine without any means the host's memory.
    pub(super) fn gpus(&self) -> Result<Option<Box<dyn Source>>> {
        if self.runtime == RuntimeKind::Sim || self.options.gpus.is_empty() {
            return Ok(None);
        }
        (self.context.gpus)(&self.options.gpus)
    }

    /// How many GPUs the engine holds while it runs; the simulated one models at least one.
    pub(super) fn gpu_count(&self) -> Result<u64> {
        let named = self.options.gpus.len() as u64;
        if self.runtime == RuntimeKind::Sim {
            return Ok(named.max(1));
        }
        Ok(if self.gpus()?.is_some() { named } else { 0 })
    }

    /// Waits until the GPUs are as they were before the first start, and refuses those that somebody else uses.
    pub(super) fn settle(&self, baseline: &mut Option<Reading>) -> Result<()> {
        if self.context.shared_gpu {
            return Ok(());
        }
        let Some(mut source) = self.gpus()? else { return Ok(()) };
        match baseline {
            Some(before) => {
                let patience = Duration::from_secs_f64(self.options.settle_timeout);
                self.context.tasks.wait(settle(source.as_mut(), before, patience))?;
            }
            None => *baseline = Some(source.read()?),
        }
        // Nothing of ours runs before a start.
        require_alone(&source.read()?, |_| false)
    }

    /// Looks at the memory of a server from here on, where it can be seen.
    pub(super) fn watch_memory(&self, server: &Server, life: &mut Life, phase: Phase) -> Result<Option<Sampler>> {
        match self.source(server)? {
            Some(mut source) => {
                life.watch(server, source.as_mut())?;
                Sampler::start_in(phase, life.before(), source, self.options.sample_hz).map(Some)
            }
            None => {
                self.context.run.warn(format!(
                    "the memory of `{}` cannot be seen from here: peaks are unknown",
                    self.name()
                ))?;
                Ok(None)
            }
        }
    }

    fn source(&self, server: &Server) -> Result<Option<Box<dyn Source>>> {
        if let Some(read) = server.simulated() {
            return Ok(Some(Box::new(Polled::new("sim", move || Ok(read())))));
        }
        if let Some(source) = self.gpus()? {
            return Ok(Some(source));
        }
        let roots = Roots::default();
        if let Some(folder) = self.context.tasks.wait(server.cgroup())?
            && let Some(path) = below_hierarchy(&folder, &roots)
            && let Ok(cgroup) = Cgroup::at_path(&path, &roots)
        {
            return Ok(Some(Box::new(cgroup)));
        }
        let pids = self.context.tasks.wait(server.pids())?;
        Ok(pids
            .first()
            .map(|pid| Box::new(Tree::new(*pid, Measure::Resident, roots)) as Box<dyn Source>))
    }

    /// One look of its own at a server's memory, processes included; none where it cannot be looked at now.
    pub(super) fn look_once(&self, server: &Server) -> Result<Option<Reading>> {
        let Some(mut source) = self.source(server)? else {
            return Ok(None);
        };
        match source.read() {
            Ok(reading) => Ok(Some(reading)),
            // A cgroup ends with its engine; what became of the engine is told elsewhere.
            Err(fault) => {
                self.context
                    .run
                    .warn(format!("memory could not be looked at: {fault}"))?;
                Ok(None)
            }
        }
    }

    /// A look at the devices once they are as before the start, or after a while.
    pub(super) fn look_settled(&self, before: Option<&Reading>, server: &Server) -> Result<Option<Reading>> {
        let deadline = Instant::now() + COMING_BACK.min(Duration::from_secs_f64(self.options.settle_timeout));
        loop {
            let reading = self.look_once(server)?;
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

    /// Keeps what was seen of a server's memory in the run's folder, whether it has ended or not: the files of [`files`], and
    /// `<name>.usage.json`, which is [`Usage`] with how well the sampler kept its rate as `sampling`.
    pub(super) fn keep_memory(&self, name: &str, sampler: Option<Sampler>, usage: &Usage) -> Result<()> {
        if let Some(sampler) = sampler {
            let record = sampler.stop();
            for (end, text) in files(&record) {
                let write = |out: &mut BufWriter<File>| out.write_all(&text);
                self.context.run.write("memory", &format!("{name}{end}"), write)?;
            }
            // What was late, lost or failed belongs to the figures.
            let mut kept = json!(usage);
            kept["sampling"] = json!(record.health);
            let name = format!("{name}.usage.json");
            self.context
                .run
                .write("memory", &name, |file| writeln!(file, "{kept:#}"))?;
        }
        Ok(())
    }
}

/// A cgroup's folder as a path below the root of its hierarchy, with the controller of version 1 taken off.
fn below_hierarchy(folder: &std::path::Path, roots: &Roots) -> Option<String> {
    let below: PathBuf = folder.strip_prefix(&roots.cgroup).ok()?.to_owned();
    let below = below.strip_prefix("memory").unwrap_or(&below);
    Some(format!("/{}", below.display()))
}

/// What was seen between two moments.
pub(super) fn stretch(sampler: &Sampler, from: Instant, to: Instant) -> Stretch {
    let series = sampler.between(from, to);
    Stretch {
        peak: sampler.peak_between(from, to).map(|peak| peak.total),
        last: series.rows().last().map(|row| row.total),
        series: thinned(&series),
    }
}

/// Seconds since the first row, and bytes; neighbours are merged to their peak where there are too many.
fn thinned(series: &Series) -> Vec<(f64, u64)> {
    let rows = series.rows();
    let Some(first) = rows.first() else { return Vec::new() };
    rows.chunks(rows.len().div_ceil(SHOWN).max(1))
        .map(|chunk| {
            let peak = chunk.iter().map(|row| row.total).max().unwrap_or_default();
            ((chunk[0].from - first.from) as f64 / 1e6, peak)
        })
        .collect()
}
