//! `profiler repl`: tries primitives by hand.
//!
//! The conversation has a thread of its own, since the interpreter needs a large stack and the editor blocks on the keyboard;
//! here the process waits for its end, or for a signal that ends it from outside.

mod conversation;
mod history;
mod keyboard;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::Status;
use super::program::Program;
use crate::fault::{Fault, Result};
use crate::report::{Page, Terminal};
use crate::run::{Event, Run, hide};
use crate::script::{Host, Main, Settings};
use conversation::{Conversation, Moment};

/// What a shell reports for a process that a signal ended: 128 and the signal's number.
const HUNG_UP: Status = 129;
const TERMINATED: Status = 143;

/// How long what was started may take to end politely.
const GRACE: Duration = Duration::from_secs(10);

/// How long an interrupted input may take to notice before it is interrupted again.
const AGAIN: Duration = Duration::from_millis(100);

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A script to load first
    script: Option<std::path::PathBuf>,
    #[command(flatten)]
    options: super::args::ScriptOptions,
}

/// Reads and evaluates until Ctrl-D.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let main = args.script.as_deref().map(Main::open).transpose()?;
    let host = host(args, program)?;
    host.run.listen(Box::new(show));
    let moment = Arc::new(Moment::default());
    let conversation = Conversation {
        host: Arc::clone(&host),
        signals: program.signals.clone(),
        main,
        moment: Arc::clone(&moment),
    };
    let status = wait(program, conversation, &moment);
    // A second signal from here on kills what does not end.
    program.signals.guard(&host.services);
    program.signals.script_ended();
    let ended = end_services(&host);
    program.signals.stand_down();
    ended.and(status)
}

/// Waits for the conversation's end. Where a signal ends it while the keyboard is waited for, its thread stays behind.
fn wait(program: &Program, conversation: Conversation, moment: &Moment) -> Result<Status> {
    let keys = keyboard::Modes::current();
    let (done, mut ended) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("repl".into())
        .stack_size(crate::script::STACK)
        .spawn(move || done.send(conversation.hold()))
        .map_err(|error| Fault::internal(format!("cannot start a thread: {error}")))?;
    let panicked = |_| Fault::internal("the conversation's thread panicked");
    let listen = |kind| signal(kind).map_err(|error| Fault::internal(format!("cannot listen for signals: {error}")));
    // Not `finish`, which says that something is being cleaned up.
    program.tasks.runtime().block_on(async {
        let mut terminate = listen(SignalKind::terminate())?;
        let mut hang_up = listen(SignalKind::hangup())?;
        let status = tokio::select! {
            result = &mut ended => return result.map_err(panicked)?,
            _ = terminate.recv() => TERMINATED,
            _ = hang_up.recv() => HUNG_UP,
            never = forget_strays(program, moment) => match never {},
        };
        if !moment.is_running() {
            keys.restore();
            return Ok(status);
        }
        // Interrupted, the running input ends by itself, and with it the conversation.
        moment.leave();
        loop {
            program.tasks.interrupt();
            tokio::select! {
                result = &mut ended => return result.map_err(panicked)?.map(|_| status),
                // An input that began at the same instant has forgotten the interruption.
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    })
}

/// An interruption that comes while nothing runs asks for nothing: Ctrl-C in the instant before the editor has the keyboard.
async fn forget_strays(program: &Program, moment: &Moment) -> Infallible {
    loop {
        program.tasks.token().cancelled().await;
        match moment.is_running() {
            true => tokio::time::sleep(AGAIN).await,
            false => {
                program.tasks.renew();
                program.signals.forget();
            }
        }
    }
}

fn host(args: &Args, program: &Program) -> Result<Arc<Host>> {
    let run = Arc::new(Run::ephemeral("repl"));
    let settings = Settings {
        script: args.script.clone().unwrap_or_default(),
        set: args.options.parameters()?,
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

/// Ends everything that the session started.
fn end_services(host: &Host) -> Result<()> {
    host.tasks.finish(host.services.end_all(GRACE))
}

/// What happens while an input runs. What a script prints and reports is a result; the rest is for the reader.
fn show(event: &Event) {
    let terminal = Terminal::detect();
    match event {
        // A reader that is gone is told of at the next result.
        Event::Print { text } | Event::Report { text, .. } | Event::Shown { text, .. } => {
            drop(terminal.print(&hide(text)))
        }
        Event::Warning { text } => terminal.say(&format!("warning: {}", hide(text))),
        Event::Phase { phase, detail } => terminal.say(hide(&format!("{phase} {detail}")).trim_end()),
        Event::Point { point, verdict, .. } => terminal.say(&format!("{point}: {verdict}")),
        _ => {}
    }
}
