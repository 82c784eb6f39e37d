//! `profiler list`: lists the shipped scripts, modules and probes with their summary.

use serde::Serialize;

use super::program::{Program, Status, json_text};
use crate::fault::Result;
use crate::script::shipped::{self, Shipped};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// One JSON document
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
        table(&listing)
    };
    program.terminal.print(&text)?;
    Ok(0)
}

fn table(listing: &Listing) -> String {
    let all = || listing.scripts.iter().chain(&listing.modules).chain(&listing.probes);
    let width = all().map(|one| one.name.len()).max().unwrap_or(0);
    let lines: Vec<_> = all()
        .map(|one| format!("{:width$}  {}", one.name, one.summary).trim_end().to_owned())
        .collect();
    lines.join("\n")
}
