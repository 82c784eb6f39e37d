//! Whether the engine survived a load, and if not, what shows it.

use serde::Serialize;

use crate::boundary::Verdict;
use crate::engine::failure::{Exit, Signs};
use crate::engine::handle::Running;
use crate::engine::start::{TAIL, plain};
use crate::engine::{Engine, RulePhase};
use crate::fault::Result;
use crate::load::{FailureForm, Outcome, Record};

/// How an engine ended within a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Died {
    /// What a probe would have been told.
    verdict: Verdict,
    /// Why.
    cause: String,
    /// For people.
    message: String,
    /// The line that says so, else the end of the log.
    log: Vec<String>,
    /// Exit status.
    exit_code: Option<i64>,
    /// Whether the kernel killed it for its memory.
    oom_killed: bool,
    #[serde(skip)]
    exited: bool,
}

/// How an engine is after a load.
pub(super) enum After {
    /// Nothing speaks against it.
    Well,
    /// Requests failed, and it serves on.
    Survived,
    /// It does not serve any more.
    Dead(Box<Died>),
}

impl Engine {
    /// Looks at the engine after these requests, `cursor` being where its log was before them. `died`: it was seen dead already.
    pub(super) fn look_after(&self, running: &Running, records: &[Record], died: bool, cursor: u64) -> Result<After> {
        let failures = || {
            records.iter().filter_map(|record| match &record.outcome {
                Outcome::Failed(failure) => Some(failure),
                _ => None,
            })
        };
        if !died && !failures().any(|failure| hurts(failure.form)) {
            return Ok(After::Well);
        }
        let broken =
            died || failures().any(|failure| matches!(failure.form, FailureForm::Broken | FailureForm::Unreachable));
        let exit = self.context.tasks.wait(running.server.ended(broken))?;
        if exit.is_none() && self.recovers(running)? {
            return Ok(After::Survived);
        }
        // Engines report an error first and end a moment later.
        let exit = match exit {
            Some(exit) => Some(exit),
            None => self.context.tasks.wait(running.server.exit())?,
        };
        let messages: Vec<String> = failures().map(|failure| failure.message.clone()).collect();
        let log = plain(running.server.since(cursor));
        let signs = Signs {
            exit,
            messages: &messages,
            log: &log,
        };
        let found = self.rules.failures.classify(RulePhase::Request, signs);
        let (verdict, cause, line) = match found {
            Some(found) => (found.verdict, found.cause, found.line),
            None => (Verdict::Error, None, None),
        };
        let unexplained = if exit.is_some() { "died" } else { "dead" };
        let message = match (&line, exit) {
            (Some(line), _) => line.clone(),
            (None, Some(exit)) if exit.oom_killed => "the kernel killed the engine for its memory".to_owned(),
            (None, Some(Exit { code: Some(code), .. })) => {
                format!("status {code}, and its log does not say why")
            }
            (None, Some(_)) => "its log does not say why".to_owned(),
            (None, None) if running.server.ours() => "its process lives, but it serves no more".to_owned(),
            (None, None) => "it does not answer any more".to_owned(),
        };
        Ok(After::Dead(Box::new(Died {
            verdict,
            cause: cause.unwrap_or_else(|| unexplained.to_owned()),
            message,
            log: line.map_or_else(|| plain(running.server.last(TAIL)), |line| vec![line]),
            exit_code: exit.and_then(|exit| exit.code),
            oom_killed: exit.is_some_and(|exit| exit.oom_killed),
            exited: exit.is_some(),
        })))
    }
}

impl Died {
    /// Whether its process ended.
    pub(super) fn exited(&self) -> bool {
        self.exited
    }

    /// What happened, for a warning.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

/// Whether a request that fails so may have hurt the engine.
fn hurts(form: FailureForm) -> bool {
    match form {
        // TGI says 424 where others say 500.
        FailureForm::Status(status) => status >= 500 || status == 424,
        FailureForm::InStream | FailureForm::Broken | FailureForm::Unreachable | FailureForm::EndedEarly => true,
        FailureForm::Deadline | FailureForm::Malformed => false,
    }
}
