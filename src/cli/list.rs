//! `profiler list`: lists the shipped scripts with their summary, what was added, and on request modules and probes.

use serde::Serialize;

use super::program::{Program, Status, json_text};
use super::script_help::said;
use crate::fault::Result;
use crate::fmt::{columns, wrap};
use crate::script::shipped::{self, Shipped};
use crate::script::{Added, Header, Lock};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// List what scripts can import too: modules of the standard library, and in-process probes
    #[arg(long)]
    modules: bool,
    /// Everything as one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    scripts: Vec<Shipped>,
    modules: Vec<Shipped>,
    probes: Vec<Shipped>,
    added: Vec<Listed>,
}

/// What was added.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    shown: Shipped,
    /// Whether its files are what the lock says.
    intact: bool,
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    entry: Added,
}

impl Listed {
    fn new(name: String, entry: Added) -> Self {
        let intact = entry.is_intact(&name);
        let text = entry.text(&name);
        let summary = match &text {
            _ if !intact => "has changed since it was added: `profiler update` fetches it again".to_owned(),
            Some(text) => shipped::summary(text),
            None => format!("{} files", entry.files.len()),
        };
        Self {
            intact,
            header: text.map(|text| Header::of(&text)).unwrap_or_default(),
            shown: Shipped { name, summary },
            entry,
        }
    }
}

pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let listing = Listing {
        scripts: shipped::described_scripts(),
        modules: shipped::described_modules(),
        probes: shipped::described_probes(),
        added: Lock::read()?
            .all
            .into_iter()
            .map(|(name, entry)| Listed::new(name, entry))
            .collect(),
    };
    let text = if args.json {
        json_text(&listing)?
    } else {
        text(&listing, args.modules, program.terminal.width)
    };
    program.terminal.print(&text)?;
    Ok(0)
}

fn text(listing: &Listing, modules: bool, width: usize) -> String {
    let mut parts = vec![table("Scripts, for `profiler run NAME`:", &listing.scripts, width)];
    if modules {
        parts.push(table(
            "Modules, for `import \"NAME\" as alias;`:",
            &listing.modules,
            width,
        ));
        parts.push(table("Probes, for `engine.run_probe(NAME)`:", &listing.probes, width));
    }
    if !listing.added.is_empty() {
        let row = |one: &Listed| {
            let said = said(&one.header).join(", ");
            let said = if said.is_empty() { said } else { format!(" ({said})") };
            (one.shown.name.clone(), format!("{}{said}", one.shown.summary))
        };
        let rows: Vec<_> = listing.added.iter().map(row).collect();
        parts.push(format!("Added by `profiler add`:\n{}", columns(&rows, width)));
    }
    let more =
        "`profiler run NAME --help` shows a script's parameters, `profiler list --modules` what scripts can import.";
    parts.push(wrap(more, width, 0));
    parts.join("\n\n")
}

fn table(title: &str, rows: &[Shipped], width: usize) -> String {
    let rows: Vec<_> = rows.iter().map(|one| (one.name.clone(), one.summary.clone())).collect();
    format!("{title}\n{}", columns(&rows, width))
}
