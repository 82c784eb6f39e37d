//! Warnings about the engine-side statistics: missing samples, and engine counts that disagree with the client's.

use super::summary::{EngineCounters, EngineStats};
use crate::load::{Outcome, Record};

/// A gap between metrics samples causes a warning if it exceeds both this (seconds) and this many polling periods.
const MAX_GAP_SECONDS: f64 = 0.5;
const MAX_GAP_PERIODS: f64 = 5.0;

/// Finish reasons that count as completed, in the words of adapters.
const COMPLETED_REASONS: [&str; 4] = ["length", "stop", "success", "repetition"];

impl EngineStats {
    /// Warnings, each naming the affected metrics. `records` are all records of the load.
    #[must_use]
    pub fn warnings(&self, records: &[Record]) -> Vec<String> {
        let mut warnings = Vec::new();
        let sampling = &self.timeline;
        if sampling.missed > 0 {
            warnings.push(format!(
                "{} of {} polls of the metrics page failed: `running`, `waiting`, `kv_usage` and `preemptions` use the others only",
                sampling.missed,
                sampling.missed + sampling.looks
            ));
        }
        if let Some(gap) = sampling
            .longest_gap
            .filter(|gap| *gap > MAX_GAP_SECONDS && *gap > MAX_GAP_PERIODS / sampling.hz)
        {
            warnings.push(format!(
                "the metrics page gave no data for {gap:.2} s at a time: the maxima of `running`, `waiting` and `kv_usage` may have been missed"
            ));
        }
        if let Some(power) = self.power.as_ref().filter(|power| power.unseen_seconds > 0.0) {
            warnings.push(format!(
                "no power was reported for {:.1} s of the window: `power` and `energy_wh` are interpolated there",
                power.unseen_seconds
            ));
        }
        warnings.extend(self.counted.disagreements(records));
        warnings
    }
}

impl EngineCounters {
    /// Requests that completed, as counted by the engine.
    #[must_use]
    pub fn completed(&self) -> Option<u64> {
        if let Some(all) = self.finished.get("all") {
            let badly = self.finished.get("abort").copied().unwrap_or_default();
            return Some(all.saturating_sub(badly));
        }
        let completed: Vec<u64> = COMPLETED_REASONS
            .iter()
            .filter_map(|how| self.finished.get(*how).copied())
            .collect();
        (!completed.is_empty()).then(|| completed.iter().sum())
    }

    /// Differences that show that the engine served other requests as well, or counts differently.
    fn disagreements(&self, records: &[Record]) -> Vec<String> {
        let mut found = Vec::new();
        let completed = records.iter().filter(|record| record.outcome == Outcome::Completed);
        let (client, issued) = (completed.count() as u64, records.len() as u64);
        // A request that the client gave up may have completed in the engine.
        if let Some(engine) = self.completed().filter(|engine| !(client..=issued).contains(engine)) {
            found.push(format!(
                "the engine counts {engine} completed requests and the client {client}: it may serve other clients, and `running`, `waiting`, `kv_usage` \
                 and `preemptions` are of all together"
            ));
        }
        // If requests failed, the engine has generated more tokens than the client received.
        if client == issued {
            let counted = |count: fn(&Record) -> Option<u64>| records.iter().map(count).sum::<Option<u64>>();
            let kinds = [
                ("of prompts", self.prompt_tokens, counted(|record| record.counts.input)),
                (
                    "generated",
                    self.generated_tokens,
                    counted(|record| record.counts.output),
                ),
            ];
            for (kind, engine, answers) in kinds {
                if let (Some(engine), Some(answers)) = (engine, answers)
                    && engine != answers
                {
                    found.push(format!(
                        "the metrics page counts {engine} tokens {kind} and the answers {answers}: throughputs are of the answers"
                    ));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
