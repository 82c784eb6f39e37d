//! The answer of a boundary as recorded by its run, or else computed from the points; and its facts in reading order.

use serde::Deserialize as _;
use serde_json::Value;

use super::commands::with_model;
use super::document::Fact;
use super::simulated_notice;
use crate::answer::{AnswerContext, Findings, RunFacts, SearchAnswer};
use crate::boundary::Boundary;
use crate::fault::{Fault, Result};
use crate::run::RecordedRun;

/// The data of a run that an answer needs besides the points of the boundary.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// The run of the search.
    pub run: RunFacts,
    /// The result of `report(map)`, if it was called.
    pub report: Option<Value>,
    /// The notice of a simulated run.
    pub simulated: Option<String>,
}

impl Extras {
    /// The data that a run recorded, with the result of `report(map)`.
    pub fn of_run(found: &RecordedRun, report: Option<Value>) -> Self {
        let manifest = &found.manifest;
        let run = RunFacts {
            stopped: found.stopped(),
            script: manifest.script.path.clone(),
            declared: RunFacts::declared_in(manifest.parameters.as_ref()),
            set: with_model(manifest.set.clone(), manifest.parameters.as_ref(), &found.totals.asked),
            allow: manifest.permissions.clone(),
            on_host: manifest.engines.iter().any(|engine| engine["memory_source"] == "host"),
            asked: found.totals.asked.iter().map(ToString::to_string).collect(),
        };
        let simulated = simulated_notice(found);
        Self { run, report, simulated }
    }

    /// The recorded answer. Without one, as in interrupted runs, the answer computed from the boundary.
    ///
    /// # Errors
    ///
    /// As [`SearchAnswer::new`].
    pub fn answer(&self, boundary: &Boundary) -> Result<SearchAnswer> {
        match self.field("answer").map(SearchAnswer::deserialize) {
            Some(Ok(recorded)) => Ok(recorded),
            Some(Err(_)) | None => self.within_context(|context| SearchAnswer::new(boundary, context)),
        }
    }

    /// The recorded result of `report(map)`; otherwise the result computed from the boundary, without the engine's
    /// flags.
    ///
    /// # Errors
    ///
    /// As [`Findings::new`].
    pub fn findings(&self, boundary: &Boundary) -> Result<Value> {
        if let Some(recorded) = &self.report {
            return Ok(recorded.clone());
        }
        let findings = self.within_context(|context| Findings::new(boundary, context))?;
        serde_json::to_value(findings).map_err(Fault::internal)
    }

    fn field(&self, key: &str) -> Option<&Value> {
        self.report.as_ref()?.get(key)
    }

    fn within_context<T>(&self, found: impl FnOnce(&AnswerContext) -> Result<T>) -> Result<T> {
        let headroom = self.field("headroom").and_then(Value::as_u64);
        found(&AnswerContext {
            search: self.field("search").filter(|search| search.is_object()),
            run: &self.run,
            // Flags come from the engine's adapter, which only the run itself had.
            flags: &|_, _| Ok(Vec::new()),
            headroom: &|_| headroom,
        })
    }
}

/// An answer as facts, the limit first.
pub(super) fn answer_facts(answer: &SearchAnswer) -> Vec<Fact> {
    let mut facts = vec![Fact::new("limit", &answer.limit), Fact::new("how sure", &answer.sure)];
    facts.extend(answer.workload.iter().map(|workload| Fact::new("workload", workload)));
    for command in &answer.run {
        facts.push(Fact::new("what to run", &command.workload));
        if !command.flags.is_empty() {
            facts.push(Fact::code("what to run", command.flags.join(" ")));
        }
    }
    facts.extend(answer.why.iter().map(|why| Fact::new("why not more", why)));
    facts.extend(answer.room.iter().map(|room| Fact::new("room", room)));
    facts.extend(answer.next.iter().map(|command| Fact::code("ask further", command)));
    facts.extend(answer.asked.iter().map(|asked| Fact::new("asked", asked)));
    facts
}
