//! Runs one repeat of a load.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::unbounded_channel;

use super::client::run_client;
use super::feed::Feed;
use super::monitor::{METRICS_HZ, finish_monitor, start_monitor};
use super::session::Session;
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::state::Running;
use crate::fault::Result;
use crate::load::RequestRecord;
use crate::load::engine_side::Observations;
use crate::load::plan::{EndReason, LoadProgress, Schedule};
use crate::load::stats::ClientStats;
use crate::task::lock;

/// The results of one repeat.
#[derive(Default)]
pub(crate) struct Repeat {
    /// Number of the repeat, from 1.
    pub(crate) number: u64,
    pub(crate) seed: u64,
    /// Start of the load's clock.
    pub(crate) began: Option<SystemTime>,
    pub(crate) records: Vec<RequestRecord>,
    /// The file with the records.
    pub(crate) file: Option<PathBuf>,
    /// Output tokens as counted by the tokenizer, by request index.
    pub(crate) tokenized: HashMap<u64, u64>,
    /// Start of the measured part; `None` if the load ended during its warm-up.
    pub(crate) from: Option<Duration>,
    /// End of the load.
    pub(crate) to: Duration,
    /// The client's own performance; `None` for combined repeats.
    pub(crate) client: Option<ClientStats>,
    pub(crate) seen: Observations,
    pub(crate) end: EndReason,
    /// Relative half-width of the interval that `precision` watches, as last computed.
    pub(crate) width: Option<f64>,
    /// Why the load was given up, if it was.
    pub(crate) given_up: Option<String>,
    /// Whether this combines several repeats.
    pub(crate) pooled: bool,
}

/// Runs one repeat. `sent` is the number of requests of earlier repeats: the prompts of a file continue after them.
pub(crate) fn run_repeat(
    engine: &Engine,
    running: &Running,
    session: &Session,
    repeat: u64,
    sent: usize,
) -> Result<Repeat> {
    let offset = if session.corpus.is_some() {
        session.prompts_from.saturating_add(sent)
    } else {
        0
    };
    let plan = &session.plan;
    let seed = session.seed.wrapping_add(repeat - 1);
    let (signal, signals) = unbounded_channel();
    let name = format!("{}.jsonl", session.number);
    let file = engine.context.run.append("loads", &name)?;
    let path = file.as_ref().map(|(path, _)| path.clone());
    let monitor = start_monitor(engine, running, session.options.metrics_hz.unwrap_or(METRICS_HZ))?;
    let feed = Arc::new(Feed {
        schedule: Mutex::new(Schedule::new(Arc::clone(plan), seed, offset)),
        build: session.body_builder(signal.clone()),
        progress: Mutex::new(LoadProgress::new(Arc::clone(plan))),
        file: Mutex::new(file),
        repeat,
        signals: signal,
        timeout: session.timeout,
        clock: session.clock,
        fault: Mutex::default(),
        quiet_until: AtomicU64::default(),
        issued: AtomicU64::default(),
        ended: AtomicU64::default(),
        failing: Mutex::default(),
        given_up: Mutex::default(),
        retries: !plan.arrivals.is_open_loop(),
        served: Mutex::default(),
    });
    let (driven, died) = run_client(engine, running, &monitor, session, &feed, signals)?;
    if let Some(fault) = lock(&feed.fault).take() {
        return Err(fault);
    }
    let seen = finish_monitor(engine, monitor, running, driven.clock.began)?;
    let progress = feed.progress();
    let mut records: Vec<RequestRecord> = driven
        .records
        .iter()
        .map(|record| RequestRecord {
            warmup: progress.is_warmup(record.index),
            ..session.clock.record(record).into_owned()
        })
        .collect();
    let tokenized = session.tokenized(&mut records)?;
    let given_up = lock(&feed.given_up).take();
    let end = if died {
        EndReason::Died
    } else if given_up.is_some() {
        EndReason::GivenUp
    } else {
        match progress.end(records.len() as u64) {
            EndReason::Duration if session.ends_with_steps() => EndReason::Arrivals,
            end => end,
        }
    };
    Ok(Repeat {
        number: repeat,
        seed,
        began: Some(driven.clock.unix),
        file: path,
        tokenized,
        from: progress.measurement_start(),
        to: session.clock.model(driven.duration),
        client: Some(driven.health.stats.scaled(session.clock.speed)),
        seen: session.clock.observations(seen),
        end,
        width: progress.width(),
        given_up,
        records,
        ..Repeat::default()
    })
}
