//! `profiler add` stores a script by somebody else, pinned by its hash, so that it can be run and imported by name.
//! `profiler update` fetches it again and pins the new version; `profiler remove` removes it.

use super::doc::header_lines;
use super::program::{Program, Status};
use crate::fault::{Fault, Kind, Result};
use crate::fmt::Count;
use crate::script::{self, Added, Fetched, Lock};
use crate::temporary::Temporary;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  profiler add ../theirs/halving.rhai
  profiler add https://example.org/halving.rhai
  profiler add git+https://example.org/them/strategies@v1#halving
  profiler run halving --help")]
pub(super) struct Args {
    /// A file, a folder, an https address, or [git+]ADDRESS[@REVISION][#PATH]
    source: String,
    /// Its name; the name of the file or folder when absent
    #[arg(long)]
    name: Option<String>,
}

/// Prints what was added and the permissions that it wants. It does not get any of them yet.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let fetched = script::fetch(&args.source, &program.tasks)?.named(args.name.as_deref())?;
    let name = &fetched.name;
    if Lock::read()?.all.contains_key(name) {
        return Err(Fault::usage(format!("`{name}` was added before")).hint(format!(
            "`profiler update {name}` fetches it again; or call this one otherwise: --name NAME"
        )));
    }
    if !is_sound(&fetched, program)? {
        return Ok(Kind::Compile.exit_code());
    }
    Lock::set(name, Some(&fetched))?;
    let entry = &fetched.entry;
    let mut lines = vec![format!("added {name}, {}", Count(entry.files.len(), "file"))];
    lines.extend(entry.commit.iter().map(|commit| format!("commit {commit}")));
    lines.extend(header_lines(&fetched.header()));
    lines.push(match &entry.main {
        Some(_) => format!("run it: profiler run {name}; what it does: profiler run {name} --help"),
        None => {
            let names: Vec<String> = fetched
                .scripts()
                .map(|file| format!("{name}/{}", file.trim_end_matches(".rhai")))
                .collect();
            format!("run or import one of: {}", names.join(", "))
        }
    });
    program.terminal.print(&lines.join("\n  "))?;
    Ok(0)
}

/// Whether `profiler check` has no findings in its scripts. Prints the findings.
pub(super) fn is_sound(fetched: &Fetched, program: &Program) -> Result<bool> {
    let temporary = Temporary::folder()?;
    let folder = temporary.path().join(&fetched.name);
    fetched.write(&folder)?;
    let mut sound = true;
    for name in fetched.scripts() {
        let path = folder.join(name);
        for diagnostic in script::check(&program.idle_host(&path), &path) {
            sound = false;
            program.complain(&diagnostic);
        }
    }
    if !sound {
        program.note(format!(
            "`{}` is not added: mend it, or where it imports its neighbours, add their folder",
            fetched.name
        ));
    }
    Ok(sound)
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct UpdateArgs {
    /// Names of added scripts; all when absent
    names: Vec<String>,
}

/// Prints what changed. A changed script has to ask again for what was always allowed to the old one.
pub(super) fn update(args: &UpdateArgs, program: &Program) -> Result<Status> {
    let lock = Lock::read()?;
    let all: Vec<String> = lock.all.keys().cloned().collect();
    let names = if args.names.is_empty() { &all } else { &args.names };
    let mut status = 0;
    for name in names {
        let old = lock.get(name)?;
        let new = script::fetch(&old.source, &program.tasks)?.named(Some(name))?;
        // This also repairs files that were changed on this machine.
        if new.entry == *old && old.is_intact(name) {
            program.terminal.print(&format!("{name} is as it was"))?;
        } else if is_sound(&new, program)? {
            Lock::set(name, Some(&new))?;
            let mut lines = changes(name, old, &new.entry);
            lines.extend(header_lines(&new.header()));
            program.terminal.print(&lines.join("\n  "))?;
        } else {
            status = Kind::Compile.exit_code();
        }
    }
    Ok(status)
}

fn changes(name: &str, old: &Added, new: &Added) -> Vec<String> {
    let mut lines = vec![format!("updated {name}")];
    if let Some(commit) = new.commit.as_ref().filter(|commit| old.commit.as_ref() != Some(commit)) {
        lines.push(format!("commit {commit}"));
        let before = old.commit.as_deref().unwrap_or("unknown");
        if let Some(revision) = new.revision() {
            lines.push(format!("`{revision}` was another commit when it was added: {before}"));
        }
    }
    let gone = old
        .files
        .keys()
        .filter(|file| !new.files.contains_key(*file))
        .map(|file| format!("gone: {file}"));
    let changed = new.files.iter().filter_map(|(file, hash)| match old.files.get(file) {
        None => Some(format!("new: {file}")),
        Some(known) if known != hash => Some(format!("changed: {file}")),
        Some(_) => None,
    });
    lines.extend(changed.chain(gone));
    lines
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct RemoveArgs {
    /// Names of added scripts
    #[arg(required = true)]
    names: Vec<String>,
}

pub(super) fn remove(args: &RemoveArgs, program: &Program) -> Result<Status> {
    let lock = Lock::read()?;
    args.names.iter().try_for_each(|name| lock.get(name).map(drop))?;
    for name in &args.names {
        Lock::set(name, None)?;
        program.terminal.print(&format!("removed {name}"))?;
    }
    Ok(0)
}
