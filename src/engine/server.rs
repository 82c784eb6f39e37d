//! The server behind an engine, wherever it lives: what it wrote, whether it lives, and its end.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Context;
use super::failure::Exit;
use super::options::LaunchOptions;
use crate::fault::{Fault, Result};
use crate::runtime::Launch;
use crate::sim::{Sim, SimHandle, Spec, State};

/// A server under way.
pub(super) struct Server {
    body: Body,
    base_url: String,
    log: Log,
}

enum Body {
    Sim(SimHandle),
    Attached,
}

/// Lines as they come.
type Log = Arc<Mutex<Vec<String>>>;

impl Server {
    /// Starts what an adapter describes.
    pub(super) fn start(context: &Context, runtime: &str, launch: Launch) -> Result<Self> {
        match runtime {
            "sim" => Self::simulate(context, launch),
            other => {
                Err(Fault::usage(format!("unknown runtime `{other}`")).hint("one of: docker, process, attach, sim"))
            }
        }
    }

    fn simulate(context: &Context, launch: Launch) -> Result<Self> {
        let spec = launch.sim.ok_or_else(|| {
            Fault::usage("the adapter's `launch(options)` does not describe a simulated engine")
                .hint("give `sim: #{ profile, options }`, or choose another runtime")
        })?;
        let spec: Spec = serde_path_to_error::deserialize(spec)
            .map_err(|error| Fault::usage(format!("option `sim.{}`: {}", error.path(), error.inner())))?;
        let (profile, options) = spec.resolve()?;
        context.run.set_simulated();
        let log = Log::default();
        let sink = Arc::clone(&log);
        let sink = Arc::new(move |line: &str| {
            sink.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line.to_owned())
        });
        let _inside = context.tasks.runtime().enter();
        let handle = Sim::start(profile, options, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), sink)?;
        Ok(Self {
            base_url: handle.url.clone(),
            body: Body::Sim(handle),
            log,
        })
    }

    /// A server that runs already.
    pub(super) fn attach(options: &LaunchOptions) -> Result<Self> {
        let url = options.url.as_deref().ok_or_else(|| {
            Fault::usage("nothing to attach to").hint("give `url`, or the name of a running `container`")
        })?;
        Ok(Self {
            body: Body::Attached,
            base_url: url.trim_end_matches('/').to_owned(),
            log: Log::default(),
        })
    }

    /// Where it listens, without a final slash.
    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Whether it can be started again.
    pub(super) fn ours(&self) -> bool {
        !matches!(self.body, Body::Attached)
    }

    /// How it ended, if it did.
    pub(super) async fn exit(&self) -> Result<Option<Exit>> {
        Ok(match &self.body {
            Body::Sim(handle) => match handle.state() {
                State::Exited(exit) => Some(Exit {
                    code: Some(exit.code.into()),
                    oom_killed: exit.oom_killed,
                }),
                State::Starting | State::Ready => None,
            },
            Body::Attached => None,
        })
    }

    /// The number of lines so far: a cursor for [`Server::since`].
    pub(super) fn cursor(&self) -> u64 {
        self.lines().len() as u64
    }

    /// The lines after a cursor.
    pub(super) fn since(&self, cursor: u64) -> Vec<String> {
        let skip = usize::try_from(cursor).unwrap_or(usize::MAX);
        self.lines().iter().skip(skip).cloned().collect()
    }

    /// The newest lines.
    pub(super) fn last(&self, count: usize) -> Vec<String> {
        let lines = self.lines();
        lines[lines.len().saturating_sub(count)..].to_vec()
    }

    /// Ends it, unless it is not ours to end.
    pub(super) async fn stop(self, grace: Duration) -> Result<()> {
        match self.body {
            Body::Sim(handle) => {
                handle.stop(grace).await;
            }
            Body::Attached => {}
        }
        Ok(())
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
