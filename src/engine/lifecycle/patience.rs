//! Waiting for a server that still loads, or that rejects requests for now.

use std::time::Duration;

use tokio::time::Instant;

use crate::fault::{Kind, Result};
use crate::run::{Event, Run};
use crate::runtime::{Permits, check_reachable};
use crate::task::Tasks;

/// How long a server is waited for, unless the user says otherwise.
pub const WAIT: Duration = Duration::from_secs(60);

/// Pauses between requests to a server that does not say when to come again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The time that is left to wait for a server.
pub struct Patience<'a> {
    tasks: &'a Tasks,
    run: &'a Run,
    limit: Duration,
    deadline: Instant,
    pause: Duration,
    /// How long was waited so far.
    pub waited: Duration,
}

impl<'a> Patience<'a> {
    /// Waits so long in all, from now on.
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

    /// Waits as long as the server asked for, else a little, and says so the first time. False if the time is over, or the
    /// server asked for more than is left.
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
                phase: "waiting".to_owned(),
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

/// Checks that a server accepts connections; where the user says how long to wait for one, once it does.
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
