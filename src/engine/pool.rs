//! One or several engines of the same kind on this machine, each with its own GPUs or server, behind one handle. Points
//! probed at the same time are distributed among the engines; everything else uses the first one.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use serde_json::{Value, json};

use super::adapter::Adapter;
use super::lifecycle::engine::Engine;
use super::lifecycle::ensure::recall_failed_starts;
use super::lifecycle::health::stop_running;
use super::lifecycle::options::{Context, LaunchOptions};
use super::probe;
use super::probe::answer::{ProbeOptions, RETRIES};
use super::probe::dry_run::dry_run;
use crate::boundary::Point;
use crate::fault::{Fault, Result};
use crate::run::OperationKind;
use crate::run::{Operation, for_engine};
use crate::task::lock;

/// One or several engines of the same kind.
pub struct Pool {
    first: Member,
    others: Vec<Member>,
}

struct Member {
    engine: Engine,
    /// Held while this engine is probed, if the pool has several.
    busy: Mutex<()>,
}

impl Pool {
    /// Describes one engine, or several that differ only in their GPUs or their server, without starting any.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong option or unusable adapter rules, and if there is no engine; `not_allowed` for a local model
    /// or tokenizer that the script may not read.
    pub fn describe(context: &Context, adapter: &Arc<dyn Adapter>, all: Vec<LaunchOptions>) -> Result<Self> {
        let new = |options| Engine::new(context.clone(), Arc::clone(adapter), options);
        let mut engines: Vec<Engine> = all.into_iter().map(new).collect::<Result<_>>()?;
        let shown = shown_together(&engines);
        let starts = Arc::default();
        for engine in &mut engines {
            engine.shown = shown.clone();
            engine.starts = Arc::clone(&starts);
        }
        let busy = Mutex::default;
        let mut members = engines.into_iter().map(|engine| Member { engine, busy: busy() });
        let first = members.next().ok_or_else(|| Fault::usage("no engine is described"))?;
        recall_failed_starts(&first.engine);
        Ok(Self {
            others: members.collect(),
            first,
        })
    }

    /// The engine for everything except probes.
    pub fn first(&self) -> &Engine {
        &self.first.engine
    }

    /// Tests one point, `#{ input, output, concurrency }`, on the first idle engine, or waits for the first engine. The
    /// answer is a [`ProbeAnswer`](crate::run::ProbeAnswer), which is journaled before it is returned.
    ///
    /// # Errors
    ///
    /// `usage` for a wrong point or option; `missing` for something that the engine needs. The engine's failures are
    /// verdicts, never errors.
    pub fn probe(&self, point: &Point, mut options: ProbeOptions) -> Result<Value> {
        let requested = probe::check(point, &options)?;
        let first = self.first();
        options.retries = options.retries.or(first.options.retries).or(Some(RETRIES));
        if first.context.dry_run {
            let others = self.others.iter().map(|member| &member.engine);
            return dry_run(first, others, point, requested, options.overload);
        }
        let args = json!({ "engine": first.name(), "launch": first.shown, "point": point, "options": options });
        self.with_idle(|engine| {
            first.context.run.measure(OperationKind::Probe, args, || {
                let answer = probe::probe(engine, point, requested, options)?;
                Ok(Operation::Probe(Box::new(answer)))
            })
        })
    }

    /// Stops the engines, except attached ones. The next probe starts an engine again.
    ///
    /// # Errors
    ///
    /// Errors of reading their memory and of writing it to the run's folder.
    pub fn stop(&self) -> Result<()> {
        self.all()
            .try_for_each(|member| stop_running(&member.engine, &mut member.engine.lock()))
    }

    fn all(&self) -> impl Iterator<Item = &Member> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Runs `work` on the first idle engine, or waits for the first engine. Events noted by `work` are attributed to
    /// the engine that runs it.
    fn with_idle<T>(&self, work: impl FnOnce(&Engine) -> T) -> T {
        if self.others.is_empty() {
            return work(self.first());
        }
        let mut numbered = (1..).zip(self.all());
        let free = numbered.find_map(|(number, member)| Some((number, member, member.if_free()?)));
        let (number, member, _busy) = free.unwrap_or_else(|| (1, &self.first, lock(&self.first.busy)));
        for_engine(number, || work(&member.engine))
    }
}

impl Member {
    /// The lock to hold during a probe; `None` if the engine is being probed.
    fn if_free(&self) -> Option<MutexGuard<'_, ()>> {
        match self.busy.try_lock() {
            Ok(busy) => Some(busy),
            Err(TryLockError::Poisoned(busy)) => Some(busy.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The options of several engines as one object. An option that differs becomes the list of its values.
fn shown_together(engines: &[Engine]) -> Value {
    let mut shown = engines.first().map_or(Value::Null, |first| first.shown.clone());
    for (name, value) in shown.as_object_mut().into_iter().flatten() {
        if engines.iter().any(|other| other.shown[name] != *value) {
            let each = engines.iter().flat_map(|other| match &other.shown[name] {
                Value::Array(items) => items.clone(),
                one => vec![one.clone()],
            });
            *value = each.collect();
        }
    }
    shown
}
