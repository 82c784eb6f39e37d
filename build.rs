//! Lists the files that ship inside the binary, so that a new engine, module, script or probe is one file and no Rust change; and
//! says which commit it was built from.

#![allow(clippy::disallowed_methods, reason = "it reads the repository")]

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> io::Result<()> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let version = format!("{} ({})", variable("CARGO_PKG_VERSION")?, commit(&root)?);
    println!("cargo::rustc-env=PROFILER_VERSION={version}");
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

/// Where the source comes from: its commit, as Git or `cargo package` says. Only a release says it: it would have every commit
/// of a developer build the program again.
fn commit(root: &Path) -> io::Result<String> {
    if variable("PROFILE")? != "release" {
        return Ok("debug build".to_owned());
    }
    // A package has no repository of its own, and may be unpacked within another.
    if let Ok(packaged) = fs::read_to_string(root.join(".cargo_vcs_info.json")) {
        let hash = packaged.split('"').find(|word| word.len() == 40);
        return Ok(hash.map_or_else(unknown, |hash| format!("commit {}", &hash[..12])));
    }
    let prefix = git(root, &["rev-parse", "--show-prefix"]);
    let described = git(root, &["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]);
    let (Some(""), Some(described)) = (prefix.as_deref(), described) else {
        return Ok(unknown());
    };
    for changed in ["HEAD", "logs/HEAD"] {
        let path = git(root, &["rev-parse", "--git-path", changed]).filter(|path| root.join(path).exists());
        path.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    }
    for folder in ["src", "crates/search/src"] {
        println!("cargo::rerun-if-changed={folder}");
    }
    Ok(format!("commit {described}"))
}

fn unknown() -> String {
    "commit unknown".to_owned()
}

/// What Git prints; `None` without Git or a repository.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
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
