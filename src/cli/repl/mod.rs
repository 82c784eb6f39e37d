//! `profiler repl`: an interactive session.
//!
//! The loop has its own thread, because the interpreter needs a large stack and the editor blocks on the keyboard.
//! The main thread waits for it to end, or for a signal.

mod editor_loop;

use std::convert::Infallible;
use std::io::stdin;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

use super::options::ScriptOptions;
use super::program::{Program, Status};
use crate::fault::{Fault, Result};
use crate::report::{Page, Terminal};
use crate::run::{Event, Run, hide};
use crate::script::{Host, Main, Settings};
use editor_loop::{EditorLoop, LoopState, end_services};

/// Exit status after a signal: 128 and the signal's number.
const HUNG_UP: Status = 129;
const TERMINATED: Status = 143;

/// Delay before an interruption is repeated.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A script to load first
    script: Option<std::path::PathBuf>,
    #[command(flatten)]
    options: ScriptOptions,
}

/// Reads and evaluates until Ctrl-D.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let main = args.script.as_deref().map(Main::open).transpose()?;
    let host = host(args, program)?;
    let state = Arc::new(LoopState::default());
    let listener = Arc::clone(&state);
    host.run.listen(Box::new(move |event| {
        if matches!(event, Event::Report { .. } | Event::Shown { .. }) {
            listener.note_report();
        }
        show(event);
    }));
    let editor_loop = EditorLoop {
        host: Arc::clone(&host),
        signals: program.signals.clone(),
        main,
        state: Arc::clone(&state),
    };
    let status = wait(program, editor_loop, &state);
    // From here on, a second signal kills what has not ended.
    program.signals.guard(&host.services);
    program.signals.script_ended();
    let ended = end_services(&host);
    program.signals.unguard();
    ended.and(status)
}

/// Waits for the end of the loop. If a signal ends it while the editor waits for input, its thread is
/// abandoned.
fn wait(program: &Program, editor_loop: EditorLoop, state: &LoopState) -> Result<Status> {
    let keys = TerminalModes::current();
    let (done, mut ended) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("repl".into())
        .stack_size(crate::script::STACK)
        .spawn(move || done.send(editor_loop.run()))
        .map_err(|error| Fault::internal(format!("cannot start a thread: {error}")))?;
    let panicked = |_| Fault::internal("the editor loop's thread panicked");
    let listen = |kind| signal(kind).map_err(|error| Fault::internal(format!("cannot listen for signals: {error}")));
    // Not `finish`, which would mark a cleanup as in progress.
    program.tasks.runtime().block_on(async {
        let mut terminate = listen(SignalKind::terminate())?;
        let mut hang_up = listen(SignalKind::hangup())?;
        let status = tokio::select! {
            result = &mut ended => return result.map_err(panicked)?,
            _ = terminate.recv() => TERMINATED,
            _ = hang_up.recv() => HUNG_UP,
            never = clear_stray_interrupts(program, state) => match never {},
        };
        if !state.is_running() {
            keys.restore();
            return Ok(status);
        }
        // The interruption ends the running input, and then the loop.
        state.end();
        loop {
            program.tasks.interrupt();
            tokio::select! {
                result = &mut ended => return result.map_err(panicked)?.map(|_| status),
                // An input that began at the same instant has cleared the interruption.
                () = tokio::time::sleep(RETRY_DELAY) => {}
            }
        }
    })
}

/// Clears interruptions while nothing runs: Ctrl-C just before the editor takes the keyboard.
async fn clear_stray_interrupts(program: &Program, state: &LoopState) -> Infallible {
    loop {
        program.tasks.token().cancelled().await;
        match state.is_running() {
            true => tokio::time::sleep(RETRY_DELAY).await,
            false => {
                program.tasks.renew();
                program.signals.clear_interrupt();
            }
        }
    }
}

fn host(args: &Args, program: &Program) -> Result<Arc<Host>> {
    let run = Arc::new(Run::ephemeral("repl"));
    let settings = Settings {
        script: args.script.clone().unwrap_or_default(),
        set: args.options.parameters()?,
        allow: args.options.allow.clone(),
        seed: args.options.seed.unwrap_or_else(|| run.seed()),
        dry_run: false,
        shared_gpu: args.options.shared_gpu,
        max_operations: args.options.max_operations,
        max_memory: None,
        page: Page::from(&program.terminal),
    };
    let (tasks, permits) = (program.tasks.clone(), args.options.permits()?);
    Ok(Arc::new(Host::new(tasks, run, permits, Arc::default(), settings)))
}

/// Shows an event of the running input. Output of the script goes to stdout, the rest to stderr.
fn show(event: &Event) {
    let terminal = Terminal::detect();
    match event {
        // A closed stdout is reported at the next result.
        Event::Print { text } | Event::Report { text, .. } | Event::Shown { text, .. } => {
            drop(terminal.print(&hide(text)))
        }
        Event::Warning(warning) => terminal.print_error(&format!("warning: {}", hide(&warning.message))),
        Event::Phase { phase, detail } => terminal.print_error(hide(&format!("{phase} {detail}")).trim_end()),
        Event::Point { point, verdict, .. } => terminal.print_error(&format!("{point}: {verdict}")),
        _ => {}
    }
}

/// The modes of standard input; `None` if it is no terminal.
struct TerminalModes(Option<Termios>);

impl TerminalModes {
    /// The current modes.
    fn current() -> Self {
        Self(tcgetattr(stdin()).ok())
    }

    /// Restores the modes; errors of a closed terminal are ignored.
    fn restore(&self) {
        if let Some(modes) = &self.0 {
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, modes);
        }
    }
}
