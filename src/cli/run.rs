//! `profiler run`: runs a script and writes a run folder; `profiler run SCRIPT --help` shows the script's purpose
//! and parameters.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::options::{Author, LONGEST, ScriptOptions, ask_consent};
use super::program::{GRACE, Program, Status};
use super::{doc, dry_run, fleet, report, show};
use crate::answer::allow_flags;
use crate::fault::{Fault, Kind, Result};
use crate::report::{Live, Page, SoFar, resume_command, simulated_line, text};
use crate::run::RunStatus;
use crate::run::{
    Folder, Manifest, RecordedRun, Run, RunPlan, Script, check_free, completed, failure_document, has_hidden, is_pack,
    is_remembered, own_run,
};
use crate::runtime::{Want, orphans};
use crate::script::{self, Diagnostic, Header, Host, Main, STDIN};
use crate::warning::Warning;
use crate::{memory, telemetry};

/// Time limit of the search for leftovers of earlier processes of the run.
const SWEEP: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  profiler run adaptive             try it: without a GPU, the engine is simulated
  profiler run adaptive --help      the parameters of a script
  profiler run adaptive --input 2000 --output 500 --dry-run
  profiler run throughput --url http://localhost:8000 --output 256
  profiler run ./mine.rhai          a script of your own; - is standard input
  profiler run --resume runs/DIR    go on after Ctrl-C";

/// Arguments.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(super) struct Args {
    /// The script: a path, the name of a shipped one, or - for standard input; with --resume, the one that ran
    pub(super) script: Option<PathBuf>,
    #[command(flatten)]
    pub(super) options: ScriptOptions,
    /// The run's folder, new or empty; runs/TIME-SCRIPT when absent
    #[arg(long, value_name = "DIR", conflicts_with = "resume", help_heading = "Run")]
    pub(super) out: Option<PathBuf>,
    /// Run the script once for each of these values of a parameter, or each combination of several, and compare the
    /// results: --matrix kv_cache_dtype=auto,fp8 --matrix settings.max_num_seqs=64,256
    #[arg(
        long,
        value_name = "NAME=VALUES",
        conflicts_with_all = ["resume", "attempt"],
        help_heading = "Run"
    )]
    pub(super) matrix: Vec<String>,
    /// If --out is taken, use the first of DIR-2, DIR-3 … that is free
    #[arg(long, requires = "out", conflicts_with = "attempt", help_heading = "Run")]
    pub(super) force_new: bool,
    /// Resume the run in this folder
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run", help_heading = "Run")]
    pub(super) resume: Option<PathBuf>,
    /// End the run after this time with its findings so far, and with exit status 124: 90s, 30m, 2h30m
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Permissions and limits")]
    pub(super) max_time: Option<Duration>,
    /// How much the run may write to disk, such as 500MB or 20G; 10GiB when absent
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Permissions and limits")]
    pub(super) max_disk: Option<u64>,
    /// Resume somebody else's run, whose script and modules have these hashes
    #[arg(long, value_name = "sha256:HASH,…", value_delimiter = ',', help_heading = "Run")]
    pub(super) trust_script: Vec<String>,
    /// For schedulers that may start a run twice: resume the run in --out if it exists, and stop attempts with a lower
    /// number
    #[arg(
        long,
        value_name = "N",
        requires = "out",
        conflicts_with_all = ["resume", "dry_run"],
        help_heading = "Run"
    )]
    pub(super) attempt: Option<u64>,
    /// Show what would be done, and start nothing
    #[arg(long, help_heading = "Run")]
    pub(super) dry_run: bool,
    /// Print the result as one JSON document
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// This help, or with SCRIPT the script's own parameters
    #[arg(long, short, help_heading = "Output")]
    pub(super) help: bool,
}

impl Args {
    /// Whether the user wants the command's own help, not that of a script.
    pub(super) fn wants_help(&self) -> bool {
        self.help && self.script.is_none() && self.resume.is_none()
    }

    /// The arguments for a later attempt at a run: it resumes the run in `--out`.
    fn resolved(&self) -> Self {
        let mut args = self.clone();
        let began = |out: &PathBuf| Folder::open(out).is_ok_and(|folder| folder.has_file("manifest.json"));
        if self.attempt.is_some() && self.out.as_ref().is_some_and(began) {
            args.resume = args.out.take();
        }
        args
    }

    /// The hashes of `--trust-script`.
    fn trusted(&self) -> impl Iterator<Item = &str> {
        let named = self.trust_script.iter();
        named.map(|named| named.strip_prefix("sha256:").unwrap_or(named))
    }
}

/// Bounds of `--max-disk`, bytes. Less than this does not even hold a run's journal.
const DISK: std::ops::RangeInclusive<f64> = 1e5..=1e15;

/// A time such as `90s` or `2h30m`.
fn time(text: &str) -> std::result::Result<Duration, String> {
    let time = text
        .parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|time| Duration::try_from(time).ok());
    match time.filter(|time| !time.is_zero()) {
        Some(time) if time > LONGEST => Err("that is more than a year: leave it out for no bound".to_owned()),
        Some(time) => Ok(time),
        None => Err("give a time with units, such as 90s, 30m or 2h30m".to_owned()),
    }
}

/// A size in bytes such as `500MB`, `20G` or `10GiB`.
fn size(text: &str) -> std::result::Result<u64, String> {
    match memory::compare::size(text).map(|(number, unit)| number * unit.unwrap_or(1.0)) {
        Some(bytes) if DISK.contains(&bytes) => Ok(bytes as u64),
        Some(_) => Err("a run may write from 100KB to 1000TB".to_owned()),
        None => Err("give a number with a unit, such as 500MB or 20G".to_owned()),
    }
}

/// The result of preparing a run.
enum Prepared {
    /// Nothing is left to run, or the script has an error.
    Finished(Status),
    Ready(Main, Arc<Host>),
}

/// Runs a script to its end. With `--json`, errors before its start are printed as a document too.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let args = &if args.matrix.is_empty() || args.help {
        args.resolved()
    } else {
        fleet::of_matrix(args)?
    };
    let prepared = prepare(args, program).inspect_err(|fault| {
        let script = args.script.as_deref().unwrap_or(Path::new(""));
        print_not_started(args, script, &Diagnostic::from(fault.clone()), program);
    });
    match prepared? {
        Prepared::Finished(status) => Ok(status),
        Prepared::Ready(main, host) => run_to_end(args, &main, &host, program),
    }
}

fn prepare(args: &Args, program: &Program) -> Result<Prepared> {
    let resumed = args.resume.as_deref().map(|folder| trusted(args, folder)).transpose()?;
    let (script, main) = open_script(args, resumed.as_ref())?;
    if args.help {
        return doc::script_help(&script, &main, program).map(Prepared::Finished);
    }
    if let Some(out) = args.out.as_ref().filter(|_| !args.force_new && args.attempt.is_none()) {
        check_free(out)?;
    }
    let mut plan = plan(args, &script, &main)?;
    if args.resume.is_none()
        && let Some(status) = check_first(args, &script, &main, &mut plan, program)?
    {
        return Ok(Prepared::Finished(status));
    }
    if args.dry_run {
        return dry_run::execute(&args.options, args.json, &script, &main, plan, program).map(Prepared::Finished);
    }
    let (run, warnings) = match args.resume.as_ref().zip(resumed) {
        Some((folder, manifest)) => {
            manifest.check(&plan, |name| script::module_hash(&main, name))?;
            if manifest.done() && !manifest.is_changed_by(&plan) {
                let found = RecordedRun::read_intact(folder)?;
                if found.complete() {
                    show::print_finished(&found, args.json, program)?;
                    let missed = found.result().is_some_and(is_missed);
                    let status = if missed {
                        Kind::Threshold.exit_code()
                    } else {
                        found.totals.nothing_fits().into()
                    };
                    return Ok(Prepared::Finished(status));
                }
            }
            plan.set = completed(manifest.set, plan.set);
            resume(args, folder, &plan)?
        }
        None => {
            // The run may be killed before they are imported.
            let named = script::named_modules(&plan.set);
            plan.modules
                .extend(named.filter_map(|file| script::module_hash(&main, &file)));
            Run::create(&plan, args.out.as_deref(), args.force_new)?
        }
    };
    for warning in warnings {
        program.note(format!("warning: {}", warning.message));
    }
    if let Some(folder) = run.folder() {
        program.note(format!("run folder: {}", folder.display()));
    }
    let needs = Header::parse(&main.source.text).allow;
    if needs.iter().any(|what| !args.options.allow.contains(what)) {
        let flags = allow_flags(&needs).join(" ");
        program.note(format!(
            "this script says that it needs {flags}; `--dry-run` shows what for"
        ));
    }
    let author = Author::from_script(&main);
    let host = args.options.host(&script, plan.set, run, false, author, program)?;
    Ok(Prepared::Ready(main, host))
}

/// The path and the text of the script: the one named, or else that of the run to resume.
fn open_script(args: &Args, resumed: Option<&Manifest>) -> Result<(PathBuf, Main)> {
    let script = match (&args.script, resumed) {
        (Some(script), _) => script.clone(),
        (None, Some(manifest)) => PathBuf::from(&manifest.script.path),
        (None, None) => {
            return Err(Fault::usage("`profiler run` needs a script")
                .hint("give the path of one, or a name that `profiler list` shows: profiler run adaptive"));
        }
    };
    let main = match &args.resume {
        // The script came from standard input in the first execution.
        Some(folder) if script == Path::new(STDIN) => {
            let text = Folder::open(folder)?.read("script.rhai")?.unwrap_or_default();
            Main::from_input(&String::from_utf8_lossy(&text))
        }
        _ => Main::open(&script)?,
    };
    if let Some(manifest) = resumed {
        manifest.check_script(&main.source.sha256, &script)?;
    }
    Ok((script, main))
}

/// The plan of the run, with the parameters and bounds of the command line.
fn plan(args: &Args, script: &Path, main: &Main) -> Result<RunPlan> {
    Ok(RunPlan {
        script: Script {
            name: match script.file_stem().unwrap_or_default().to_string_lossy().as_ref() {
                STDIN => "stdin".to_owned(),
                name => name.to_owned(),
            },
            path: script.display().to_string(),
            sha256: main.source.sha256.clone(),
        },
        text: main.source.text.to_string(),
        modules: Vec::new(),
        budgets: Header::parse(&main.source.text).budgets,
        set: args.options.parameters()?,
        seed: args.options.seed,
        permissions: args.options.allow.clone(),
        shared_gpu: args.options.shared_gpu,
        insecure: args.options.insecure,
        max_operations: args.options.max_operations,
        max_disk: args.max_disk,
        attempt: args.attempt,
    })
}

/// Goes on with an interrupted run.
///
/// # Errors
///
/// `usage` if it was given a secret that is not given again.
fn resume(args: &Args, folder: &Path, plan: &RunPlan) -> Result<(Run, Vec<Warning>)> {
    if has_hidden(&plan.set) {
        return Err(
            Fault::usage("this run was given a secret, which its folder does not keep")
                .hint("give it again: the same --set and --params as at first"),
        );
    }
    let (run, warnings) = Run::resume(folder, plan)?;
    run.trust_only(args.trusted().map(str::to_owned).collect());
    Ok((run, warnings))
}

/// The manifest of a run that may be resumed. Its script and modules must ship with the program, must have run in this
/// run of the user's before, or must be named by hash.
///
/// # Errors
///
/// `not_allowed` for any other text.
fn trusted(args: &Args, folder: &Path) -> Result<Manifest> {
    if is_pack(folder) {
        return Err(Fault::usage(format!(
            "`{}` is a packed run, which is read-only and cannot be resumed",
            folder.display()
        ))
        .hint("unpack it with `tar -xzf`, and resume the folder"));
    }
    let manifest = Manifest::read(&Folder::open(folder)?)?;
    let script = (&manifest.script.path, &manifest.script.sha256);
    let modules = manifest.modules.iter().filter(|(name, _)| !name.starts_with("std/"));
    let mut texts: Vec<_> = std::iter::once(script).chain(modules).collect();
    if script::is_shipped(script.1) {
        texts.remove(0);
    }
    let own = |(_, sha256): &(&String, &String)| is_remembered(&own_run(&manifest.run, sha256));
    let named = |(_, sha256): &(&String, &String)| args.trusted().any(|named| named == *sha256);
    let missing: Vec<_> = texts.iter().filter(|text| !own(text) && !named(text)).collect();
    if missing.is_empty() {
        return Ok(manifest);
    }
    let hashes: Vec<String> = texts
        .iter()
        .filter(|text| !own(text))
        .map(|(_, sha256)| format!("sha256:{sha256}"))
        .collect();
    let names: Vec<String> = missing.iter().map(|(name, _)| format!("`{name}`")).collect();
    let (names, folder) = (names.join(", "), folder.display());
    let message = if args.trust_script.is_empty() {
        format!("`{folder}` is not your run, or was changed: to resume it runs {names}")
    } else {
        format!("`--trust-script` does not name what this run runs: {names}")
    };
    let hint = format!(
        "read it; if you trust it, add `--trust-script {}`. `profiler show {folder}` runs nothing",
        hashes.join(",")
    );
    Err(Fault::not_allowed(message, hint))
}

/// Checks the script like `profiler check` and prints the findings. Returns the exit status of the first finding.
/// Nothing has started yet. Adds the hashes of imported modules to the plan.
fn check_first(
    args: &Args,
    script: &Path,
    main: &Main,
    plan: &mut RunPlan,
    program: &Program,
) -> Result<Option<Status>> {
    let (nowhere, set) = (Run::ephemeral("check"), plan.set.clone());
    let host = args
        .options
        .host(script, set, nowhere, false, Author::from_script(main), program)?;
    let found = script::check_main(&host, main);
    for diagnostic in &found {
        program.complain(diagnostic);
    }
    if let Some(first) = found.first() {
        print_not_started(args, script, first, program);
        return Ok(Some(first.fault.kind.exit_code()));
    }
    plan.modules = host.sources.own().map(|source| source.sha256).collect();
    Ok(None)
}

/// Runs the script, ends everything that it started, and prints the result.
fn run_to_end(args: &Args, main: &Main, host: &Arc<Host>, program: &Program) -> Result<Status> {
    let timer = program.signals.end_after(args.max_time, &host.run, &program.tasks);
    let live = Live::watch(&host.run, args.json);
    let view = live.clone();
    ask_consent(host, Some(move |ask: &mut dyn FnMut()| view.ask(ask)));
    let inventory = std::thread::spawn({
        let run = Arc::clone(&host.run);
        move || take_inventory(&run)
    });
    let mut ended = script::run(host, main);
    timer.abort();
    program.signals.script_ended();
    let stopped = program.tasks.finish(async {
        let stopped = host.services.stop_all(GRACE).await;
        match args.resume {
            Some(_) => stopped.and(sweep(&host.run).await),
            None => stopped,
        }
    });
    // Not earlier: until here, a second signal kills the services that have not ended.
    program.signals.unguard();
    // A panic of the inventory was printed already. The run is valid without a list of GPUs.
    let _ = inventory.join();
    tell_refusals(args, main, host, &mut ended, program);
    live.close();
    let cannot_be_asked = ended
        .as_ref()
        .is_err_and(|diagnostic| matches!(diagnostic.fault.kind, Kind::Usage | Kind::Missing));
    let nothing_found = host.run.not_started() || cannot_be_asked && host.run.nothing_asked();
    let nothing_asked = args.resume.is_none() && nothing_found && !host.state().commands;
    if nothing_asked
        && let Err(diagnostic) = &ended
        && matches!(
            diagnostic.fault.kind,
            Kind::Compile | Kind::Missing | Kind::NotAllowed | Kind::Script | Kind::Usage
        )
    {
        return discard_run(args, diagnostic, host, program);
    }
    let concluded = conclude(args, ended, &live, host, program);
    if !program.signals.superseded() {
        write_page(&host.run, &live, program);
    }
    if let (Some(out), Some(folder)) = (&args.out, host.run.folder())
        && out != folder
    {
        let (out, folder) = (out.display(), folder.display());
        program.note(format!("`{out}` was taken: this run is in {folder}"));
    }
    let status = concluded?;
    match stopped {
        Ok(()) => Ok(status),
        Err(fault) => {
            program
                .terminal
                .print_fault(&fault.while_doing("cannot end what was started"));
            Ok(status.max(1))
        }
    }
}

/// Reports all refused and missing permissions: with the refusal that ended the script, or as a warning if the script
/// continued without them.
fn tell_refusals(
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

/// Ends leftovers of the run's earlier processes. With a timeout, so that a hanging Docker daemon does not block the
/// end of the run.
async fn sweep(run: &Run) -> Result<()> {
    match tokio::time::timeout(SWEEP, orphans::sweep_resumed(run)).await {
        Ok(swept) => swept,
        Err(_) => run
            .warn("Docker does not answer: containers of dead runs may be left, which `profiler doctor --clean` ends"),
    }
}

fn conclude(
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
            let ended = host.run.end(
                if interrupted {
                    RunStatus::Interrupted
                } else {
                    RunStatus::Failed
                },
                fault.clone(),
            );
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
fn is_missed(result: &Value) -> bool {
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

/// Ends a run after a mistake of the user or the script before anything started: removes the useless folder.
fn discard_run(args: &Args, diagnostic: &Diagnostic, host: &Host, program: &Program) -> Result<Status> {
    let status = program.complain(diagnostic);
    if args.json {
        program.print_json(&host.run.document(Err(&fault_json(diagnostic))))?;
    }
    if host.run.discard(args.out.is_none()) {
        program.note("nothing had started, so the run folder was removed");
    }
    Ok(status)
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
fn print_not_started(args: &Args, script: &Path, diagnostic: &Diagnostic, program: &Program) {
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
fn write_page(run: &Run, live: &Live, program: &Program) {
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

/// Records the machine's GPUs in the manifest. Runs in the background, because the driver may be slow.
fn take_inventory(run: &Run) {
    let Ok(gpus) = telemetry::gpus() else { return };
    let driver = gpus.iter().find_map(|gpu| gpu.driver.clone());
    run.set_gpus(gpus.iter().map(|gpu| json!(gpu)).collect(), driver);
}
