//! The REPL without its terminal: what a session remembers, and what an editor asks while a line is typed.
//!
//! `session` runs inputs, `command` reads `:commands`, `save` writes a session as a script, `pretty` shows values; `helper` serves
//! the line editor with `validate` (is the input complete), `complete`, `hint` and `highlight`, which see the text through `mask`,
//! `pieces` and `cursor`, and names through `vocabulary`. It prints nothing: `cli/repl` does.

mod command;
mod complete;
mod cursor;
mod helper;
mod highlight;
mod hint;
mod mask;
mod pieces;
mod pretty;
mod save;
mod session;
mod validate;
mod vocabulary;

pub use command::{Command, HELP};
pub use helper::{LineHelper, SignatureHint};
pub use session::Session;
pub use vocabulary::Variable;
