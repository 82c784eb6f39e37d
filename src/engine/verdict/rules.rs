//! Checks an adapter's rules, and applies them to recorded output of an engine, for tests of adapters.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::bounds::EngineBounds;
use super::failure::{allocations, classify};
use super::reason::Symptoms;
use crate::boundary::{Cause, Verdict};
use crate::engine::adapter::{Adapter, Facts, FailureRule, RulePhase, check_path};
use crate::engine::facts::log::{REQUEST, ReportedFact, find, group_by_name, matches, phase_of, strip_colours};
use crate::engine::facts::metrics;
use crate::engine::wire::protocol;
use crate::fault::{Fault, Result};
use crate::load::engine_side::EngineMetrics;
use crate::prompt::{Content, PromptForm};
use crate::run::{Allocation, Limits};
use crate::runtime::Exit;

/// An adapter's `facts()` and `failures()`.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(crate) facts: Facts,
    pub(crate) failures: Vec<FailureRule>,
}

impl Rules {
    /// Calls the adapter and checks its rules.
    ///
    /// # Errors
    ///
    /// `usage` for unusable rules.
    pub fn from_adapter(adapter: &dyn Adapter) -> Result<Self> {
        check_request(adapter)?;
        Ok(Self {
            facts: checked_facts(adapter)?,
            failures: checked_failures(adapter)?,
        })
    }

    /// Reads the log of a start that ended with status `code`. For tests of adapters.
    pub fn read_start(&self, log: &[String], code: i64) -> Reading {
        self.read(RulePhase::Start, &[], log, Some(code))
    }

    /// Reads the outcome of a request: response bodies or stream errors, the log since it was sent, and the exit status
    /// of an engine that died. For tests of adapters.
    pub fn read_request(&self, messages: &[String], log: &[String], code: Option<i64>) -> Reading {
        self.read(RulePhase::Request, messages, log, code)
    }

    /// Reads a metrics page as snapshots. For tests of adapters.
    pub fn read_metrics(&self, page: &str) -> Vec<EngineMetrics> {
        metrics::read(page, &self.facts.metrics)
    }

    fn read(&self, phase: RulePhase, messages: &[String], log: &[String], code: Option<i64>) -> Reading {
        let log = strip_colours(log);
        let exit = code.map(|code| Exit {
            code: Some(code),
            ..Exit::default()
        });
        let symptoms = Symptoms {
            exit: exit.as_ref(),
            messages,
            log: &log,
        };
        let found = classify(&self.failures, phase, symptoms);
        let mut stated = EngineBounds::default();
        if let Some(line) = found.as_ref().and_then(|found| found.line.as_ref()) {
            stated.learn(&self.failures, line);
        }
        Reading {
            limits: (stated.max_model_len, stated.max_input),
            facts: find(&self.facts.log, &log),
            reported: group_by_name(matches(&self.facts.log, &self.facts.rank, &log, "log")),
            verdict: found.as_ref().map(|found| found.verdict),
            cause: found.as_ref().and_then(|found| found.cause.clone()),
            remedy: found.as_ref().and_then(|found| found.remedy.clone()),
            state_slots: found.as_ref().and_then(|found| found.state_slots),
            line: found.and_then(|found| found.line),
            phase: match phase {
                RulePhase::Start => phase_of(&self.facts.progress, &log),
                RulePhase::Any | RulePhase::Request => Some(REQUEST.to_owned()),
            },
            allocations: allocations(messages.iter().chain(&log)),
        }
    }
}

/// The faults of an adapter's rules and of the form of its request, by function. Starts nothing.
pub fn check_adapter(adapter: &dyn Adapter) -> Vec<(&'static str, Fault)> {
    let checks = [
        ("facts", checked_facts(adapter).map(drop)),
        ("failures", checked_failures(adapter).map(drop)),
        ("request", check_request(adapter)),
        ("tunable", adapter.tunable().map(drop)),
    ];
    checks
        .into_iter()
        .filter_map(|(name, check)| Some((name, check.err()?)))
        .collect()
}

fn checked_facts(adapter: &dyn Adapter) -> Result<Facts> {
    let facts = adapter.facts()?;
    let pages = facts.info.values().flatten().map(|rule| rule.path.as_str());
    let metrics = Some(facts.metrics.path.as_str()).filter(|path| !path.is_empty());
    pages.chain(metrics).try_for_each(check_path)?;
    Ok(facts)
}

fn checked_failures(adapter: &dyn Adapter) -> Result<Vec<FailureRule>> {
    let rules = adapter.failures()?;
    FailureRule::check(&rules).map(|()| rules)
}

/// Builds one small request.
fn check_request(adapter: &dyn Adapter) -> Result<()> {
    let limits = Limits::new(16, 16, 1);
    for form in adapter.request(&limits.point()?, Some(&limits))? {
        let prompt = match form.prompt {
            PromptForm::Tokens => Content::Tokens(vec![1; 16]),
            PromptForm::Text => Content::Text("a".to_owned()),
        };
        check_path(&form.path)?;
        protocol::body(&form, &prompt, None)?;
    }
    Ok(())
}

/// An engine's output as an adapter's rules read it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reading {
    /// Facts by name; sizes in bytes.
    pub facts: BTreeMap<String, Value>,
    /// Every line that reports a fact, by fact, oldest first.
    pub reported: BTreeMap<String, Vec<ReportedFact>>,
    /// The verdict, if a failure rule matches.
    pub verdict: Option<Verdict>,
    /// Its cause.
    pub cause: Option<Cause>,
    /// The remedy, if the rule has one.
    pub remedy: Option<String>,
    /// The sequences for which the engine has room for the state of recurrent layers.
    pub state_slots: Option<u64>,
    /// The matching line.
    pub line: Option<String>,
    /// The limits that the output states: longest input and output together, and longest input.
    pub limits: (Option<u64>, Option<u64>),
    /// The phase that the engine had reached.
    pub phase: Option<String>,
    /// Failed allocations.
    pub allocations: Vec<Allocation>,
}
