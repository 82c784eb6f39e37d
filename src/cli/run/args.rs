//! The arguments of `profiler run`.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::options::ScriptOptions;
use crate::memory;
use crate::run::Folder;
use crate::script::form::time;

const EXAMPLES: &str = "\
Examples:
  profiler run adaptive             try it: without a GPU, the engine is simulated
  profiler run adaptive --help      the parameters of a script
  profiler run adaptive --input 2000 --output 500 --dry-run
  profiler run throughput --url http://localhost:8000 --output 256
  profiler run ./mine.rhai          a script of your own; - is standard input
  profiler run --resume runs/DIR    go on after Ctrl-C";

/// Arguments.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    /// The script: a path, the name of a shipped one, or - for standard input; with --resume, the one that ran
    pub(in crate::cli) script: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) options: ScriptOptions,
    /// The run's folder, new or empty; runs/TIME-SCRIPT when absent
    #[arg(long, value_name = "DIR", conflicts_with = "resume", help_heading = "Run")]
    pub(in crate::cli) out: Option<PathBuf>,
    /// Run the script once for each of these values of a parameter, or each combination of several, and compare the
    /// results: --matrix kv_cache_dtype=auto,fp8 --matrix settings.max_num_seqs=64,256
    #[arg(
        long,
        value_name = "NAME=VALUES",
        conflicts_with_all = ["resume", "attempt"],
        help_heading = "Run"
    )]
    pub(in crate::cli) matrix: Vec<String>,
    /// If --out is taken, use the first of DIR-2, DIR-3 … that is free
    #[arg(long, requires = "out", conflicts_with = "attempt", help_heading = "Run")]
    pub(in crate::cli) force_new: bool,
    /// Resume the run in this folder
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run", help_heading = "Run")]
    pub(in crate::cli) resume: Option<PathBuf>,
    /// End the run after this time with its findings so far, and with exit status 124: 90s, 30m, 2h30m
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Permissions and limits")]
    pub(in crate::cli) max_time: Option<Duration>,
    /// How much the run may write to disk, such as 500MB or 20G; 10GiB when absent
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Permissions and limits")]
    pub(in crate::cli) max_disk: Option<u64>,
    /// Resume somebody else's run, whose script and modules have these hashes
    #[arg(long, value_name = "sha256:HASH,…", value_delimiter = ',', help_heading = "Run")]
    pub(in crate::cli) trust_script: Vec<String>,
    /// For schedulers that may start a run twice: resume the run in --out if it exists, and stop attempts with a lower
    /// number
    #[arg(
        long,
        value_name = "N",
        requires = "out",
        conflicts_with_all = ["resume", "dry_run"],
        help_heading = "Run"
    )]
    pub(in crate::cli) attempt: Option<u64>,
    /// Show what would be done, and start nothing
    #[arg(long, help_heading = "Run")]
    pub(in crate::cli) dry_run: bool,
    /// Print the result as one JSON document
    #[arg(long, help_heading = "Output")]
    pub(in crate::cli) json: bool,
    /// This help, or with SCRIPT the script's own parameters
    #[arg(long, short, help_heading = "Output")]
    pub(in crate::cli) help: bool,
}

impl Args {
    /// Whether the user wants the command's own help, not that of a script.
    pub(in crate::cli) fn wants_help(&self) -> bool {
        self.help && self.script.is_none() && self.resume.is_none()
    }

    /// The arguments for a later attempt at a run: it resumes the run in `--out`.
    pub(super) fn resolved(&self) -> Self {
        let mut args = self.clone();
        let began = |out: &PathBuf| Folder::open(out).is_ok_and(|folder| folder.has_file("manifest.json"));
        if self.attempt.is_some() && self.out.as_ref().is_some_and(began) {
            args.resume = args.out.take();
        }
        args
    }

    /// The hashes of `--trust-script`.
    pub(super) fn trusted(&self) -> impl Iterator<Item = &str> {
        let named = self.trust_script.iter();
        named.map(|named| named.strip_prefix("sha256:").unwrap_or(named))
    }
}

/// Bounds of `--max-disk`, bytes. Less than this does not even hold a run's journal.
const DISK: std::ops::RangeInclusive<f64> = 1e5..=1e15;

/// A size in bytes such as `500MB`, `20G` or `10GiB`.
fn size(text: &str) -> std::result::Result<u64, String> {
    match memory::compare::size(text).map(|(number, unit)| number * unit.unwrap_or(1.0)) {
        Some(bytes) if DISK.contains(&bytes) => Ok(bytes as u64),
        Some(_) => Err("a run may write from 100KB to 1000TB".to_owned()),
        None => Err("give a number with a unit, such as 500MB or 20G".to_owned()),
    }
}
