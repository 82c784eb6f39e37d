//! `profiler update`: fetches what was added again, and pins what comes.

use super::add::is_sound;
use super::program::{Program, Status};
use super::script_help::said;
use crate::fault::{Kind, Result};
use crate::script::{self, Added, Lock};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Names of what was added; all when absent
    names: Vec<String>,
}

/// Prints what changed. A script that changed asks anew for what was always allowed to the old one.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let lock = Lock::read()?;
    let all: Vec<String> = lock.all.keys().cloned().collect();
    let names = if args.names.is_empty() { &all } else { &args.names };
    let mut status = 0;
    for name in names {
        let old = lock.get(name)?;
        let new = script::fetch(&old.source, &program.tasks)?.named(Some(name))?;
        // Also what was changed on this machine is put right.
        if new.entry() == *old && old.is_intact(name) {
            program.terminal.print(&format!("{name} is as it was"))?;
        } else if is_sound(&new, program)? {
            Lock::set(name, Some(&new))?;
            let mut lines = changes(name, old, &new.entry());
            lines.extend(said(&new.header()));
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
