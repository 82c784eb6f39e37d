//! Files embedded in the binary: `scripts/*.rhai`, run by name; `stdlib/**/*.rhai`, imported as `std/…`; the Python
//! programs of `stdlib/probes`; and the data of `stdlib/workloads`. Copies of them for editing, with their origin and
//! optionally the strategy that they import.
//!
//! A debug build reads them from the source tree, so that edits need no rebuild.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use regex::{Captures, Regex};
use serde::Serialize;

use super::header::description;
use super::source::{self, Source};
use super::suggest::{did_you_mean, nearest};
use crate::fault::{Fault, Result};
use crate::file;

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Names of the shipped scripts: `adaptive`, …
pub fn scripts() -> impl Iterator<Item = &'static str> {
    SCRIPTS.iter().map(|(name, _)| *name)
}

/// Names of the shipped modules below `std/`: `search`, `engines/vllm`, …
pub fn modules() -> impl Iterator<Item = &'static str> {
    MODULES.iter().map(|(name, _)| *name)
}

/// The text of a shipped script.
pub fn script(name: &str) -> Option<Cow<'static, str>> {
    text(SCRIPTS, "scripts", name, "rhai")
}

/// The text of a shipped module, by its name below `std/`.
pub fn module(name: &str) -> Option<Cow<'static, str>> {
    text(MODULES, "stdlib", name, "rhai")
}

/// Whether a shipped script has this hash.
pub fn is_shipped(sha256: &str) -> bool {
    let same = |name| script(name).is_some_and(|text| Source::new(name, &text).sha256 == sha256);
    scripts().any(same)
}

/// Names of the shipped workloads: `chat`, …
pub(super) fn workloads() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|(name, _)| *name)
}

/// The text of a shipped workload.
pub(super) fn workload(name: &str) -> Option<Cow<'static, str>> {
    text(WORKLOADS, "stdlib/workloads", name, "toml")
}

/// Files that probes import. They are not probes themselves.
const SHARED: [&str; 2] = ["profiler_probe", "profiler_nvml"];

/// Names of the shipped in-process probes: `allocator`, …
pub fn probes() -> impl Iterator<Item = &'static str> {
    let known = PROBES.iter().map(|(name, _)| *name);
    known.filter(|name| !name.contains('/') && !SHARED.contains(name))
}

/// The text of a shipped probe.
pub fn probe(name: &str) -> Option<Cow<'static, str>> {
    probes().find(|known| *known == name).and_then(python)
}

/// The files that probes may import: name and text.
pub fn shared_probe_files() -> Vec<(String, String)> {
    let files = SHARED
        .iter()
        .filter_map(|name| Some((format!("{name}.py"), python(name)?.into_owned())));
    files.collect()
}

fn python(name: &str) -> Option<Cow<'static, str>> {
    text(PROBES, "stdlib/probes", name, "py")
}

/// An entry of `profiler list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shipped {
    /// `adaptive`, `std/search`.
    pub name: String,
    /// The first sentence of its description.
    pub summary: String,
}

/// The shipped scripts with their first sentence.
pub fn described_scripts() -> Vec<Shipped> {
    scripts().map(|name| described(name.to_owned(), script(name))).collect()
}

/// The shipped modules with their first sentence.
pub fn described_modules() -> Vec<Shipped> {
    let shown = |name| described(format!("std/{name}"), module(name));
    modules().map(shown).collect()
}

/// The shipped probes with the first sentence of their docstring.
pub fn described_probes() -> Vec<Shipped> {
    let shown = |name| described(format!("std/probes/{name}"), probe(name));
    probes().map(shown).collect()
}

fn described(name: String, text: Option<Cow<'static, str>>) -> Shipped {
    let summary = text.as_deref().map(summary).unwrap_or_default();
    Shipped { name, summary }
}

/// The first sentence of a script's description, or of a probe's docstring.
pub fn summary(text: &str) -> String {
    match text.strip_prefix("\"\"\"") {
        Some(docstring) => first_sentence(docstring.lines()),
        None => first_sentence(description(text)),
    }
}

/// The first sentence, which may span lines.
fn first_sentence<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let paragraph: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |end| end + 1);
    paragraph[..end].to_owned()
}

fn text(table: &[(&str, &'static str)], folder: &str, name: &str, extension: &str) -> Option<Cow<'static, str>> {
    let (_, embedded) = table.iter().find(|(known, _)| *known == name)?;
    if cfg!(debug_assertions) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(folder)
            .join(format!("{name}.{extension}"));
        if let Ok(text) = fs::read_to_string(file) {
            return Some(Cow::Owned(text));
        }
    }
    Some(Cow::Borrowed(embedded))
}

/// Copies a shipped script, module (`std/…`) or probe to `target`, with its strategy if `strategy` is set. Returns the
/// written files, `target` first. If any file exists, nothing is written.
pub fn fork(name: &str, target: &Path, strategy: bool) -> Result<Vec<PathBuf>> {
    let files = copies(name, target, strategy)?;
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

/// The files that [`fork`] would write, `target` first, and their texts.
pub fn copies(name: &str, target: &Path, strategy: bool) -> Result<Vec<(PathBuf, String)>> {
    let folder = target.parent().unwrap_or(Path::new(""));
    let without_strategy = || Fault::usage(format!("`{name}` imports no strategy")).hint("leave out --strategy");
    if let Some(text) = name.strip_prefix("std/probes/").and_then(probe) {
        if strategy {
            return Err(without_strategy());
        }
        return Ok(probe_copy(name, target, &text));
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

/// The name of the shipped file that a copy comes from, by its origin line, and whether it imports a copy of its
/// strategy.
///
/// # Errors
///
/// `usage` if the file does not say where it comes from; errors of reading it.
pub fn origin_of(copy: &Path) -> Result<(String, bool)> {
    let bytes = file::read(copy, source::MAX_SIZE)?;
    let text = String::from_utf8_lossy(&bytes);
    let named = text.lines().find_map(|line| {
        let (_, origin) = line.split_once("origin: profiler ")?;
        let file = origin.split_whitespace().nth(1)?;
        let name = file.strip_suffix(".rhai").or_else(|| file.strip_suffix(".py"))?;
        Some(match name.strip_prefix("stdlib/") {
            Some(module) => format!("std/{module}"),
            None => name.strip_prefix("scripts/")?.to_owned(),
        })
    });
    match named {
        Some(name) => {
            // A copied module that imports its neighbours is compared by itself.
            let is_script = !name.starts_with("std/");
            Ok((name, is_script && imports(r"\./").is_match(&text)))
        }
        None => Err(
            Fault::usage(format!("`{}` does not say where it comes from", copy.display()))
                .hint("name the shipped script too: `profiler fork NAME FILE --diff`"),
        ),
    }
}

/// Whether a copy was not edited, by the hash in its origin line.
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
    let text = lines.concat();
    // The imports as they were before they were redirected to copies.
    let original = imports(r"(?:\./|(?:\.\./)+)").replace_all(&text, "import \"std/$1\"");
    [text.as_str(), &original]
        .iter()
        .any(|text| Source::new("", text).sha256 == pinned)
}

/// A probe with a comment about its origin, and the files it imports, unless identical copies exist.
fn probe_copy(name: &str, target: &Path, text: &str) -> Vec<(PathBuf, String)> {
    let folder = target.parent().unwrap_or(Path::new(""));
    let origin = origin_line(&format!("{}.py", name.replacen("std", "stdlib", 1)), text);
    let shared = shared_probe_files()
        .into_iter()
        .map(|(file, text)| (folder.join(file), text));
    let missing = shared.filter(|(path, text)| fs::read_to_string(path).ok().as_ref() != Some(text));
    std::iter::once((target.to_owned(), format!("# {origin}\n{text}")))
        .chain(missing)
        .collect()
}

/// The origin and text of a shipped file.
fn original(name: &str) -> Result<(String, String)> {
    let (origin, text) = match name.strip_prefix("std/") {
        Some(name) => (format!("stdlib/{name}.rhai"), module(name)),
        None => (format!("scripts/{name}.rhai"), script(name)),
    };
    if let Some(text) = text {
        return Ok((origin, text.into_owned()));
    }
    let known: Vec<String> = scripts()
        .map(str::to_owned)
        .chain(modules().map(|module| format!("std/{module}")))
        .chain(probes().map(|probe| format!("std/probes/{probe}")))
        .collect();
    let known = || known.iter().map(String::as_str);
    let fault = Fault::usage(format!("no shipped script, module or probe is named `{name}`"));
    let ending = format!("/{name}");
    let near = known()
        .find(|one| one.ends_with(&ending))
        .or_else(|| nearest(name, known()));
    Err(did_you_mean(fault, near, "`profiler list` shows their names"))
}

/// The text with its origin added below its description. If `from` (the name of this module) is given, imports of the
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
        Some(from) => imports("std/").replace_all(body, |found: &Captures| {
            format!("import \"{}\"", relative(from, &found[1]))
        }),
        None => body.into(),
    };
    format!("{head}{line}{body}")
}

/// The origin line of a copy: version, file and hash.
fn origin_line(origin: &str, text: &str) -> String {
    let hash = Source::new(origin, text).sha256;
    format!("origin: profiler {} {origin} sha256:{hash}", env!("CARGO_PKG_VERSION"))
}

/// The strategy modules that a text imports, directly or indirectly, by name below `std/`.
fn strategies(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut texts = vec![text.to_owned()];
    while let Some(text) = texts.pop() {
        for import in imports("std/").captures_iter(&text) {
            let name = &import[1];
            if let Some(text) = module(name)
                && found.insert(name.to_owned(), text.to_string()).is_none()
            {
                texts.push(text.into_owned());
            }
        }
    }
    found
}

/// Matches imports of a search strategy or of a part of one, below paths that `below` matches; the first group is the
/// module.
fn imports(below: &str) -> Regex {
    let strategies = "search|neighbours|model_guided";
    Regex::new(&format!("import \"{below}((?:{strategies})(?:/[a-z0-9_/]+)?)\"")).expect("a valid pattern")
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
