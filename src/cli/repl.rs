//! `profiler repl`: an interactive session, with its input history in `profiler/history` of the state directory
//! (`$XDG_STATE_HOME`).
//!
//! The editor and the interpreter have their own thread, because the interpreter needs a large stack and the editor blocks
//! on the keyboard. The main thread waits for it to end, or for a signal.

use std::io::{IsTerminal as _, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::termios::{SetArg, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor};

use super::options::{Author, ScriptOptions, ask_consent};
use super::program::{GRACE, INTERRUPTED, Program, Signals, Status, json_text};
use crate::fault::{Fault, Kind, Result};
use crate::fmt::{Bytes, wrap};
use crate::home;
use crate::report::Terminal;
use crate::run::{Event, Folder, Run, hide_keys};
use crate::script::repl::{HELP, Line, LineHelper, ReplCommand, Session, Variable, bind_keys};
use crate::script::{Diagnostic, Host, Main};

/// How often to check for a signal.
const PAUSE: Duration = Duration::from_millis(100);

/// Shorter durations are not printed.
const SHOWN_TIME: Duration = Duration::from_millis(100);

/// Maximum number of inputs in the history.
const MAX_INPUTS: usize = 10_000;

/// Most bytes of the history.
const MAX_HISTORY: u64 = 16 << 20;

/// The first line of an interactive session.
const BANNER: &str = concat!(
    "profiler ",
    env!("CARGO_PKG_VERSION"),
    ": type Rhai; `:help` lists the commands, Tab completes, Ctrl-D or `:quit` leaves"
);

/// Printed once, when the engine turns out to be simulated.
const ABOUT_SIMULATED: &str = "simulated: no GPU is used, every figure is computed from a memory model. A real engine: \
    `engines::describe(\"vllm\", #{ model: \"...\" })` on a machine with a GPU and Docker, or \
    `engines::attach(\"vllm\", #{ url: \"http://...\" })` for one that runs already";

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A script to load first
    script: Option<PathBuf>,
    #[command(flatten)]
    options: ScriptOptions,
}

/// State shared by the threads.
#[derive(Debug, Default)]
struct InputStatus {
    /// Whether an input is running; false while the editor waits for one.
    running: AtomicBool,
    /// Whether the running input has shown a report, which printing a value would push off the screen.
    reported: AtomicBool,
}

/// Reads and evaluates until Ctrl-D.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let main = args.script.as_deref().map(Main::open).transpose()?;
    let script = args.script.clone().unwrap_or_default();
    let run = Run::ephemeral("repl");
    let author = match &main {
        Some(main) if !main.has_shipped_text() => Author::Stranger,
        _ => Author::User,
    };
    let set = args.options.parameters()?;
    let host = args.options.host(&script, set, run, false, author, program)?;
    ask_consent(&host, Some(|ask: &mut dyn FnMut()| ask()));
    // Only a running input has services that a signal should end.
    program.signals.unguard();
    let shared = Arc::new(InputStatus::default());
    let listener = Arc::clone(&shared);
    host.run.listen(Box::new(move |event| {
        if matches!(event, Event::Report { .. } | Event::Shown { .. }) {
            listener.reported.store(true, Ordering::SeqCst);
        }
        show(event);
    }));
    let (signals, own) = (program.signals.clone(), (Arc::clone(&host), Arc::clone(&shared)));
    let status = wait(program, &shared, move || Repl::run(own.0, signals, own.1, main));
    // From here on, a second signal kills the services that have not ended.
    program.signals.guard(&host.services);
    program.signals.script_ended();
    let ended = end_services(&host);
    program.signals.unguard();
    ended.and(status)
}

/// Runs the loop on its own thread and waits until it ends. If a signal arrives while the editor waits for input, the
/// thread is abandoned.
fn wait(
    program: &Program,
    shared: &InputStatus,
    run: impl FnOnce() -> Result<Status> + Send + 'static,
) -> Result<Status> {
    let modes = tcgetattr(stdin()).ok();
    let (done, ended) = channel();
    std::thread::Builder::new()
        .name("repl".into())
        .stack_size(crate::script::STACK)
        .spawn(move || done.send(run()))
        .map_err(|error| Fault::internal(format!("cannot start a thread: {error}")))?;
    loop {
        match ended.recv_timeout(PAUSE) {
            Ok(status) => return status,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Fault::internal("the editor loop's thread panicked"));
            }
        }
        match (program.signals.status(), shared.running.load(Ordering::SeqCst)) {
            // Ctrl-C ends the running input, which then clears the interruption.
            (None, _) | (Some(INTERRUPTED), true) => {}
            // It arrived just before the editor took the keyboard.
            (Some(INTERRUPTED), false) => {
                program.tasks.renew();
                program.signals.clear_interrupt();
            }
            // Ends the running input and then the loop. An input that started at the same instant has cleared the
            // interruption.
            (Some(_), true) => program.tasks.interrupt(),
            (Some(status), false) => {
                // The editor changed the terminal's modes. The terminal may be closed.
                if let Some(modes) = &modes {
                    let _ = tcsetattr(stdin(), SetArg::TCSANOW, modes);
                }
                return Ok(status);
            }
        }
    }
}

/// Shows an event of the running input. Output of the script goes to stdout, the rest to stderr.
fn show(event: &Event) {
    let terminal = Terminal::detect();
    match event {
        // A closed stdout is reported at the next result.
        Event::Print { text } | Event::Report { text, .. } | Event::Shown { text, .. } => drop(terminal.print(text)),
        Event::Note { text } => terminal.print_error(text),
        Event::Warning(warning) => terminal.print_error(&format!("warning: {}", warning.message)),
        Event::Phase { phase, detail } => terminal.print_error(format!("{} {detail}", phase.name()).trim_end()),
        Event::Point { point, verdict, .. } => terminal.print_error(&format!("{point}: {verdict}")),
        _ => {}
    }
}

fn broken(error: &ReadlineError) -> Fault {
    Fault::new(Kind::Io, format!("standard input: {error}"))
}

fn editor(terminal: &Terminal) -> rustyline::Result<Editor<LineHelper, FileHistory>> {
    let colours = if terminal.colour {
        ColorMode::Enabled
    } else {
        ColorMode::Disabled
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

/// Loads the history file into the editor; `None` without a home directory.
fn open_history(editor: &mut Editor<LineHelper, FileHistory>) -> Result<Option<PathBuf>> {
    let Some(folder) = home::state().map(|state| state.join("profiler")) else {
        return Ok(None);
    };
    let file = folder.join("history");
    std::fs::create_dir_all(&folder).map_err(|error| Fault::io(&folder, &error))?;
    if std::fs::symlink_metadata(&file).is_ok() {
        // A link would have the editor write elsewhere; a pipe would have it wait.
        if !Folder::open(&folder)?.has_file("history") {
            return Err(Fault::usage(format!("`{}` is not a regular file", file.display())).hint("remove it"));
        }
        let size = std::fs::metadata(&file)
            .map_err(|error| Fault::io(&file, &error))?
            .len();
        if size > MAX_HISTORY {
            return Err(
                Fault::usage(format!("`{}` has more than {}", file.display(), Bytes(MAX_HISTORY))).hint("remove it"),
            );
        }
        let loaded = editor.load_history(&file);
        loaded.map_err(|error| Fault::usage(format!("`{}`: {error}", file.display())))?;
    }
    Ok(Some(file))
}

/// Ends all services of the session.
fn end_services(host: &Host) -> Result<()> {
    host.tasks.finish(host.services.stop_all(GRACE))
}

/// The loop, on its own thread.
struct Repl {
    host: Arc<Host>,
    signals: Signals,
    shared: Arc<InputStatus>,
    session: Session,
    terminal: Terminal,
    /// Whether a person types the input, not a pipe.
    is_interactive: bool,
    was_simulated: bool,
    /// Whether an input failed.
    failed: bool,
}

impl Repl {
    /// Runs until Ctrl-D or `:quit`. The status is 1 if an input from a pipe failed.
    fn run(host: Arc<Host>, signals: Signals, shared: Arc<InputStatus>, main: Option<Main>) -> Result<Status> {
        let root = main.as_ref().map_or(Path::new("."), |main| main.root.as_path());
        let session = Session::new(&host, root);
        let terminal = Terminal::detect();
        let mut editor = editor(&terminal).map_err(|error| broken(&error))?;
        editor.set_helper(Some(LineHelper::new(&session)));
        let history = open_history(&mut editor).unwrap_or_else(|fault| {
            terminal.print_fault(&fault.while_doing("no history"));
            None
        });
        let is_interactive = stdin().is_terminal() && stdout().is_terminal();
        if is_interactive {
            terminal.print_error(BANNER);
        }
        let mut repl = Self {
            host,
            signals,
            shared,
            session,
            terminal,
            is_interactive,
            was_simulated: false,
            failed: false,
        };
        if let Some(main) = main {
            repl.evaluate(|session| session.run_source(&main.source));
        }
        // Any signal but Ctrl-C ends the loop, not only the running input. The rest of a pipe is not run.
        while matches!(repl.signals.status(), None | Some(INTERRUPTED)) {
            if let Some(helper) = editor.helper_mut() {
                helper.refresh(&repl.session);
            }
            let prompt = if repl.host.run.simulated() { "SIMULATED> " } else { "> " };
            match editor.readline(prompt) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => {
                    editor
                        .add_history_entry(hide_keys(&line))
                        // Saved at once, because the session may be killed.
                        .and_then(|_| history.as_ref().map_or(Ok(()), |file| editor.append_history(file)))
                        .map_err(|error| Fault::usage(format!("cannot keep the history: {error}")))?;
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

    /// Handles one input; returns whether it was the last.
    fn answer(&mut self, line: &str) -> bool {
        let command = match ReplCommand::parse(line) {
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
            ReplCommand::Quit => return true,
            ReplCommand::Help(None) => self.terminal.print(HELP),
            ReplCommand::Help(Some(name)) => self
                .session
                .help(&name)
                .and_then(|text| self.terminal.print_markdown(&text)),
            ReplCommand::Json => self
                .session
                .last_json()
                .and_then(|value| self.terminal.print(&json_text(&value)?)),
            ReplCommand::Last => self.terminal.print(&self.session.last()),
            ReplCommand::Load(file) => {
                self.evaluate(|session| session.load(&file));
                Ok(())
            }
            ReplCommand::Reset => {
                self.session.reset();
                end_services(&self.host)
            }
            ReplCommand::Save { file, replace } => self
                .session
                .save(&file, replace)
                .map(|()| self.terminal.print_error(&format!("saved `{}`", file.display()))),
            ReplCommand::Scope => self.scope(),
        };
        if let Err(fault) = done {
            self.failed = true;
            self.terminal.print_fault(&fault);
        }
        false
    }

    fn scope(&self) -> Result<()> {
        let row = |one: &Variable| {
            let word = if one.constant { "const" } else { "let" };
            format!("{word} {}: {} = {}", one.name, one.kind, one.value)
        };
        let rows: Vec<String> = self.session.variables().iter().map(row).collect();
        if rows.is_empty() {
            self.terminal.print_error("no variables");
            Ok(())
        } else {
            self.terminal.print(&rows.join("\n"))
        }
    }

    /// Evaluates an input. An interruption ends only this input.
    fn evaluate(&mut self, work: impl FnOnce(&mut Session) -> Result<Option<Line>, Box<Diagnostic>>) {
        let (host, signals, shared) = (&self.host, &self.signals, &self.shared);
        // Ignore signals that came while nothing was running.
        host.tasks.renew();
        signals.clear_interrupt();
        signals.guard(&host.services);
        shared.reported.store(false, Ordering::SeqCst);
        shared.running.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        let result = work(&mut self.session);
        let took = begun.elapsed();
        shared.running.store(false, Ordering::SeqCst);
        let is_reported = shared.reported.load(Ordering::SeqCst);
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
            // The report already shows this value.
            Ok(Some(line)) if is_reported && !line.is_whole => Ok(()),
            Ok(Some(line)) => {
                let printed = self.terminal.print(&line.text);
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
                self.terminal.print_failure(text.trim_end());
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
