//! What a reader of the joined figures must know: what was not seen, and where the engine's own counts disagree with the client's.

use super::summary::{Counted, Joined};
use crate::load::{Outcome, Record};

/// A stretch without an answer of the metrics page that is worth a word, in seconds; or so many times the time between two looks.
const LONG: f64 = 0.5;
const PERIODS: f64 = 5.0;

/// How a request that ended well is counted by an engine, in the words of adapters.
const WELL: [&str; 4] = ["length", "stop", "success", "repetition"];

impl Joined {
    /// What must be known of these figures, each naming those that it spoils. `records` are those of the whole load.
    #[must_use]
    pub fn warnings(&self, records: &[Record]) -> Vec<String> {
        let mut warnings = Vec::new();
        let looking = &self.timeline;
        if looking.missed > 0 {
            warnings.push(format!(
                "{} of {} looks at the metrics page were not answered: `running`, `waiting`, `kv_usage` and `preemptions` tell of the others only",
                looking.missed,
                looking.missed + looking.looks
            ));
        }
        if let Some(gap) = looking
            .longest_gap
            .filter(|gap| *gap > LONG && *gap > PERIODS / looking.hz)
        {
            warnings.push(format!(
                "the metrics page told nothing for {gap:.2} s at a time: the highest `running`, `waiting` and `kv_usage` may have been missed"
            ));
        }
        if let Some(power) = self.power.as_ref().filter(|power| power.unseen_seconds > 0.0) {
            warnings.push(format!(
                "no power was told for {:.1} s of the window: `power` and `energy_wh` take it to have changed evenly there",
                power.unseen_seconds
            ));
        }
        warnings.extend(self.counted.disagreements(records));
        warnings
    }
}

impl Counted {
    /// Requests that ended well, as the engine counts them.
    #[must_use]
    pub fn well(&self) -> Option<u64> {
        if let Some(all) = self.finished.get("all") {
            let badly = self.finished.get("abort").copied().unwrap_or_default();
            return Some(all.saturating_sub(badly));
        }
        let well: Vec<u64> = WELL.iter().filter_map(|how| self.finished.get(*how).copied()).collect();
        (!well.is_empty()).then(|| well.iter().sum())
    }

    /// Where the engine's counts cannot be those of this load alone.
    fn disagreements(&self, records: &[Record]) -> Vec<String> {
        let mut found = Vec::new();
        let completed = records.iter().filter(|record| record.outcome == Outcome::Completed);
        let (client, issued) = (completed.count() as u64, records.len() as u64);
        // One that the client gave up may have ended well in the engine.
        if let Some(engine) = self.well().filter(|engine| !(client..=issued).contains(engine)) {
            found.push(format!(
                "the engine counts {engine} requests that ended well and the client {client}: others may ask it too, and `running`, `waiting`, `kv_usage` \
                 and `preemptions` are of all together"
            ));
        }
        // Of requests that did not end, the engine has counted more tokens than anybody was told of.
        if client == issued {
            let told = |count: fn(&Record) -> Option<u64>| records.iter().map(count).sum::<Option<u64>>();
            let kinds = [
                ("of prompts", self.prompt_tokens, told(|record| record.counts.input)),
                ("generated", self.generated_tokens, told(|record| record.counts.output)),
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
