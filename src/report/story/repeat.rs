//! The command that repeats a run, as it can be pasted into a shell.

use serde_json::Value;

use super::{Fact, Source};
use crate::run::{Manifest, lacks};

/// What of the manifest the command is made of. The last stands behind those that are only written where they were set.
const NEEDED: [&str; 5] = ["script", "set", "seed", "permissions", "simulated"];

/// The command that repeats the run, and what it needs; where it is not known, that.
pub(super) fn facts(source: &Source) -> Vec<Fact> {
    let found = source.found;
    let lost: Vec<&str> = NEEDED.into_iter().filter(|name| found.lost.contains(*name)).collect();
    if !lost.is_empty() {
        return vec![Fact::told(
            "to repeat it",
            format!(
                "not known: manifest.json is lost or damaged, and with it {} of this run",
                known_as(&lost)
            ),
        )];
    }
    let mut facts = Vec::new();
    if let Some(command) = going_on(source) {
        facts.push(Fact::typed("to go on with it", command));
    }
    facts.push(Fact::typed("to repeat it", command(&found.manifest)));
    if let Some(own) = own_file(source) {
        facts.push(Fact::told("its script", own));
    }
    facts
}

/// Members of the manifest as a user calls them.
fn known_as(lost: &[&str]) -> String {
    let names = lost.iter().map(|name| match *name {
        "script" => "the script",
        "set" => "what was set",
        "seed" => "the seed",
        "permissions" => "what was allowed",
        _ => "further options",
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The command that goes on with a run which did not come to its end, as the terminal gives it; none where there is nothing to go on with.
fn going_on(source: &Source) -> Option<String> {
    let (found, manifest) = (source.found, &source.found.manifest);
    let begun = found.has_measured() || manifest.status != "failed";
    if found.done() || !begun || !found.can_go_on() || lacks(&manifest.set) {
        return None;
    }
    let mut words = vec!["profiler".to_owned(), "run".to_owned(), quoted(&manifest.script.path)];
    words.extend([
        "--resume".to_owned(),
        quoted(&source.folder.path().display().to_string()),
    ]);
    words.extend(allowances(manifest));
    Some(words.join(" "))
}

/// What somebody needs who has the page and not the script.
fn own_file(source: &Source) -> Option<String> {
    let path = &source.found.manifest.script.path;
    // Shipped scripts go by a bare name.
    let file = path.contains('/') || path.ends_with(".rhai");
    let kept = source.folder.has_file("script.rhai");
    (file && kept).then(|| {
        format!("the commands need the file `{path}`; the run's folder keeps its text as `script.rhai`, and what it imports below `modules/`")
    })
}

/// `profiler run SCRIPT --seed N` with everything that was set and allowed.
fn command(manifest: &Manifest) -> String {
    let mut words = vec!["profiler".to_owned(), "run".to_owned(), quoted(&manifest.script.path)];
    let mut set = manifest.set.clone();
    if let Some(engine) = chosen(manifest) {
        set.insert("engine".to_owned(), engine.into());
    }
    for (key, value) in &set {
        words.push("--set".to_owned());
        words.push(quoted(&format!("{key}={}", written(value))));
    }
    if let Some(seed) = manifest.seed {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    words.extend(allowances(manifest));
    words.join(" ")
}

/// The engine that `auto` stood for: on another machine it may stand for another.
fn chosen(manifest: &Manifest) -> Option<String> {
    let asked = manifest.parameters.as_ref()?.get("engine")?;
    let mut used = manifest
        .engines
        .iter()
        .filter_map(|engine| engine["info"]["engine"].as_str());
    let first = used.next()?;
    (*asked == "auto" && used.all(|other| other == first)).then(|| first.to_owned())
}

/// What the user allowed, as options.
fn allowances(manifest: &Manifest) -> Vec<String> {
    let mut words = Vec::new();
    for allowed in &manifest.permissions {
        words.push("--allow".to_owned());
        words.push(quoted(allowed));
    }
    if manifest.shared_gpu {
        words.push("--shared-gpu".to_owned());
    }
    if let Some(most) = manifest.max_operations {
        words.extend(["--max-operations".to_owned(), most.to_string()]);
    }
    words
}

/// A value as `--set` reads it back: a text without quotes, unless it would be read as something else.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) if serde_json::from_str::<Value>(text).is_err() => text.clone(),
        value => value.to_string(),
    }
}

/// A word as a POSIX shell reads it back.
pub(super) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::script::params;

    proptest! {
        #[test]
        fn values_are_read_back_as_they_were(text in ".*", number in any::<i64>()) {
            for value in [json!(text), json!(number), json!([text, number]), json!({ "a.b": text }), json!(null)] {
                let written = format!("key={}", written(&value));
                prop_assert_eq!(params::assignment(&written).unwrap(), ("key", value));
            }
        }
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        for (word, typed) in [
            ("model=meta-llama/Llama-3.1-8B", "model=meta-llama/Llama-3.1-8B"),
            ("input=[1,2]", "'input=[1,2]'"),
            ("a'b $c", r"'a'\''b $c'"),
            ("", "''"),
            ("~/x", "'~/x'"),
        ] {
            assert_eq!(quoted(word), typed);
        }
    }
}
