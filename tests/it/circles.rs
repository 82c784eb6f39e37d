//! No file of these modules imports one that imports it, directly or by way of others, so that each can be read after those that it
//! imports. An item that is imported by way of a parent counts as of the file that defines it. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

use super::modules::sources;

/// Modules without circles of files.
const MODULES: [&str; 4] = ["answer", "engine", "report", "run"];

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

    /// Files of which each imports the next, and the last the first; follows the imports of the last of `path`.
    fn circle<'a>(&'a self, path: &mut Vec<&'a Names>, done: &mut BTreeSet<&'a Names>) -> Option<Vec<&'a Names>> {
        let last = *path.last()?;
        for next in self.imported_by(last) {
            if let Some(start) = path.iter().position(|file| *file == next) {
                return Some(path[start..].to_vec());
            }
            if !done.contains(next) {
                path.push(next);
                if let Some(found) = self.circle(path, done) {
                    return Some(found);
                }
                path.pop();
            }
        }
        done.insert(last);
        None
    }
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
    for module in MODULES {
        let files = Files::read(module);
        let imports: usize = files.0.keys().map(|file| files.imported_by(file).len()).sum();
        assert!(imports >= files.0.len(), "{module}: the imports were not read");
        let mut done = BTreeSet::new();
        for file in files.0.keys() {
            let circle = files.circle(&mut vec![file], &mut done);
            let circle = circle.map(|files| files.iter().map(|file| file.join("::")).collect::<Vec<_>>().join(" → "));
            assert_eq!(circle, None, "these files of `{module}` import one another");
        }
    }
}
