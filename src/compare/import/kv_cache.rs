//! Reads `kv_cache_data.json` of hpml-llama2-tgi: vLLM's KV cache usage, sampled ten times a second.

use serde::Deserialize;

use super::lenient::LenientNumber;
use super::list_stats::ListStats;
use super::source::Source;
use crate::compare::ComparisonInput;
use crate::compare::{Case, Unit};
use crate::fault::Result;

#[derive(Deserialize, Default)]
#[serde(default)]
struct File {
    peak_usage_percent: LenientNumber,
    history_times: ListStats,
    history_values: ListStats,
}

pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    let file: File = source.parse("hpml-llama2-tgi")?;
    let mut case = Case::new("serving");
    case.metric("peak_kv_usage", file.peak_usage_percent.0, Unit::Percent);
    case.metric("mean_kv_usage", file.history_values.mean(), Unit::Percent);
    case.metric("samples", Some(file.history_values.count as f64), Unit::Count);
    case.metric("sampled_for", file.history_times.last, Unit::Seconds);
    let mut notes = vec![
        "the prompts of this tool are all the same: where prefix caching is on, they share their blocks, and usage is understated"
            .to_owned(),
    ];
    if file.peak_usage_percent.0 >= Some(100.0) {
        notes.push("the cache was full: what then happened (preemptions, queueing) is not in the file".to_owned());
    }
    if file.history_times.count != file.history_values.count {
        notes.push(format!(
            "there are {} times but {} values",
            file.history_times.count, file.history_values.count
        ));
    }
    Ok(ComparisonInput {
        engine: Some("vllm".to_owned()),
        cases: vec![case],
        notes,
        ..ComparisonInput::default()
    })
}
