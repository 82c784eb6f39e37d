//! `profiler run`: runs a script and leaves a run folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::args::ScriptOptions;
use super::program::Program;
use super::{Status, dry_run, report, script_help, show};
use crate::fault::{Fault, Kind, Result};
use crate::report::{Live, Page, SIMULATED};
use crate::run::{Folder, Found, Manifest, Plan, Run, Script, hide, lacks, stillborn};
use crate::runtime::{Services, orphans};
use crate::script::{self, Diagnostic, Host, Main, Settings};
use crate::telemetry;

/// What everything started may take to end, unless it was given a shorter time.
const GRACE: Duration = Duration::from_secs(10);

/// How long the search for what earlier lives of the run left may take.
const SWEEP: Duration = Duration::from_secs(10);

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(super) struct Args {
    /// The script: a path, or the name of a shipped one; with --resume, the one that ran
    script: Option<PathBuf>,
    #[command(flatten)]
    pub(super) options: ScriptOptions,
    /// The run's folder; runs/TIME-SCRIPT when absent
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Go on with the run in this folder
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    resume: Option<PathBuf>,
    /// Show what would be done, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    pub(super) json: bool,
    /// This help, or with SCRIPT the script's own parameters
    #[arg(long, short)]
    help: bool,
}

/// What came of preparing a run.
enum Prepared {
    /// There is nothing to run, or it does not compile.
    Answered(Status),
    /// The script can begin.
    Ready(Main, Arc<Host>),
}

/// Runs the script to its end. With `--json`, what hinders it from beginning is told as a document too.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let prepared = prepare(args, program).inspect_err(|fault| {
        let script = args.script.as_deref().unwrap_or(Path::new(""));
        print_stillborn(args, script, &Diagnostic::from(fault.clone()), program);
    });
    match prepared? {
        Prepared::Answered(status) => Ok(status),
        Prepared::Ready(main, host) => follow(args, &main, &host, program),
    }
}

fn prepare(args: &Args, program: &Program) -> Result<Prepared> {
    let script = match (&args.script, &args.resume) {
        (Some(script), _) => script.clone(),
        (None, Some(folder)) => PathBuf::from(Manifest::read(&Folder::open(folder)?)?.script.path),
        (None, None) if args.help => return script_help::of_command(program).map(Prepared::Answered),
        (None, None) => {
            return Err(Fault::usage("`profiler run` needs a script")
                .hint("give the path of one, or a name that `profiler list` shows: profiler run adaptive"));
        }
    };
    let main = Main::open(&script)?;
    if args.help {
        return script_help::of_script(&script, &main, program).map(Prepared::Answered);
    }
    let mut plan = Plan {
        script: Script {
            name: script.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            path: script.display().to_string(),
            sha256: main.source.sha256.clone(),
        },
        text: main.source.text.to_string(),
        set: args.options.parameters()?,
        seed: args.options.seed,
        permissions: args.options.allow.clone(),
        shared_gpu: args.options.shared_gpu,
        max_operations: args.options.max_operations,
    };
    if args.dry_run {
        return dry_run::execute(args, &script, &main, plan, program).map(Prepared::Answered);
    }
    let module = |name: &str| script::module_hash(&main, name);
    let run = match &args.resume {
        Some(folder) => {
            let found = Found::whole(folder)?;
            found.check(&plan, &module)?;
            if found.done() {
                show::again(&found, args.json, program)?;
                return Ok(Prepared::Answered(found.nothing_fits().into()));
            }
            if plan.set.is_empty() {
                if lacks(&found.manifest.set) {
                    return Err(
                        Fault::usage("this run was given a secret, which its folder does not keep")
                            .hint("give everything again that was set: the same --set and --params as at first"),
                    );
                }
                plan.set.clone_from(&found.manifest.set);
            }
            Run::resume(folder, &plan, &module)?
        }
        None => {
            // What does not compile leaves no folder.
            let nowhere = Arc::new(Run::ephemeral("compile"));
            if let Err(diagnostic) = script::compile(&host(args, &script, Map::new(), nowhere, program)?, &main) {
                print_stillborn(args, &script, &diagnostic, program);
                return Ok(Prepared::Answered(complain(program, &diagnostic)));
            }
            Run::create(&plan, args.out.as_deref())?
        }
    };
    if let Some(folder) = run.folder() {
        program.terminal.say(&format!("run folder: {}", folder.display()));
    }
    let host = host(args, &script, plan.set, Arc::new(run), program)?;
    Ok(Prepared::Ready(main, host))
}

/// What primitives reach: made of the options.
pub(super) fn host(
    args: &Args,
    script: &Path,
    set: Map<String, Value>,
    run: Arc<Run>,
    program: &Program,
) -> Result<Arc<Host>> {
    let settings = Settings {
        script: script.to_owned(),
        set,
        seed: run.seed(),
        dry_run: args.dry_run,
        shared_gpu: args.options.shared_gpu,
        max_operations: args.options.max_operations,
        max_memory: None,
        page: Page::from(&program.terminal),
    };
    let permits = args.options.permits()?;
    let services = Arc::new(Services::default());
    program.signals.guard(&services);
    Ok(Arc::new(Host::new(
        program.tasks.clone(),
        run,
        permits,
        services,
        settings,
    )))
}

/// Runs the script, ends whatever it started, and tells what came of it.
fn follow(args: &Args, main: &Main, host: &Arc<Host>, program: &Program) -> Result<Status> {
    let live = Live::watch(&host.run, args.json);
    let inventory = std::thread::spawn({
        let run = Arc::clone(&host.run);
        move || take_inventory(&run)
    });
    let ended = script::run(host, main);
    program.signals.script_ended();
    let stopped = program.tasks.finish(async {
        let stopped = host.services.end_all(GRACE).await;
        match args.resume {
            Some(_) => stopped.and(sweep(&host.run).await),
            None => stopped,
        }
    });
    // Only now: a second signal until here kills what does not end.
    program.signals.stand_down();
    // Its own panic, if it had one, was printed; a run is worth having without a list of GPUs.
    let _ = inventory.join();
    live.close();
    let unbegun = args.resume.is_none() && host.run.is_unbegun();
    if let (true, Err(diagnostic)) = (unbegun, &ended)
        && diagnostic.fault.kind == Kind::Usage
    {
        return leave_nothing(args, diagnostic, host, program);
    }
    let status = conclude(args, ended, &live, host, program);
    leave_page(&host.run, program);
    let status = status?;
    match stopped {
        Ok(()) => Ok(status),
        Err(fault) => {
            program
                .terminal
                .complain(&fault.while_doing("cannot end what was started"));
            Ok(status.max(1))
        }
    }
}

/// What the run's earlier lives left; a daemon that hangs must not keep the run from its end.
async fn sweep(run: &Run) -> Result<()> {
    match tokio::time::timeout(SWEEP, orphans::sweep_all(run)).await {
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
        Err(diagnostic) => {
            let status = complain(program, &diagnostic);
            let interrupted = diagnostic.fault.kind == Kind::Interrupted;
            let fault = described(&diagnostic);
            let ended = host
                .run
                .end(if interrupted { "interrupted" } else { "failed" }, fault.clone());
            // What ended the run is told already; a disk that is full may well be that.
            if let Err(fault) = &ended
                && fault.message != diagnostic.fault.message
            {
                program.terminal.complain(fault);
            }
            if args.json {
                let document = ended.unwrap_or_else(|_| host.run.document(Err(&fault)));
                print_json(&document, program)?;
            }
            if interrupted && !args.json {
                tell_so_far(&host.run, program);
            }
            go_on(args, host, interrupted, program);
            return Ok(status);
        }
    };
    let document = match host.run.end("done", value) {
        Ok(document) => document,
        Err(fault) => {
            if args.json {
                let told = described(&Diagnostic::from(fault.clone()));
                print_json(&host.run.document(Err(&told)), program)?;
            }
            return Err(fault);
        }
    };
    let result = &document["result"];
    if args.json {
        print_json(&document, program)?;
    } else if !live.has_shown(result) {
        if host.run.simulated() {
            program.terminal.print(SIMULATED)?;
        }
        if !result.is_null() {
            print_json(result, program)?;
        }
    }
    if host.run.nothing_fits() {
        program.terminal.say("nothing is known to fit");
        return Ok(1);
    }
    Ok(0)
}

/// Ends a run that was used wrongly before anything was asked: a folder of it would only be in the way.
fn leave_nothing(args: &Args, diagnostic: &Diagnostic, host: &Host, program: &Program) -> Result<Status> {
    let status = complain(program, diagnostic);
    if args.json {
        print_json(&host.run.document(Err(&described(diagnostic))), program)?;
    }
    if host.run.discard(args.out.is_none()) {
        program.terminal.say("nothing was begun: the run's folder is removed");
    }
    Ok(status)
}

/// Prints what an interrupted run knows. What cannot be drawn is in its folder.
fn tell_so_far(run: &Run, program: &Program) {
    let Some(folder) = run.folder().filter(|_| run.has_measured()) else {
        return;
    };
    if show::so_far(folder, program).is_err() {
        program
            .terminal
            .say(&format!("what is known so far: profiler show {}", folder.display()));
    }
}

/// Tells what ended the script. No line of it is to blame for an interruption.
pub(super) fn complain(program: &Program, diagnostic: &Diagnostic) -> Status {
    let text = match diagnostic.fault.kind {
        Kind::Interrupted => Diagnostic::from(diagnostic.fault.clone()).render(program.terminal.error_colour),
        _ => diagnostic.render(program.terminal.error_colour),
    };
    program.terminal.say(hide(&text).trim_end());
    diagnostic.fault.kind.exit_code()
}

/// The fault of the journal, `result.json` and `--json`.
fn described(diagnostic: &Diagnostic) -> Value {
    json!({
        "kind": diagnostic.fault.kind.name(),
        "message": diagnostic.fault.message,
        "hint": diagnostic.fault.hint,
        "at": diagnostic.location(),
    })
}

fn print_json(value: &Value, program: &Program) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Fault::internal(error.to_string()))?;
    program.terminal.print(&hide(&text))
}

/// The one document of a run that did not begin.
fn print_stillborn(args: &Args, script: &Path, diagnostic: &Diagnostic, program: &Program) {
    if args.json && !args.dry_run {
        // The fault itself is told and decides the exit status.
        let _ = print_json(
            &stillborn(&script.display().to_string(), &described(diagnostic)),
            program,
        );
    }
}

/// Tells how to go on with a run that did not come to its end, or that there is nothing to go on with.
fn go_on(args: &Args, host: &Host, interrupted: bool, program: &Program) {
    let Some(folder) = host.run.folder() else { return };
    let folder = folder.display();
    if !interrupted && !host.run.has_measured() {
        program.terminal.say(&format!(
            "nothing was measured; `{folder}` keeps the journal and the logs"
        ));
        return;
    }
    // What the user allowed is not taken from the folder, which may be a stranger's.
    let options = &args.options;
    let allowed = options.allow.iter().map(|word| format!(" --allow {word}"));
    let shared = options.shared_gpu.then(|| " --shared-gpu".to_owned());
    let most = options.max_operations.map(|most| format!(" --max-operations {most}"));
    program.terminal.say(&format!(
        "go on with it: profiler run {} --resume {folder}{}",
        host.settings.script.display(),
        allowed.chain(shared).chain(most).collect::<String>()
    ));
}

/// Writes the run's page. A run is worth having without one.
fn leave_page(run: &Run, program: &Program) {
    let Some(folder) = run.folder() else { return };
    // What is drawn of a run must not decide how it ended; the panic itself is printed where it happens.
    let made = std::panic::catch_unwind(|| report::of_run(folder));
    match made.unwrap_or_else(|_| Err(Fault::internal("a fault of ours"))) {
        Ok(page) => program.terminal.say(&format!("report: {}", page.display())),
        Err(fault) => program
            .terminal
            .say(&format!("warning: the run has no report: {}", fault.message)),
    }
}

/// What the machine has, for the manifest. Asking the driver takes longer than the script may wait for.
fn take_inventory(run: &Run) {
    let Ok(gpus) = telemetry::gpus() else { return };
    let driver = gpus.iter().find_map(|gpu| gpu.driver.clone());
    run.set_gpus(gpus.iter().map(|gpu| json!(gpu)).collect(), driver);
}
