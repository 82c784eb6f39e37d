//! A contributor adds an import, and it may lead only to a lower module in the table of `ARCHITECTURE.md`, which is the
//! documentation of `src/lib.rs`. The rule holds for `src` and `crates/search/src`.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Every Rust file below a path, except tests.
pub fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| !path.ends_with("tests") && !path.ends_with("tests.rs") && !path.ends_with("properties.rs"))
        .flat_map(|path| sources(&path))
        .collect()
}

#[test]
fn each_module_imports_only_modules_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = [root.join("src"), root.join("crates/search/src")];
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let rows = architecture
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let order: Vec<String> = rows
        .flat_map(|row| row.split(", ").map(|name| name.replace('`', "")))
        .collect();
    let lib = packages
        .each_ref()
        .map(|src| fs::read_to_string(src.join("lib.rs")).unwrap());
    let declared = lib.concat().lines().filter(|line| line.starts_with("pub mod ")).count();
    assert_eq!(
        order.len(),
        declared,
        "the table of ARCHITECTURE.md names every module: {order:?}"
    );
    let import = Regex::new(r"crate::(\w+)").unwrap();
    for (place, module) in order.iter().enumerate() {
        let mut places = packages
            .iter()
            .flat_map(|src| [src.join(module), src.join(format!("{module}.rs"))]);
        let path = places.find(|path| path.exists()).unwrap();
        for file in sources(&path) {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for found in import.captures_iter(line) {
                    let imported = order.iter().position(|other| *other == found[1]);
                    let below = imported.is_none_or(|other| other >= place);
                    assert!(below, "{}: {module} is below {}: {line}", file.display(), &found[1]);
                }
            }
        }
    }
}

/// Every path named in the two documents exists, so that neither goes stale.
#[test]
fn the_paths_in_the_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = Regex::new(r"`((?:\.ci|benches|crates|scripts|src|stdlib|tests)/[\w/.-]+)`").unwrap();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        let named: Vec<&str> = path
            .captures_iter(&text)
            .map(|found| found.get(1).unwrap().as_str())
            .filter(|path| !path.contains("NAME"))
            .collect();
        assert!(named.len() > 5, "{document} names {named:?}");
        for path in named {
            assert!(root.join(path).exists(), "{document}: there is no {path}");
        }
    }
}
