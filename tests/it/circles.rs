//! No file of a module imports one that imports it, directly or by way of others, so that each can be read after those that it
//! imports. Files that are read together are named here, with the reason. An item that is imported by way of a parent counts as of
//! the file that defines it. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

use super::modules::sources;

/// Files that import one another.
const TOGETHER: [&[&str]; 10] = [
    // Help, manual and completion show the tree of commands, which has the commands; a fleet goes on as a run.
    &["cli", "cli::add", "cli::doc", "cli::fleet", "cli::run", "cli::test"],
    // A flag of another tool is explained where a flag is unknown, by the flags that a script declares.
    &["cli::flags", "cli::foreign"],
    // The form that every tool's file is read into, and its readers.
    &[
        "compare",
        "compare::configuration",
        "compare::import",
        "compare::import::batch",
        "compare::import::hpml",
        "compare::import::llm_sizer",
        "compare::import::sizer_validation",
        "compare::import::statistics",
        "compare::import::sweep_folder",
        "compare::import::tensorrt_graphs",
        "compare::import::tgi_profiler",
        "compare::import::vllm_bench",
        "compare::load_metrics",
    ],
    // The parent has what a caller gives and gets, the children the threads between.
    &[
        "load::client",
        "load::client::connection",
        "load::client::event_loop",
        "load::client::exchange",
        "load::client::threads",
    ],
    // The parent has the whole of the statistics, the children its parts.
    &[
        "load::stats",
        "load::stats::latencies",
        "load::stats::measurable",
        "load::stats::slow_start",
        "load::stats::request",
        "load::stats::throughput",
    ],
    // The parent has the question and the whole answer, the child the parts.
    &["memory::compare", "memory::compare::explain"],
    &[
        "memory::estimate",
        "memory::estimate::blocks",
        "memory::estimate::components",
    ],
    // The specification of a prompt, and the text that is written by it.
    &["prompt::prompts", "prompt::text"],
    // A script calls functions of the API, these load adapters and check scripts, and both are run by an interpreter with the API.
    &[
        "script::adapter",
        "script::api",
        "script::api::basics",
        "script::api::boundary",
        "script::api::engine",
        "script::api::files",
        "script::api::jobs",
        "script::api::load",
        "script::api::memory",
        "script::api::output",
        "script::api::search",
        "script::api::service",
        "script::api::state",
        "script::api::trials",
        "script::api::verify",
        "script::boundary",
        "script::check",
        "script::host",
        "script::interpreter",
        "script::resolver",
        "script::search",
        "script::strategy",
    ],
    // The parent has the forms of requests and errors, the children read the one and write the other.
    &["sim::http", "sim::http::answer", "sim::http::request"],
];

/// Names from the crate's root on, such as `engine`, `facts`, `log`; of a file, or of an item.
type Names = Vec<String>;

/// The imports of a file.
#[derive(Default)]
struct File {
    /// What it names of the crate, in `use` and elsewhere, but for what it re-exports.
    named: BTreeSet<Names>,
    /// What it imports or re-exports, by its name there: other files can import that from it.
    imports: BTreeMap<String, Names>,
}

/// The files of a module.
struct Files(BTreeMap<Names, File>);

impl Files {
    fn read(module: &str) -> Self {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let texts: BTreeMap<Names, String> = sources(&src.join(module))
            .iter()
            .map(|path| {
                let inside = path.strip_prefix(&src).unwrap().with_extension("");
                let names = inside.iter().map(|name| name.to_str().unwrap().to_owned());
                let text = fs::read_to_string(path).unwrap();
                (names.filter(|name| name != "mod").collect(), without_tests(&text))
            })
            .collect();
        let known: BTreeSet<Names> = texts.keys().cloned().collect();
        Self(
            texts
                .iter()
                .map(|(file, text)| (file.clone(), File::read(file, text, &known)))
                .collect(),
        )
    }

    /// The file that defines what a path names, if it is one of these.
    fn defining(&self, path: &[String]) -> Option<&Names> {
        let longest = (1..=path.len())
            .rev()
            .find(|length| self.0.contains_key(&path[..*length]))?;
        let (file, item) = path.split_at(longest);
        let (file, read) = self.0.get_key_value(file)?;
        match item.first().and_then(|name| read.imports.get(name)) {
            Some(imported) => self.defining(&[imported, &item[1..]].concat()),
            None => Some(file),
        }
    }

    fn imported_by(&self, file: &Names) -> BTreeSet<&Names> {
        let named = self.0[file].named.iter();
        named
            .filter_map(|path| self.defining(path))
            .filter(|other| *other != file)
            .collect()
    }
}

/// The imports of each file.
type Imports<'a> = BTreeMap<&'a Names, BTreeSet<&'a Names>>;

/// The imports of a module's files. Files for which `stands_for` gives the same count as one.
fn imports<'a>(files: &'a Files, stands_for: impl Fn(&'a Names) -> &'a Names) -> Imports<'a> {
    let mut imports = Imports::new();
    for file in files.0.keys() {
        let from = stands_for(file);
        let named = files.imported_by(file).into_iter().map(&stands_for);
        imports.entry(from).or_default().extend(named.filter(|to| *to != from));
    }
    imports
}

/// Files of which each imports the next, and the last the first; follows the imports of the last of `path`.
fn circle<'a>(
    imports: &Imports<'a>,
    path: &mut Vec<&'a Names>,
    done: &mut BTreeSet<&'a Names>,
) -> Option<Vec<&'a Names>> {
    let last = *path.last()?;
    for next in imports[last].iter().copied() {
        if let Some(start) = path.iter().position(|file| *file == next) {
            return Some(path[start..].to_vec());
        }
        if !done.contains(next) {
            path.push(next);
            if let Some(found) = circle(imports, path, done) {
                return Some(found);
            }
            path.pop();
        }
    }
    done.insert(last);
    None
}

/// All files that a file imports, directly or by way of others.
fn reached<'a>(imports: &Imports<'a>, from: &Names) -> BTreeSet<&'a Names> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        for next in &imports[file] {
            if reached.insert(*next) {
                open.push(*next);
            }
        }
    }
    reached
}

impl File {
    fn read(file: &Names, text: &str, known: &BTreeSet<Names>) -> Self {
        let import = Regex::new(r"(?m)^\s*(pub )?use ([^;]+);").unwrap();
        let path = Regex::new(r"(?:^|[^\w:])(\w+(?:::\w+)+)").unwrap();
        let visibility = Regex::new(r"\bpub\([^)]*\)").unwrap();
        let text = visibility.replace_all(text, "pub");
        let mut found = Self::default();
        for one in import.captures_iter(&text) {
            for (path, name) in expand(&one[2], &[]) {
                let Some(path) = absolute(file, &path, known) else {
                    continue;
                };
                if one.get(1).is_none() {
                    found.named.insert(path.clone());
                }
                found.imports.insert(name, path);
            }
        }
        for one in path.captures_iter(&import.replace_all(&text, "")) {
            let path = names(&one[1]);
            let through = found.imports.get(&path[0]);
            let through = through.map(|first| [first, &path[1..]].concat());
            found.named.extend(through.or_else(|| absolute(file, &path, known)));
        }
        found
    }
}

/// A file's text without comments and what is compiled for tests only.
fn without_tests(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut kept = String::new();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = line.replace("#[cfg(test)]", "");
            let is_end = |line: &str| line == "}" || line.ends_with(';') && !line.starts_with(' ');
            let _ = lines.find(|line| line.strip_prefix(&*indent).is_some_and(is_end));
        } else {
            kept += line;
            kept += "\n";
        }
    }
    kept
}

/// The paths of a tree of imports such as `a::{b, c::d as e}`, each with the name that it gets.
fn expand(tree: &str, before: &[String]) -> Vec<(Names, String)> {
    if let Some((head, inner)) = tree.split_once('{') {
        let before = [before, &names(head)].concat();
        let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
        let mut depth = 0;
        let parts = inner.split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        let parts = parts.filter(|part| !part.trim().is_empty());
        return parts.flat_map(|part| expand(part, &before)).collect();
    }
    let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
    let mut path = [before, &names(path)].concat();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = names(alias).pop().or_else(|| path.last().cloned());
    vec![(path, name.unwrap_or_default())]
}

fn names(path: &str) -> Names {
    let names = path.split("::").map(|name| name.trim().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// A path from the crate's root; `None` if it leads out of the crate.
fn absolute(file: &Names, path: &[String], known: &BTreeSet<Names>) -> Option<Names> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    match path.first().map(String::as_str)? {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([file, &path[1..]].concat()),
        "super" => Some([file.get(..file.len().checked_sub(ups)?)?, &path[ups..]].concat()),
        child => Some([file, path].concat()).filter(|_| known.contains(&[&**file, &[child.to_owned()]].concat())),
    }
}

#[test]
fn no_file_imports_one_that_imports_it() {
    let together = TOGETHER.map(|files| files.iter().map(|file| names(file)).collect::<Vec<_>>());
    let src = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let modules = src.map(|entry| entry.unwrap()).filter(|entry| entry.path().is_dir());
    for module in modules.map(|entry| entry.file_name().into_string().unwrap()) {
        let files = Files::read(&module);
        let direct = imports(&files, |file| file);
        let count: usize = direct.values().map(BTreeSet::len).sum();
        assert!(count >= files.0.len(), "{module}: the imports were not read");
        for named in together.iter().filter(|files| files[0][0] == module) {
            for file in named {
                let others = reached(&direct, file);
                let apart = named.iter().find(|other| !others.contains(other));
                assert_eq!(
                    apart, None,
                    "{file:?} does not import this any more: take it from `TOGETHER`"
                );
            }
        }
        let joined = imports(&files, |file| {
            let named = together.iter().find(|files| files.contains(file));
            named.map_or(file, |files| files.iter().min().unwrap_or(file))
        });
        let mut done = BTreeSet::new();
        for file in joined.keys() {
            let circle = circle(&joined, &mut vec![file], &mut done);
            let circle = circle.map(|files| files.iter().map(|file| file.join("::")).collect::<Vec<_>>().join(" → "));
            assert_eq!(circle, None, "these files of `{module}` import one another");
        }
    }
}
