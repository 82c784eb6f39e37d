//! `profiler sim`: serves the simulated engine. Prints its address to stdout and the engine's log to stderr.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::program::{Program, Status};
use crate::fault::{Fault, Result};
use crate::report::Terminal;
use crate::sim::{LogSink, Misbehave, Options, Sim, SimHandle, Spec, State, Victim};

/// Time for running requests after a request to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Arguments. Those that an engine has too mean the same.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Profile of the hardware and model: a file, or the name of a shipped one
    #[arg(long, value_name = "FILE")]
    profile: String,
    /// Port; 0: one chosen by the kernel
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Address to listen on; 0.0.0.0 in a container
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// The model's name on the wire
    #[arg(long)]
    model: Option<String>,
    /// Longest input and output together; -1: the largest that fits
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    max_model_len: Option<i64>,
    /// Longest input (TGI)
    #[arg(long, value_name = "TOKENS")]
    max_input_tokens: Option<u64>,
    /// Share of the device that the engine may use
    #[arg(long, value_name = "SHARE")]
    gpu_memory_utilization: Option<f64>,
    /// Maximum concurrent sequences
    #[arg(long, value_name = "N")]
    max_num_seqs: Option<u64>,
    /// Prompt tokens in one step
    #[arg(long, value_name = "TOKENS")]
    max_num_batched_tokens: Option<u64>,
    /// No CUDA graphs
    #[arg(long)]
    enforce_eager: bool,
    /// auto or fp8
    #[arg(long, value_name = "TYPE")]
    kv_cache_dtype: Option<String>,
    /// Tokens drafted by n-gram speculation
    #[arg(long, value_name = "N")]
    num_speculative_tokens: Option<u64>,
    /// Concurrent requests above which nothing is drafted (TensorRT-LLM)
    #[arg(long, value_name = "N")]
    speculation_max_concurrency: Option<u64>,
    /// GPUs that share each layer
    #[arg(long, value_name = "N")]
    tensor_parallel: Option<u64>,
    /// Context over all slots (llama.cpp)
    #[arg(long, value_name = "TOKENS")]
    ctx_size: Option<u64>,
    /// Maximum concurrent requests; further ones get status 429 (TGI)
    #[arg(long, value_name = "N")]
    max_concurrent_requests: Option<u64>,
    /// Bytes of device memory to simulate
    #[arg(long, value_name = "BYTES")]
    memory_limit: Option<u64>,
    /// What dies when memory runs out while serving
    #[arg(long, value_enum, value_name = "VICTIM")]
    oom: Option<Victim>,
    /// Clip output beyond the length limit instead of refusing it (vLLM 0.33)
    #[arg(long)]
    clip_output: bool,
    /// No prefix cache (vLLM, SGLang, TensorRT-LLM)
    #[arg(long)]
    no_prefix_cache: bool,
    /// Count text prompts with this tokenizer.json instead of by words
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Seconds of real time per second of model time; 0: no waiting
    #[arg(long, value_name = "FACTOR")]
    time_scale: Option<f64>,
    /// Milliseconds that an idle engine waits for more requests before its first step
    #[arg(long, value_name = "MS")]
    gather_ms: Option<u64>,
    /// Misbehave: `die_mid_stream`, `hang`, `refuse_429`, `end_early`, `two_tokens`, `clip`, `starve`,
    /// `error_then_done`, `break_off`, `end_silently`, `busy_port`, `slow_start`, `ignore_sigterm`,
    /// `exit_code`. `after:N`: the first N requests of each start succeed; `every:N`: every Nth request fails
    #[arg(long, value_name = "KIND[:N]")]
    misbehave: Vec<String>,
}

impl Args {
    fn spec(&self) -> Result<Spec> {
        let mut misbehave = Misbehave::default();
        for kind in &self.misbehave {
            misbehave.add(kind)?;
        }
        Ok(Spec {
            profile: self.profile.clone(),
            options: Options {
                model: self.model.clone(),
                max_model_len: self.max_model_len,
                max_input_tokens: self.max_input_tokens,
                gpu_memory_utilization: self.gpu_memory_utilization,
                max_num_seqs: self.max_num_seqs,
                max_num_batched_tokens: self.max_num_batched_tokens,
                enforce_eager: self.enforce_eager.then_some(true),
                kv_cache_dtype: self.kv_cache_dtype.clone(),
                num_speculative_tokens: self.num_speculative_tokens,
                speculation_max_concurrency: self.speculation_max_concurrency,
                tensor_parallel: self.tensor_parallel,
                ctx_size: self.ctx_size,
                max_concurrent_requests: self.max_concurrent_requests,
                memory_limit: self.memory_limit,
                oom: self.oom,
                clip_output: self.clip_output.then_some(true),
                prefix_cache: self.no_prefix_cache.then_some(false),
                tokenizer: self.tokenizer.clone(),
                time_scale: self.time_scale,
                gather_ms: self.gather_ms,
                serve: None,
                misbehave,
            },
        })
    }
}

/// Serves until asked to stop, or until the simulated process ends; returns that process's exit status.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    let spec = args.spec()?;
    let (profile, options) = spec.resolve()?;
    let (stubborn, exit_code) = (options.misbehave.ignore_sigterm, options.misbehave.exit_code);
    let terminal = Terminal::detect();
    let log: LogSink = Arc::new(move |line| terminal.print_error(line));
    let address = SocketAddr::new(args.host, args.port);
    let handle = program
        .tasks
        .wait(async { Sim::start(profile, options, address, log) })?;
    program.terminal.print(&handle.url)?;
    let lengths = args.max_model_len.is_none() && args.misbehave.is_empty();
    let code = program.tasks.finish(async {
        if !comes_up(&handle, program).await && lengths {
            program.terminal.print_error(
                "hint: a real engine would have ended like this too; `--max-model-len -1` takes the longest that fits",
            );
        }
        until_end(&handle, program, stubborn).await
    });
    if exit_code.is_some() {
        // A requested exit status applies whatever ended the process.
        program.signals.clear();
    }
    u8::try_from(code).map_err(|_| Fault::usage(format!("exit status {code} is not in 0 to 255")))
}

/// Waits until the engine is up; false if it ended instead.
async fn comes_up(handle: &SimHandle, program: &Program) -> bool {
    let stop = program.tasks.token();
    tokio::select! {
        state = handle.wait_started() => !matches!(state, State::Exited(_)),
        () = stop.cancelled() => true,
    }
}

async fn until_end(handle: &SimHandle, program: &Program, stubborn: bool) -> i32 {
    let stop = program.tasks.token();
    tokio::select! {
        exit = handle.wait_exited() => exit.code,
        () = stop.cancelled() => {
            if stubborn { handle.wait_exited().await.code } else { handle.stop(GRACE).await.code }
        }
    }
}
