//! The read-evaluate-print loop, on its own thread, with its input history: `profiler/history` in the state
//! directory (`$XDG_STATE_HOME`).

use std::io::{IsTerminal as _, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor};

use crate::cli::program::{Status, json_text};
use crate::cli::signals::Signals;
use crate::fault::{Fault, Kind, Result};
use crate::fmt::wrap;
use crate::report::Terminal;
use crate::run::hide;
use crate::script::repl::{Command, HELP, Line, LineHelper, Session, bind_keys};
use crate::script::{Diagnostic, Host, Main};

/// Time for services to end in order.
const GRACE: Duration = Duration::from_secs(10);

/// What a session at a terminal begins with.
const BANNER: &str = concat!(
    "profiler ",
    env!("CARGO_PKG_VERSION"),
    ": type Rhai; `:help` lists the commands, Tab completes, Ctrl-D or `:quit` leaves"
);

/// Printed once, when the engine turns out to be simulated.
const ABOUT_SIMULATED: &str = "simulated: no GPU is used, every figure is computed from a memory model. A real engine: \
    `engines::launch(\"vllm\", #{ model: \"...\" })` on a machine with a GPU and Docker, or \
    `engines::attach(\"vllm\", #{ url: \"http://...\" })` for one that runs already";

/// Shorter times are not worth a line.
const SHOWN_TIME: Duration = Duration::from_millis(100);

/// State shared between the loop and the thread that handles signals.
#[derive(Debug, Default)]
pub(super) struct LoopState {
    running: AtomicBool,
    ending: AtomicBool,
    /// Whether the running input has shown a report, which a value would push off the screen.
    reported: AtomicBool,
}

impl LoopState {
    /// Whether an input is running, rather than the editor waiting for one.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    /// Ends the loop after the running input.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Notes that a report was shown.
    pub(super) fn note_report(&self) {
        self.reported.store(true, Ordering::SeqCst);
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }
}

/// A loop that is about to start.
pub(super) struct EditorLoop {
    pub(super) host: Arc<Host>,
    pub(super) signals: Signals,
    /// A script to load first.
    pub(super) main: Option<Main>,
    pub(super) state: Arc<LoopState>,
}

impl EditorLoop {
    /// Runs until Ctrl-D or `:quit`. The status is 1 if an input failed that nobody typed.
    pub(super) fn run(self) -> Result<Status> {
        let root = self.main.as_ref().map_or(Path::new("."), |main| main.root.as_path());
        let mut session = Session::new(&self.host, root);
        let terminal = Terminal::detect();
        let mut editor = editor(&terminal).map_err(|error| broken(&error))?;
        editor.set_helper(Some(LineHelper::new(&session)));
        let (history, error) = HistoryFile::open(&mut editor);
        if let Some(fault) = error {
            terminal.print_fault(&fault);
        }
        let is_interactive = stdin().is_terminal() && stdout().is_terminal();
        if is_interactive {
            terminal.print_error(BANNER);
        }
        let mut repl = Repl {
            editor_loop: self,
            session: &mut session,
            terminal,
            is_interactive,
            was_simulated: false,
            failed: false,
        };
        if let Some(main) = repl.editor_loop.main.take() {
            repl.evaluate(|session| session.run_main(&main));
        }
        while !repl.editor_loop.state.is_ending() {
            if let Some(helper) = editor.helper_mut() {
                helper.refresh(repl.session);
            }
            match editor.readline(repl.prompt()) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => {
                    history.add(&mut editor, &line)?;
                    if repl.answer(&line) {
                        break;
                    }
                }
                // Ctrl-C at the prompt drops the line.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(broken(&error)),
            }
        }
        Ok(u8::from(repl.failed && !stdin().is_terminal()))
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
        .max_history_size(MAX_INPUTS)?
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .color_mode(colours)
        .build();
    let mut editor = Editor::with_config(config)?;
    bind_keys(&mut editor);
    Ok(editor)
}

/// A running loop.
struct Repl<'a> {
    editor_loop: EditorLoop,
    session: &'a mut Session,
    terminal: Terminal,
    /// Whether somebody reads along, rather than a pipe.
    is_interactive: bool,
    was_simulated: bool,
    /// Whether an input failed.
    failed: bool,
}

impl Repl<'_> {
    fn prompt(&self) -> &'static str {
        match self.editor_loop.host.run.simulated() {
            true => "SIMULATED> ",
            false => "> ",
        }
    }

    /// Handles one input; returns whether it was the last.
    fn answer(&mut self, line: &str) -> bool {
        let command = match Command::parse(line) {
            None => {
                self.evaluate(|session| session.run(line));
                return false;
            }
            Some(Ok(command)) => command,
            Some(Err(fault)) => {
                self.failed = true;
                self.terminal.print_fault(&fault);
                return false;
            }
        };
        let done = match command {
            Command::Quit => return true,
            Command::Help(None) => self.terminal.print(HELP),
            Command::Help(Some(name)) => self
                .session
                .help(&name)
                .and_then(|text| self.terminal.print_markdown(&text)),
            Command::Json => self
                .session
                .last_json()
                .and_then(|value| self.terminal.print(&hide(&json_text(&value)?))),
            Command::Last => self.terminal.print(&hide(&self.session.last())),
            Command::Load(file) => {
                self.evaluate(|session| session.load(&file));
                Ok(())
            }
            Command::Reset => {
                self.session.reset();
                end_services(&self.editor_loop.host)
            }
            Command::Save { file, replace } => self
                .session
                .save(&file, replace)
                .map(|()| self.terminal.print_error(&format!("saved `{}`", file.display()))),
            Command::Scope => self.scope(),
        };
        if let Err(fault) = done {
            self.failed = true;
            self.terminal.print_fault(&fault);
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
                self.terminal.print_error("no variables");
                Ok(())
            }
            false => self.terminal.print(&rows.join("\n")),
        }
    }

    /// Evaluates an input. An interruption ends only this input.
    fn evaluate(&mut self, work: impl FnOnce(&mut Session) -> Result<Option<Line>, Box<Diagnostic>>) {
        let EditorLoop {
            host, signals, state, ..
        } = &self.editor_loop;
        // Ignore signals that came while nothing was running.
        host.tasks.renew();
        signals.clear_interrupt();
        signals.guard(&host.services);
        state.reported.store(false, Ordering::SeqCst);
        state.running.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        let result = work(self.session);
        let took = begun.elapsed();
        state.running.store(false, Ordering::SeqCst);
        let is_reported = state.reported.load(Ordering::SeqCst);
        let simulated = host.run.simulated();
        signals.unguard();
        host.tasks.renew();
        signals.clear_interrupt();
        let note = |text: &str| {
            if self.is_interactive {
                self.terminal.print_error(&wrap(text, self.terminal.width, 2));
            }
        };
        if simulated && !self.was_simulated {
            note(ABOUT_SIMULATED);
        }
        let shown = match result {
            Ok(None) => Ok(()),
            // What was reported is this value, drawn.
            Ok(Some(line)) if is_reported && !line.is_whole => Ok(()),
            Ok(Some(line)) => {
                let printed = self.terminal.print(&hide(&line.text));
                if !line.is_whole {
                    note("`:last` shows all of it, `:json` as JSON");
                }
                printed
            }
            Err(diagnostic) if diagnostic.fault.kind == Kind::Interrupted => {
                self.terminal.print_error("interrupted");
                Ok(())
            }
            Err(diagnostic) => {
                self.failed = true;
                let text = diagnostic.render(self.terminal.error_colour);
                self.terminal.print_failure(hide(&text).trim_end());
                Ok(())
            }
        };
        if let Err(fault) = shown {
            self.terminal.print_fault(&fault);
        }
        if took >= SHOWN_TIME {
            note(&format!("took {:.1} s", took.as_secs_f64()));
        }
        self.was_simulated = simulated;
    }
}

/// Maximum number of inputs.
const MAX_INPUTS: usize = 10_000;

/// The history file; `None` without a home directory.
struct HistoryFile(Option<PathBuf>);

impl HistoryFile {
    /// Opens the file and loads it into the editor. An unusable file is returned as a fault, to be shown as a
    /// warning.
    fn open(editor: &mut Editor<LineHelper, FileHistory>) -> (Self, Option<Fault>) {
        let Some(folder) = dirs::state_dir().map(|state| state.join("profiler")) else {
            return (Self(None), None);
        };
        let file = folder.join("history");
        let opened = std::fs::create_dir_all(&folder)
            .map_err(|error| Fault::io(&folder, &error))
            .and_then(|()| match file.exists() {
                true => editor
                    .load_history(&file)
                    .map_err(|error| Fault::usage(format!("`{}`: {error}", file.display()))),
                false => Ok(()),
            });
        match opened {
            Ok(()) => (Self(Some(file)), None),
            Err(fault) => (Self(None), Some(fault.while_doing("no history"))),
        }
    }

    /// Saves an input immediately, as the session may be killed.
    fn add(&self, editor: &mut Editor<LineHelper, FileHistory>, input: &str) -> Result<()> {
        let added = editor.add_history_entry(input).and_then(|_| match &self.0 {
            Some(file) => editor.append_history(file),
            None => Ok(()),
        });
        added.map_err(|error| Fault::usage(format!("cannot keep the history: {error}")))
    }
}

/// Ends all services of the session.
pub(super) fn end_services(host: &Host) -> Result<()> {
    host.tasks.finish(host.services.stop_all(GRACE))
}
