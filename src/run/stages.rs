//! Reads memory by stage of each engine from a run's folder: `memory/<engine>.usage.json`.

use serde_json::Value;

use super::Folder;

const MARK: &str = ".usage";

/// The engines in the order of their starts, each with its stages. Null stands for an unreadable file, such as one of a
/// killed run; it is noted in `missing`.
pub(super) fn read(folder: &Folder, missing: &mut Vec<String>) -> Vec<(String, Value)> {
    let files = folder.names("memory").unwrap_or_else(|fault| {
        missing.push(format!(
            "memory/ cannot be read ({}): memory over time is missing",
            fault.message
        ));
        Vec::new()
    });
    let mut names: Vec<(String, String)> = files.iter().filter_map(|file| engine_of(file)).collect();
    // `engine-10` comes after `engine-9`.
    names.sort_by_key(|(name, _)| (name.len(), name.clone()));
    let stages = names.into_iter().map(|(name, file)| {
        let (text, why) = match folder.read(format!("memory/{file}")) {
            Ok(text) => (text.unwrap_or_default(), format!("memory/{file} is incomplete")),
            Err(fault) => (Vec::new(), fault.message),
        };
        let usage: Value = serde_json::from_slice(&text).unwrap_or_default();
        if usage.is_null() {
            missing.push(format!("{why}: memory of {name} by stage is missing"));
        }
        (name, usage)
    });
    stages.collect()
}

/// Splits a file name into engine and file: `engine-1` for `engine-1.usage.json`, `engine-1-2` for
/// `engine-1.usage-2.json` of a resumed run.
fn engine_of(file: &str) -> Option<(String, String)> {
    let (engine, copy) = file.strip_suffix(".json")?.split_once(MARK)?;
    let is_usage = copy.is_empty() || copy.strip_prefix('-').is_some_and(|copy| copy.parse::<u32>().is_ok());
    is_usage.then(|| (format!("{engine}{copy}"), file.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_files_of_every_execution_are_found() {
        let engine = |file| engine_of(file).map(|(engine, _)| engine);
        assert_eq!(engine("engine-1.usage.json").as_deref(), Some("engine-1"));
        assert_eq!(engine("engine-1.usage-2.json").as_deref(), Some("engine-1-2"));
        assert_eq!(engine("engine-1.usage-old.json"), None);
        assert_eq!(engine("engine-1.csv"), None);
    }
}
