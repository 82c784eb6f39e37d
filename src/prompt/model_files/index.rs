//! Reads `model.safetensors.index.json`: the weight files of a model, and their total size.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fault::{Fault, Result};

/// More files than any model has.
const MAX_FILES: usize = 1000;

pub(super) struct Index {
    /// Names of the files.
    pub(super) files: BTreeSet<String>,
    /// Bytes of all tensors.
    pub(super) bytes: Option<u64>,
}

impl Index {
    pub(super) fn read(json: &Value) -> Result<Self> {
        let unusable = |why: &str| Fault::usage(format!("`model.safetensors.index.json` {why}"));
        let map = json["weight_map"]
            .as_object()
            .ok_or_else(|| unusable("has no `weight_map`"))?;
        let files: Option<BTreeSet<String>> = map.values().map(|file| file.as_str().map(str::to_owned)).collect();
        let files = files.ok_or_else(|| unusable("names a file that is not a string"))?;
        // The name becomes part of a path and of a URL.
        if let Some(odd) = files.iter().find(|file| !is_plain(file)) {
            return Err(unusable(&format!(
                "names a file `{odd}`, which is not a plain file name"
            )));
        }
        if files.len() > MAX_FILES {
            return Err(unusable(&format!(
                "names {} files, more than any model has",
                files.len()
            )));
        }
        Ok(Self {
            files,
            // Some are written as a float.
            bytes: json["metadata"]["total_size"]
                .as_u64()
                .or_else(|| whole(&json["metadata"]["total_size"])),
        })
    }
}

fn is_plain(file: &str) -> bool {
    file.ends_with(".safetensors")
        && !file.starts_with('.')
        && file
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn whole(value: &Value) -> Option<u64> {
    let number = value.as_f64()?;
    (number.fract() == 0.0 && (0.0..9e15).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_and_bytes_are_read() {
        let index = Index::read(&json!({
            "metadata": {"total_size": 12.0},
            "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-1.safetensors"},
        }))
        .unwrap();
        assert_eq!((index.files.len(), index.bytes), (2, Some(12)));
    }

    #[test]
    fn a_file_elsewhere_is_refused() {
        for file in [
            "../x.safetensors",
            "/etc/passwd",
            "a/b.safetensors",
            "x.bin",
            ".x.safetensors",
        ] {
            let refused = Index::read(&json!({"weight_map": {"a": file}}));
            assert!(
                refused.err().unwrap().message.contains("not a plain file name"),
                "{file}"
            );
        }
        assert!(Index::read(&json!({"weight_map": {"a": 1}})).is_err());
        assert!(Index::read(&json!([])).is_err());
    }
}
