//! `profiler add`: keeps a script of somebody else, pinned by its hash, to run and import it by name.

use super::program::{Program, Status};
use super::script_help::said;
use crate::fault::{Fault, Kind, Result};
use crate::script::{self, Fetched, Lock};

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
    /// What to call it; the name of the file or folder when absent
    #[arg(long)]
    name: Option<String>,
}

/// Prints what was added and what it wants to be allowed. It is still allowed nothing.
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
    let entry = fetched.entry();
    let mut lines = vec![format!("added {name}, {}", files(entry.files.len()))];
    lines.extend(entry.commit.map(|commit| format!("commit {commit}")));
    lines.extend(said(&fetched.header()));
    lines.push(match entry.main {
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

fn files(number: usize) -> String {
    match number {
        1 => "1 file".to_owned(),
        more => format!("{more} files"),
    }
}

/// Whether `profiler check` finds nothing in its scripts; prints what it finds.
pub(super) fn is_sound(fetched: &Fetched, program: &Program) -> Result<bool> {
    let folder = tempfile::tempdir().map_err(|error| Fault::internal(format!("no temporary folder: {error}")))?;
    let folder = folder.path().join(&fetched.name);
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
