//! The threads of a load: a few build requests, one sends and reads, one collects records.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;

use super::connection::Pool;
use super::event_loop::{Client, grow_file_table, io_fault, raise_file_limit};
use super::shared::{RequestQueue, SharedControl, Waker};
use super::target::Target;
use super::{Clock, Control, LoadConfig, LoadRun, RequestSource};
use crate::fault::{Fault, Result};
use crate::load::record::Record;

/// Aborts the load when the caller stops waiting for it.
struct AbortOnDrop(Arc<SharedControl>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.raise(Control::Abort);
    }
}

pub(super) async fn run(url: &str, config: LoadConfig, source: Arc<dyn RequestSource>) -> Result<LoadRun> {
    let waker = Arc::new(Waker::new().map_err(io_fault)?);
    let control = Arc::new(SharedControl::new(Arc::clone(&waker)));
    let guard = AbortOnDrop(Arc::clone(&control));
    let (result_tx, mut result) = oneshot::channel();
    let (url, cancel) = (url.to_owned(), config.cancel.clone());
    spawn("load", move || {
        // Fails only if the caller stopped waiting.
        let _ignored = result_tx.send(load(&url, config, source, waker, control));
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

fn load(
    url: &str,
    config: LoadConfig,
    source: Arc<dyn RequestSource>,
    waker: Arc<Waker>,
    control: Arc<SharedControl>,
) -> Result<LoadRun> {
    let mut target = Target::parse(url, config.key.as_ref())?;
    let (connections, must_connect) = (config.slots.connections(), config.must_connect);
    if let Err(fault) = target.resolve().and_then(|()| raise_file_limit(connections)) {
        if must_connect {
            return Err(fault);
        }
        target.unusable = Some(fault.message);
    }
    grow_file_table(waker.as_ref(), connections);
    let pool = Pool::new(&waker).map_err(io_fault)?;
    let queue = Arc::new(RequestQueue::new(connections, waker));
    // Leave cores for this thread and the engine. Nobody waits for these threads: one may be in the middle of a prompt.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..cores.div_ceil(4).min(4) {
        let (queue, source, target) = (Arc::clone(&queue), Arc::clone(&source), target.clone());
        spawn("load-prepare", move || queue.fill(source.as_ref(), &target))?;
    }
    let (records_tx, records_rx) = channel();
    let record_collector = {
        let control = Arc::clone(&control);
        let source = Arc::clone(&source);
        spawn("load-ended", move || {
            collect_records(&records_rx, source.as_ref(), &control)
        })?
    };
    let mut client = Client::new(
        pool,
        target,
        config,
        Arc::clone(&source),
        Arc::clone(&queue),
        control,
        records_tx,
    );
    let connected = client
        .connect(connections)
        .or_else(|fault| if must_connect { Err(fault) } else { Ok(()) });
    let done = connected.and_then(|()| {
        queue.wait_ready(&client.control);
        client.clock = Clock::now();
        let before = thread_cpu();
        let done = client.run();
        let duration = client.clock.began.elapsed();
        client.health.cpu = thread_cpu().saturating_sub(before);
        client.health.shares(duration);
        done.map(|()| duration)
    });
    queue.close();
    let Client {
        clock,
        health,
        records,
        pool,
        ..
    } = client;
    drop((records, pool));
    let records = join(record_collector)?;
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
