//! An adapter's rules in compiled form: patterns, metric names, information pages and the phases of a start. Also reads
//! recorded output of an engine with them, for tests of adapters.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use super::facts::{FactRules, FactValues, ReportedFact, compile, group_by_name};
use super::failure::{FailureRules, Symptoms, allocations};
use super::limits::EngineBounds;
use super::{Adapter, Allocation, Facts, InfoRule, Limits, MetricRules, ProgressRule, RulePhase, metrics, protocol};
use crate::boundary::{Point, Verdict};
use crate::fault::{Fault, Result};
use crate::load::engine_side::EngineMetrics;
use crate::prompt::{Content, PromptForm};
use crate::runtime::Exit;

/// The compiled results of an adapter's `facts()` and `failures()`.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(super) facts: FactRules,
    pub(super) gauges: FactRules,
    pub(super) failures: FailureRules,
    pub(super) metrics: MetricRules,
    pub(super) info: Vec<(String, Vec<InfoRule>)>,
    pub(super) parts: BTreeMap<String, String>,
    pub(super) phases: Phases,
}

impl Rules {
    /// Calls the adapter and compiles its rules.
    ///
    /// # Errors
    ///
    /// `usage` for unusable rules.
    pub fn from_adapter(adapter: &dyn Adapter) -> Result<Self> {
        check_request(adapter)?;
        Self::new(adapter.facts()?, FailureRules::new(adapter.failures()?)?)
    }

    fn new(facts: Facts, failures: FailureRules) -> Result<Self> {
        let pages = facts.info.values().flatten().map(|rule| rule.path.as_str());
        let metrics = Some(facts.metrics.path.as_str()).filter(|path| !path.is_empty());
        pages.chain(metrics).try_for_each(check_path)?;
        Ok(Self {
            facts: FactRules::new(&facts.log, &facts.rank, "facts().log")?,
            gauges: FactRules::new(&facts.gauges, &[], "facts().gauges")?,
            phases: phases(&facts.progress)?,
            failures,
            metrics: facts.metrics,
            info: facts.info.into_iter().collect(),
            parts: facts.parts,
        })
    }

    /// Reads the log of a start that ended with status `code`. For tests of adapters.
    pub fn read_start(&self, log: &[String], code: i64) -> Reading {
        self.read(RulePhase::Start, &[], log, Some(code))
    }

    /// Reads the outcome of a request: response bodies or stream errors, the log since it was sent, and the exit status of
    /// an engine that died. For tests of adapters.
    pub fn read_request(&self, messages: &[String], log: &[String], code: Option<i64>) -> Reading {
        self.read(RulePhase::Request, messages, log, code)
    }

    /// Reads a metrics page as snapshots. For tests of adapters.
    pub fn read_metrics(&self, page: &str) -> Vec<EngineMetrics> {
        metrics::read(page, &self.metrics)
    }

    fn read(&self, phase: RulePhase, messages: &[String], log: &[String], code: Option<i64>) -> Reading {
        let log = super::facts::strip_colours(log);
        let exit = code.map(|code| Exit {
            code: Some(code),
            ..Exit::default()
        });
        let symptoms = Symptoms {
            exit: exit.as_ref(),
            messages,
            log: &log,
        };
        let found = self.failures.classify(phase, symptoms);
        let mut stated = EngineBounds::default();
        if let Some(line) = found.as_ref().and_then(|found| found.line.as_ref()) {
            self.failures.learn_limits(line, &mut stated);
        }
        Reading {
            limits: (stated.max_model_len, stated.max_input),
            facts: self.facts.find(&log),
            reported: group_by_name(self.facts.matches(&log, "log")),
            verdict: found.as_ref().map(|found| found.verdict),
            cause: found.as_ref().and_then(|found| found.cause.clone()),
            line: found.and_then(|found| found.line),
            phase: match phase {
                RulePhase::Start => phase_of(&self.phases, &log),
                RulePhase::Any | RulePhase::Request => Some(REQUEST.to_owned()),
            },
            allocations: allocations(messages.iter().chain(&log)),
        }
    }
}

/// What is wrong with an adapter's rules and the form of its request, by function. Starts nothing.
pub fn check_adapter(adapter: &dyn Adapter) -> Vec<(&'static str, Fault)> {
    let none = || FailureRules::new(Vec::new());
    let facts = adapter.facts().and_then(|facts| Rules::new(facts, none()?).map(drop));
    let failures = adapter.failures().and_then(|rules| FailureRules::new(rules).map(drop));
    let checks = [
        ("facts", facts),
        ("failures", failures),
        ("request", check_request(adapter)),
    ];
    checks
        .into_iter()
        .filter_map(|(name, check)| Some((name, check.err()?)))
        .collect()
}

/// Builds one small request.
fn check_request(adapter: &dyn Adapter) -> Result<()> {
    let point = Point::default()
        .with("input", 16)
        .with("output", 16)
        .with("concurrency", 1);
    for form in adapter.request(&point, Some(&Limits::of_point(&point)?))? {
        let prompt = match form.prompt {
            PromptForm::Tokens => Content::Tokens(vec![1; 16]),
            PromptForm::Text => Content::Text("a".to_owned()),
        };
        check_path(&form.path)?;
        protocol::body(&form, &prompt, None)?;
    }
    Ok(())
}

/// Reasons why the engine runs a different configuration than requested: its own log line, and parts that are not on
/// the GPUs. If no GPUs were requested, nothing needs to be on them.
pub(super) fn degraded(facts: &FactValues, parts: &BTreeMap<String, String>, on_gpus: bool) -> Vec<String> {
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

/// What an adapter extracts from an engine's output.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reading {
    /// Facts by name; sizes in bytes.
    pub facts: BTreeMap<String, Value>,
    /// Every line that reports a fact, by fact, oldest first.
    pub reported: BTreeMap<String, Vec<ReportedFact>>,
    /// The verdict, if a failure rule matches.
    pub verdict: Option<Verdict>,
    /// Its cause.
    pub cause: Option<String>,
    /// The matching line.
    pub line: Option<String>,
    /// The longest input and output together, and the longest input, that it states.
    pub limits: (Option<u64>, Option<u64>),
    /// The phase that the engine had reached.
    pub phase: Option<String>,
    /// Failed allocations.
    pub allocations: Vec<Allocation>,
}

/// Rejects a path that would redirect a request to another host: after `http://127.0.0.1:8000`, `@elsewhere/` would.
pub(super) fn check_path(path: &str) -> Result<()> {
    if path.starts_with('/') {
        return Ok(());
    }
    Err(Fault::usage(format!("the path `{path}` does not begin with `/`"))
        .hint("an adapter's paths are below the address of its engine"))
}

/// The phase before the first match.
const FIRST: &str = "weights";

/// The phase of a ready engine.
pub(super) const REQUEST: &str = "request";

/// Patterns of log lines that begin a phase of a start, with its name.
pub(super) type Phases = Vec<(Regex, String)>;

/// Compiles `facts().progress`.
fn phases(rules: &[ProgressRule]) -> Result<Phases> {
    let rules = rules.iter().enumerate().map(|(index, rule)| {
        let pattern = compile(&rule.pattern, &format!("facts().progress[{index}]"))?;
        Ok((pattern, rule.phase.clone()))
    });
    rules.collect()
}

/// The phase of a start with this log: that of the last matching line. `None` if the adapter defines no phases.
pub(super) fn phase_of(phases: &[(Regex, String)], log: &[String]) -> Option<String> {
    let of_line = |line: &String| phases.iter().find(|(pattern, _)| pattern.is_match(line));
    let last = log.iter().rev().find_map(of_line);
    (!phases.is_empty()).then(|| last.map_or(FIRST, |(_, phase)| phase).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_only_partly_on_the_gpus_is_degraded() {
        let parts = [("layers_on_gpu".to_owned(), "layers".to_owned())].into();
        let reasons = |layers: u64, on_gpus| {
            let facts = [("layers_on_gpu", layers), ("layers", 33)].map(|(name, n)| (name.to_owned(), json!(n)));
            degraded(&facts.into(), &parts, on_gpus)
        };
        assert_eq!(reasons(33, true), [""; 0]);
        assert_eq!(
            reasons(20, true),
            ["`layers_on_gpu` is 20 of 33, the rest is on the host"]
        );
        assert_eq!(reasons(20, false).len(), 1);
        assert_eq!((reasons(0, true).len(), reasons(0, false).len()), (1, 0));
        let words = [("degraded".to_owned(), json!("context size reduced"))].into();
        assert_eq!(degraded(&words, &parts, true), ["context size reduced"]);
    }
}

#[cfg(test)]
mod progress_tests {
    use super::*;

    fn phase(rules: &[(&str, &str)], log: &[&str]) -> Option<String> {
        let rules: Vec<ProgressRule> = rules
            .iter()
            .map(|(pattern, phase)| ProgressRule {
                pattern: (*pattern).to_owned(),
                phase: (*phase).to_owned(),
            })
            .collect();
        let log: Vec<String> = log.iter().map(|line| (*line).to_owned()).collect();
        phase_of(&phases(&rules).unwrap(), &log)
    }

    #[test]
    fn the_last_matching_line_determines_the_phase() {
        let rules = [("loading took", "profiling"), ("KV cache size", "graph_capture")];
        assert_eq!(phase(&rules, &["boot"]).as_deref(), Some("weights"));
        assert_eq!(phase(&rules, &["loading took 3 s", "?"]).as_deref(), Some("profiling"));
        let log = ["loading took 3 s", "KV cache size: 9", "CUDA out of memory"];
        assert_eq!(phase(&rules, &log).as_deref(), Some("graph_capture"));
    }

    #[test]
    fn an_adapter_without_phases_has_none() {
        assert_eq!(phase(&[], &["loading took 3 s"]), None);
    }
}
