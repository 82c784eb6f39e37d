//! One execution of a script and the folder it leaves: manifest, journal, logs, series, result; and resuming it.
//!
//! Everything that happens goes through [`Run`] as an [`Event`]: the journal keeps it, listeners (the live view) show it.
//! What was finished before a kill is answered from the journal by [`Run::replay`].

mod event;

pub use event::Event;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::boundary::Point;
use crate::fault::Result;

/// Somebody who is told of every event as it happens.
pub type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// A run under way.
#[derive(Default)]
pub struct Run {
    id: String,
    listeners: Mutex<Vec<Listener>>,
    simulated: AtomicBool,
}

impl Run {
    /// A run that leaves no folder: the REPL, `check`, and tests.
    #[must_use]
    pub fn ephemeral(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..Self::default()
        }
    }

    /// The run's id: `<UTC time>-<script>`, with what makes it unique on this host. Containers and processes carry it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The run's folder, unless it is ephemeral.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        None
    }

    /// Where a log (or series) of that name is kept: `logs/NAME`, `memory/NAME`; the folder exists.
    pub fn file(&self, room: &str, name: &str) -> Result<Option<PathBuf>> {
        let _ = (room, name);
        Ok(None)
    }

    /// The answer of the k-th call of `kind` with these arguments, where an earlier life of this run finished it.
    /// Each call moves on to the next k.
    #[must_use]
    pub fn replay(&self, kind: &str, args: &Value) -> Option<Value> {
        let _ = (kind, args);
        None
    }

    /// The points that the `boundary`-th boundary held in an earlier life of this run, with the answers they were recorded
    /// with, in recording order.
    #[must_use]
    pub fn points(&self, boundary: usize) -> Vec<(Point, Value)> {
        let _ = boundary;
        Vec::new()
    }

    /// Keeps an event and tells the listeners. An [`Event::Done`] is on disk when this returns.
    pub fn note(&self, event: Event) -> Result<()> {
        for listener in self
            .listeners
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .iter()
        {
            listener(&event);
        }
        Ok(())
    }

    /// Keeps a warning; the same text is kept once.
    pub fn warn(&self, text: impl Into<String>) -> Result<()> {
        self.note(Event::Warning { text: text.into() })
    }

    /// Adds a listener.
    pub fn listen(&self, listener: Listener) {
        self.listeners
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(listener);
    }

    /// From here on every output of this run says SIMULATED.
    pub fn set_simulated(&self) {
        self.simulated.store(true, Ordering::Relaxed);
    }

    /// Whether anything in this run was simulated.
    #[must_use]
    pub fn simulated(&self) -> bool {
        self.simulated.load(Ordering::Relaxed)
    }
}
