//! Asks the user for what a script wants and may not do: a prompt on a terminal, and what was allowed for good before.

use std::io::{BufRead as _, IsTerminal as _, stderr, stdin};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fault::{Fault, Result};
use crate::report::Terminal;
use crate::run::{is_remembered, remember};
use crate::runtime::{Consent, Want};
use crate::script::{Host, Source};
use crate::task::{Tasks, lock};

/// How often to look for an interruption while the user thinks.
const PAUSE: Duration = Duration::from_millis(50);

enum Answer {
    Once,
    Always,
    No,
}

/// Has what a script wants decided by what the user allowed it for good, and else by the user at the terminal. Without
/// `undisturbed`, which calls its argument while nothing else is printed, nobody is asked.
pub(super) fn install<F>(host: &Arc<Host>, undisturbed: Option<F>)
where
    F: Fn(&mut dyn FnMut()) + Send + Sync + 'static,
{
    let weak = Arc::downgrade(host);
    let denied = Mutex::new(Vec::new());
    host.permits.ask_with(move |wants| {
        let Some(host) = weak.upgrade() else {
            return Ok(Consent::No);
        };
        let mut consent = Consent::Now;
        let new: Vec<&Want> = wants.iter().filter(|want| !is_remembered(&fact(&host, want))).collect();
        if !new.is_empty() {
            let mut denied = lock(&denied);
            let may_ask = stdin().is_terminal() && stderr().is_terminal();
            let Some(undisturbed) = undisturbed.as_ref().filter(|_| may_ask) else {
                return Ok(Consent::No);
            };
            // A script that tries again does not ask again.
            if new.iter().any(|want| denied.contains(&want.allow)) {
                return Ok(Consent::No);
            }
            let mut answer = Ok(Answer::No);
            undisturbed(&mut || answer = prompt(&host, &new));
            match answer? {
                Answer::Once => consent = Consent::Run,
                Answer::Always => new.iter().try_for_each(|want| {
                    remember([fact(&host, want)], &format!("{} for {}", want.allow, name(&host)))
                })?,
                Answer::No => {
                    denied.extend(new.iter().map(|want| want.allow.clone()));
                    return Ok(Consent::No);
                }
            }
        }
        host.run.permit(wants.iter().map(|want| want.allow.clone()));
        Ok(consent)
    });
}

/// The fact that these texts, without what ships with the program, may always do this.
fn fact(host: &Host, want: &Want) -> String {
    let mut hashes: Vec<String> = host.sources.own().map(|source| source.sha256).collect();
    hashes.sort();
    hashes.push(want.allow.clone());
    format!("allow {}", Source::new("", &hashes.join("\n")).sha256)
}

fn name(host: &Host) -> String {
    match host.settings.script.display().to_string().as_str() {
        "" => "this".to_owned(),
        script => format!("`{script}`"),
    }
}

fn prompt(host: &Host, wants: &[&Want]) -> Result<Answer> {
    let who = name(host);
    let lines = wants.iter().map(|want| format!("  {} ({})", want.to, want.allow));
    let lines: Vec<String> = std::iter::once(format!("{who} wants to")).chain(lines).collect();
    let terminal = Terminal::detect();
    terminal.print_failure(&lines.join("\n"));
    terminal.print_failure("allow it? y: for this run, a: always for this script as it is now (until `profiler doctor --forget-allowed`), N: no");
    let answer = read_line(&host.tasks)?;
    Ok(match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Once,
        "a" | "always" => Answer::Always,
        _ => Answer::No,
    })
}

/// A line from the keyboard. Its thread outlives an interruption, as reading cannot be stopped.
fn read_line(tasks: &Tasks) -> Result<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        // A closed terminal says no.
        let _ = stdin().lock().read_line(&mut line);
        let _ = sender.send(line);
    });
    loop {
        match receiver.recv_timeout(PAUSE) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Timeout) if !tasks.interrupted() => {}
            Err(_) => return Err(Fault::interrupted()),
        }
    }
}
