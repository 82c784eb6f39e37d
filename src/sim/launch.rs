//! Starting the simulated engine: takes its port, runs its start, serves, and ends it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::gauge::Gauge;
use super::handle::{Exit, LogSink, SimHandle, State};
use super::listener::Bound;
use super::options::Options;
use super::profile::Profile;
use crate::fault::{Fault, Result};

/// The simulated engine.
pub struct Sim;

impl Sim {
    /// Starts it on `bind` (port 0: any free one) and returns at once; [`SimHandle::settled`] waits until it serves or has failed.
    /// Log lines go to `log`. Must be called inside the runtime.
    ///
    /// # Errors
    /// A port that is taken, an impossible option. A start that fails for memory is no error: the engine exits with its
    /// log lines, as the real one does.
    pub fn start(profile: Profile, options: Options, bind: SocketAddr, log: LogSink) -> Result<SimHandle> {
        options.check()?;
        let bound = Bound::take(bind)?;
        let url = format!("http://{}", bound.address);
        let gauge = Arc::new(Gauge::new(profile.gpu.clone(), 0, 0));
        let (term, kill) = (CancellationToken::new(), CancellationToken::new());
        let (tell, state) = watch::channel(State::Starting);
        let listener = bound
            .listen(kill.clone())
            .map_err(|error| Fault::new(crate::fault::Kind::Io, format!("cannot listen: {error}")))?;
        let held = Arc::clone(&gauge);
        let (ended, dead) = (term.clone(), kill.clone());
        tokio::spawn(async move {
            held.set(0);
            log(&format!("SIMULATED {} {}", profile.name, profile.version));
            let router = Router::new().route("/health", get(|| async {}));
            tell.send_replace(State::Ready);
            tokio::select! {
                served = axum::serve(listener, router).into_future() => drop(served),
                () = ended.cancelled() => {}
                () = dead.cancelled() => {}
            }
            dead.cancel();
            tell.send_replace(State::Exited(Exit {
                code: 0,
                oom_killed: false,
            }));
        });
        Ok(SimHandle {
            url,
            gauge,
            state,
            term,
            kill,
        })
    }
}
