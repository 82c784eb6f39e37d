//! Determines whether the engine survived a load, and why not.

use crate::boundary::Verdict;
use crate::engine::failure::{Exit, Symptoms};
use crate::engine::handle::Running;
use crate::engine::start::{TAIL, strip_colours};
use crate::engine::{Engine, RulePhase};
use crate::fault::Result;
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
