//! Memory of an engine by the stages of its life, taken while it runs: what `engine.usage()` tells.
//!
//! Each stage is taken at the moment that ends it, by a look of its own: before the start, ready, after the first answer that was
//! whole, after the end. The peak is whatever the sampler saw since the start. Here is when stages are taken; `stage` says what one is.

mod stage;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Instant;

use serde::Serialize;

pub use stage::{Holder, OverTime, Share, Stage};

use super::Engine;
use super::handle::{Live, Running};
use super::server::Server;
use crate::fault::Result;
use crate::telemetry::{Phase, Reading, Sampler, Source};
use stage::Parties;

/// What `engine.usage()` tells: each stage of the newest start, none until it is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// `nvml`, `amd`, `host` or `sim`: what is looked at.
    pub source: Option<String>,
    /// Seconds from the launch until it was ready; none for an engine that ran already.
    pub start_seconds: Option<f64>,
    /// Before the start; none for an engine that ran already.
    pub baseline: Option<Stage>,
    /// Ready, and idle until the first request.
    pub loaded: Option<Stage>,
    /// When the first request was answered whole; over the time from the first request on.
    pub warmed: Option<Stage>,
    /// The most since the start.
    pub peak: Option<Stage>,
    /// After the end, once memory has come back or was waited for; none for an engine that was attached to and goes on.
    pub after: Option<Stage>,
}

/// What is remembered of one start, or of its try.
#[derive(Default)]
pub(super) struct Life {
    /// Before the start.
    before: Option<Reading>,
    /// Every process that was ever seen to be the engine's.
    ours: BTreeSet<u32>,
    /// Nobody else can be on these devices: the memory of a process tree or a cgroup.
    alone: bool,
    /// It was attached to.
    joined: bool,
    /// When it began, was ready, and got its first request.
    began: Option<Instant>,
    ready: Option<Instant>,
    first: Option<Instant>,
    usage: Usage,
}

impl Life {
    fn parties(&self, started: bool) -> Parties<'_> {
        Parties {
            ours: &self.ours,
            started,
            alone: self.alone,
            before: self.before.as_ref(),
            name: &command,
        }
    }

    fn stage(&self, reading: &Reading) -> Stage {
        Stage::at(reading, &self.parties(true))
    }

    /// An engine that ran already: nobody knows what was there before it.
    pub(super) fn joined() -> Self {
        Self {
            joined: true,
            began: Some(Instant::now()),
            ..Self::default()
        }
    }

    /// Memory before the start, where it is known.
    pub(super) fn before(&self) -> Option<&Reading> {
        self.before.as_ref()
    }

    /// This is what is looked at from here on. Where only the engine's own processes count, nothing was there before them.
    pub(super) fn watch(&mut self, server: &Server, source: &mut dyn Source) -> Result<()> {
        self.usage.source = Some(source.name().to_owned());
        self.alone = source.name() == "host";
        if self.joined {
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
            .map(|before| Stage::at(before, &self.parties(false)));
        Ok(())
    }

    /// What is known by now.
    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(super) fn see_peak(&mut self, sampler: &Sampler) {
        let mut peak = Stage::at_crest(&sampler.crest(), &self.parties(true));
        peak.over_time = over(sampler, &Phase::ALL, self.began, Instant::now());
        self.usage.peak = Some(peak);
    }
}

impl Engine {
    /// Memory by the stages of the newest start.
    ///
    /// # Errors
    ///
    /// What asking the runtime for the engine's processes fails with.
    pub fn usage(&self) -> Result<Usage> {
        let mut live = self.lock();
        let Live { running, life, .. } = &mut *live;
        if let Some(running) = running {
            self.learn_processes(life, &running.server)?;
            if life.first.is_none() {
                self.take_loaded(life, running)?;
            }
            if let Some(sampler) = &running.sampler {
                life.see_peak(sampler);
            }
        }
        Ok(life.usage.clone())
    }

    /// A start begins: what was known of the one before is forgotten, and the GPUs are looked at.
    pub(super) fn begin_life(&self, life: &mut Life) -> Result<()> {
        *life = Life {
            before: self.gpus()?.map(|mut source| source.read()).transpose()?,
            began: Some(Instant::now()),
            ..Life::default()
        };
        Ok(())
    }

    /// The engine is ready.
    pub(super) fn ready_life(&self, life: &mut Life, server: &Server) -> Result<()> {
        self.learn_processes(life, server)?;
        life.ready = Some(Instant::now());
        if !life.joined {
            life.usage.start_seconds = life.began.map(|began| began.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// Remembers which processes are the engine's: those that end are forgotten by everybody else.
    pub(super) fn learn_processes(&self, life: &mut Life, server: &Server) -> Result<()> {
        life.ours.extend(self.context.tasks.wait(server.pids())?);
        Ok(())
    }

    /// Requests begin: the first ones end the stage `loaded`.
    pub(super) fn begin_requests(&self, live: &mut Live) -> Result<()> {
        let Live { running, life, .. } = live;
        let Some(running) = running else { return Ok(()) };
        if life.first.is_none() {
            self.learn_processes(life, &running.server)?;
            self.take_loaded(life, running)?;
            life.first = Some(Instant::now());
        }
        if let Some(sampler) = &running.sampler {
            let warm = life.usage.warmed.is_some();
            sampler.mark(if warm { Phase::Load } else { Phase::WarmUp });
        }
        Ok(())
    }

    /// Requests have ended, `whole` when one of them was answered as it should: the first such ends the warm-up.
    pub(super) fn end_requests(&self, live: &mut Live, whole: bool) -> Result<()> {
        let Live { running, life, .. } = live;
        let Some(running) = running else { return Ok(()) };
        let Some(sampler) = &running.sampler else { return Ok(()) };
        if whole && life.usage.warmed.is_none() {
            self.learn_processes(life, &running.server)?;
            if let Some(reading) = self.look_once(&running.server)? {
                sampler.add(&reading);
                life.usage.warmed = Some(Stage {
                    over_time: over(sampler, &[Phase::WarmUp], life.first, Instant::now()),
                    ..life.stage(&reading)
                });
            }
        }
        sampler.mark(Phase::Ready);
        Ok(())
    }

    /// The engine is about to be ended.
    pub(super) fn close_life(&self, life: &mut Life, server: &Server, sampler: Option<&Sampler>) -> Result<()> {
        // Not interruptible: whatever it was that ends the engine, it is ended next.
        life.ours.extend(self.context.tasks.finish(server.pids())?);
        if let Some(sampler) = sampler {
            life.see_peak(sampler);
            if !life.joined {
                sampler.mark(Phase::After);
            }
        }
        Ok(())
    }

    /// The engine has ended: memory is waited for, and looked at for the last time.
    pub(super) fn end_life(&self, life: &mut Life, server: &Server, sampler: Option<&Sampler>) -> Result<()> {
        let Some(sampler) = sampler else { return Ok(()) };
        life.see_peak(sampler);
        // What was attached to goes on.
        if life.joined {
            return Ok(());
        }
        let reading = if life.alone {
            // Its processes are gone, and their memory with them.
            Some(emptied(sampler.latest()))
        } else {
            self.look_settled(life.before.as_ref(), server)?
        };
        if let Some(reading) = reading {
            sampler.add(&reading);
            life.usage.after = Some(life.stage(&reading));
        }
        Ok(())
    }

    fn take_loaded(&self, life: &mut Life, running: &Running) -> Result<()> {
        let Some(sampler) = &running.sampler else { return Ok(()) };
        if let Some(reading) = self.look_once(&running.server)? {
            sampler.add(&reading);
            life.usage.loaded = Some(Stage {
                over_time: over(sampler, &[Phase::Ready], life.ready, Instant::now()),
                ..life.stage(&reading)
            });
        }
        Ok(())
    }
}

/// The same devices with nothing on them.
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

/// The name of a process that can be seen from here.
fn command(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}
