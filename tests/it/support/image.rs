//! Docker images of one program: the binary and the shared libraries that `ldd` lists, and nothing else. No registry is
//! needed, and a changed binary gets a new image.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Imports an image of `binary` as `tag`, with the binary as its entry point. Returns the tag.
pub fn of(binary: &Path, tag: &str) -> String {
    import(&[(binary, "app/server")], "/app/server", tag, |_| ())
}

/// The simulated engine as `.ci/sim-image` builds it, built once.
pub fn sim() -> &'static str {
    static IMAGE: OnceLock<&str> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let image = "profiler-test/sim:latest";
        let made = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/sim-image"))
            .args([env!("CARGO_BIN_EXE_profiler"), image])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        image
    })
}

/// An image with a shell, a few tools and the simulated engine, `/app/server sim`. Built once.
pub fn shell_and_sim() -> &'static str {
    static IMAGE: OnceLock<String> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let profiler = Path::new(env!("CARGO_BIN_EXE_profiler"));
        let files = ["sh", "sleep"].map(|name| (PathBuf::from("/bin").join(name), format!("bin/{name}")));
        let mut files: Vec<(&Path, &str)> = files
            .iter()
            .map(|(path, name)| (path.as_path(), name.as_str()))
            .collect();
        files.push((profiler, "app/server"));
        import(&files, "/bin/sh", "shell-and-sim", |_| ())
    })
}

/// An image with a shell and a few tools: `sh`, `bash`, `sleep`, `cat`, `mkdir`. Built once; the shell is its entry
/// point.
pub fn shell() -> &'static str {
    static IMAGE: OnceLock<String> = OnceLock::new();
    IMAGE.get_or_init(|| with("shell", |_| ()))
}

/// The image with the shell, plus the files that `add` adds.
pub fn with(tag: &str, add: impl FnOnce(&mut Archive)) -> String {
    let tools =
        ["sh", "bash", "sleep", "cat", "mkdir"].map(|name| (PathBuf::from("/bin").join(name), format!("bin/{name}")));
    let tools: Vec<(&Path, &str)> = tools
        .iter()
        .map(|(path, name)| (path.as_path(), name.as_str()))
        .collect();
    import(&tools, "/bin/sh", tag, add)
}

type Archive = tar::Builder<Vec<u8>>;

/// `binaries`: the local file, and its path in the image.
fn import(binaries: &[(&Path, &str)], entry: &str, tag: &str, add: impl FnOnce(&mut Archive)) -> String {
    let tag = format!("profiler-test/{tag}:latest");
    let mut archive = tar::Builder::new(Vec::new());
    // Docker cannot read sparse entries, which tar would create for a binary with holes.
    archive.sparse(false);
    let mut seen = BTreeSet::new();
    for (binary, name) in binaries {
        archive
            .append_path_with_name(fs::canonicalize(binary).unwrap(), name)
            .unwrap();
        for library in libraries(binary) {
            if seen.insert(library.clone()) {
                // Libraries are found through links; the container needs the target file.
                let file = fs::canonicalize(&library).unwrap();
                archive
                    .append_path_with_name(file, library.strip_prefix("/").unwrap())
                    .unwrap();
            }
        }
    }
    let mut folder = tar::Header::new_gnu();
    folder.set_entry_type(tar::EntryType::Directory);
    folder.set_mode(0o1777);
    folder.set_size(0);
    archive.append_data(&mut folder, "tmp/", std::io::empty()).unwrap();
    add(&mut archive);

    let mut import = Command::new("docker")
        .args(["import", "--change", &format!(r#"ENTRYPOINT ["{entry}"]"#), "-", &tag])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut import.stdin.take().unwrap(), &archive.into_inner().unwrap()).unwrap();
    assert!(import.wait().unwrap().success(), "docker import of {tag} failed");
    tag
}

fn libraries(binary: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(binary).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}
