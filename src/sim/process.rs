//! The simulated process: reserves its port, starts, serves, and exits. The handle to it has its URL, its state and
//! exit status, and the memory and power of its devices.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{future, io};

use axum::Router;
use axum::body::Body;
use axum::serve::Listener;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _};
use hyper::Request;
use hyper::server::conn::http1;
use hyper::service::Service as _;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use minijinja::Value;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::devices::SimDevices;
use super::engine_core::EngineCore;
use super::exit::{Exit, LogSink};
use super::options::{Options, Setup};
use super::profile::Profile;
use super::start::{self, Stage, StartPlan};
use super::tokens::TokenCounter;
use super::{TimeScaler, http};
use crate::fault::{Fault, Kind, Result};
use crate::telemetry::Reading;
use crate::world::{self, Server, World};

/// The simulated engine.
pub struct Sim;

impl Sim {
    /// Starts the engine on `bind` (port 0: any free port) and returns at once; [`SimHandle::wait_started`] waits until
    /// it serves or has failed. Log lines go to `log`. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// A port in use, an invalid or unsupported option, a missing tokenizer. Running out of memory is no error: the
    /// engine exits and logs it, like the real one.
    pub fn start(profile: Profile, options: Options, bind: SocketAddr, log: LogSink) -> Result<SimHandle> {
        let setup = Setup::new(profile, &options)?;
        let counter = TokenCounter::new(options.tokenizer.as_deref())?;
        let reset = CancellationToken::new();
        let door = Door::new(bind, &reset)?;
        let url = door.url();
        let time_scale = setup.time_scale;
        let mut plan = start::plan(&setup, &url)?;
        if let Some(failed) = &setup.options.misbehave.fail_start {
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
        let (state_sender, state) = watch::channel(ProcessState::Starting);
        let process = SimProcess {
            setup,
            devices: Arc::clone(&devices),
            log,
            term: term.clone(),
            kill: kill.clone(),
            state_sender,
        };
        tokio::spawn(process.run_to_exit(door, plan, counter, reset));
        Ok(SimHandle {
            url,
            time_scale,
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
    state_sender: watch::Sender<ProcessState>,
}

impl SimProcess {
    async fn run_to_exit(self, door: Door, plan: StartPlan, counter: TokenCounter, reset: CancellationToken) {
        let baseline = plan.baseline;
        let exit = tokio::select! {
            biased;
            () = self.kill.cancelled() => Exit::KILLED,
            exit = self.run(door, plan, counter, reset.clone()) => exit,
            () = self.terminated() => self.shut_down(),
        };
        reset.cancel();
        self.devices.set(baseline);
        let code = self.setup.options.misbehave.exit_code.unwrap_or(exit.code);
        // It is fine if nobody is listening.
        self.state_sender
            .send_replace(ProcessState::Exited(Exit { code, ..exit }));
    }

    /// Waits for SIGTERM; forever if it is ignored.
    async fn terminated(&self) {
        self.term.cancelled().await;
        if self.setup.options.misbehave.ignore_sigterm {
            future::pending::<()>().await;
        }
    }

    /// Logs the engine's message on SIGTERM.
    fn shut_down(&self) -> Exit {
        let lines = self.setup.profile.engine.text("stopped", &Value::UNDEFINED);
        lines.unwrap_or_default().lines().for_each(|line| self.log_line(line));
        Exit::new(0)
    }

    /// Starts and serves until something ends the engine.
    async fn run(&self, door: Door, plan: StartPlan, counter: TokenCounter, reset: CancellationToken) -> Exit {
        if self.setup.options.misbehave.busy_port {
            return self.cannot_listen(&format!(
                "[Errno 98] error while attempting to bind on address {}: address already in use",
                door.url().trim_start_matches("http://")
            ));
        }
        if let Some(seconds) = self.setup.options.misbehave.slow_start {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        let serving = match plan.end {
            Ok(serving) => serving,
            Err(exit) => {
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
        let server = match door.open(http::router(Arc::clone(&core)), reset) {
            Ok(server) => server,
            Err(error) => return self.cannot_listen(&error.to_string()),
        };
        let work = async {
            let last = match loaded {
                Some(last) => last,
                None => self.run_stages(&plan.stages).await,
            };
            core.set_loaded();
            self.log_lines(last);
            self.state_sender.send_replace(ProcessState::Ready);
            self.serve(&core, exits).await
        };
        tokio::select! {
            biased;
            () = server => Exit::KILLED,
            exit = work => exit,
        }
    }

    /// Serves until the engine exits by itself.
    async fn serve(&self, core: &Arc<EngineCore>, mut exits: mpsc::UnboundedReceiver<Exit>) -> Exit {
        tokio::select! {
            biased;
            exit = exits.recv() => exit.unwrap_or(Exit::KILLED),
            () = Arc::clone(core).run() => Exit::KILLED,
        }
    }

    /// Runs the stages of the start. Returns the last stage's log lines, which the caller logs once they are true.
    async fn run_stages<'a>(&self, stages: &'a [Stage]) -> &'a [String] {
        let (mut scaler, mut pending): (_, &[String]) = (TimeScaler::new(self.setup.time_scale), &[]);
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

    fn log_lines(&self, lines: &[String]) {
        lines.iter().for_each(|line| self.log_line(line));
    }

    fn cannot_listen(&self, error: &str) -> Exit {
        self.log_line(&format!("SIMULATED OSError: {error}"));
        Exit::FAILED
    }

    fn log_line(&self, line: &str) {
        (self.log)(&self.setup.profile.engine.stamped(line));
    }
}

/// Where the engine listens: at a bound port, or on a simulated machine. Connections are refused until it is opened.
enum Door {
    Port(TcpSocket, SocketAddr),
    Inside(Arc<dyn World>, String),
}

impl Door {
    /// Binds the port; 0 lets the kernel choose.
    fn new(bind: SocketAddr, reset: &CancellationToken) -> Result<Self> {
        let bound = match world::current() {
            Some(world) => world.listen(reset.clone()).map(|url| Self::Inside(world, url)),
            None => Self::bind(bind),
        };
        bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Fault::missing(
                format!("port {} is in use", bind.port()),
                "choose another with --port, or 0 for any free one",
            ),
            _ => Fault::new(Kind::Io, format!("cannot bind `{bind}`: {error}")),
        })
    }

    fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        // Allows binding despite connections of a dead process in TIME_WAIT. Not for port 0, because the kernel might
        // then give the same port to two sockets that do not listen yet.
        if address.port() != 0 {
            socket.set_reuseaddr(true)?;
        }
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok(Self::Port(socket, address))
    }

    fn url(&self) -> String {
        match self {
            Self::Port(_, address) => format!("http://{address}"),
            Self::Inside(_, url) => url.clone(),
        }
    }

    /// Serves until dropped. Connections are reset when `reset` is cancelled.
    fn open(self, router: Router, reset: CancellationToken) -> io::Result<BoxFuture<'static, ()>> {
        match self {
            Self::Port(socket, _) => Ok(serve(socket.listen(1024)?, router, reset).boxed()),
            Self::Inside(world, url) => {
                world.serve(&url, server(router));
                Ok(future::pending().boxed())
            }
        }
    }
}

/// The router as a server of a simulated machine.
fn server(router: Router) -> Server {
    let service = TowerToHyperService::new(router);
    Arc::new(move |request: Request<Bytes>| {
        let answered = service.call(request.map(Body::from));
        async move {
            let Ok(response) = answered.await;
            response.map(|body| body.into_data_stream().map_err(io::Error::other).boxed())
        }
        .boxed()
    })
}

/// Serves until dropped. When `reset` is cancelled, connections are reset like those of a dead process.
async fn serve(mut listener: TcpListener, router: Router, reset: CancellationToken) {
    loop {
        let (stream, _) = Listener::accept(&mut listener).await;
        // Tokens are sent one by one; with Nagle's algorithm they would arrive 40 ms late. Failing is harmless.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let reset = reset.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = &mut connection => {}
                () = reset.cancelled() => {
                    // RST instead of FIN, if the system allows it.
                    let _ = connection.into_parts().io.into_inner().set_zero_linger();
                }
            }
        });
    }
}

/// State of the simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// Loading. vLLM and TGI refuse connections, llama.cpp answers 503.
    Starting,
    /// Serving requests.
    Ready,
    /// Exited.
    Exited(Exit),
}

/// State of an engine whose async runtime was shut down.
const RUNTIME_GONE: ProcessState = ProcessState::Exited(Exit::KILLED);

/// A running simulated engine. Dropping it ends the engine.
pub struct SimHandle {
    /// `http://127.0.0.1:PORT`, known before the engine is ready.
    pub url: String,
    /// Seconds of real time per second of model time.
    pub time_scale: f64,
    devices: Arc<SimDevices>,
    state: watch::Receiver<ProcessState>,
    term: CancellationToken,
    kill: CancellationToken,
}

impl SimHandle {
    /// Current memory of the simulated devices.
    pub fn reading(&self) -> Reading {
        self.devices.reading()
    }

    /// Memory of the simulated devices before the engine started.
    pub fn before(&self) -> Reading {
        self.devices.before()
    }

    /// A closure that returns [`SimHandle::reading`], for a sampler that outlives this borrow.
    pub fn reader(&self) -> impl Fn() -> Reading + Send + 'static + use<> {
        let devices = Arc::clone(&self.devices);
        move || devices.reading()
    }

    /// Current state.
    pub fn state(&self) -> ProcessState {
        match *self.state.borrow() {
            ProcessState::Starting | ProcessState::Ready if self.state.has_changed().is_err() => RUNTIME_GONE,
            state => state,
        }
    }

    /// Waits until it serves, or has failed to start.
    pub async fn wait_started(&self) -> ProcessState {
        self.wait_for_state(|state| *state != ProcessState::Starting).await
    }

    /// Waits until it has exited.
    pub async fn wait_exited(&self) -> Exit {
        match self
            .wait_for_state(|state| matches!(state, ProcessState::Exited(_)))
            .await
        {
            ProcessState::Exited(exit) => exit,
            ProcessState::Starting | ProcessState::Ready => unreachable!("waited for the end"),
        }
    }

    /// Sends SIGTERM, and SIGKILL after `grace`. Waits for the exit.
    pub async fn stop(&self, grace: Duration) -> Exit {
        self.term.cancel();
        if let Ok(exit) = tokio::time::timeout(grace, self.wait_exited()).await {
            return exit;
        }
        self.kill.cancel();
        self.wait_exited().await
    }

    async fn wait_for_state(&self, condition: impl FnMut(&ProcessState) -> bool) -> ProcessState {
        let mut state = self.state.clone();
        match state.wait_for(condition).await {
            Ok(found) => *found,
            Err(_) => RUNTIME_GONE,
        }
    }
}

impl Drop for SimHandle {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}
