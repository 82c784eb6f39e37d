//! Reading, evaluating, showing; until Ctrl-D.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Cmd, ColorMode, CompletionType, Config, Editor, KeyCode, KeyEvent, Modifiers};

use super::history::{self, HistoryFile};
use crate::cli::Status;
use crate::cli::signals::Signals;
use crate::fault::{Fault, Kind, Result};
use crate::report::Terminal;
use crate::run::hide;
use crate::script::repl::{Command, HELP, LineHelper, Session};
use crate::script::{Diagnostic, Host, Main};

/// What the process must know of the conversation when a signal comes.
#[derive(Debug, Default)]
pub(super) struct Moment {
    running: AtomicBool,
    leaving: AtomicBool,
}

impl Moment {
    /// Whether an input is running; otherwise the keyboard is waited for.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    /// Asks for the end after the running input.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }
}

/// A conversation about to begin.
pub(super) struct Conversation {
    pub(super) host: Arc<Host>,
    pub(super) signals: Signals,
    /// What is loaded first.
    pub(super) main: Option<Main>,
    pub(super) moment: Arc<Moment>,
}

impl Conversation {
    /// Holds it to its end.
    pub(super) fn hold(self) -> Result<Status> {
        let root = self.main.as_ref().map_or(Path::new("."), |main| main.root.as_path());
        let mut session = Session::new(&self.host, root);
        let terminal = Terminal::detect();
        let mut editor = editor(&terminal).map_err(|error| broken(&error))?;
        editor.set_helper(Some(LineHelper::new(&session)));
        let (history, without) = HistoryFile::open(&mut editor);
        if let Some(fault) = without {
            terminal.complain(&fault);
        }
        let mut talk = Talk {
            conversation: self,
            session: &mut session,
            terminal,
        };
        if let Some(main) = talk.conversation.main.take() {
            talk.evaluate(|session| session.begin(&main));
        }
        while !talk.conversation.moment.is_leaving() {
            if let Some(helper) = editor.helper_mut() {
                helper.refresh(talk.session);
            }
            match editor.readline(talk.prompt()) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => {
                    history.add(&mut editor, &line)?;
                    if talk.answer(&line) {
                        break;
                    }
                }
                // Ctrl-C at the prompt: the line is dropped.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(broken(&error)),
            }
        }
        Ok(0)
    }
}

fn broken(error: &ReadlineError) -> Fault {
    Fault::new(Kind::Io, format!("standard input: {error}"))
}

fn editor(terminal: &Terminal) -> rustyline::Result<Editor<LineHelper, FileHistory>> {
    let colours = match terminal.colour {
        true => ColorMode::Enabled,
        false => ColorMode::Disabled,
    };
    let config = Config::builder()
        .max_history_size(history::LENGTH)?
        .completion_type(CompletionType::List)
        .color_mode(colours)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
    Ok(editor)
}

/// A conversation under way.
struct Talk<'a> {
    conversation: Conversation,
    session: &'a mut Session,
    terminal: Terminal,
}

impl Talk<'_> {
    fn prompt(&self) -> &'static str {
        match self.conversation.host.run.simulated() {
            true => "SIMULATED> ",
            false => "> ",
        }
    }

    /// Does what a line says and shows the answer; whether it was the last.
    fn answer(&mut self, line: &str) -> bool {
        let command = match Command::parse(line) {
            None => {
                self.evaluate(|session| session.run(line));
                return false;
            }
            Some(Ok(command)) => command,
            Some(Err(fault)) => {
                self.terminal.complain(&fault);
                return false;
            }
        };
        let done = match command {
            Command::Quit => return true,
            Command::Help(None) => self.terminal.print(HELP),
            Command::Help(Some(name)) => self
                .session
                .help(&name)
                .and_then(|text| self.terminal.print(text.trim_end())),
            Command::Load(file) => {
                self.evaluate(|session| session.load(&file));
                Ok(())
            }
            Command::Reset => {
                self.session.reset();
                super::end_services(&self.conversation.host)
            }
            Command::Save { file, replace } => self
                .session
                .save(&file, replace)
                .map(|()| self.terminal.say(&format!("saved `{}`", file.display()))),
            Command::Scope => self.scope(),
        };
        if let Err(fault) = done {
            self.terminal.complain(&fault);
        }
        false
    }

    fn scope(&self) -> Result<()> {
        let rows: Vec<String> = self
            .session
            .variables()
            .iter()
            .map(|variable| {
                let word = if variable.constant { "const" } else { "let" };
                format!("{word} {}: {} = {}", variable.name, variable.kind, variable.value)
            })
            .collect();
        match rows.is_empty() {
            true => {
                self.terminal.say("no variables");
                Ok(())
            }
            false => self.terminal.print(&rows.join("\n")),
        }
    }

    /// Runs something of the session; an interruption ends that alone.
    fn evaluate(&mut self, work: impl FnOnce(&mut Session) -> Result<Option<String>, Box<Diagnostic>>) {
        let Conversation {
            host, signals, moment, ..
        } = &self.conversation;
        // A signal that came while nobody ran anything asked for nothing.
        host.tasks.renew();
        signals.forget();
        signals.guard(&host.services);
        moment.running.store(true, Ordering::SeqCst);
        let result = work(self.session);
        moment.running.store(false, Ordering::SeqCst);
        signals.stand_down();
        host.tasks.renew();
        signals.forget();
        let shown = match result {
            Ok(None) => Ok(()),
            Ok(Some(value)) => self.terminal.print(&hide(&value)),
            Err(diagnostic) if diagnostic.fault.kind == Kind::Interrupted => {
                self.terminal.say("interrupted");
                Ok(())
            }
            Err(diagnostic) => {
                let text = diagnostic.render(self.terminal.error_colour);
                self.terminal.say(hide(&text).trim_end());
                Ok(())
            }
        };
        if let Err(fault) = shown {
            self.terminal.complain(&fault);
        }
    }
}
