//! Runs the simulated engine: reserves the port, goes through the start, serves, and exits.

use std::future::{self, IntoFuture};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::devices::SimDevices;
use super::engine_core::EngineCore;
use super::handle::{Exit, LogSink, SimHandle, State};
use super::http;
use super::listener::ReservedPort;
use super::options::Options;
use super::profile::{Engine, Profile};
use super::setup::Setup;
use super::start::{self, LinePrefix, LogLine, Stage, StartOutcome, StartPlan};
use super::time::TimeScaler;
use super::tokens::TokenCounter;
use crate::fault::Result;

/// Exit status after SIGKILL.
const KILLED: Exit = Exit {
    code: 137,
    oom_killed: false,
};

/// The simulated engine.
pub struct Sim;

impl Sim {
    /// Starts it on `bind` (port 0: any free port) and returns at once; [`SimHandle::wait_started`] waits until it
    /// serves or has failed. Log lines go to `log`. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// A port in use, an invalid or unsupported option, a missing tokenizer. Running out of memory is no error: the
    /// engine exits and logs it, as the real one does.
    pub fn start(profile: Profile, options: Options, bind: SocketAddr, log: LogSink) -> Result<SimHandle> {
        let setup = Setup::new(profile, &options)?;
        let counter = TokenCounter::new(options.tokenizer.as_deref())?;
        let port = ReservedPort::reserve(bind)?;
        let url = format!("http://{}", port.address);
        let mut plan = start::plan(&setup, &url)?;
        if let Some(failed) = &setup.misbehave.fail_start {
            plan = plan.with_failure(failed)?;
        }
        let devices = Arc::new(SimDevices::new(
            setup.profile.gpu.clone(),
            setup.ranks,
            plan.total,
            plan.baseline,
            setup.profile.power,
        ));
        let (term, kill) = (CancellationToken::new(), CancellationToken::new());
        let (state_sender, state) = watch::channel(State::Starting);
        let process = SimProcess {
            setup,
            devices: Arc::clone(&devices),
            log,
            term: term.clone(),
            kill: kill.clone(),
            state_sender,
        };
        tokio::spawn(process.run_to_exit(port, plan, counter));
        Ok(SimHandle {
            url,
            devices,
            state,
            term,
            kill,
        })
    }
}

struct SimProcess {
    setup: Setup,
    devices: Arc<SimDevices>,
    log: LogSink,
    term: CancellationToken,
    kill: CancellationToken,
    state_sender: watch::Sender<State>,
}

impl SimProcess {
    async fn run_to_exit(self, port: ReservedPort, plan: StartPlan, counter: TokenCounter) {
        let baseline = plan.baseline;
        let reset = CancellationToken::new();
        let exit = tokio::select! {
            biased;
            () = self.kill.cancelled() => KILLED,
            exit = self.run(port, plan, counter, reset.clone()) => exit,
            () = self.terminated() => self.shut_down(),
        };
        reset.cancel();
        self.devices.set(baseline);
        let code = self.setup.misbehave.exit_code.unwrap_or(exit.code);
        // Nobody has to be listening.
        self.state_sender.send_replace(State::Exited(Exit { code, ..exit }));
    }

    /// Waits for SIGTERM; for ever if it is ignored.
    async fn terminated(&self) {
        self.term.cancelled().await;
        if self.setup.misbehave.ignore_sigterm {
            future::pending::<()>().await;
        }
    }

    /// Logs the engine's message on SIGTERM.
    fn shut_down(&self) -> Exit {
        let line = match self.setup.profile.engine {
            Engine::Vllm => LogLine::new(
                LinePrefix::Vllm {
                    process: "APIServer",
                    level: "INFO",
                    place: "launcher.py:100",
                },
                "[shutdown] API server: shutdown triggered",
            ),
            Engine::Tgi => LogLine::new(
                LinePrefix::Tgi {
                    level: "INFO",
                    module: "text_generation_launcher",
                },
                "Terminating webserver",
            ),
            Engine::Sglang => LogLine::new(
                LinePrefix::Sglang,
                "SIGTERM received. Draining requests and shutting down...",
            ),
            Engine::TensorrtLlm => LogLine::new(LinePrefix::Bare, "INFO:     Shutting down"),
            Engine::Llamacpp => LogLine::new(LinePrefix::Bare, "srv    operator(): cleaning up before exit..."),
            Engine::Ollama => LogLine::new(LinePrefix::Bare, "[GIN] shutting down"),
            Engine::Transformers => LogLine::new(LinePrefix::Bare, "INFO:     Shutting down"),
        };
        self.log_line(&line);
        Exit {
            code: 0,
            oom_killed: false,
        }
    }

    /// Starts and serves, until something ends it.
    async fn run(&self, port: ReservedPort, plan: StartPlan, counter: TokenCounter, reset: CancellationToken) -> Exit {
        if self.setup.misbehave.busy_port {
            return self.cannot_listen(&format!(
                "[Errno 98] error while attempting to bind on address {}: address already in use",
                port.address
            ));
        }
        if let Some(seconds) = self.setup.misbehave.slow_start {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        let serving = match plan.end {
            StartOutcome::Serve(serving) => serving,
            StartOutcome::Exit(exit) => {
                self.log_lines(self.run_stages(&plan.stages).await);
                return exit;
            }
        };
        let (exit_sender, exits) = mpsc::unbounded_channel();
        let (setup, devices, log) = (self.setup.clone(), Arc::clone(&self.devices), Arc::clone(&self.log));
        let core = Arc::new(EngineCore::new(setup, *serving, counter, devices, log, exit_sender));
        let loaded = if plan.listens_early {
            None
        } else {
            Some(self.run_stages(&plan.stages).await)
        };
        let listener = match port.listen(reset) {
            Ok(listener) => listener,
            Err(error) => return self.cannot_listen(&error.to_string()),
        };
        let server = axum::serve(listener, http::router(Arc::clone(&core))).into_future();
        let work = async {
            let last = match loaded {
                Some(last) => last,
                None => self.run_stages(&plan.stages).await,
            };
            core.set_loaded();
            self.log_lines(last);
            self.state_sender.send_replace(State::Ready);
            self.serve(&core, exits).await
        };
        tokio::select! {
            _ = server => KILLED,
            exit = work => exit,
        }
    }

    /// Serves until the engine exits by itself.
    async fn serve(&self, core: &Arc<EngineCore>, mut exits: mpsc::UnboundedReceiver<Exit>) -> Exit {
        tokio::select! {
            exit = exits.recv() => exit.unwrap_or(KILLED),
            () = Arc::clone(core).run() => KILLED,
        }
    }

    /// Runs the stages of the start. Returns the last stage's log lines, which the caller logs once they are true.
    async fn run_stages<'a>(&self, stages: &'a [Stage]) -> &'a [LogLine] {
        let (mut scaler, mut pending): (_, &[LogLine]) = (TimeScaler::new(self.setup.time_scale), &[]);
        for stage in stages {
            self.log_lines(pending);
            if let Some(sleep) = scaler.spend(stage.seconds) {
                let began = Instant::now();
                tokio::time::sleep(sleep).await;
                scaler.slept(began.elapsed());
            }
            self.devices.set(stage.used);
            pending = &stage.lines;
        }
        pending
    }

    fn log_lines(&self, lines: &[LogLine]) {
        for line in lines {
            self.log_line(line);
        }
    }

    fn cannot_listen(&self, error: &str) -> Exit {
        self.log_line(&LogLine::new(LinePrefix::Bare, format!("OSError: {error}")));
        Exit {
            code: 1,
            oom_killed: false,
        }
    }

    fn log_line(&self, line: &LogLine) {
        (self.log)(&line.at(&jiff::Zoned::now()).to_string());
    }
}
