//! How a load is carried out: by threads, of which a few build requests, one sends and reads and one collects records;
//! or on a simulated machine without sockets and threads, with all requests sent together, as a probe does.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::Target;
use super::event_loop::{Client, grow_file_table, io_fault, raise_file_limit};
use super::exchange::Exchange;
use super::shared::SharedControl;
use super::{ClientHealth, Clock, Control, LoadConfig, LoadRun, RequestSource};
use crate::fault::{Fault, Result};
use crate::load::framing::Held;
use crate::load::record::{FailureForm, Record};
use crate::world::World;

/// Aborts the load when the caller stops waiting for it.
struct AbortOnDrop(Arc<SharedControl>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.raise(Control::Abort);
    }
}

pub(super) async fn run(url: &str, config: LoadConfig, source: Arc<dyn RequestSource>) -> Result<LoadRun> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let waker = Arc::new(EventFd::from_flags(flags).map_err(|error| io_fault(error.into()))?);
    let control = Arc::new(SharedControl::new(waker));
    let guard = AbortOnDrop(Arc::clone(&control));
    let (result_tx, mut result) = oneshot::channel();
    let (url, cancel) = (url.to_owned(), config.cancel.clone());
    spawn("load", move || {
        // Fails only if the caller stopped waiting.
        let _ignored = result_tx.send(load(&url, config, source, control));
    })?;
    let result = tokio::select! {
        result = &mut result => result,
        () = cancel.cancelled() => {
            guard.0.raise(Control::Abort);
            result.await
        }
    };
    result.unwrap_or_else(|_| Err(Fault::internal("load client thread failed")))
}

fn load(url: &str, config: LoadConfig, source: Arc<dyn RequestSource>, control: Arc<SharedControl>) -> Result<LoadRun> {
    let mut target = Target::parse(url, config.key.as_ref())?;
    let (connections, must_connect) = (config.slots.connections(), config.must_connect);
    if let Err(fault) = target.resolve().and_then(|()| raise_file_limit(connections)) {
        if must_connect {
            return Err(fault);
        }
        target.unusable = Some(fault.message);
    }
    grow_file_table(control.waker.as_ref(), connections);
    let (records, ended) = channel();
    let mut client = Client::new(target, config, source, control, records)?;
    // Leave cores for this thread and the engine. Nobody waits for these threads: one may be in the middle of a prompt.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..cores.div_ceil(4).min(4) {
        let (queue, source, target) = (
            Arc::clone(&client.queue),
            Arc::clone(&client.source),
            client.target.clone(),
        );
        spawn("load-prepare", move || queue.fill(source.as_ref(), &target))?;
    }
    let (source, control) = (Arc::clone(&client.source), Arc::clone(&client.control));
    let collector = spawn("load-ended", move || collect_records(&ended, source.as_ref(), &control))?;
    let connected = client
        .connect(connections)
        .or_else(|fault| if must_connect { Err(fault) } else { Ok(()) });
    let done = connected.and_then(|()| {
        client.queue.wait_ready(&client.control);
        client.clock = Clock::now();
        let before = thread_cpu();
        let done = client.run();
        let duration = client.clock.began.elapsed();
        client.health.finish(thread_cpu().saturating_sub(before), duration);
        done.map(|()| duration)
    });
    client.queue.close();
    let Client {
        clock,
        health,
        records,
        pool,
        ..
    } = client;
    drop((records, pool));
    let records = join(collector)?;
    Ok(LoadRun {
        duration: done?,
        records,
        clock,
        health,
    })
}

/// Passes every record to the source and applies the returned command.
fn collect_records(ended: &Receiver<Record>, source: &dyn RequestSource, control: &SharedControl) -> Vec<Record> {
    let mut records = Vec::new();
    for record in ended {
        control.raise(source.ended(&record));
        records.push(record);
    }
    records.sort_unstable_by_key(|record| record.index);
    records
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
        Fault::missing(
            format!("cannot start a thread: {error}"),
            "raise the limit on processes (`ulimit -u`)",
        )
    })
}

fn join<T>(thread: JoinHandle<T>) -> Result<T> {
    thread
        .join()
        .map_err(|_| Fault::internal("a load client thread panicked"))
}

pub(super) async fn run_inside(
    world: &dyn World,
    url: &str,
    config: LoadConfig,
    source: Arc<dyn RequestSource>,
) -> Result<LoadRun> {
    let began = Instant::now();
    let (mut requests, held) = (Vec::new(), Held::default());
    while let Some(build) = source.next()? {
        let job = build()?;
        let request = Request::post(url)
            .header("content-type", "application/json")
            .body(Body::from(job.body.clone()))
            .map_err(|error| Fault::usage(error.to_string()))?;
        let now = began.into_std();
        let exchange = Exchange::new(requests.len() as u64, (now, now, now), config.keep_text, &held, job);
        let (source, cancel) = (Arc::clone(&source), config.cancel.clone());
        requests.push(async move {
            let record = exchanged(world, request, exchange, source.as_ref(), &cancel).await;
            source.ended(&record);
            record
        });
    }
    let records = join_all(requests).await;
    Ok(LoadRun {
        records,
        clock: Clock {
            began: began.into_std(),
            unix: world.now().into(),
        },
        duration: began.elapsed(),
        health: ClientHealth::default(),
    })
}

async fn exchanged(
    world: &dyn World,
    request: Request,
    mut exchange: Exchange,
    source: &dyn RequestSource,
    cancel: &CancellationToken,
) -> Record {
    let now = || Instant::now().into_std();
    exchange.start(now());
    exchange.advance(exchange.unwritten().len());
    let over = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        over = answered(world, request, &mut exchange, source) => Some(over),
    };
    match over {
        None => exchange.cut_off(now()),
        Some(Ok(())) => exchange.complete(now()),
        Some(Err((form, message))) => exchange.broken(now(), form, message),
    }
}

/// Reads the response to its end.
async fn answered(
    world: &dyn World,
    request: Request,
    exchange: &mut Exchange,
    source: &dyn RequestSource,
) -> std::result::Result<(), (FailureForm, String)> {
    let late = |timeout: Duration| {
        (
            FailureForm::Deadline,
            format!("unfinished after {} s", timeout.as_secs_f64()),
        )
    };
    let timeout = exchange.timeout;
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => (FailureForm::Unreachable, error.to_string()),
        _ => (FailureForm::Broken, error.to_string()),
    };
    let response = tokio::time::timeout_at(exchange.deadline.into(), world.send(request)).await;
    let (head, body) = response.map_err(|_| late(timeout))?.map_err(failed)?.into_parts();
    let head = format!("HTTP/1.1 {}\r\nconnection: close\r\n\r\n", head.status);
    exchange.feed(head.as_bytes(), Instant::now().into_std());
    let mut body: BodyDataStream = body.into_data_stream();
    loop {
        let part = tokio::time::timeout_at(exchange.deadline.into(), body.next()).await;
        let Some(bytes) = part.map_err(|_| late(timeout))? else {
            break;
        };
        let bytes = bytes.map_err(|error| (FailureForm::Broken, error.to_string()))?;
        let had_token = exchange.has_token();
        let over = exchange.feed(&bytes, Instant::now().into_std());
        if exchange.has_token() && !had_token {
            source.first_token();
        }
        if over {
            return Ok(());
        }
    }
    match exchange.close() {
        true => Ok(()),
        false => Err((FailureForm::Broken, "the connection was closed".to_owned())),
    }
}
