//! Lists the files that ship inside the binary, so that a new engine, module, script or probe is one file and no Rust change.

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Error};
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let mut table = String::new();
    for (constant, folder, extension) in [
        ("MODULES", "stdlib", "rhai"),
        ("SCRIPTS", "scripts", "rhai"),
        ("PROBES", "stdlib/probes", "py"),
        ("WORKLOADS", "stdlib/workloads", "toml"),
    ] {
        println!("cargo::rerun-if-changed={folder}");
        let folder = root.join(folder);
        let mut files = Vec::new();
        if folder.is_dir() {
            collect(&folder, extension, &mut files)?;
        }
        files.sort();
        list(&mut table, constant, &folder, &files)?;
    }
    fs::write(Path::new(&variable("OUT_DIR")?).join("shipped.rs"), table)
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(Error::other)
}

/// Every file with this extension below `folder`.
fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, extension, files)?;
        } else if path.extension() == Some(OsStr::new(extension)) {
            files.push(path);
        }
    }
    Ok(())
}

/// A table of names below `folder`, without extension, and texts.
fn list(table: &mut String, constant: &str, folder: &Path, files: &[PathBuf]) -> io::Result<()> {
    let mut add = |line: String| writeln!(table, "{line}").map_err(Error::other);
    add(format!("const {constant}: &[(&str, &str)] = &["))?;
    for file in files {
        let name = file
            .strip_prefix(folder)
            .map_err(Error::other)?
            .with_extension("")
            .to_string_lossy()
            .replace('\\', "/");
        add(format!(
            "    ({name:?}, include_str!({:?})),",
            file.display().to_string()
        ))?;
    }
    add("];".to_owned())
}
