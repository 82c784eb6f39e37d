//! Reads the files that `scripts/batch.rhai` writes: the document of one configuration, and the table of all.

use super::document::Node;
use crate::compare::configuration;
use crate::compare::{Case, ComparisonInput, LoadMetric, Unit};

/// The document of one configuration.
pub(super) fn read(file: &Node) -> Result<ComparisonInput, String> {
    let mut case = configuration::case(file.at("point").0, file.0);
    let facts = &mut case.facts;
    facts.parameters = file.number_if_any("model_info.num_parameters");
    facts.layers = file.count("model_info.num_layers").ok().flatten();
    // `given` has only the keys of the batch's file, not the script's parameters.
    let chosen = |name: &str| {
        let of = |part: &str| file.chosen(&format!("{part}.{name}"));
        of("benchmark_parameters").or_else(|| of("given"))
    };
    facts.weight_dtype = chosen("dtype");
    facts.kv_dtype = chosen("kv_cache_dtype");
    facts.quantization = chosen("quantization");
    // 1 is also written for a server whose ranks are not known.
    let ranks = file.count("benchmark_parameters.tensor_parallel_size").ok().flatten();
    facts.tensor_parallel = ranks.filter(|ranks| *ranks > 1).or(facts.tensor_parallel);
    let version = file.text("info.version").unwrap_or_default();
    let engine = file
        .text("info.engine")
        .map(|engine| format!("{engine} {version}").trim_end().to_owned());
    Ok(ComparisonInput {
        model: file.text("model"),
        engine,
        simulated: file.at("info.simulated").0 == true,
        notes: configuration::note(&case.name, file.0).into_iter().collect(),
        cases: vec![case],
        ..ComparisonInput::default()
    })
}

/// Columns in bytes, and the names of their metrics.
const BYTES: [(&str, &str); 7] = [
    ("memory_baseline", "baseline"),
    ("memory_since_start", "total_measured"),
    ("weights_bytes", "weights"),
    ("kv_pool_bytes", "kv_pool"),
    ("activations_bytes", "activations"),
    ("graphs_bytes", "cuda_graphs"),
    ("context_bytes", "runtime_context"),
];

/// Settings by which configurations of the same lengths are named, and their columns.
const SETTINGS: [(&str, &str); 8] = [
    ("engine", "engine"),
    ("container", "container_name"),
    ("dtype", "dtype"),
    ("quantization", "quantization"),
    ("kv_cache_dtype", "kv_cache_dtype"),
    ("tensor_parallel", "tensor_parallel"),
    ("memory_fraction", "memory_fraction"),
    ("entry", "entry"),
];

/// The table, with a row for each configuration.
pub(super) fn read_table(file: &Node) -> Result<ComparisonInput, String> {
    let rows = file.objects()?;
    let models: std::collections::BTreeSet<String> = rows.iter().filter_map(|row| row.text("model_id")).collect();
    let mut cases = Vec::new();
    for row in &rows {
        let axis = |name: &str, column: &str| row.text(column).map(|value| format!("{name}={value}"));
        let axes = [
            ("concurrency", "batch_size"),
            ("input", "input_len"),
            ("output", "output_len"),
        ];
        let parts = axes.iter().filter_map(|(name, column)| axis(name, column));
        let mut case = Case::new(parts.collect::<Vec<_>>().join(" "));
        for (column, name) in BYTES {
            case.metric(name, row.number(column)?, Unit::Bytes);
        }
        for metric in LoadMetric::all() {
            let in_unit = if metric.unit == Unit::Percent { 100.0 } else { 1.0 };
            case.metric(
                &metric.name,
                row.number(&metric.name)?.map(|value| value * in_unit),
                metric.unit,
            );
        }
        case.facts.tensor_parallel = row.count("tensor_parallel")?;
        case.facts.concurrency = row.count("batch_size")?;
        case.model = row.text("model_id");
        let settings = SETTINGS.map(|(name, column)| (name, row.text(column)));
        cases.push((case, settings.to_vec()));
    }
    let cases = configuration::told_apart(cases);
    let failed = rows
        .iter()
        .zip(&cases)
        .filter(|(row, _)| row.text("success").is_some_and(|word| word == "false"));
    let notes = failed
        .map(|(row, case)| {
            let why = row.text("message").unwrap_or_else(|| "without a message".to_owned());
            format!("{}: {}: {why}", case.name, row.text("verdict").unwrap_or_default())
        })
        .collect();
    Ok(ComparisonInput {
        model: (!models.is_empty()).then(|| models.into_iter().collect::<Vec<_>>().join(", ")),
        engine: rows.first().and_then(|row| row.text("engine")),
        simulated: rows
            .iter()
            .any(|row| row.text("simulated").is_some_and(|word| word == "true")),
        cases,
        notes,
        ..ComparisonInput::default()
    })
}
