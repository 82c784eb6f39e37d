//! One start: launch, watch it come up, and say what became of it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::allocation::allocations;
use super::answer::Evidence;
use super::facts::Found;
use super::failure::{Exit, Signs};
use super::pattern::without_colour;
use super::plan::StartFailure;
use super::server::Server;
use super::usage::Life;
use super::{Engine, Limits, Readiness, RulePhase};
use crate::fault::{Fault, Result};
use crate::run::Event;
use crate::runtime::{Mount, RuntimeKind};
use crate::telemetry::{Phase, Sampler, Vendor, select};

/// The pauses between looks at a server that comes up: short at first, as the simulated engine is ready at once.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Seconds that an engine which is said to run already may take to answer.
const ATTACHED: f64 = 10.0;

/// How often the processes of a server that comes up are looked for: one that fails takes them with it.
const PROCESSES_EVERY: Duration = Duration::from_secs(1);

/// Lines of the log that are kept where nothing explains a failure.
pub(super) const TAIL: usize = 40;

/// A server that is ready.
pub(super) struct Ready {
    pub(super) server: Server,
    pub(super) sampler: Option<Sampler>,
    /// What its start log told.
    pub(super) facts: Found,
}

/// How a look at a starting server ended.
enum Coming {
    Ready,
    Died(Exit),
    /// It lives, and said why it will not become ready.
    Failed(String),
    TooLate,
}

impl Engine {
    /// Starts the engine with these limits. The inner error is an ordinary answer; the outer one is a fault.
    pub(super) fn start_with(&self, limits: Limits, life: &mut Life) -> Result<Result<Ready, StartFailure>> {
        let shown = format!("{} {limits}", self.name());
        self.phase("starting", &shown)?;
        let options = self.adapter_options(Some(limits));
        let launch = self.adapter.launch(&options)?;
        let server = self.launch(launch)?;
        self.phase("loading", &shown)?;
        let (sampler, coming) = match self.come_up(&server, &options, life) {
            Ok(came) => came,
            Err(fault) => {
                self.context.tasks.finish(server.stop(self.grace()))?;
                return Err(fault);
            }
        };
        let log = plain(server.since(0));
        let facts = self.rules.facts.find(&log);
        if matches!(coming, Coming::Ready) {
            self.ready_life(life, &server)?;
            self.phase("ready", &shown)?;
            return Ok(Ok(Ready { server, sampler, facts }));
        }
        let memory = sampler
            .as_ref()
            .and_then(|sampler| sampler.series().peak())
            .map(|peak| peak.total);
        self.close_life(life, &server, sampler.as_ref())?;
        self.context.tasks.finish(server.stop(self.grace()))?;
        let ended = self.end_life(life, &server, sampler.as_ref());
        self.keep_memory(server.name(), sampler, life.usage())?;
        ended?;
        self.phase("stopped", &shown)?;
        let mut failure = self.start_failure(limits, &coming, &log, &facts);
        failure.evidence.memory = memory;
        Ok(Err(failure))
    }

    fn come_up(&self, server: &Server, options: &Value, life: &mut Life) -> Result<(Option<Sampler>, Coming)> {
        let sampler = self.watch_memory(server, life, Phase::Loading)?;
        let patience = Duration::from_secs_f64(self.options.start_timeout);
        let coming = self.watch(server, options, patience, life, sampler.as_ref())?;
        if let Some(sampler) = &sampler {
            sampler.mark(Phase::Ready);
        }
        Ok((sampler, coming))
    }

    /// Waits for a server that runs already.
    pub(super) fn attach_to(&self, server: Server, life: &mut Life) -> Result<Ready> {
        let patience = Duration::from_secs_f64(self.options.start_timeout.min(ATTACHED));
        match self.watch(&server, &self.adapter_options(None), patience, life, None)? {
            Coming::Ready => {
                let facts = self.rules.facts.find(&plain(server.since(0)));
                *life = Life::joined();
                let sampler = self.watch_memory(&server, life, Phase::Ready)?;
                self.ready_life(life, &server)?;
                Ok(Ready { server, sampler, facts })
            }
            Coming::Failed(why) => Err(Fault::missing(
                format!("the engine that was attached to is not ready: {}", why.trim()),
                "see to it there, and resume the run",
            )),
            Coming::Died(_) | Coming::TooLate => Err(Fault::missing(
                format!(
                    "no engine answers at `{}`",
                    super::options::without_password(server.base_url())
                ),
                "start it, or name the URL or container where it runs",
            )),
        }
    }

    fn watch(
        &self,
        server: &Server,
        options: &Value,
        patience: Duration,
        life: &mut Life,
        sampler: Option<&Sampler>,
    ) -> Result<Coming> {
        let deadline = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        let mut looked = Instant::now();
        loop {
            if looked.elapsed() >= PROCESSES_EVERY {
                self.learn_processes(life, server)?;
                if let Some(sampler) = sampler {
                    self.show_memory(sampler)?;
                }
                looked = Instant::now();
            }
            if let Some(exit) = self.context.tasks.wait(server.exit())? {
                return Ok(Coming::Died(exit));
            }
            match self.adapter.ready(server.base_url(), options)? {
                Readiness::Ready => return Ok(Coming::Ready),
                Readiness::Failed(why) => return Ok(Coming::Failed(why)),
                Readiness::NotYet => {}
            }
            if Instant::now() >= deadline {
                return Ok(Coming::TooLate);
            }
            self.context.tasks.sleep(pause)?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn start_failure(&self, limits: Limits, coming: &Coming, log: &[String], facts: &Found) -> StartFailure {
        let exit = match coming {
            Coming::Died(exit) => Some(*exit),
            Coming::Ready | Coming::TooLate | Coming::Failed(_) => None,
        };
        let said = match coming {
            Coming::Failed(why) => std::slice::from_ref(why),
            Coming::Ready | Coming::Died(_) | Coming::TooLate => &[],
        };
        let found = self.rules.failures.classify(
            RulePhase::Start,
            Signs {
                exit,
                messages: said,
                log,
            },
        );
        let (cause, line) = match found {
            Some(found) => (found.cause, found.line),
            None => (None, None),
        };
        let message = match (&line, coming) {
            (Some(line), _) => line.trim().to_owned(),
            (None, Coming::Failed(why)) => why.trim().to_owned(),
            (None, Coming::Died(exit)) if exit.oom_killed => {
                "the kernel killed the engine for its memory while it started".into()
            }
            (None, Coming::Died(exit)) => {
                let status = exit
                    .code
                    .map_or_else(|| "an unknown status".to_owned(), |code| format!("status {code}"));
                format!("the engine ended with {status} before it was ready, and did not say why")
            }
            (None, _) => format!("the engine was not ready after {} s", self.options.start_timeout),
        };
        let memory = cause.as_deref() == Some("memory");
        let unexplained = match coming {
            Coming::Died(_) => "exited",
            Coming::Failed(_) => "engine",
            Coming::Ready | Coming::TooLate => "timeout",
        };
        StartFailure {
            limits,
            cause: cause.unwrap_or_else(|| unexplained.to_owned()),
            longest: facts.get("longest").and_then(Value::as_u64),
            evidence: Evidence {
                message: Some(message),
                log: line.map_or_else(|| tail(log), |line| vec![line]),
                phase: self.rules.progress.phase(log),
                allocations: if memory { allocations(log) } else { Vec::new() },
                exit_code: exit.and_then(|exit| exit.code),
                oom_killed: exit.map(|exit| exit.oom_killed),
                limits: Some(limits),
                ..Evidence::default()
            },
        }
    }

    /// The options as the adapter sees them: every key, the runtime decided, the limits of this start, what must be mounted for a local
    /// model, and whose the GPUs asked for are.
    pub(super) fn adapter_options(&self, limits: Option<Limits>) -> Value {
        let mut options = json!(self.options);
        options["runtime"] = json!(self.runtime);
        options["limits"] = json!(limits);
        options["mounts"] = json!(self.model_mounts());
        options["gpu_vendor"] = json!(self.gpu_vendor());
        options
    }

    /// Whose GPUs the engine gets, `nvidia` or `amd`: images differ. Nothing where it gets none, or none is seen.
    pub(super) fn gpu_vendor(&self) -> Option<Vendor> {
        if self.options.gpus.is_empty() || self.runtime == RuntimeKind::Sim {
            return None;
        }
        // A GPU that is not there is told by the runtime, when it is to be given.
        select(&self.options.gpus).ok()?.first().map(|gpu| gpu.vendor)
    }

    /// The folder of a local model, seen by a container under the same path, read-only.
    fn model_mounts(&self) -> Vec<Mount> {
        let Some(path) = self
            .options
            .model
            .as_deref()
            .map(Path::new)
            .filter(|path| path.is_absolute())
        else {
            return Vec::new();
        };
        let folder = if path.is_file() {
            path.parent().unwrap_or(path)
        } else {
            path
        };
        let folder = folder.display().to_string();
        vec![Mount {
            host: folder.clone(),
            container: folder,
            writable: false,
        }]
    }

    pub(super) fn phase(&self, phase: &str, detail: &str) -> Result<()> {
        self.context.run.note(Event::Phase {
            phase: phase.to_owned(),
            detail: detail.to_owned(),
        })
    }

    pub(super) fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.options.stop_grace)
    }
}

/// The lines without colours.
pub(super) fn plain(lines: Vec<String>) -> Vec<String> {
    lines
        .into_iter()
        .map(|line| match without_colour(&line) {
            std::borrow::Cow::Borrowed(_) => line,
            std::borrow::Cow::Owned(plain) => plain,
        })
        .collect()
}

/// The end of a log.
pub(super) fn tail(log: &[String]) -> Vec<String> {
    log[log.len().saturating_sub(TAIL)..].to_vec()
}
