//! Saves and restores the terminal's modes.
//!
//! The editor restores them itself, except when a signal ends the process while it waits for a key.

use std::io::stdin;

use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};

/// The modes of standard input; `None` if it is no terminal.
pub(super) struct Modes(Option<Termios>);

impl Modes {
    /// The current modes.
    pub(super) fn current() -> Self {
        Self(tcgetattr(stdin()).ok())
    }

    /// Restores the modes; errors of a closed terminal are ignored.
    pub(super) fn restore(&self) {
        if let Some(modes) = &self.0 {
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, modes);
        }
    }
}
