//! Determines how far a start got, from the adapter's patterns for log lines.

use regex::Regex;

use super::ProgressRule;
use super::pattern::compile;
use crate::fault::Result;

/// The phase before the first match.
const FIRST: &str = "weights";

/// The phase of a ready engine.
pub(super) const REQUEST: &str = "request";

#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    rules: Vec<(Regex, String)>,
}

impl Progress {
    /// Compiles `facts().progress`.
    pub(super) fn new(rules: &[ProgressRule]) -> Result<Self> {
        let rules = rules
            .iter()
            .enumerate()
            .map(|(index, rule)| {
                let pattern = compile(&rule.pattern, &format!("facts().progress[{index}]"))?;
                Ok((pattern, rule.phase.clone()))
            })
            .collect::<Result<_>>()?;
        Ok(Self { rules })
    }

    /// The phase of a start with this log: that of the last matching line. `None` if the adapter defines no phases.
    pub(super) fn phase(&self, log: &[String]) -> Option<String> {
        if self.rules.is_empty() {
            return None;
        }
        let of_line = |line: &String| self.rules.iter().find(|(pattern, _)| pattern.is_match(line));
        let last = log.iter().rev().find_map(of_line);
        Some(last.map_or(FIRST, |(_, phase)| phase).to_owned())
    }
}

#[cfg(test)]
mod tests {
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
        Progress::new(&rules).unwrap().phase(&log)
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
