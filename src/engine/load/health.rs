//! Detects an engine that stalls during a load or has died of it.
//!
//! A stalled engine reports no running requests while all unfinished ones are queued for too long. Engines whose metrics
//! page is missing or does not answer are judged by request timeouts instead.

use std::time::{Duration, Instant};

use crate::boundary::Verdict;
use crate::engine::facts::strip_colours;
use crate::engine::failure::{Exit, Symptoms};
use crate::engine::handle::Running;
use crate::engine::start::TAIL;
use crate::engine::{Engine, RulePhase};
use crate::fault::Result;
use crate::load::engine_side::EngineMetrics;
use crate::load::{EngineDeath, FailureForm, Outcome, Record};

/// State of an engine after a load.
pub(super) enum AfterLoad {
    /// No sign of damage.
    Well,
    /// Requests failed, but it still serves.
    Survived,
    /// It no longer serves.
    Dead {
        death: Box<EngineDeath>,
        /// Whether its process or container has exited.
        exited: bool,
    },
}

impl Engine {
    /// Checks the engine after these requests. `cursor` is the log position before them; `died` says that its death was
    /// already noticed.
    pub(super) fn check_after_load(
        &self,
        running: &Running,
        records: &[Record],
        died: bool,
        cursor: u64,
    ) -> Result<AfterLoad> {
        let failures = || {
            records.iter().filter_map(|record| match &record.outcome {
                Outcome::Failed(failure) => Some(failure),
                _ => None,
            })
        };
        if !died && !failures().any(|failure| may_damage(failure.form)) {
            return Ok(AfterLoad::Well);
        }
        let broken =
            died || failures().any(|failure| matches!(failure.form, FailureForm::Broken | FailureForm::Unreachable));
        let exit = self.context.tasks.wait(running.server.ended(broken))?;
        if exit.is_none() && self.recovers(running)? {
            return Ok(AfterLoad::Survived);
        }
        // Engines report an error first and exit a moment later.
        let exit = match exit {
            Some(exit) => Some(exit),
            None => self.context.tasks.wait(running.server.exit())?,
        };
        let messages: Vec<String> = failures().map(|failure| failure.message.clone()).collect();
        let log = strip_colours(running.server.since(cursor));
        let symptoms = Symptoms {
            exit,
            messages: &messages,
            log: &log,
        };
        let found = self.rules.failures.classify(RulePhase::Request, symptoms);
        let (verdict, cause, line) = match found {
            Some(found) => (found.verdict, found.cause, found.line),
            None => (Verdict::Error, None, None),
        };
        let unexplained = if exit.is_some() { "died" } else { "dead" };
        let message = match (&line, exit) {
            (Some(line), _) => line.clone(),
            (None, Some(exit)) if exit.oom_killed => "the OOM killer ended the engine".to_owned(),
            (None, Some(Exit { code: Some(code), .. })) => {
                format!("status {code}, and its log shows no reason")
            }
            (None, Some(_)) => "its log shows no reason".to_owned(),
            (None, None) if running.server.ours() => "its process is alive but no longer serves".to_owned(),
            (None, None) => "it no longer answers".to_owned(),
        };
        let death = EngineDeath {
            verdict,
            cause: cause.unwrap_or_else(|| unexplained.to_owned()),
            message,
            log: line.map_or_else(|| strip_colours(running.server.last(TAIL)), |line| vec![line]),
            exit_code: exit.and_then(|exit| exit.code),
            oom_killed: exit.is_some_and(|exit| exit.oom_killed),
        };
        Ok(AfterLoad::Dead {
            death: Box::new(death),
            exited: exit.is_some(),
        })
    }
}

/// Whether such a failure may have damaged the engine.
fn may_damage(form: FailureForm) -> bool {
    match form {
        // TGI answers 424 where other engines answer 500.
        FailureForm::Status(status) => status >= 500 || status == 424,
        FailureForm::InStream | FailureForm::Broken | FailureForm::Unreachable | FailureForm::EndedEarly => true,
        FailureForm::Deadline | FailureForm::Malformed => false,
    }
}

pub(super) struct StallDetector {
    longest: Duration,
    /// Time of the last progress.
    since: Option<Instant>,
    /// Ended and unfinished requests at the last poll.
    ended: u64,
    unfinished: u64,
}

impl StallDetector {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            since: None,
            ended: 0,
            unfinished: 0,
        }
    }

    /// Processes a poll: requests issued and ended, and the engine's newest snapshot. Returns a reason if the load must
    /// be given up.
    ///
    /// The snapshot is older than the requests issued since the last poll, so those are not expected in it. SGLang and
    /// TGI count a request in prefill neither as running nor as queued; therefore all must be queued.
    pub(super) fn update(
        &mut self,
        (issued, ended): (u64, u64),
        state: Option<EngineMetrics>,
        now: Instant,
    ) -> Option<String> {
        let all_queued = |state: EngineMetrics| state.running == Some(0) && state.waiting >= Some(self.unfinished);
        let idle = self.unfinished > 0 && ended == self.ended && state.is_some_and(all_queued);
        let unfinished = self.unfinished;
        self.ended = ended;
        self.unfinished = issued.saturating_sub(ended);
        if !idle {
            self.since = None;
            return None;
        }
        let stalled_for = now.duration_since(*self.since.get_or_insert(now));
        (stalled_for >= self.longest).then(|| {
            format!(
                "the engine stalled: its metrics showed nothing running and {unfinished} requests queued for {:.1} s",
                stalled_for.as_secs_f64()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(running: u64, waiting: u64) -> Option<EngineMetrics> {
        Some(EngineMetrics {
            running: Some(running),
            waiting: Some(waiting),
            ..EngineMetrics::default()
        })
    }

    /// The index of the poll at which a load is given up. Polls are a second apart; two seconds without progress are
    /// allowed.
    fn stalls(polls: &[(u64, u64, Option<EngineMetrics>)]) -> Option<usize> {
        let (mut stall, began) = (StallDetector::new(Duration::from_secs(2)), Instant::now());
        polls.iter().enumerate().position(|(second, (issued, ended, state))| {
            let now = began + Duration::from_secs(second as u64);
            stall.update((*issued, *ended), state.clone(), now).is_some()
        })
    }

    #[test]
    fn queued_requests_with_none_running_are_a_stall() {
        let all_queued = (4, 0, state(0, 4));
        assert_eq!(
            stalls(&[all_queued.clone(), all_queued.clone(), all_queued.clone(), all_queued]),
            Some(3)
        );
        let more_come = [4, 6, 8, 10].map(|issued| (issued, 0, state(0, issued)));
        assert_eq!(stalls(&more_come), Some(3));
    }

    #[test]
    fn progress_running_requests_or_missing_metrics_are_no_stall() {
        for state in [state(1, 3), state(0, 3), None, Some(EngineMetrics::default())] {
            assert_eq!(stalls(&vec![(4, 0, state.clone()); 9]), None, "{state:?}");
        }
        let ends: Vec<_> = (0..9).map(|ended| (ended + 4, ended, state(0, 4))).collect();
        assert_eq!(stalls(&ends), None);
        assert_eq!(stalls(&vec![(4, 4, state(0, 0)); 9]), None, "nothing is under way");
    }
}
