//! `profiler run`: runs a script and writes a run folder; `profiler run SCRIPT --help` shows the script's purpose
//! and parameters.

mod args;
mod ended;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

pub(super) use self::args::Args;
use self::ended::{conclude, discard_run, is_missed, print_not_started, tell_refusals, write_page};

use super::options::{Author, ask_consent};
use super::program::{GRACE, Program, Status};
use super::{doc, dry_run, fleet, show};
use crate::answer::allow_flags;
use crate::fault::{Fault, Kind, Result};
use crate::report::Live;
use crate::run::{
    Folder, Manifest, RecordedRun, Run, RunPlan, Script, check_free, completed, has_hidden, is_pack, is_remembered,
    own_run,
};
use crate::runtime::orphans;
use crate::script::{self, Diagnostic, Header, Host, Main, STDIN};
use crate::telemetry;
use crate::warning::Warning;

/// Time limit of the search for leftovers of earlier processes of the run.
const SWEEP: Duration = Duration::from_secs(30);

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
        && let Some(status) = discard_run(args, diagnostic, host, program)?
    {
        return Ok(status);
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

/// Ends leftovers of the run's earlier processes. With a timeout, so that a hanging Docker daemon does not block the
/// end of the run.
async fn sweep(run: &Run) -> Result<()> {
    match tokio::time::timeout(SWEEP, orphans::sweep_resumed(run)).await {
        Ok(swept) => swept,
        Err(_) => run
            .warn("Docker does not answer: containers of dead runs may be left, which `profiler doctor --clean` ends"),
    }
}

/// Records the machine's GPUs in the manifest. Runs in the background, because the driver may be slow.
fn take_inventory(run: &Run) {
    let Ok(gpus) = telemetry::gpus() else { return };
    let driver = gpus.iter().find_map(|gpu| gpu.driver.clone());
    run.set_gpus(gpus.iter().map(|gpu| json!(gpu)).collect(), driver);
}
