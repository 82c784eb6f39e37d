//! Files that other tools left, read into one form: what people already have is shown and compared beside our own runs.
//!
//! A format is told by what a file holds, never by its name. `source` reads and recognises, `python`, `csv`, `loose` and
//! `scalars` cope with how those tools write, and one file for each format says what its figures mean: which of them are bytes,
//! MiB, GiB or 10^9 bytes, whatever they are called. What the source leaves in doubt becomes a note of the [`ComparisonInput`].

mod format;
mod gpu_memory;
mod kv_cache;
mod loose;
mod parts;
mod python;
mod scalars;
mod sizer;
mod sizer_batch;
mod sizer_first;
mod sizer_profile;
mod source;
mod spread;
mod tensorrt_graphs;
mod tgi_profiler;
mod units;
mod vllm_bench;
mod vllm_sweep;

use std::path::Path;

use crate::compare::ComparisonInput;
use crate::fault::Result;
use format::Format;
use source::Source;

/// Reads a file that another tool left.
///
/// # Errors
///
/// `usage` where the file is none of the known formats, or is broken: the message names the place, the hint what to do.
pub fn read(path: &Path) -> Result<ComparisonInput> {
    let source = Source::open(path)?;
    let format = Format::of(&source)?;
    let mut subject = match format {
        Format::TgiProfiler => tgi_profiler::read(&source),
        Format::Sizer => sizer::read(&source),
        Format::SizerFirst => sizer_first::read(&source),
        Format::SizerBatch => sizer_batch::read(&source),
        Format::VllmBench => vllm_bench::read(&source),
        Format::VllmSweep => vllm_sweep::read(&source),
        Format::TensorrtGraphs => tensorrt_graphs::read(&source),
        Format::GpuMemory => gpu_memory::read(&source),
        Format::KvCache => kv_cache::read(&source),
    }?;
    subject.title = path.display().to_string();
    subject.format = format.name();
    subject.holds = format.holds();
    if source.repaired {
        subject
            .notes
            .push("the file has NaN or Infinity, which JSON does not know: these values are left out".to_owned());
    }
    Ok(subject)
}
