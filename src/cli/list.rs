//! `profiler list`: lists the shipped scripts with their summary, and on request modules and probes.

use serde::Serialize;

use super::program::{Program, Status, json_text};
use crate::fault::Result;
use crate::fmt::{columns, wrap};
use crate::script::shipped::{self, Shipped};

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
}

pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let listing = Listing {
        scripts: shipped::described_scripts(),
        modules: shipped::described_modules(),
        probes: shipped::described_probes(),
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
    let more =
        "`profiler run NAME --help` shows a script's parameters, `profiler list --modules` what scripts can import.";
    parts.push(wrap(more, width, 0));
    parts.join("\n\n")
}

fn table(title: &str, rows: &[Shipped], width: usize) -> String {
    let rows: Vec<_> = rows.iter().map(|one| (one.name.clone(), one.summary.clone())).collect();
    format!("{title}\n{}", columns(&rows, width))
}
