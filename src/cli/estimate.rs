//! `profiler estimate`: estimates the memory of models without starting anything.

use serde::Serialize;
use serde_json::json;

use super::program::{Program, Status, json_text};
use crate::fault::{Fault, Result};
use crate::memory::{self, Estimate, EstimateRequest};
use crate::report::{self, Page};

/// The version of the `--json` document of estimates.
const ESTIMATES: u32 = 1;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Models: folders with `config.json`, or models of the Hugging Face hub
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<String>,
    #[command(flatten)]
    question: EstimateRequest,
    /// One JSON document, in bytes
    #[arg(long)]
    json: bool,
}

/// A model's estimate in the JSON document.
#[derive(Serialize)]
struct Named<'a> {
    model: &'a str,
    #[serde(flatten)]
    estimate: &'a Estimate,
}

pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let mut estimates = Vec::new();
    for model in &args.models {
        let named = |fault: Fault| fault.while_doing(format!("`{model}`"));
        let known = program.read_model(model)?;
        estimates.push((model.as_str(), memory::estimate(&known, &args.question).map_err(named)?));
    }
    let text = if args.json {
        document(&estimates)?
    } else {
        report::text(&report::estimates(&estimates), Page::from(&program.terminal))
    };
    program.terminal.print_wrapped(&text)?;
    let fits = |(_, estimate): &(&str, Estimate)| estimate.fits.as_ref().is_none_or(|fits| fits.fits);
    Ok(Status::from(!estimates.iter().all(fits)))
}

fn document(estimates: &[(&str, Estimate)]) -> Result<String> {
    let named = estimates.iter().map(|(model, estimate)| Named { model, estimate });
    let estimates: Vec<Named> = named.collect();
    json_text(&json!({"schema": ESTIMATES, "estimates": estimates}))
}
