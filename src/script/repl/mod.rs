//! The REPL without its terminal.
//!
//! `session` runs inputs and saves them as a script, `command` parses `:commands`, `pretty` formats values. `editor` serves
//! the line editor with completion and hints (`complete`), highlighting and validation; it reads the text with `script/lexer` and
//! takes names from `vocabulary`. `cli/repl` does all printing.

mod command;
mod complete;
mod editor;
mod pretty;
mod session;
mod vocabulary;

pub use command::{Command, HELP};
pub use editor::{LineHelper, SignatureHint, bind_keys};
pub use pretty::Line;
pub use session::Session;
pub use vocabulary::Variable;
