//! Starts of engines: the newest log line, and how long earlier starts of the run took.

use std::time::Duration;

use super::state::one_line;
use crate::report::Clock;

/// The start under way, and the duration of the newest start of each engine.
#[derive(Debug, Default)]
pub(super) struct Starts {
    began: Option<Duration>,
    log: String,
    took: Vec<(String, Duration)>,
}

impl Starts {
    /// The engine entered a phase; the first word of `detail` is its name.
    pub(super) fn enter(&mut self, phase: &str, detail: &str, elapsed: Duration) {
        self.log.clear();
        match phase {
            "starting" => self.began = Some(elapsed),
            // Part of the start.
            "loading" | "pulling" => {}
            "ready" => {
                if let Some(began) = self.began.take() {
                    let name = name(detail).to_owned();
                    self.took.retain(|(engine, _)| *engine != name);
                    self.took.push((name, elapsed.saturating_sub(began)));
                }
            }
            _ => self.began = None,
        }
    }

    pub(super) fn set_log(&mut self, line: &str) {
        // Most engines put the time and the place in brackets before what they say.
        let said = line.split_once("] ").map_or(line, |(_, said)| said);
        self.log = one_line(said).trim().to_owned();
    }

    /// The newest log line of the engine that starts; empty if there is none.
    pub(super) fn log(&self) -> &str {
        &self.log
    }

    /// What an earlier start says of this one: `about 0:25 left`.
    pub(super) fn left(&self, detail: &str, elapsed: Duration) -> Option<String> {
        let began = self.began?;
        let (_, took) = self.took.iter().find(|(engine, _)| engine == name(detail))?;
        let passed = elapsed.saturating_sub(began);
        Some(match took.checked_sub(passed) {
            Some(left) => format!("about {} left", Clock(left)),
            None => format!("longer than the last start, {}", Clock(*took)),
        })
    }
}

fn name(detail: &str) -> &str {
    detail.split(' ').next().unwrap_or_default()
}
