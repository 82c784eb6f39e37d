//! Memory by the stages of each engine's life, as a run's folder keeps it: `memory/<engine>.usage.json`.

use serde_json::Value;

use super::Folder;

/// What the names of these files have after that of the engine.
const MARK: &str = ".usage";

/// The engines of a run in the order in which they were started, each with its stages; none of a run that watched no memory. Null stands
/// for a file that was cut off when the run was killed; what cannot be read is added to `missing`.
pub(super) fn read(folder: &Folder, missing: &mut Vec<String>) -> Vec<(String, Value)> {
    let files = folder.names("memory").unwrap_or_else(|fault| {
        missing.push(format!(
            "memory/ cannot be read ({}): no memory over time is told",
            fault.message
        ));
        Vec::new()
    });
    let mut names: Vec<(String, String)> = files.iter().filter_map(|file| engine_of(file)).collect();
    // `engine-10` comes after `engine-9`.
    names.sort_by_key(|(name, _)| (name.len(), name.clone()));
    let stages = names.into_iter().map(|(name, file)| {
        let (text, why) = match folder.read(format!("memory/{file}")) {
            Ok(text) => (text.unwrap_or_default(), format!("memory/{file} is not whole")),
            Err(fault) => (Vec::new(), fault.message),
        };
        let usage: Value = serde_json::from_slice(&text).unwrap_or_default();
        if usage.is_null() {
            missing.push(format!("{why}: memory of {name} by stage is not told"));
        }
        (name, usage)
    });
    stages.collect()
}

/// The engine of a file, and the file: `engine-1` of `engine-1.usage.json`, and `engine-1-2` of `engine-1.usage-2.json`, which the second engine of
/// that name left when the run was taken up again.
fn engine_of(file: &str) -> Option<(String, String)> {
    let (engine, copy) = file.strip_suffix(".json")?.split_once(MARK)?;
    let known = copy.is_empty() || copy.strip_prefix('-').is_some_and(|copy| copy.parse::<u32>().is_ok());
    known.then(|| (format!("{engine}{copy}"), file.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_of_every_life_are_told() {
        let engine = |file| engine_of(file).map(|(engine, _)| engine);
        assert_eq!(engine("engine-1.usage.json").as_deref(), Some("engine-1"));
        assert_eq!(engine("engine-1.usage-2.json").as_deref(), Some("engine-1-2"));
        assert_eq!(engine("engine-1.usage-old.json"), None);
        assert_eq!(engine("engine-1.csv"), None);
    }
}
