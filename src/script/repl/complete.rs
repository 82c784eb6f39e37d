//! Tab completion.

use std::path::{Path, PathBuf};

use super::command::COMMANDS;
use super::cursor::Completion;
use super::vocabulary::Vocabulary;

/// Returns where the word to complete starts, and its completions. Files are looked up relative to `folder`.
pub(super) fn complete(vocabulary: &Vocabulary, folder: &Path, before: &str) -> (usize, Vec<String>) {
    let (start, known): (&str, Vec<String>) = match Completion::at_end_of(before) {
        Completion::None => return (before.len(), Vec::new()),
        Completion::Command(line) => return command(vocabulary, folder, before, line),
        Completion::Import(start) => {
            let mut paths: Vec<String> = vocabulary.modules.clone();
            paths.extend(files(folder, start, true));
            (start, paths)
        }
        Completion::Path { module, start } => {
            let inside = vocabulary.inside(module);
            (
                start,
                inside
                    .map(|function| call_of(&function.name, function.params.len()))
                    .collect(),
            )
        }
        Completion::Member { value, start } => (start, vocabulary.members(value).into_iter().collect()),
        Completion::Key { call, start } => {
            let mut keys: Vec<String> = vocabulary
                .functions
                .iter()
                .filter(|function| function.path() == call || (function.on.is_some() && function.name == call))
                .flat_map(|function| option_keys(&function.docs))
                .map(|key| format!("{key}: "))
                .collect();
            // A key may also be the name of a variable, which has no colon.
            keys.sort();
            keys.dedup();
            (start, keys)
        }
        Completion::Name(start) => (start, vocabulary.names().into_iter().collect()),
    };
    let mut fitting: Vec<String> = known.into_iter().filter(|name| name.starts_with(start)).collect();
    fitting.sort();
    fitting.dedup();
    (before.len() - start.len(), fitting)
}

fn call_of(name: &str, params: usize) -> String {
    match params {
        0 => format!("{name}()"),
        _ => format!("{name}("),
    }
}

fn command(vocabulary: &Vocabulary, folder: &Path, before: &str, line: &str) -> (usize, Vec<String>) {
    let Some((name, argument)) = line.split_once(' ') else {
        let fitting = COMMANDS.iter().filter(|command| command.starts_with(line));
        return (
            before.len() - line.len(),
            fitting.map(|command| (*command).to_owned()).collect(),
        );
    };
    let known: Vec<String> = match name {
        ":help" => {
            let titles = vocabulary.functions.iter().map(|function| function.title());
            titles.chain(vocabulary.modules.clone()).collect()
        }
        ":load" | ":save" | ":save!" => files(folder, argument, false),
        _ => Vec::new(),
    };
    let mut fitting: Vec<String> = known.into_iter().filter(|name| name.starts_with(argument)).collect();
    fitting.sort();
    fitting.dedup();
    (before.len() - argument.len(), fitting)
}

/// Scripts and folders that start with `start`. Imports omit the extension.
fn files(folder: &Path, start: &str, import: bool) -> Vec<String> {
    let (above, _) = start
        .rsplit_once('/')
        .map_or(("", start), |(above, name)| (above, name));
    let place = match above {
        "" if start.starts_with('/') => PathBuf::from("/"),
        above => folder.join(above),
    };
    let Ok(entries) = std::fs::read_dir(place) else {
        return Vec::new();
    };
    let prefix = start.len() - start.rsplit('/').next().map_or(0, str::len);
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let shown = match entry.path().is_dir() {
                true if name.starts_with('.') => return None,
                true => format!("{name}/"),
                false if import => name.strip_suffix(".rhai")?.to_owned(),
                false => name.ends_with(".rhai").then_some(name)?,
            };
            Some(format!("{}{shown}", &start[..prefix]))
        })
        .collect()
}

/// Extracts option names in backticks from a doc comment: at the start of a list item or table row, in a list item with
/// several of them (``- memory: `a` (meaning), `b` ``), or before a parenthesis in a paragraph that starts with
/// `Options`.
fn option_keys(docs: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for line in docs.lines().map(str::trim_start) {
        if let Some(item) = ["- `", "* `", "| `"].iter().find_map(|mark| line.strip_prefix(mark)) {
            keys.extend(item.split(['`', ':', ' ']).next().map(str::to_owned));
        } else if let Some((_, several)) = line.strip_prefix("- ").and_then(|item| item.split_once(": ")) {
            keys.extend(quoted(&outside_parentheses(several)).map(|(name, _)| name.to_owned()));
        }
    }
    for paragraph in docs.split("\n\n").filter(|paragraph| paragraph.starts_with("Options")) {
        let explained = quoted(paragraph).filter(|(_, after)| after.trim_start().starts_with('('));
        keys.extend(explained.map(|(name, _)| name.to_owned()));
    }
    keys.retain(|name| !name.is_empty() && name.chars().all(super::items::is_word));
    keys
}

/// Each text in backticks, with the text up to the next one.
fn quoted(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut parts = text.split('`').skip(1);
    std::iter::from_fn(move || Some((parts.next()?, parts.next().unwrap_or_default())))
}

fn outside_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    text.chars()
        .filter(|c| {
            let inside = depth > 0;
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            !inside && *c != '('
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "export_module wants `pub` functions")]

    use rhai::plugin::*;
    use rhai::{Engine, Map};

    use super::super::vocabulary::Variable;
    use super::*;

    /// Containers.
    #[export_module]
    mod docker {
        /// Starts one.
        ///
        /// - `image`: what
        /// - `env: map`: how
        /// - memory: `memory_limit` (of `bytes`), `shm_size`
        ///
        /// Options beyond: `port` (which, of `ports`); `stop_grace`
        /// (seconds).
        pub fn start(options: Map) {
            let _ = options;
        }

        /// Stops all.
        pub fn stop_all() {}
    }

    fn offered(before: &str) -> Vec<String> {
        let mut engine = Engine::new();
        engine.register_static_module("docker", exported_module!(docker).into());
        let variable = |name: &str, kind: &str, keys: &[&str]| Variable {
            name: name.to_owned(),
            kind: kind.to_owned(),
            constant: false,
            value: String::new(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        };
        let variables = vec![variable("answer", "map", &["verdict"]), variable("list", "array", &[])];
        let modules = vec!["std/engines".to_owned(), "std/search".to_owned()];
        let vocabulary = Vocabulary::new(&engine, variables, modules);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.rhai"), "").unwrap();
        std::fs::create_dir(folder.path().join("more")).unwrap();
        let (start, found) = complete(&vocabulary, folder.path(), before);
        found.iter().map(|name| format!("{}{name}", &before[..start])).collect()
    }

    #[test]
    fn names_modules_and_members_are_completed() {
        assert_eq!(offered("let x = ans"), ["let x = answer"]);
        assert_eq!(offered("dock"), ["docker::"]);
        assert_eq!(offered("docker::st"), ["docker::start(", "docker::stop_all()"]);
        assert_eq!(offered("answer.ver"), ["answer.verdict"]);
        assert_eq!(offered("list.pus"), ["list.push"]);
        assert_eq!(offered("import \"std/s"), ["import \"std/search"]);
        assert_eq!(offered("import \"m"), ["import \"mine", "import \"more/"]);
        assert_eq!(offered("docker::start(#{ i"), ["docker::start(#{ image: "]);
        assert_eq!(
            offered("docker::start(#{ image: 1, "),
            [
                "env: ",
                "image: ",
                "memory_limit: ",
                "port: ",
                "shm_size: ",
                "stop_grace: "
            ]
            .map(|key| format!("docker::start(#{{ image: 1, {key}"))
        );
        assert!(offered("\"docker::st").is_empty());
    }

    #[test]
    fn commands_and_their_arguments_are_completed() {
        assert_eq!(offered(":he"), [":help"]);
        assert_eq!(offered(":help docker::star"), [":help docker::start"]);
        assert_eq!(offered(":load mi"), [":load mine.rhai"]);
        assert!(offered(":scope x").is_empty());
    }
}
