//! `profiler estimate`: estimates the memory of models without starting anything.

use serde::Serialize;

use super::program::{Program, Status, json_text};
use crate::fault::{Fault, Result};
use crate::memory::compare::size;
use crate::memory::{Estimate, EstimateRequest, estimate};
use crate::prompt::{Hub, read_model};
use crate::report::{self, Page};

/// The version of the `--json` document.
const SCHEMA: u32 = 1;

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Models: folders with `config.json`, or models of the Hugging Face hub
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<String>,
    /// Input tokens of each sequence
    #[arg(long, value_name = "TOKENS", default_value_t = EstimateRequest::default().input)]
    input: u64,
    /// Output tokens of each sequence
    #[arg(long, value_name = "TOKENS", default_value_t = EstimateRequest::default().output)]
    output: u64,
    /// Concurrent sequences
    #[arg(long, value_name = "N", default_value_t = EstimateRequest::default().concurrency)]
    concurrency: u64,
    /// Type of the weights instead of the model's own: bfloat16, float16, float32
    #[arg(long)]
    dtype: Option<String>,
    /// Quantization of the weights instead of the model's own: awq, gptq, fp8, `nf4`, mxfp4, `q4_k`, …
    #[arg(long)]
    quantization: Option<String>,
    /// Type of the KV cache: auto (that of the weights), fp8, `q8_0`, …
    #[arg(long, value_name = "DTYPE")]
    kv_cache_dtype: Option<String>,
    /// GPUs that share each layer
    #[arg(long, value_name = "N", default_value_t = EstimateRequest::default().tensor_parallel)]
    tensor_parallel: u64,
    /// Memory of each GPU, in bytes or with a unit (80GiB, 80GB): shows what fits; exit status 1 if a model does not
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    gpu_memory: Option<u64>,
    /// Share of that memory which may be used
    #[arg(long, value_name = "SHARE", default_value_t = EstimateRequest::default().memory_fraction)]
    memory_fraction: f64,
    /// Tokens of a full step of the prefill (vLLM's `max_num_batched_tokens`); all input of a sequence when absent
    #[arg(long, value_name = "TOKENS")]
    prefill_chunk: Option<u64>,
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
    let question = args.question();
    let mut estimates = Vec::new();
    for model in &args.models {
        let named = |fault: Fault| fault.while_doing(format!("`{model}`"));
        let known = program
            .tasks
            .wait(async { read_model(model, &Hub::from_env()?).await })?;
        estimates.push((model.as_str(), estimate(&known, &question).map_err(named)?));
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

impl Args {
    fn question(&self) -> EstimateRequest {
        EstimateRequest {
            input: self.input,
            output: self.output,
            concurrency: self.concurrency,
            dtype: self.dtype.clone(),
            quantization: self.quantization.clone(),
            kv_cache_dtype: self.kv_cache_dtype.clone(),
            tensor_parallel: self.tensor_parallel,
            prefill_chunk: self.prefill_chunk,
            gpu_memory: self.gpu_memory,
            memory_fraction: self.memory_fraction,
        }
    }
}

fn document(estimates: &[(&str, Estimate)]) -> Result<String> {
    let estimates: Vec<Named> = estimates
        .iter()
        .map(|(model, estimate)| Named { model, estimate })
        .collect();
    let document = serde_json::json!({"schema": SCHEMA, "estimates": estimates});
    json_text(&document)
}

/// Parses bytes with or without a unit.
fn bytes(text: &str) -> Result<u64, String> {
    // A small number without a unit is probably missing one.
    let (number, least) = match size(text) {
        Some((number, Some(unit))) => (number * unit, 1.0),
        Some((number, None)) => (number, 1_048_576.0),
        None => (0.0, 1.0),
    };
    if !(least..9e15).contains(&number) {
        return Err("bytes, or a number with a unit behind it: 80GiB, 80GB".to_owned());
    }
    Ok(number as u64)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_bytes_or_say_their_unit() {
        assert_eq!(bytes("80GiB"), Ok(80 << 30));
        assert_eq!(bytes("139.80 GiB"), Ok(150_109_106_995));
        assert_eq!(bytes("80GB"), Ok(80_000_000_000));
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        for wrong in ["80", "-1GiB", "infGiB", "nanGiB", "GiB", ""] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
