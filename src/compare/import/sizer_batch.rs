//! Reads LLM-sizer's `batch-bench-results-*.csv`: 22 columns (schema 2) or 39 (schema 3).
//!
//! The tool writes zero as an empty cell, so an empty cell is unknown rather than zero. The table records
//! neither the source of a figure nor the GPUs.

use std::collections::BTreeSet;

use super::scalars::Scalars;
use super::sizer_profile::{self, Profile, Reader, Schema};
use super::source::Source;
use super::units::GIB;
use crate::compare::ComparisonInput;
use crate::compare::{Case, Unit};
use crate::fault::Result;
use crate::memory::compare::Facts;

const TOOL: &str = "LLM-sizer's batch driver";

pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    let rows: Vec<Scalars> = source.rows(TOOL)?.into_iter().map(Scalars::from_row).collect();
    let third = source.shape.has("kv_cache_allocated_gb");
    let schema = if third { Schema::Third } else { Schema::Second };
    let models: BTreeSet<String> = rows.iter().filter_map(|row| row.text("model_id")).collect();
    let mut notes = sizer_profile::notes(schema, Reader::Unknown, None);
    notes.push("an empty cell is a zero or nothing: it is taken as not known".to_owned());
    let mut cases = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for key in ["input_len", "output_len", "batch_size"] {
            if row.0.contains_key(key) && row.count(key).is_none() {
                return Err(source.broken(TOOL, format!("row {}: `{key}` is not a whole number", index + 1)));
            }
        }
        let name = name(row, models.len() > 1);
        if row.text("success").is_none_or(|word| word.eq_ignore_ascii_case("true")) {
            cases.push(case(row, name, schema, &mut notes)?);
        } else {
            let error = row.text("error_message").unwrap_or_default();
            // The message is all of stderr; Python's error is its last line.
            let error = error.lines().map(str::trim).rfind(|line| !line.is_empty());
            notes.push(format!("{name} failed: {}", error.unwrap_or("no message")));
        }
    }
    let versions: BTreeSet<String> = rows.iter().filter_map(|row| row.text("engine_version")).collect();
    let versions: Vec<String> = versions.into_iter().filter(|version| version != "unknown").collect();
    Ok(ComparisonInput {
        model: (!models.is_empty()).then(|| models.into_iter().collect::<Vec<_>>().join(", ")),
        engine: Some(format!("vllm {}", versions.join(", ")).trim_end().to_owned()),
        cases,
        notes,
        ..ComparisonInput::default()
    })
}

fn name(row: &Scalars, with_model: bool) -> String {
    let part = |key: &str, name: &str| row.count(key).map(|value| format!("{name}={value}"));
    let parts = [
        row.text("model_id").filter(|_| with_model),
        part("input_len", "input"),
        part("output_len", "output"),
        part("batch_size", "batch"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn case(row: &Scalars, name: String, schema: Schema, notes: &mut Vec<String>) -> Result<Case> {
    let profile = Profile {
        schema,
        reader: Reader::Unknown,
        name,
        total: row.number("total_memory_gb"),
        baseline: row.number("baseline_memory_gb"),
        increase: row.number("memory_increase_gb"),
        weights: row.number("weights_gb"),
        kv_used: row.number("kv_cache_used_gb").or_else(|| row.number("kv_cache_gb")),
        kv_pool: row.number("kv_cache_allocated_gb"),
        graphs: row.number("graph_capture_gb"),
        activations: row.number("activations_gb"),
        overhead: row.number("overhead_gb"),
        // The overall confidence is that of the weights; in schema 3 it says "logs" if they come from there.
        confidence: [row.text("estimation_confidence"), None, None],
        ranks: None,
        facts: Facts {
            weight_dtype: row.text("weight_dtype").filter(|dtype| dtype != "auto"),
            kv_dtype: row.text("kv_cache_dtype").filter(|dtype| dtype != "auto"),
            input: row.count("input_len"),
            output: row.count("output_len"),
            concurrency: row.count("batch_size"),
            kv_tokens: row.count("vllm_kv_cache_tokens"),
            ..Facts::default()
        }
        .counted(),
    };
    let mut case = profile.case(notes)?;
    for (key, name) in [
        ("memory_timeline_min_gb", "timeline_min"),
        ("memory_timeline_mean_gb", "timeline_mean"),
        ("memory_timeline_p95_gb", "timeline_p95"),
        ("memory_timeline_max_gb", "timeline_max"),
    ] {
        case.metric(name, row.number(key).map(|value| value * GIB), Unit::Bytes);
    }
    for (key, name, unit) in [
        ("memory_timeline_samples", "timeline_samples", Unit::Count),
        ("vllm_kv_cache_tokens", "kv_tokens", Unit::Tokens),
        ("latency_ms", "mean_latency_ms", Unit::Milliseconds),
        ("duration_seconds", "duration", Unit::Seconds),
        ("power_mean_w", "power_mean", Unit::Watts),
        ("power_max_w", "power_max", Unit::Watts),
        ("temp_mean_c", "temperature_mean", Unit::Celsius),
        ("temp_max_c", "temperature_max", Unit::Celsius),
    ] {
        case.metric(name, row.number(key), unit);
    }
    Ok(case)
}
