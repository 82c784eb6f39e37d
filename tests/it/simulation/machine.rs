//! A simulated machine. Its clock advances only when all tasks wait, its disk fails and forgets, its network loses and
//! corrupts data, and it can die at any change of the disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use hyper::{Request, Response};
use jiff::Timestamp;
use profiler::world::{Body, Change, Server, World};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::chance::Chance;
use super::disk::{self, Disk};
use crate::fuzz::targets::memory;

/// Default timeout of a request to an engine's page.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The faults of one execution.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The machine dies at this change of the disk, and loses power if `power` is set.
    pub dies_at: Option<u64>,
    pub power: bool,
    /// This change of the disk fails.
    pub disk_fails_at: Option<u64>,
    /// One request in this many is lost, broken off, refused or answered with an error.
    pub bad_requests: Option<u64>,
    /// This engine finds its port taken.
    pub busy_port: Option<u64>,
}

pub struct Machine {
    runtime: Runtime,
    booted: Instant,
    at_boot: Timestamp,
    faults: Faults,
    state: Mutex<State>,
}

struct State {
    disk: Disk,
    chance: Chance,
    /// The file or folder of each change so far.
    changes: Vec<PathBuf>,
    dead: bool,
    /// The file whose change failed.
    disk_failed: Option<PathBuf>,
    engines: BTreeMap<String, (CancellationToken, Option<Server>)>,
}

impl Machine {
    pub fn new(root: &Path, at_boot: Timestamp, seed: u64, execution: u64, faults: Faults) -> Arc<Self> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let booted = runtime.block_on(async { Instant::now() });
        Arc::new(Self {
            runtime,
            booted,
            at_boot,
            faults,
            state: Mutex::new(State {
                disk: Disk::of(root),
                chance: Chance::new(seed, 1000 + execution),
                changes: Vec::new(),
                dead: false,
                disk_failed: None,
                engines: BTreeMap::new(),
            }),
        })
    }

    pub fn is_dead(&self) -> bool {
        self.state.lock().unwrap().dead
    }

    pub fn disk_failed(&self) -> Option<PathBuf> {
        self.state.lock().unwrap().disk_failed.clone()
    }

    /// The file or folder of each change.
    pub fn changes(&self) -> Vec<PathBuf> {
        self.state.lock().unwrap().changes.clone()
    }

    /// Writes the files that survive the machine's death.
    pub fn leave(&self, root: &Path) {
        let state = &mut *self.state.lock().unwrap();
        state
            .disk
            .leave(root, state.dead && self.faults.power, &mut state.chance);
    }
}

impl World for Machine {
    fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn now(&self) -> Timestamp {
        self.at_boot + self.booted.elapsed()
    }

    fn random(&self) -> u64 {
        self.state.lock().unwrap().chance.next()
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        let State {
            disk,
            chance,
            changes,
            dead,
            disk_failed,
            ..
        } = &mut *self.state.lock().unwrap();
        changes.push(disk::changed(change).to_owned());
        let number = changes.len() as u64;
        if !*dead && self.faults.dies_at == Some(number) {
            *dead = true;
            disk.apply_in_part(change, chance);
        }
        if *dead {
            return Err(io::Error::other("the machine is dead"));
        }
        if self.faults.disk_fails_at == Some(number) {
            // A leftover file from a failed removal does no harm.
            if !matches!(change, Change::Remove(_)) {
                *disk_failed = Some(disk::changed(change).to_owned());
            }
            disk.apply_in_part(change, chance);
            return Err(io::Error::other("the disk failed"));
        }
        disk.apply(change);
        Ok(())
    }

    fn listen(&self, reset: CancellationToken) -> io::Result<String> {
        let engines = &mut self.state.lock().unwrap().engines;
        let number = engines.len() as u64 + 1;
        let url = format!("http://127.0.0.1:{}", 40_000 + number);
        engines.insert(url.clone(), (reset, None));
        match self.faults.busy_port == Some(number) {
            true => Err(io::ErrorKind::AddrInUse.into()),
            false => Ok(url),
        }
    }

    fn serve(&self, url: &str, server: Server) {
        self.state.lock().unwrap().engines.get_mut(url).unwrap().1 = Some(server);
    }

    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, io::Result<Response<Body>>> {
        let state = &mut *self.state.lock().unwrap();
        let uri = request.uri();
        let url = format!("http://{}", uri.authority().unwrap());
        let (reset, server) = state.engines.get(&url).cloned().unwrap();
        let refused = || Err(io::ErrorKind::ConnectionRefused.into());
        let Some(server) = server.filter(|_| !reset.is_cancelled()) else {
            return std::future::ready(refused()).boxed();
        };
        let fault = self.faults.bad_requests.filter(|one_in| state.chance.one_in(*one_in));
        let fault = fault.map(|_| (state.chance.below(5), state.chance.below(20)));
        async move {
            let answered = async {
                match fault {
                    Some((0, _)) => std::future::pending().await,
                    Some((1, _)) => return refused(),
                    Some((2, _)) => tokio::time::sleep(Duration::from_secs(3)).await,
                    _ => {}
                }
                Ok(server(request).await)
            };
            let response = tokio::select! {
                biased;
                () = reset.cancelled() => return Err(io::ErrorKind::ConnectionReset.into()),
                response = answered => response?,
            };
            let (head, body) = response.into_parts();
            let broken = || stream::once(async { Err::<Bytes, _>(io::Error::from(io::ErrorKind::ConnectionReset)) });
            let parts = body.take_until(reset.clone().cancelled_owned());
            // A stream that ends normally has its end marker.
            let parts = match fault {
                Some((3, after)) => parts.take(after as usize).chain(broken()).boxed(),
                Some((4, after)) => parts.take(after as usize).chain(stream::pending()).boxed(),
                _ => parts.boxed(),
            };
            Ok(Response::from_parts(head, parts))
        }
        .boxed()
    }

    fn page(&self, request: reqwest::Request) -> BoxFuture<'static, reqwest::Response> {
        let timeout = request.timeout().copied().unwrap_or(TIMEOUT);
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
        let sent = Request::builder()
            .method(request.method())
            .uri(request.url().as_str())
            .header("content-type", "application/json")
            .body(Bytes::copy_from_slice(body));
        let sending = self.send(sent.unwrap());
        let answered = async {
            let (head, body) = sending.await.ok()?.into_parts();
            let body: Vec<u8> = body
                .try_fold(Vec::new(), |mut whole, part| async move {
                    whole.extend(part);
                    Ok(whole)
                })
                .await
                .ok()?;
            Some(Response::from_parts(head, body).into())
        };
        async move {
            let answer = tokio::time::timeout(timeout, answered).await.ok().flatten();
            let none = || Response::builder().status(502).body(Vec::new()).unwrap().into();
            answer.unwrap_or_else(none)
        }
        .boxed()
    }
}

/// The folder for the disks of all machines in this process; in memory, if possible.
pub fn folder() -> PathBuf {
    memory().join(format!("profiler-simulation-{}", std::process::id()))
}
