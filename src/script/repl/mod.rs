//! The REPL without its terminal: its commands, which start with a colon.
//!
//! `session` runs inputs and saves them as a script, `pretty` formats values. `editor` serves the line editor with
//! completion and hints (`complete`), highlighting and validation; it reads the text with `script/lexer`. `cli/repl` does all printing.

mod complete;
mod editor;
mod pretty;
mod session;

pub use complete::Variable;
pub use editor::{LineHelper, SignatureHint, bind_keys};
pub use pretty::Line;
pub use session::Session;

use std::path::PathBuf;

use crate::fault::{Fault, Result};
use crate::script::suggest::suggest;

/// Help text of `:help`.
pub const HELP: &str = "\
:help NAME    what a function, type or module does; also ?NAME
:last         the whole last value
:json         the last value as JSON
:scope        the variables of this session
:load FILE    runs a script here
:save FILE    writes this session as a script (:save! replaces a file)
:reset        starts a new session and stops what was started
:quit         quits, like Ctrl-D

Tab completes, Alt-Enter adds a line, Ctrl-C stops the running input. Anything else is Rhai.
`profiler doc` lists the script API.";

/// All commands with their colons.
pub(super) const COMMANDS: [&str; 9] = [
    ":help", ":json", ":last", ":load", ":quit", ":reset", ":save", ":save!", ":scope",
];

/// A command of the REPL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplCommand {
    /// Lists the commands, or documents a name.
    Help(Option<String>),
    /// Shows the last value as JSON.
    Json,
    /// Shows the whole last value.
    Last,
    /// Runs a file in this session.
    Load(PathBuf),
    /// Quits.
    Quit,
    /// Starts a new session.
    Reset,
    /// Writes the session as a script.
    Save {
        /// The file to write.
        file: PathBuf,
        /// Whether to replace an existing file.
        replace: bool,
    },
    /// Lists the variables.
    Scope,
}

impl ReplCommand {
    /// Parses a line; `None` if it is not a command. Common shell words such as `exit` are commands too.
    pub fn parse(line: &str) -> Option<Result<Self>> {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('?') {
            return Some(Self::read(&format!(":help {name}")));
        }
        match line {
            "help" => Some(Ok(Self::Help(None))),
            "exit" | "quit" => Some(Ok(Self::Quit)),
            _ => line.starts_with(':').then(|| Self::read(line)),
        }
    }

    fn read(line: &str) -> Result<Self> {
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        let file = || match argument {
            "" => Err(Fault::usage(format!("`{name}` needs a file")).hint(format!("write `{name} my.rhai`"))),
            path => Ok(PathBuf::from(path)),
        };
        let alone = |command| match argument {
            "" => Ok(command),
            other => Err(Fault::usage(format!("`{name}` takes no argument, but got `{other}`"))),
        };
        match name {
            ":json" => alone(ReplCommand::Json),
            ":last" => alone(ReplCommand::Last),
            ":h" | ":help" => Ok(ReplCommand::Help((!argument.is_empty()).then(|| argument.to_owned()))),
            ":load" => Ok(ReplCommand::Load(file()?)),
            ":exit" | ":q" | ":quit" => alone(ReplCommand::Quit),
            ":reset" => alone(ReplCommand::Reset),
            ":save" | ":save!" => Ok(ReplCommand::Save {
                file: file()?,
                replace: name.ends_with('!'),
            }),
            ":scope" => alone(ReplCommand::Scope),
            _ => {
                let fault = Fault::usage(format!("there is no command `{name}`"));
                Err(suggest(fault, name, COMMANDS, "`:help` lists the commands"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_makes_a_command() {
        assert_eq!(ReplCommand::parse("let x = 1;"), None);
        assert_eq!(ReplCommand::parse(" :quit "), Some(Ok(ReplCommand::Quit)));
        for quit in ["quit", "exit", ":q", ":quit"] {
            assert_eq!(ReplCommand::parse(quit), Some(Ok(ReplCommand::Quit)), "{quit}");
        }
        for help in ["help", "?", ":h", ":help"] {
            assert_eq!(ReplCommand::parse(help), Some(Ok(ReplCommand::Help(None))), "{help}");
        }
        assert_eq!(
            ReplCommand::parse("?probe"),
            Some(Ok(ReplCommand::Help(Some("probe".to_owned()))))
        );
        assert_eq!(
            ReplCommand::parse(":help docker::start"),
            Some(Ok(ReplCommand::Help(Some("docker::start".to_owned()))))
        );
        assert_eq!(
            ReplCommand::parse(":save! a b.rhai"),
            Some(Ok(ReplCommand::Save {
                file: "a b.rhai".into(),
                replace: true
            }))
        );
    }

    #[test]
    fn a_wrong_command_names_the_nearest() {
        let fault = ReplCommand::parse(":hlep x").unwrap().unwrap_err();
        assert_eq!(fault.hint.as_deref(), Some("did you mean `:help`?"));
        assert!(ReplCommand::parse(":save").unwrap().is_err());
        assert!(ReplCommand::parse(":reset now").unwrap().is_err());
    }

    #[test]
    fn help_names_every_command() {
        assert!(COMMANDS.iter().all(|command| HELP.contains(command)));
    }
}
