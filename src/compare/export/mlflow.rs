//! MLflow's file store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::figures::{figures, milliseconds, subject};
use crate::run::{RecordedRun, hide};

/// The files of MLflow's file store, by their paths below its folder (`mlruns`): an experiment for the script that
/// contains the run.
pub fn mlflow(found: &RecordedRun) -> Vec<(PathBuf, String)> {
    let manifest = &found.manifest;
    let experiment: String = Sha256::digest(manifest.script.name.as_bytes())
        .iter()
        .take(9)
        .map(|byte| format!("{:02}", byte % 100))
        .collect();
    let run: String = Sha256::digest(manifest.run.as_bytes())
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let [started, ended] = [Some(&manifest.started), manifest.ended.as_ref()].map(milliseconds);
    let folder = PathBuf::from(&experiment).join(&run);
    // JSON is YAML.
    let of_experiment = json!({
        "artifact_location": "", "creation_time": started, "experiment_id": experiment, "last_update_time": ended,
        "lifecycle_stage": "active", "name": format!("profiler {}", manifest.script.name),
    });
    let of_run = json!({
        "artifact_uri": "", "end_time": ended, "entry_point_name": "", "experiment_id": experiment, "lifecycle_stage": "active",
        "run_id": run, "run_name": manifest.run, "run_uuid": run, "source_name": "", "source_type": 4, "source_version": "",
        "start_time": started, "status": if manifest.done() { 3 } else { 4 }, "tags": [], "user_id": "profiler",
    });
    let mut files = vec![
        (PathBuf::from(&experiment).join("meta.yaml"), of_experiment.to_string()),
        (folder.join("meta.yaml"), of_run.to_string()),
        (folder.join("tags/mlflow.runName"), manifest.run.clone()),
    ];
    let tags = subject(found).into_iter();
    files.extend(tags.map(|(name, value)| (folder.join("tags").join(format!("profiler.{name}")), value)));
    let parameters = manifest.parameters.as_ref().and_then(Value::as_object);
    for (name, value) in parameters.into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        files.push((folder.join("params").join(mlflow_name(name)), hide(&text).into_owned()));
    }
    let mut values = BTreeMap::new();
    for figure in figures(found) {
        let labels = figure.labels.values().map(|value| mlflow_name(value));
        let name: Vec<String> = std::iter::once(mlflow_name(&figure.name)).chain(labels).collect();
        values.insert(name.join("."), figure.value);
    }
    for (name, value) in values {
        files.push((folder.join("metrics").join(name), format!("{ended} {value} 0\n")));
    }
    files
}

/// Replaces characters that MLflow does not allow in names, which are letters, digits, `_`, `-` and blanks.
fn mlflow_name(text: &str) -> String {
    text.replace(
        |letter: char| !letter.is_ascii_alphanumeric() && !"_- ".contains(letter),
        "_",
    )
}
