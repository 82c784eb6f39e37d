//! Waits for a server that is still loading or that temporarily rejects requests.

use std::time::Duration;

use tokio::time::Instant;

use crate::fault::{Kind, Result};
use crate::run::EnginePhase;
use crate::run::{Event, Run};
use crate::runtime::{Permits, check_reachable};
use crate::task::Tasks;

/// Default time to wait for a server.
pub const WAIT: Duration = Duration::from_secs(60);

/// Pauses between requests to a server that does not say when to retry.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The remaining time to wait for a server.
pub struct Patience<'a> {
    tasks: &'a Tasks,
    run: &'a Run,
    limit: Duration,
    deadline: Instant,
    pause: Duration,
    /// Time waited so far.
    pub waited: Duration,
}

impl<'a> Patience<'a> {
    /// Starts a budget of `limit` for all waits together.
    pub fn new(tasks: &'a Tasks, run: &'a Run, limit: Duration) -> Self {
        Self {
            tasks,
            run,
            limit,
            deadline: Instant::now() + limit,
            pause: FIRST_PAUSE,
            waited: Duration::ZERO,
        }
    }

    /// Waits for the delay that the server requested (`asked`), else for a short pause. The first wait is announced to
    /// the user. Returns false, without waiting, if no time is left or the server requested more than is left.
    ///
    /// # Errors
    ///
    /// `interrupted`; `io` if the journal cannot be written.
    pub fn wait(&mut self, why: &str, asked: Option<Duration>) -> Result<bool> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || asked.is_some_and(|asked| asked > left) {
            return Ok(false);
        }
        if self.waited.is_zero() {
            self.run.note(Event::Phase {
                phase: EnginePhase::Waiting,
                detail: format!("up to {} s (`--wait`): {why}", self.limit.as_secs_f64()),
            })?;
        }
        let pause = asked.unwrap_or(self.pause).min(left);
        self.tasks.sleep(pause)?;
        self.waited += pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(true)
    }
}

/// Checks that a server accepts connections; retries for up to `wait`, if it is given.
///
/// # Errors
///
/// As [`check_reachable`].
pub fn await_reachable(url: &str, permits: &Permits, tasks: &Tasks, run: &Run, wait: Option<Duration>) -> Result<()> {
    let mut patience = Patience::new(tasks, run, wait.unwrap_or_default());
    loop {
        match tasks.wait(check_reachable(url, permits)) {
            Err(fault) if fault.kind == Kind::Missing && patience.wait(&fault.message, None)? => {}
            done => return done,
        }
    }
}
