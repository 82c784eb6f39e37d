//! `profiler engine-worker`, which people do not call: probes an engine of this machine for a run on another one. Lines of
//! JSON come and go by standard input and output.

use std::io::{Write as _, stdin, stdout};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use super::program::{GRACE, Program, Status};
use crate::engine::Reply;
use crate::fault::{Fault, Result};
use crate::run::hide_json;
use crate::runtime::Services;
use crate::script;
use crate::task::Tasks;

/// Time without a line, not even an empty one, after which the other end is gone.
const GONE: Duration = Duration::from_secs(120);

/// Answers until standard input ends, or nothing comes any more; then everything that was started is stopped.
pub(super) fn execute(program: &Program) -> Result<Status> {
    let services = Arc::new(Services::default());
    program.signals.guard(&services);
    let (sender, arrived) = mpsc::channel();
    let (question, questions) = mpsc::channel();
    let thread = |error| Fault::no_thread("thread of a worker", &error);
    let (reply, replies) = mpsc::channel();
    // Neither is waited for: when the connection breaks, they may read and write for ever.
    for work in [
        Box::new(move || read(&sender)) as Box<dyn FnOnce() + Send>,
        Box::new(move || write(&replies)),
    ] {
        std::thread::Builder::new().spawn(work).map_err(thread)?;
    }
    let say = move |one: &Reply| {
        if let Ok(line) = serde_json::to_string(one) {
            // Until the end, there is somebody who writes it.
            let _ = reply.send(line);
        }
    };
    let tasks = program.tasks.clone();
    let listen = move || listen(&arrived, &question, &tasks);
    std::thread::Builder::new().spawn(listen).map_err(thread)?;
    let ended = script::serve(questions, &program.tasks, &services, say);
    program.signals.script_ended();
    program.tasks.finish(services.stop_all(GRACE))?;
    program.signals.unguard();
    ended.map(|()| 0).map_err(|diagnostic| diagnostic.fault)
}

fn read(arrived: &Sender<String>) {
    for line in stdin().lines().map_while(std::result::Result::ok) {
        if arrived.send(line).is_err() {
            return;
        }
    }
}

/// Passes questions on. When no more come, what is under way is given up.
fn listen(arrived: &Receiver<String>, question: &Sender<String>, tasks: &Tasks) {
    while let Ok(line) = arrived.recv_timeout(GONE) {
        if !line.is_empty() {
            // The last lines find nobody when a signal has ended it.
            let _ = question.send(line);
        }
    }
    tasks.interrupt();
}

/// Writes replies. Where packets are lost it may wait for ever.
fn write(replies: &Receiver<String>) {
    let mut output = stdout().lock();
    while let Ok(line) = replies.recv() {
        // That nobody reads it any more shows at standard input.
        let _ = writeln!(output, "{}", hide_json(line)).and_then(|()| output.flush());
    }
}
