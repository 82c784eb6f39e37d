//! Reads files of other tools into a [`ComparisonInput`], to show them and compare them with runs.
//!
//! A format is recognised by content, never by file name. `source` opens a file, `python`, `lenient` and
//! `scalars` cope with lenient JSON, and each format has a file that knows the units: bytes, MiB, GiB or 10^9
//! bytes, whatever the tool calls them. What remains uncertain becomes a note.

mod format;
mod gpu_memory;
mod kv_cache;
mod lenient;
mod list_stats;
mod parts;
mod python;
mod scalars;
mod sizer;
mod sizer_batch;
mod sizer_first;
mod sizer_profile;
mod source;
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

/// Reads a file of another tool.
///
/// # Errors
///
/// `usage` if the format is unknown or the file is broken; the message names the place.
pub fn read(path: &Path) -> Result<ComparisonInput> {
    let source = Source::open(path)?;
    let format = Format::detect(&source)?;
    let mut input = match format {
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
    input.title = path.display().to_string();
    input.format = format.name();
    input.holds = format.holds();
    if source.repaired {
        input
            .notes
            .push("the file has NaN or Infinity, which JSON does not know: these values are left out".to_owned());
    }
    Ok(input)
}
