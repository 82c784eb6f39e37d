//! The threads of a load: one that prepares requests, one that sends and reads, one that hears of ends.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;

use super::bell::{Alarm, Bell};
use super::client::{ALARM, BELL, Client, broken};
use super::larder::Larder;
use super::orders::Orders;
use super::pool::Pool;
use super::target::Target;
use super::{Clock, Drive, Driven, Go, Source, connect};
use crate::fault::{Fault, Result};
use crate::load::record::Record;

/// Cuts the load off when whoever waits for it does not wait any more.
struct Guard(Arc<Orders>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.give(Go::CutOff);
    }
}

/// Starts the threads and waits for them.
pub(super) async fn run(url: &str, plan: Drive, source: Arc<dyn Source>) -> Result<Driven> {
    let bell = Arc::new(Bell::new().map_err(broken)?);
    let orders = Arc::new(Orders::new(Arc::clone(&bell)));
    let guard = Guard(Arc::clone(&orders));
    let (give, mut driven) = oneshot::channel();
    let (url, cut) = (url.to_owned(), plan.cut.clone());
    spawn("load", move || {
        // It fails only where nobody waits any more.
        let _nobody_waits = give.send(load(&url, plan, source, bell, orders));
    })?;
    let ended = tokio::select! {
        ended = &mut driven => ended,
        () = cut.cancelled() => {
            guard.0.give(Go::CutOff);
            driven.await
        }
    };
    ended.unwrap_or_else(|_| Err(Fault::internal("the load's client ended badly")))
}

fn load(url: &str, plan: Drive, source: Arc<dyn Source>, bell: Arc<Bell>, orders: Arc<Orders>) -> Result<Driven> {
    let target = Target::resolve(url)?;
    let connections = plan.slots.connections();
    connect::allow_files(connections)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|error| broken(error.into()))?;
    let alarm = Alarm::new().map_err(broken)?;
    let watch = |number| EpollEvent::new(EpollFlags::EPOLLIN, number);
    epoll.add(&bell, watch(BELL)).map_err(|error| broken(error.into()))?;
    epoll.add(&alarm, watch(ALARM)).map_err(|error| broken(error.into()))?;
    let larder = Arc::new(Larder::new(connections, Arc::clone(&bell)));
    let cook = {
        let (larder, source, target) = (Arc::clone(&larder), Arc::clone(&source), target.clone());
        spawn("load-prepare", move || larder.fill(source.as_ref(), &target))?
    };
    let (ended, records) = channel();
    let clerk = {
        let orders = Arc::clone(&orders);
        let source = Arc::clone(&source);
        spawn("load-ended", move || hear(&records, source.as_ref(), &orders))?
    };
    let mut client = Client::new(
        Pool::new(epoll),
        target,
        plan,
        Arc::clone(&source),
        Arc::clone(&larder),
        orders,
        bell,
        alarm,
        ended,
    );
    let done = client.connect(connections).and_then(|()| {
        larder.wait_full(&client.orders);
        client.clock = Clock::now();
        let before = cpu();
        let done = client.run();
        let duration = client.clock.began.elapsed();
        client.watch.cpu = cpu().saturating_sub(before);
        client.watch.shares(duration);
        done.map(|()| duration)
    });
    larder.close();
    let Client {
        clock,
        watch,
        ended,
        pool,
        ..
    } = client;
    drop((ended, pool));
    let records = join(clerk)?;
    join(cook)?;
    Ok(Driven {
        duration: done?,
        records,
        clock,
        watch,
    })
}

/// Hears of every end, and passes on what follows from it.
fn hear(ended: &Receiver<Record>, source: &dyn Source, orders: &Orders) -> Vec<Record> {
    let mut records = Vec::new();
    for record in ended {
        orders.give(source.ended(&record));
        records.push(record);
    }
    records.sort_unstable_by_key(|record| record.index);
    records
}

/// CPU time of this thread.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
        Fault::missing(
            format!("no thread can be started: {error}"),
            "raise the limit on processes (`ulimit -u`)",
        )
    })
}

fn join<T>(thread: JoinHandle<T>) -> Result<T> {
    thread
        .join()
        .map_err(|_| Fault::internal("a thread of the load's client panicked"))
}
