//! The end of a run: its result or its error, the command that resumes it, and its page.

use std::path::Path;

use serde_json::{Value, json};

use super::args::Args;
use crate::answer::allow_flags;
use crate::cli::program::{Program, Status};
use crate::cli::{dry_run, report};
use crate::fault::{Fault, Kind, Result};
use crate::report::{Live, Page, SoFar, resume_command, simulated_line, text};
use crate::run::{Folder, RecordedRun, Run, RunStatus, failure_document};
use crate::runtime::Want;
use crate::script::{Diagnostic, Host, Main};
use crate::warning::Warning;

/// Reports all refused and missing permissions: with the refusal that ended the script, or as a warning if the script
/// continued without them.
pub(super) fn tell_refusals(
    args: &Args,
    main: &Main,
    host: &Host,
    ended: &mut std::result::Result<Value, Box<Diagnostic>>,
    program: &Program,
) {
    let mut missing: Vec<Want> = host.permits.wants().into_iter().filter(|want| !want.allowed).collect();
    if missing.is_empty() {
        return;
    }
    let to = |wants: Vec<&Want>| wants.iter().map(|want| &*want.to).collect::<Vec<_>>().join(", or to ");
    let went_on = |missing: &[Want]| {
        let (to, option) = (to(missing.iter().collect()), Want::option(missing));
        format!("the script went on although it was not allowed to {to}: allow it with `{option}`")
    };
    match ended {
        // If the journal cannot be written, the end of the run reports that.
        Ok(_) => drop(host.run.warn(Warning::new("not_allowed", went_on(&missing)))),
        Err(diagnostic) if diagnostic.fault.kind == Kind::NotAllowed => {
            let set = host.settings.set.clone();
            // After measurements, running the script once more would take too long.
            let others = if host.run.has_measured() {
                Vec::new()
            } else {
                dry_run::missing(&args.options, &host.settings.script, main, set, program).unwrap_or_default()
            };
            for want in others {
                if missing.iter().all(|known| known.allow != want.allow) {
                    missing.push(want);
                }
            }
            let fault = &mut diagnostic.fault;
            let others: Vec<&Want> = missing
                .iter()
                .filter(|want| !fault.message.contains(&want.to))
                .collect();
            if !others.is_empty() {
                let hint = fault.hint.take().unwrap_or_default();
                let (to, option) = (to(others), Want::option(&missing));
                fault.hint = Some(format!("{hint}. It also wants to {to}; allow all with `{option}`"));
            }
        }
        Err(_) => program.note(format!("warning: {}", went_on(&missing))),
    }
}

/// Records the end of the run, and prints its result, or the error and what was found so far.
pub(super) fn conclude(
    args: &Args,
    ended: std::result::Result<Value, Box<Diagnostic>>,
    live: &Live,
    host: &Host,
    program: &Program,
) -> Result<Status> {
    let value = match ended {
        Ok(value) => value,
        Err(mut diagnostic) => {
            let interrupted = diagnostic.fault.kind == Kind::Interrupted;
            if interrupted && program.signals.status().is_some() {
                diagnostic.fault.message = program.signals.stopped_by().to_owned();
            }
            let status = if interrupted && host.state().left {
                // Jobs that it started elsewhere continue.
                program.note(&diagnostic.fault.message);
                0
            } else {
                program.complain(&diagnostic)
            };
            let fault = fault_json(&diagnostic);
            let ended = match interrupted {
                true if program.signals.out_of_time() => RunStatus::OutOfTime,
                true => RunStatus::Interrupted,
                false => RunStatus::Failed,
            };
            let ended = host.run.end(ended, fault.clone());
            // The cause was printed already. A full disk may cause this error too.
            if let Err(fault) = &ended
                && fault.message != diagnostic.fault.message
            {
                program.terminal.print_fault(fault);
            }
            let is_written = ended.is_ok();
            let mut document = ended.unwrap_or_else(|_| host.run.document(Err(&fault)));
            let command = resume_hint(args, host, interrupted);
            let is_printed = print_so_far(args, host, interrupted, command.clone(), &mut document, program)?;
            if is_written {
                // The journal is complete. On a full disk, only this copy is missing.
                let _ = host.run.replace_document(&document);
            }
            if args.json {
                program.print_json(&document)?;
            }
            if !is_printed {
                print_resume_hint(command, host, program);
            }
            return Ok(status);
        }
    };
    let document = match host.run.end(RunStatus::Done, value) {
        Ok(document) => document,
        Err(fault) => {
            if args.json {
                let fault = fault_json(&Diagnostic::from(fault.clone()));
                program.print_json(&host.run.document(Err(&fault)))?;
            }
            return Err(fault);
        }
    };
    let result = &document["result"];
    if args.json {
        program.print_json(&document)?;
    } else if !live.has_shown(result) {
        if host.run.simulated() && !live.has_noted_simulation() {
            let notice = simulated_line(&host.run.simulated_engines());
            program.terminal.print_wrapped(&notice)?;
        }
        if !result.is_null() {
            program.print_json(result)?;
        }
    }
    print_larger_budget(result, host, program);
    if host.run.nothing_fits() {
        program.note("nothing is known to fit");
        return Ok(1);
    }
    if is_missed(result) {
        return Ok(Kind::Threshold.exit_code());
    }
    Ok(0)
}

/// Whether the result names a limit that is not kept.
pub(super) fn is_missed(result: &Value) -> bool {
    result["missed"].is_string()
}

/// Prints the command that resumes with twice the budget, if a budget ended the search of the result.
fn print_larger_budget(result: &Value, host: &Host, program: &Program) {
    let search = &result["search"];
    let Some((option, spent)) = search["stopped"]
        .as_str()
        .and_then(|name| Some((name, name.strip_prefix("max_")?)))
    else {
        return;
    };
    if let (Some(folder), Some(spent)) = (host.run.folder(), search[spent].as_f64()) {
        let script = host.settings.script.display().to_string();
        let larger = format!("--search.{} {}", option.replace('_', "-"), (2.0 * spent).ceil());
        let command = resume_command(&script, folder, &host.settings.set, &[larger]);
        program.note(format!("`{option}` ended the search; resume with: {command}"));
    }
}

/// Ends a run after a mistake of the user or the script before anything started: removes the useless folder. `None` if
/// it stays: the script wrote files, or it is a numbered attempt, whose fleet reads the folder.
pub(super) fn discard_run(
    args: &Args,
    diagnostic: &Diagnostic,
    host: &Host,
    program: &Program,
) -> Result<Option<Status>> {
    if !host.run.discard(args.out.is_none()) {
        return Ok(None);
    }
    let status = program.complain(diagnostic);
    if args.json {
        program.print_json(&host.run.document(Err(&fault_json(diagnostic))))?;
    }
    program.note("nothing had started, so the run folder was removed");
    Ok(Some(status))
}

/// Adds the findings of an unfinished run to the document. Without `--json`, prints them. Returns whether it printed.
fn print_so_far(
    args: &Args,
    host: &Host,
    interrupted: bool,
    command: Option<String>,
    document: &mut Value,
    program: &Program,
) -> Result<bool> {
    let folder = host.run.folder().and_then(|path| Folder::open(path).ok());
    let found = folder.as_ref().and_then(|folder| RecordedRun::from_folder(folder).ok());
    // A folder that cannot be read must not hide the reason why the run ended.
    let so_far = found.as_ref().zip(folder.as_ref());
    let Some(so_far) = so_far.and_then(|(found, folder)| SoFar::new(found, folder)) else {
        return Ok(false);
    };
    let so_far = so_far.with_command(command);
    so_far.add_to(document);
    let has_content = host.run.has_measured() || interrupted && so_far.under_way().is_some();
    if args.json || !has_content {
        return Ok(false);
    }
    let page = Page::from(&program.terminal);
    program.terminal.print_wrapped(&text(&so_far.blocks(page), page))?;
    Ok(true)
}

/// The error as JSON, for the journal, `result.json` and `--json`.
fn fault_json(diagnostic: &Diagnostic) -> Value {
    json!({
        "kind": diagnostic.fault.kind.name(),
        "message": diagnostic.fault.message,
        "hint": diagnostic.fault.hint,
        "at": diagnostic.location(),
    })
}

/// Prints the JSON document of a run that did not start.
pub(super) fn print_not_started(args: &Args, script: &Path, diagnostic: &Diagnostic, program: &Program) {
    if args.json && !args.dry_run {
        // The error itself is printed elsewhere and decides the exit status.
        let script = script.display().to_string();
        let _ = program.print_json(&failure_document(&script, &fault_json(diagnostic)));
    }
}

/// Prints the command that resumes an unfinished run, or a note that there is nothing to resume.
fn print_resume_hint(command: Option<String>, host: &Host, program: &Program) {
    let Some(folder) = host.run.folder() else { return };
    let Some(command) = command else {
        // A server attached by URL leaves no log.
        let by_address = host.settings.set.contains_key("url");
        let logs = if by_address { "" } else { " and the logs" };
        program.note(format!(
            "nothing was measured; `{}` keeps the journal{logs}",
            folder.display()
        ));
        return;
    };
    if !host.run.has_measured() && !host.state().left {
        let stopped = program.signals.stopped_by();
        program.note(format!("{stopped} before anything was measured"));
    }
    program.note(format!("resume with: {command}"));
}

/// The command that resumes a run with the permissions and limits that the user gave; `None` if there is nothing to
/// resume.
fn resume_hint(args: &Args, host: &Host, interrupted: bool) -> Option<String> {
    let folder = host.run.folder()?;
    if !interrupted && !host.run.has_measured() {
        return None;
    }
    // Permissions are not read from the folder, which may come from somebody else.
    let options = &args.options;
    let mut flags = allow_flags(&host.permits.arguments());
    flags.extend(options.shared_gpu.then(|| "--shared-gpu".to_owned()));
    flags.extend(options.insecure.then(|| "--insecure".to_owned()));
    flags.extend(options.wait.map(|wait| format!("--wait {}ms", wait.as_millis())));
    flags.extend(options.max_operations.map(|most| format!("--max-operations {most}")));
    flags.extend(args.max_time.map(|most| match most.subsec_millis() {
        0 => format!("--max-time {}s", most.as_secs()),
        _ => format!("--max-time {}ms", most.as_millis()),
    }));
    flags.extend(args.max_disk.map(|most| format!("--max-disk {most}B")));
    let script = host.settings.script.display().to_string();
    Some(resume_command(&script, folder, &host.settings.set, &flags))
}

/// Writes the run's page. Repeats the headline if its answer may be out of sight. A failure does not fail the run.
pub(super) fn write_page(run: &Run, live: &Live, program: &Program) {
    let Some(folder) = run.folder() else { return };
    // A panic while drawing must not change how the run ended. It is printed where it happens.
    let made = std::panic::catch_unwind(|| report::write_run_page(folder));
    match made.unwrap_or_else(|_| Err(Fault::internal("drawing the page failed"))) {
        Ok((page, headline)) => {
            program.note(format!("report: {}", page.display()));
            if live.has_scrolled() || program.terminal.has_scrolled() {
                program.note(program.terminal.wrapped(&headline));
            }
        }
        Err(fault) => program.note(format!("warning: the run has no report: {}", fault.message)),
    }
}
