//! The terminal's modes as they were before the editor changed them.
//!
//! The editor restores them itself, except when a signal ends the process while a key is waited for.

use std::io::stdin;

use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};

/// The modes of the terminal that standard input is; none when it is no terminal.
pub(super) struct Modes(Option<Termios>);

impl Modes {
    /// The modes of this moment.
    pub(super) fn current() -> Self {
        Self(tcgetattr(stdin()).ok())
    }

    /// Brings them back. A terminal that is gone needs none.
    pub(super) fn restore(&self) {
        if let Some(modes) = &self.0 {
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, modes);
        }
    }
}
