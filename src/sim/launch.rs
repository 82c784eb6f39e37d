//! Starting the simulated engine: takes its port, goes through its start, serves, and ends it.

use std::future::{self, IntoFuture};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::gauge::Gauge;
use super::handle::{Exit, LogSink, SimHandle, State};
use super::http;
use super::listener::Bound;
use super::options::Options;
use super::profile::{Engine, Profile};
use super::service::Service;
use super::setup::Setup;
use super::start::{self, End, Head, Line, Plan, Stage};
use super::time::Pace;
use super::tokens::Counter;
use crate::fault::Result;

/// The status of a process that was killed.
const KILLED: Exit = Exit {
    code: 137,
    oom_killed: false,
};

/// The simulated engine.
pub struct Sim;

impl Sim {
    /// Starts it on `bind` (port 0: any free one) and returns at once; [`SimHandle::settled`] waits until it serves or has failed.
    /// Log lines go to `log`. Must be called inside the runtime.
    ///
    /// # Errors
    /// A port that is taken, an option that is impossible or that this profile cannot honour, a tokenizer that is not there. A start
    /// that fails for memory is no error: the engine exits with its log lines, as the real one does.
    pub fn start(profile: Profile, options: Options, bind: SocketAddr, log: LogSink) -> Result<SimHandle> {
        let setup = Setup::new(profile, &options)?;
        let counter = Counter::new(options.tokenizer.as_deref())?;
        let bound = Bound::take(bind)?;
        let url = format!("http://{}", bound.address);
        let mut plan = start::plan(&setup, &url)?;
        if let Some(failed) = &setup.misbehave.fail_start {
            plan = plan.failing(failed)?;
        }
        let gauge = Arc::new(Gauge::new(
            setup.profile.gpu.clone(),
            setup.ranks,
            plan.total,
            plan.baseline,
            setup.profile.power,
        ));
        let (term, kill) = (CancellationToken::new(), CancellationToken::new());
        let (tell, state) = watch::channel(State::Starting);
        let process = Process {
            setup,
            gauge: Arc::clone(&gauge),
            log,
            term: term.clone(),
            kill: kill.clone(),
            tell,
        };
        tokio::spawn(process.live(bound, plan, counter));
        Ok(SimHandle {
            url,
            gauge,
            state,
            term,
            kill,
        })
    }
}

/// The simulated process.
struct Process {
    setup: Setup,
    gauge: Arc<Gauge>,
    log: LogSink,
    term: CancellationToken,
    kill: CancellationToken,
    tell: watch::Sender<State>,
}

impl Process {
    /// From the start to the end.
    async fn live(self, bound: Bound, plan: Plan, counter: Counter) {
        let baseline = plan.baseline;
        let cut = CancellationToken::new();
        let exit = tokio::select! {
            biased;
            () = self.kill.cancelled() => KILLED,
            exit = self.run(bound, plan, counter, cut.clone()) => exit,
            () = self.terminated() => self.leave(),
        };
        cut.cancel();
        self.gauge.set(baseline);
        let code = self.setup.misbehave.exit_code.unwrap_or(exit.code);
        // Nobody has to be listening.
        self.tell.send_replace(State::Exited(Exit { code, ..exit }));
    }

    /// Waits for SIGTERM, for ever where it is ignored.
    async fn terminated(&self) {
        self.term.cancelled().await;
        if self.setup.misbehave.ignore_sigterm {
            future::pending::<()>().await;
        }
    }

    /// The polite end.
    fn leave(&self) -> Exit {
        let line = match self.setup.profile.engine {
            Engine::Vllm => Line::new(
                Head::Vllm {
                    process: "APIServer",
                    level: "INFO",
                    place: "launcher.py:100",
                },
                "[shutdown] API server: shutdown triggered",
            ),
            Engine::Tgi => Line::new(
                Head::Tgi {
                    level: "INFO",
                    module: "text_generation_launcher",
                },
                "Terminating webserver",
            ),
            Engine::Sglang => Line::new(Head::Sglang, "SIGTERM received. Draining requests and shutting down..."),
            Engine::TensorrtLlm => Line::new(Head::Bare, "INFO:     Shutting down"),
            Engine::Llamacpp => Line::new(Head::Bare, "srv    operator(): cleaning up before exit..."),
            Engine::Ollama => Line::new(Head::Bare, "[GIN] shutting down"),
            Engine::Transformers => Line::new(Head::Bare, "INFO:     Shutting down"),
        };
        self.say(&line);
        Exit {
            code: 0,
            oom_killed: false,
        }
    }

    /// The start, then the service, until something ends it.
    async fn run(&self, bound: Bound, plan: Plan, counter: Counter, cut: CancellationToken) -> Exit {
        if self.setup.misbehave.busy_port {
            return self.cannot_listen(&format!(
                "[Errno 98] error while attempting to bind on address {}: address already in use",
                bound.address
            ));
        }
        if let Some(seconds) = self.setup.misbehave.slow_start {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        let serving = match plan.end {
            End::Serve(serving) => serving,
            End::Exit(exit) => {
                self.say_all(self.load(&plan.stages).await);
                return exit;
            }
        };
        let (fate, fates) = mpsc::unbounded_channel();
        let (setup, gauge, log) = (self.setup.clone(), Arc::clone(&self.gauge), Arc::clone(&self.log));
        let service = Arc::new(Service::new(setup, *serving, counter, gauge, log, fate));
        let loaded = if plan.listens_early {
            None
        } else {
            Some(self.load(&plan.stages).await)
        };
        let listener = match bound.listen(cut) {
            Ok(listener) => listener,
            Err(error) => return self.cannot_listen(&error.to_string()),
        };
        let server = axum::serve(listener, http::router(Arc::clone(&service))).into_future();
        let work = async {
            let last = match loaded {
                Some(last) => last,
                None => self.load(&plan.stages).await,
            };
            service.open();
            self.say_all(last);
            self.tell.send_replace(State::Ready);
            self.work(&service, fates).await
        };
        tokio::select! {
            _ = server => KILLED,
            exit = work => exit,
        }
    }

    /// Serves until the engine dies of itself.
    async fn work(&self, service: &Arc<Service>, mut fates: mpsc::UnboundedReceiver<Exit>) -> Exit {
        tokio::select! {
            fate = fates.recv() => fate.unwrap_or(KILLED),
            () = Arc::clone(service).drive() => KILLED,
        }
    }

    /// Goes through the stages of the start. What the last one logs is left to the caller: it must be true when it is read.
    async fn load<'a>(&self, stages: &'a [Stage]) -> &'a [Line] {
        let (mut pace, mut unsaid): (_, &[Line]) = (Pace::new(self.setup.time_scale), &[]);
        for stage in stages {
            self.say_all(unsaid);
            if let Some(sleep) = pace.spend(stage.seconds) {
                let began = Instant::now();
                tokio::time::sleep(sleep).await;
                pace.slept(began.elapsed());
            }
            self.gauge.set(stage.used);
            unsaid = &stage.lines;
        }
        unsaid
    }

    fn say_all(&self, lines: &[Line]) {
        for line in lines {
            self.say(line);
        }
    }

    fn cannot_listen(&self, error: &str) -> Exit {
        self.say(&Line::new(Head::Bare, format!("OSError: {error}")));
        Exit {
            code: 1,
            oom_killed: false,
        }
    }

    fn say(&self, line: &Line) {
        (self.log)(&line.at(&jiff::Zoned::now()).to_string());
    }
}
