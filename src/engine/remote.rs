//! An engine on a host of a cluster: this program runs there as its worker, takes questions as lines of JSON from its standard
//! input, and answers with the events of its own run, of which the last is the answer. Verdicts are those of the host, and
//! the journal is here.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::{Evidence, ProbeAnswer, ProbeOptions};
use super::plan::StartFailure;
use super::{Engine, LaunchOptions, Needs};
use crate::boundary::Point;
use crate::fault::{Fault, Kind, Result};
use crate::run::Event;
use crate::runtime::Connection;
use crate::task::lock;
use crate::warning::Warning;

/// The cause of a probe whose host was lost.
const LOST: &str = "host_lost";

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
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// What a start needs.
    Needs,
    /// A probe.
    Probe {
        /// Its point.
        point: Point,
        /// Its options.
        options: ProbeOptions,
        /// Axes of the newest boundary.
        axes: Option<Value>,
        /// Starts that failed on any host.
        #[expect(private_interfaces)]
        failed: Vec<StartFailure>,
    },
}

/// A line from a worker. A probe's answer is the event that it is done.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Something happened.
    Event(Event),
    /// What a start needs.
    Needs(Needs),
    /// What was asked for ended in this.
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

    /// Has the worker stop its engine and end.
    pub(super) fn hang_up(&self) {
        if let Some(connection) = &mut *lock(&self.open) {
            connection.hang_up();
        }
    }

    fn fault(&self, fault: Fault) -> Fault {
        fault.while_doing(format!("on `{}`", self.connect.host))
    }
}

impl Engine {
    /// As a worker: answers a question; what its run notes meanwhile is part of the answer.
    pub fn work(&self, question: Question) -> Result<Option<Needs>> {
        match question {
            Question::Needs => self.needs().map(Some),
            Question::Probe {
                point, options, failed, ..
            } => {
                lock(&self.starts).learn(failed);
                self.probe(&point, options).map(|_| None)
            }
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
            Some(remote) => Err(Fault::usage(format!(
                "the engine is on `{}`, where only points are probed",
                remote.connect.host
            ))
            .hint("leave out `cluster` and run the script on that host, or have it done there with `profiler fleet`")),
        }
    }

    pub(super) fn needs_there(&self) -> Result<Needs> {
        loop {
            match self.with_idle(|engine| engine.ask(&Question::Needs))? {
                Some(Reply::Needs(needs)) => return Ok(needs),
                Some(_) => return Err(Fault::internal("a worker answered another question")),
                None => {}
            }
        }
    }

    /// The answer of the host to a probe. Where the host is lost, and others of `all` are left, it decides nothing.
    pub(super) fn probe_there(&self, all: &Self, point: &Point, options: ProbeOptions) -> Result<ProbeAnswer> {
        let began = Instant::now();
        let question = Question::Probe {
            point: point.clone(),
            options,
            axes: (self.context.axes)(),
            failed: lock(&self.starts).failed().to_vec(),
        };
        match self.ask(&question)? {
            Some(Reply::Event(Event::Done { answer, .. })) => {
                serde_json::from_value(answer).map_err(|error| Fault::internal(format!("a worker's answer: {error}")))
            }
            Some(_) => Err(Fault::internal("a worker answered another question")),
            None if all.all().all(Self::is_lost) => Err(all.no_host_is_left()),
            None => Ok(ProbeAnswer {
                cause: Some(LOST.to_owned()),
                seconds: began.elapsed().as_secs_f64(),
                evidence: Evidence {
                    message: self.remote.as_ref().and_then(|remote| remote.lost.get().cloned()),
                    ..Evidence::default()
                },
                ..ProbeAnswer::empty(point)
            }),
        }
    }

    /// Puts a question to the worker, which is started if need be, and notes what happens there as if it were here. `None` if the
    /// host is lost.
    fn ask(&self, question: &Question) -> Result<Option<Reply>> {
        let Some(remote) = &self.remote else {
            return Err(Fault::internal("an engine of this machine has no worker"));
        };
        let mut open = lock(&remote.open);
        let mut connection = match open.take() {
            Some(connection) => connection,
            None => {
                let token = self.context.permits.gives_tokens();
                let connection = self.wait(Connection::open(&remote.connect.words, token))?;
                connection.send(text(&self.hello())?);
                connection
            }
        };
        connection.send(text(question)?);
        let unusable = loop {
            let line = match self.wait(async { Ok(connection.line().await) }) {
                Ok(Some(line)) => line,
                Ok(None) => break None,
                Err(interrupted) => {
                    let _ = self.context.tasks.finish(connection.end(self.grace() + ENDS));
                    return Err(interrupted);
                }
            };
            let reply = match serde_json::from_str(&line) {
                Ok(Reply::Event(event @ Event::Done { .. })) => Reply::Event(event),
                Ok(Reply::Event(event)) => {
                    self.note_of_host(&remote.connect.host, event)?;
                    continue;
                }
                // Somebody ended it there.
                Ok(Reply::Fault(fault)) if fault.kind == Kind::Interrupted => break None,
                Ok(Reply::Fault(fault)) => {
                    *open = Some(connection);
                    return Err(remote.fault(fault));
                }
                Ok(needs) => needs,
                Err(_) => {
                    break Some(format!(
                        "it answers `{}`",
                        line.trim().chars().take(200).collect::<String>()
                    ));
                }
            };
            *open = Some(connection);
            return Ok(Some(reply));
        };
        let said = self.context.tasks.finish(connection.end(ENDS));
        let why = unusable.unwrap_or(match said.is_empty() {
            true => "the connection ended".to_owned(),
            false => said,
        });
        let message = format!("`{}` is left out: {why}", remote.connect.host);
        let _ = remote.lost.set(why);
        self.context.run.warn(Warning::new(LOST, message))?;
        Ok(None)
    }

    /// Notes what happened on a host.
    fn note_of_host(&self, host: &str, event: Event) -> Result<()> {
        let run = &self.context.run;
        match event {
            Event::Engine { mut info } => {
                if info["info"]["simulated"] == true {
                    run.set_simulated();
                }
                info["host"] = json!(host);
                run.note(Event::Engine { info })
            }
            Event::StartFailed { failure, .. } => {
                if let Ok(failed) = serde_json::from_value(failure.clone()) {
                    lock(&self.starts).remember(failed);
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

    /// Ends its worker, and with it the engine there.
    pub(super) fn disconnect(&self) {
        if let Some(connection) = self.remote.as_ref().and_then(|remote| lock(&remote.open).take()) {
            let _ = self.context.tasks.finish(connection.end(self.grace() + ENDS));
        }
    }
}

fn text(line: &impl Serialize) -> Result<String> {
    serde_json::to_string(line).map_err(|error| Fault::internal(error.to_string()))
}
