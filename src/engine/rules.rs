//! An adapter's words, read once: compiled patterns, metric names, and where the engine tells about itself.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use super::allocation::allocations;
use super::facts::{FactRules, Found};
use super::failure::{Exit, FailureRules, Signs};
use super::pattern::compile;
use super::progress::{Progress, REQUEST};
use super::server::check_path;
use super::told::{Told, by_fact, told_by_log};
use super::{Adapter, Allocation, InfoRule, MetricRules, RulePhase, metrics};
use crate::boundary::Verdict;
use crate::fault::Result;
use crate::load::joined::State;

/// What the functions `facts()` and `failures()` of an adapter gave, ready for use.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) facts: FactRules,
    pub(super) gauges: FactRules,
    pub(super) ranks: Vec<Regex>,
    pub(super) failures: FailureRules,
    pub(super) metrics: MetricRules,
    pub(super) info: Vec<(String, Vec<InfoRule>)>,
    pub(super) parts: BTreeMap<String, String>,
    pub(super) progress: Progress,
}

impl Rules {
    /// Asks the adapter and compiles what it says.
    pub(super) fn of(adapter: &dyn Adapter) -> Result<Self> {
        let facts = adapter.facts()?;
        let pages = facts.info.values().flatten().map(|rule| rule.path.as_str());
        let metrics = Some(facts.metrics.path.as_str()).filter(|path| !path.is_empty());
        pages.chain(metrics).try_for_each(check_path)?;
        Ok(Self {
            facts: FactRules::new(&facts.log, "facts().log")?,
            gauges: FactRules::new(&facts.gauges, "facts().gauges")?,
            ranks: facts
                .rank
                .iter()
                .map(|pattern| compile(pattern, "facts().rank"))
                .collect::<Result<_>>()?,
            progress: Progress::new(&facts.progress)?,
            failures: FailureRules::new(adapter.failures()?)?,
            metrics: facts.metrics,
            info: facts.info.into_iter().collect(),
            parts: facts.parts,
        })
    }
}

/// How an engine serves another configuration than asked: in its own words, and by what of it is not on the GPUs. Without GPUs that were
/// asked for, nothing has to be there.
pub(super) fn degraded(facts: &Found, parts: &BTreeMap<String, String>, on_gpus: bool) -> Vec<String> {
    let words = facts
        .get("degraded")
        .map(|line| line.as_str().map_or_else(|| line.to_string(), str::to_owned));
    let count = |fact: &str| facts.get(fact).and_then(Value::as_u64);
    let partly = parts.iter().filter_map(|(part, whole)| {
        let (some, all) = (count(part)?, count(whole)?);
        (some < all && (some > 0 || on_gpus)).then(|| format!("`{part}` is {some} of {all}, the rest is on the host"))
    });
    words.into_iter().chain(partly).collect()
}

/// What an adapter reads from what an engine wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reading {
    /// Facts by name; sizes in bytes.
    pub facts: BTreeMap<String, Value>,
    /// Every place where a fact is told, by fact, oldest first.
    pub told: BTreeMap<String, Vec<Told>>,
    /// The verdict, where a rule knows a failure in it.
    pub verdict: Option<Verdict>,
    /// Its cause.
    pub cause: Option<String>,
    /// The line that says so.
    pub line: Option<String>,
    /// How far the engine was.
    pub phase: Option<String>,
    /// Allocations that failed.
    pub allocations: Vec<Allocation>,
}

/// Reads a log as the engine room does when an engine that was starting ended with status `code`: for adapters under test.
///
/// # Errors
///
/// `usage` when the adapter's rules cannot be read.
pub fn read_start(adapter: &dyn Adapter, log: &[String], code: i64) -> Result<Reading> {
    read(adapter, RulePhase::Start, &[], log, Some(code))
}

/// Reads what came of a request: bodies of refusals or errors within streams, the log since it was sent, and the status of an engine that
/// died over it. For adapters under test.
///
/// # Errors
///
/// `usage` when the adapter's rules cannot be read.
pub fn read_request(adapter: &dyn Adapter, messages: &[String], log: &[String], code: Option<i64>) -> Result<Reading> {
    read(adapter, RulePhase::Request, messages, log, code)
}

/// Reads a metrics page as the engine room does: the moments that it tells of. For adapters under test.
///
/// # Errors
///
/// `usage` when the adapter's rules cannot be read.
pub fn read_metrics(adapter: &dyn Adapter, page: &str) -> Result<Vec<State>> {
    Ok(metrics::read(page, &Rules::of(adapter)?.metrics))
}

fn read(
    adapter: &dyn Adapter,
    phase: RulePhase,
    messages: &[String],
    log: &[String],
    code: Option<i64>,
) -> Result<Reading> {
    let rules = Rules::of(adapter)?;
    let log = super::start::plain(log.to_vec());
    let exit = code.map(|code| Exit {
        code: Some(code),
        oom_killed: false,
    });
    let signs = Signs {
        exit,
        messages,
        log: &log,
    };
    let found = rules.failures.classify(phase, signs);
    Ok(Reading {
        facts: rules.facts.find(&log),
        told: by_fact(told_by_log(&rules, &log)),
        verdict: found.as_ref().map(|found| found.verdict),
        cause: found.as_ref().and_then(|found| found.cause.clone()),
        line: found.and_then(|found| found.line),
        phase: match phase {
            RulePhase::Start => rules.progress.phase(&log),
            RulePhase::Any | RulePhase::Request => Some(REQUEST.to_owned()),
        },
        allocations: allocations(messages.iter().chain(&log)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_only_partly_on_the_gpus_is_degraded() {
        let parts = [("layers_on_gpu".to_owned(), "layers".to_owned())].into();
        let told = |layers: u64, on_gpus| {
            let facts = [("layers_on_gpu", layers), ("layers", 33)].map(|(name, n)| (name.to_owned(), json!(n)));
            degraded(&facts.into(), &parts, on_gpus)
        };
        assert_eq!(told(33, true), [""; 0]);
        assert_eq!(told(20, true), ["`layers_on_gpu` is 20 of 33, the rest is on the host"]);
        assert_eq!(told(20, false).len(), 1);
        assert_eq!((told(0, true).len(), told(0, false).len()), (1, 0));
        let words = [("degraded".to_owned(), json!("context size reduced"))].into();
        assert_eq!(degraded(&words, &parts, true), ["context size reduced"]);
    }
}
