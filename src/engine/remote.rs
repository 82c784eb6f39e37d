//! An engine on a host of a cluster: this program runs there as its worker, takes questions as lines of JSON from its standard
//! input, and answers with the events of its own run, of which the last is the answer. Verdicts are those of the host, and
//! the journal is here.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::limits::StartFailure;
use super::options::wrong;
use super::probe::ProbeOptions;
use super::{Engine, LaunchOptions, Needs};
use crate::boundary::Point;
use crate::fault::{Fault, Kind, Result};
use crate::run::{Event, Evidence, ProbeAnswer};
use crate::runtime::Connection;
use crate::task::lock;

/// The cause of a probe whose host was lost.
const LOST: &str = "host_lost";

/// The kind of the event that answers what a start needs.
const NEEDS: &str = "needs";

/// Characters that are kept of what a lost host said last.
const LAST_WORDS: usize = 300;

/// How long a worker may take to end, besides the time that its engine has.
const ENDS: Duration = Duration::from_secs(5);

/// How a worker is started on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// The host's name.
    pub host: String,
    /// The words of a command of this machine that runs the worker there, its standard input and output connected to ours.
    pub words: Vec<String>,
}

/// The first line to a worker: the engine, and what this run may do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The adapter.
    pub engine: String,
    /// Its text, unless it ships with the program.
    pub text: Option<String>,
    /// Options.
    pub options: LaunchOptions,
    /// Words of `--allow`.
    pub allow: Vec<String>,
    /// What the command line names to a shipped script; `None` for any other script.
    pub named: Option<Vec<(String, String)>>,
    /// Seed of the run.
    pub seed: u64,
    /// `--shared-gpu`.
    pub shared_gpu: bool,
    /// The run's id.
    pub run: String,
}

/// A further line to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct Question {
    /// The point of a probe; without it, what a start needs.
    point: Option<Point>,
    /// Its options.
    options: ProbeOptions,
    /// Axes of the newest boundary.
    pub axes: Option<Value>,
    /// Starts that failed on any host.
    failed: Vec<StartFailure>,
}

/// A line from a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Something happened. That a question is done is its answer.
    Event(Event),
    /// What a question ended in instead.
    Fault(Fault),
}

/// The worker of an engine elsewhere.
pub(super) struct Remote {
    connect: Connect,
    open: Mutex<Option<Connection>>,
    /// Why the host is left out.
    lost: OnceLock<String>,
}

impl Remote {
    pub(super) fn new(connect: Connect) -> Self {
        Self {
            connect,
            open: Mutex::default(),
            lost: OnceLock::new(),
        }
    }
}

impl Engine {
    /// As a worker: answers a question. Its run notes the answer.
    ///
    /// # Errors
    ///
    /// As [`Engine::probe`] and [`Engine::needs`].
    pub fn work(&self, question: Question) -> Result<Value> {
        lock(&self.starts).failed = question.failed;
        match question.point {
            Some(point) => self.probe(&point, question.options),
            None => self.context.run.measure(NEEDS, Value::Null, || {
                Ok(crate::run::Operation::Experiment(value(&self.needs()?)?))
            }),
        }
    }

    /// Whether its host was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.lost.get().is_some())
    }

    /// What to say when every host was lost.
    pub(super) fn no_host_is_left(&self) -> Fault {
        let remotes = self.all().filter_map(|engine| engine.remote.as_ref());
        let why = remotes.filter_map(|remote| Some(format!("`{}`: {}", remote.connect.host, remote.lost.get()?)));
        Fault::missing(
            format!("no host is left to probe on; {}", why.collect::<Vec<_>>().join("; ")),
            "see whether the hosts can be reached by hand and have this version of the program, and resume the run",
        )
    }

    /// Refuses what only an engine of this machine is asked for.
    ///
    /// # Errors
    ///
    /// `usage` for an engine on another host.
    pub fn here(&self) -> Result<&Self> {
        match &self.remote {
            None => Ok(self),
            Some(remote) => wrong(
                format!(
                    "the engine is on `{}`, where only points are probed",
                    remote.connect.host
                ),
                "leave out `cluster` and run the script on that host, or have it done there with `profiler fleet`",
            ),
        }
    }

    /// What a start needs on its host.
    pub(super) fn needs_there(&self) -> Result<Needs> {
        parsed(self.with_idle(|engine| engine.ask(None, ProbeOptions::default()))?)
    }

    /// The answer of the host to a probe. Where the host is lost, and others of `all` are left, it decides nothing.
    pub(super) fn probe_there(&self, all: &Self, point: &Point, options: ProbeOptions) -> Result<ProbeAnswer> {
        let began = Instant::now();
        match self.ask(Some(point), options)? {
            Some(answer) => parsed(answer),
            None if all.all().all(Self::is_lost) => Err(all.no_host_is_left()),
            None => Ok(ProbeAnswer {
                cause: Some(LOST.into()),
                seconds: began.elapsed().as_secs_f64(),
                evidence: Evidence {
                    message: self.remote.as_ref().and_then(|remote| remote.lost.get().cloned()),
                    ..Evidence::default()
                },
                point: point.clone(),
                ..ProbeAnswer::default()
            }),
        }
    }

    /// Puts a question to the worker, which is started if need be, and notes what happens there as if it were here. `None` if the
    /// host is lost.
    fn ask(&self, point: Option<&Point>, options: ProbeOptions) -> Result<Option<Value>> {
        let remote = self.remote.as_ref();
        let remote = remote.ok_or_else(|| Fault::internal("an engine of this machine has no worker"))?;
        let host = &remote.connect.host;
        let mut open = lock(&remote.open);
        if remote.lost.get().is_some() {
            return Ok(None);
        }
        let asked = if point.is_some() { "probe" } else { NEEDS };
        let mut connection = match open.take() {
            Some(connection) => connection,
            None => {
                let token = self.context.permits.gives_tokens();
                let connection = self.wait(Connection::open(&remote.connect.words, token))?;
                connection.send(value(&self.hello())?.to_string());
                connection
            }
        };
        let question = Question {
            point: point.cloned(),
            options,
            axes: (self.context.axes)(),
            failed: lock(&self.starts).failed.clone(),
        };
        connection.send(value(&question)?.to_string());
        let unusable = loop {
            let line = match self.wait(async { Ok(connection.line().await) }) {
                Ok(Some(line)) => line,
                Ok(None) => break None,
                Err(interrupted) => {
                    self.context.tasks.finish(connection.end(self.grace() + ENDS));
                    return Err(interrupted);
                }
            };
            let answer = match serde_json::from_str(&line) {
                Ok(Reply::Event(Event::Done { operation, .. })) if operation.kind() == asked => {
                    Ok(serde_json::from_value(operation.for_script(0)).ok())
                }
                Ok(Reply::Event(event)) => {
                    self.note_of_host(host, event)?;
                    continue;
                }
                // Somebody ended it there.
                Ok(Reply::Fault(fault)) if fault.kind == Kind::Interrupted => break None,
                Ok(Reply::Fault(fault)) => Err(fault.while_doing(format!("on `{host}`"))),
                Err(_) => break Some(line.trim().to_owned()),
            };
            *open = Some(connection);
            return answer;
        };
        let said = self.context.tasks.finish(connection.end(ENDS));
        let why: String = unusable
            .unwrap_or(said)
            .replace('\n', " ")
            .chars()
            .take(LAST_WORDS)
            .collect();
        self.warn(LOST, format!("`{host}` is left out: {why}"))?;
        let _ = remote.lost.set(why);
        Ok(None)
    }

    /// Notes what happened on a host.
    fn note_of_host(&self, host: &str, event: Event) -> Result<()> {
        let run = &self.context.run;
        match event {
            Event::Engine { mut info } if info.is_object() => {
                if info["info"]["simulated"] == true {
                    run.set_simulated();
                }
                info["host"] = json!(host);
                run.note(Event::Engine { info })
            }
            Event::StartFailed { failure, .. } => {
                if let Ok(failed) = serde_json::from_value(failure.clone()) {
                    lock(&self.starts).failed.push(failed);
                }
                run.note(Event::StartFailed {
                    args: self.start_args(),
                    failure,
                })
            }
            Event::Phase { .. } | Event::Memory { .. } | Event::Sent { .. } | Event::Log { .. } | Event::Warning(_) => {
                run.note(event)
            }
            _ => Ok(()),
        }
    }

    fn hello(&self) -> Hello {
        let context = &self.context;
        Hello {
            engine: self.adapter.name().to_owned(),
            text: self.adapter.own_text(),
            options: LaunchOptions {
                connect: None,
                ..self.options.clone()
            },
            allow: context.permits.words(),
            named: context.permits.named_texts(),
            seed: context.seed,
            shared_gpu: context.shared_gpu,
            run: context.run.id().to_owned(),
        }
    }

    /// Ends the workers of all, and with them the engines there.
    pub(super) fn disconnect(&self) {
        let open = |engine: &Self| lock(&engine.remote.as_ref()?.open).take();
        let open: Vec<Connection> = self.all().filter_map(open).collect();
        if !open.is_empty() {
            let ends = open.into_iter().map(|connection| connection.end(self.grace() + ENDS));
            self.context.tasks.finish(join_all(ends));
        }
    }
}

fn value(of: &impl Serialize) -> Result<Value> {
    serde_json::to_value(of).map_err(Fault::internal)
}

fn parsed<T: DeserializeOwned>(answer: Value) -> Result<T> {
    serde_json::from_value(answer).map_err(|error| {
        let message = format!("another host's answer has no meaning here: {error}");
        Fault::new(Kind::Engine, message).hint("put the same version of the program on all hosts")
    })
}
