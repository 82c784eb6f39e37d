//! `profiler new` writes a script to start from, which works as it is. `profiler fork` copies a shipped script for
//! editing, and compares such copies with the current versions.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program::{Program, Status, create_file};
use crate::fault::{Fault, Result};
use crate::run::Folder;
use crate::script;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The kind of script
    #[arg(value_enum)]
    kind: Kind,
    /// Its name; NAME.rhai is written into the current folder
    name: String,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Kind {
    /// A search: which point to probe next
    Strategy,
    /// How one engine is launched, sent requests and read
    Adapter,
    /// A comparison of settings of an engine
    Experiment,
    /// The slots that the jobs of a fleet run in
    Cluster,
}

/// Writes the file and says how to try it. Never overwrites a file.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let name = args.name.strip_suffix(".rhai").unwrap_or(&args.name);
    let letters = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !letters || !name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return Err(Fault::usage(format!("`{name}` is no name of a function"))
            .hint("give letters, digits and `_`, such as my_search"));
    }
    let (template, trial) = match args.kind {
        Kind::Strategy => (include_str!("new/strategy.rhai"), format!("profiler test {name}.rhai")),
        Kind::Adapter => (include_str!("new/adapter.rhai"), format!("profiler test {name}.rhai")),
        Kind::Experiment => (
            include_str!("new/experiment.rhai"),
            format!("profiler run {name}.rhai --engine sim"),
        ),
        Kind::Cluster => (
            include_str!("new/cluster.rhai"),
            format!("profiler fleet jobs.yaml --cluster ./{name}.rhai --allow command=sh,process"),
        ),
    };
    let path = format!("{name}.rhai");
    let mut file = create_file(Path::new(&path), "nothing was written; give another name")?;
    file.write_all(template.replace("NAME", name).as_bytes())
        .map_err(|error| Fault::io(Path::new(&path), &error))?;
    program.terminal.print(&path)?;
    program.note(format!("try it: {trial}; find mistakes: profiler check {path}"));
    Ok(0)
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct ForkArgs {
    /// Name of a shipped script, of a module such as std/engines/vllm, or of a probe such as std/probes/layers; with
    /// --diff or --update also the copy, which says where it comes from
    name: String,
    /// The new file; NAME.rhai (or .py) in the current folder when absent
    file: Option<PathBuf>,
    /// Copy its strategy as well, and import the copy
    #[arg(long)]
    strategy: bool,
    /// Show how the copies differ from what ships now, with the system's `diff`; nothing is written
    #[arg(long)]
    diff: bool,
    /// Replace unedited copies by what ships now
    #[arg(long, conflicts_with = "diff")]
    update: bool,
}

/// Writes the copy and prints its path. Never overwrites a file that somebody edited.
pub(super) fn fork(args: &ForkArgs, program: &Program) -> Result<Status> {
    let target = args.file.clone().unwrap_or_else(|| default_target(&args.name));
    if args.diff || args.update {
        let copy = Path::new(&args.name);
        let origin = match args.file {
            None if copy.is_file() => Some(script::origin_of(copy)?),
            _ => None,
        };
        let copies = match &origin {
            Some((name, has_strategy)) => script::copies(name, copy, args.strategy || *has_strategy)?,
            None => script::copies(&args.name, &target, args.strategy)?,
        };
        let mut status = 0;
        for (path, shipped) in copies {
            let text = fs::read_to_string(&path).map_err(|error| Fault::io(&path, &error))?;
            if text == shipped {
                program.terminal.print(&format!("{} is what ships", path.display()))?;
            } else if args.diff {
                program.terminal.print(difference(&path, &shipped)?.trim_end())?;
            } else if script::is_unedited(&text) {
                replace(&path, &shipped)?;
                program.terminal.print(&format!("{} was updated", path.display()))?;
            } else {
                status = 1;
                program.note(format!(
                    "{} was edited and is left: --diff shows what sets it apart",
                    path.display()
                ));
            }
        }
        return Ok(status);
    }
    for path in script::fork(&args.name, &target, args.strategy)? {
        program.terminal.print(&path.display().to_string())?;
    }
    Ok(0)
}

/// Replaces a file, not a link to it; if that fails, the old one stays.
fn replace(path: &Path, text: &str) -> Result<()> {
    let path = &path.canonicalize().map_err(|error| Fault::io(path, &error))?;
    let name = path
        .file_name()
        .ok_or_else(|| Fault::usage(format!("`{}` is no name of a file", path.display())))?;
    let parent = path
        .parent()
        .filter(|parent| *parent != Path::new(""))
        .unwrap_or(Path::new("."));
    Folder::open(parent)?.replace(Path::new(name), |file| file.write_all(text.as_bytes()))
}

/// The output of `diff` for a shipped text and the file.
fn difference(path: &Path, shipped: &str) -> Result<String> {
    let failed = |error: std::io::Error| Fault::missing(format!("`diff` cannot be run: {error}"), "install diffutils");
    let mut diff = Command::new("diff")
        .args(["-u", "--label", "what ships", "--label"])
        .args([path, Path::new("-"), path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = diff.stdin.take() {
        stdin.write_all(shipped.as_bytes()).map_err(failed)?;
    }
    #[expect(clippy::disallowed_methods, reason = "the texts that are compared are bounded")]
    let output = diff.wait_with_output().map_err(failed)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The default target: `adaptive.rhai`, or `layers.py` for a probe, in the current folder.
fn default_target(name: &str) -> PathBuf {
    let stem = Path::new(name).file_name().unwrap_or_default();
    Path::new(stem).with_extension(if name.starts_with("std/probes/") { "py" } else { "rhai" })
}
