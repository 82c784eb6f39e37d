//! `kv_cache_data.json` of hpml-llama2-tgi: how full vLLM's KV cache was, ten times a second.

use serde::Deserialize;

use super::loose::Loose;
use super::source::Source;
use super::spread::Spread;
use crate::compare::ComparisonInput;
use crate::compare::{Case, Unit};
use crate::fault::Result;

#[derive(Deserialize, Default)]
#[serde(default)]
struct File {
    peak_usage_percent: Loose,
    history_times: Spread,
    history_values: Spread,
}

/// Reads it.
pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    let file: File = source.parse("hpml-llama2-tgi")?;
    let mut case = Case::named("serving");
    case.figure("peak_kv_usage", file.peak_usage_percent.0, Unit::Percent);
    case.figure("mean_kv_usage", file.history_values.mean(), Unit::Percent);
    case.figure("samples", Some(file.history_values.count as f64), Unit::Count);
    case.figure("sampled_for", file.history_times.last, Unit::Seconds);
    let mut notes = vec![
        "the prompts of this tool are all the same: where prefix caching is on, they share their blocks, and usage is understated"
            .to_owned(),
    ];
    if file.peak_usage_percent.0 >= Some(100.0) {
        notes.push("the cache was full: what then happened (preemptions, queueing) is not in the file".to_owned());
    }
    if file.history_times.count != file.history_values.count {
        notes.push(format!(
            "{} times stand beside {} values",
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
