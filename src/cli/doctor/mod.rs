//! `profiler doctor`: reports what works on this machine, with remedies.

mod checks;
mod finding;
mod leftovers;

use serde_json::json;

use super::Status;
use super::program::Program;
use crate::fault::{Fault, Result};
use finding::Finding;

/// The version of the `--json` document.
const SCHEMA: u32 = 1;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// End and remove what dead runs left behind
    #[arg(long)]
    clean: bool,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Prints one line per check. A missing part is no error: not every run needs everything.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let findings = program.tasks.wait(async {
        let mut findings = checks::all().await;
        findings.push(leftovers::check(args.clean).await);
        Ok(findings)
    })?;
    let text = if args.json {
        let document = json!({"schema": SCHEMA, "checks": findings});
        serde_json::to_string_pretty(&document).map_err(|error| Fault::internal(error.to_string()))?
    } else {
        lines(&findings)
    };
    program.terminal.print(&text)?;
    Ok(0)
}

fn lines(findings: &[Finding]) -> String {
    let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
    shown.join("\n")
}
