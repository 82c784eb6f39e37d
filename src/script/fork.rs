//! Copies shipped scripts, modules and probes for editing, with their origin and optionally the strategy they import.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use regex::{Captures, Regex};

use super::shipped;
use super::signature::{did_you_mean, nearest};
use super::source::Source;
use crate::fault::{Fault, Result};

/// Modules that contain search strategies; each has a folder of submodules.
const STRATEGIES: [&str; 3] = ["search", "neighbours", "model_guided"];

/// Copies a shipped script, module (`std/…`) or probe to `target`, with its strategy if `strategy` is set. Returns the
/// written files, `target` first. If any file exists, nothing is written.
pub fn fork(name: &str, target: &Path, strategy: bool) -> Result<Vec<PathBuf>> {
    write_all(copies(name, target, strategy)?)
}

/// The files that [`fork`] would write, `target` first, and their texts.
pub fn copies(name: &str, target: &Path, strategy: bool) -> Result<Vec<(PathBuf, String)>> {
    let folder = target.parent().unwrap_or(Path::new(""));
    let without_strategy = || Fault::usage(format!("`{name}` imports no strategy")).hint("leave out --strategy");
    if let Some(text) = name.strip_prefix("std/probes/").and_then(shipped::probe) {
        return if strategy {
            Err(without_strategy())
        } else {
            Ok(probe(name, target, &text))
        };
    }
    let (origin, text) = original(name)?;
    let mut files = vec![(target.to_owned(), copy(&origin, &text, strategy.then_some("")))];
    if strategy {
        files.extend(strategies(&text).into_iter().map(|(module, text)| {
            let text = copy(&format!("stdlib/{module}.rhai"), &text, Some(&module));
            (folder.join(format!("{module}.rhai")), text)
        }));
        if files.len() == 1 {
            return Err(without_strategy());
        }
    }
    Ok(files)
}

/// Whether a copy is as it was made, by the hash in its line of origin.
pub fn is_unedited(copy: &str) -> bool {
    let is_origin = |line: &&str| {
        line.trim_start_matches(['/', '!', '#', ' '])
            .starts_with("origin: profiler ")
    };
    let mut lines: Vec<&str> = copy.split_inclusive('\n').collect();
    let Some(place) = lines.iter().position(is_origin) else {
        return false;
    };
    let origin = lines.remove(place);
    let pinned = origin.rsplit_once("sha256:").map_or("", |(_, hash)| hash.trim());
    // Imports that lead to copies are as they were.
    let names = STRATEGIES.join("|");
    let relative = Regex::new(&format!(
        "import \"(?:\\./|(?:\\.\\./)+)((?:{names})(?:/[a-z0-9_/]+)?)\""
    ))
    .expect("a valid pattern");
    let text = lines.concat();
    let original = relative.replace_all(&text, "import \"std/$1\"");
    [text.as_str(), &original]
        .iter()
        .any(|text| Source::new("", text).sha256 == pinned)
}

/// A probe with a comment about its origin, and the files it imports, unless identical copies exist.
fn probe(name: &str, target: &Path, text: &str) -> Vec<(PathBuf, String)> {
    let folder = target.parent().unwrap_or(Path::new(""));
    let origin = origin_line(&format!("{}.py", name.replacen("std", "stdlib", 1)), text);
    let shared = shipped::shared_probe_files()
        .into_iter()
        .map(|(file, text)| (folder.join(file), text));
    let missing = shared.filter(|(path, text)| fs::read_to_string(path).ok().as_ref() != Some(text));
    std::iter::once((target.to_owned(), format!("# {origin}\n{text}")))
        .chain(missing)
        .collect()
}

fn write_all(files: Vec<(PathBuf, String)>) -> Result<Vec<PathBuf>> {
    for (path, _) in &files {
        if path.symlink_metadata().is_ok() {
            return Err(Fault::usage(format!("`{}` exists", path.display()))
                .hint("nothing was written; give another file: `profiler fork NAME FILE`"));
        }
    }
    for (path, text) in &files {
        let io = |error: std::io::Error| Fault::io(path, &error);
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(io)?;
        }
        let mut file = File::create_new(path).map_err(io)?;
        file.write_all(text.as_bytes()).map_err(io)?;
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// The origin and text of a shipped file.
fn original(name: &str) -> Result<(String, String)> {
    let (origin, text) = match name.strip_prefix("std/") {
        Some(module) => (format!("stdlib/{module}.rhai"), shipped::module(module)),
        None => (format!("scripts/{name}.rhai"), shipped::script(name)),
    };
    if let Some(text) = text {
        return Ok((origin, text.into_owned()));
    }
    let modules = shipped::modules().map(|module| format!("std/{module}"));
    let probes = shipped::probes().map(|probe| format!("std/probes/{probe}"));
    let known: Vec<String> = shipped::scripts()
        .map(str::to_owned)
        .chain(modules)
        .chain(probes)
        .collect();
    let known = || known.iter().map(String::as_str);
    let fault = Fault::usage(format!("no shipped script, module or probe is named `{name}`"));
    let ending = format!("/{name}");
    let near = known()
        .find(|one| one.ends_with(&ending))
        .or_else(|| nearest(name, known()));
    Err(did_you_mean(fault, near, "`profiler list` shows their names"))
}

/// The text with its origin added below its description. If `from` is given, the name of this module, imports of the
/// strategy are rewritten to point to the copies.
fn copy(origin: &str, text: &str, from: Option<&str>) -> String {
    let line = format!("//! {}\n", origin_line(origin, text));
    let description: usize = text
        .split_inclusive('\n')
        .take_while(|line| line.starts_with("//!"))
        .map(str::len)
        .sum();
    let (head, body) = text.split_at(description);
    let body = match from {
        Some(from) => imports().replace_all(body, |found: &Captures| {
            format!("import \"{}\"", relative(from, &found[1]))
        }),
        None => body.into(),
    };
    format!("{head}{line}{body}")
}

/// Version, file and hash that a copy was made from.
fn origin_line(origin: &str, text: &str) -> String {
    let hash = Source::new(origin, text).sha256;
    format!("origin: profiler {} {origin} sha256:{hash}", env!("CARGO_PKG_VERSION"))
}

/// The strategy modules that a text imports, directly or indirectly, by name below `std/`.
fn strategies(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut texts = vec![text.to_owned()];
    while let Some(text) = texts.pop() {
        for import in imports().captures_iter(&text) {
            let module = &import[1];
            if let Some(text) = shipped::module(module)
                && found.insert(module.to_owned(), text.to_string()).is_none()
            {
                texts.push(text.into_owned());
            }
        }
    }
    found
}

/// Matches imports of a strategy; the first group is the module below `std/`.
fn imports() -> Regex {
    let names = STRATEGIES.join("|");
    Regex::new(&format!("import \"std/((?:{names})(?:/[a-z0-9_/]+)?)\"")).expect("a valid pattern")
}

/// The relative import path from module `from` (empty: the script next to them) to module `to`.
fn relative(from: &str, to: &str) -> String {
    let up = from.matches('/').count();
    format!("{}{to}", if up == 0 { "./".to_owned() } else { "../".repeat(up) })
}

#[cfg(test)]
mod tests {
    use super::{copy, relative};

    #[test]
    fn the_origin_follows_the_description() {
        let text = copy(
            "scripts/a.rhai",
            "//! Finds.\n//! More.\nimport \"std/search\" as search;\n",
            None,
        );
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..2], ["//! Finds.", "//! More."]);
        assert!(lines[2].starts_with("//! origin: profiler 0.1.0 scripts/a.rhai sha256:"));
        assert_eq!(lines[3], "import \"std/search\" as search;");
    }

    #[test]
    fn imports_of_the_strategy_lead_to_the_copies() {
        let text = copy(
            "scripts/a.rhai",
            "import \"std/search\" as s;\nimport \"std/engines\" as e;\n",
            Some(""),
        );
        assert!(text.contains("import \"./search\" as s;\nimport \"std/engines\" as e;"));
        assert_eq!(relative("search", "search/grid"), "./search/grid");
        assert_eq!(relative("search/grid", "search/parts"), "../search/parts");
    }
}
