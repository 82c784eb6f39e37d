//! The REPL without its terminal.
//!
//! `session` runs inputs, `command` parses `:commands`, `save` writes a session as a script, `pretty` formats values.
//! `helper` serves the line editor through `validate` (is the input complete), `complete`, `hint` and `highlight`,
//! which read the text with `mask`, `items` and `cursor`, and names from `vocabulary`. `cli/repl` does all printing.

mod command;
mod complete;
mod cursor;
mod helper;
mod highlight;
mod hint;
mod items;
mod mask;
mod pretty;
mod save;
mod session;
mod validate;
mod vocabulary;

pub use command::{Command, HELP};
pub use helper::{LineHelper, SignatureHint};
pub use session::Session;
pub use vocabulary::Variable;
