//! Docker images of one program: the binary and the shared libraries that `ldd` lists, and nothing else. No registry is
//! needed, and a changed binary gets a new image.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Imports an image of `binary` as `tag`, with the binary as its entry point. Returns the tag.
pub fn of(binary: &Path, tag: &str) -> String {
    import(&[(binary, "app/server")], "/app/server", tag, None, |_| ())
}

/// The simulated engine as `.ci/sim-image` builds it, built once.
pub fn sim() -> &'static str {
    static IMAGE: OnceLock<String> = OnceLock::new();
    IMAGE.get_or_init(|| sim_at(None))
}

/// The simulated engine's image at the daemon with this address, or at the tests' usual one.
pub fn sim_at(host: Option<&str>) -> String {
    let image = "profiler-test/sim:latest";
    let made = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/sim-image"))
        .arg(stripped())
        .arg(image)
        .envs(host.map(|host| ("DOCKER_HOST", host)))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    image.to_owned()
}

/// The program without the names for debuggers, which are two thirds of it.
pub fn stripped() -> &'static Path {
    static STRIPPED: OnceLock<PathBuf> = OnceLock::new();
    STRIPPED.get_or_init(|| {
        let program = Path::new(env!("CARGO_BIN_EXE_profiler"));
        let built = fs::metadata(program).unwrap().modified().unwrap();
        let built = built.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stripped-{built}"));
        if made.exists() {
            return made;
        }
        // Other test processes make it too.
        let own = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let strip = Command::new("strip").arg("-o").arg(own.path()).arg(program).status();
        if !strip.is_ok_and(|status| status.success()) {
            return program.to_owned();
        }
        // Copies of earlier builds are never used again.
        let others = fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap().flatten();
        for other in others.filter(|other| other.file_name().to_string_lossy().starts_with("stripped-")) {
            let _ = fs::remove_file(other.path());
        }
        let own = own.into_temp_path();
        fs::set_permissions(&own, fs::metadata(program).unwrap().permissions()).unwrap();
        own.persist(&made).unwrap();
        made
    })
}

/// The configuration and the only layer of an image.
pub fn parts_of(image: &str) -> [Vec<u8>; 2] {
    let saved = Command::new("docker").args(["save", image]).output().unwrap();
    let read = |wanted: &dyn Fn(&str) -> bool| {
        let mut archive = tar::Archive::new(saved.stdout.as_slice());
        let mut found = archive.entries().unwrap().map(Result::unwrap);
        let mut found = found
            .find(|entry| wanted(&entry.path().unwrap().to_string_lossy()))
            .unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut found, &mut bytes).unwrap();
        bytes
    };
    let manifest: serde_json::Value = serde_json::from_slice(&read(&|name| name == "manifest.json")).unwrap();
    [&manifest[0]["Config"], &manifest[0]["Layers"][0]].map(|name| read(&|path| Some(path) == name.as_str()))
}

/// An image with a shell, a few tools and the simulated engine, `/app/server sim`. Built once.
pub fn shell_and_sim() -> &'static str {
    static IMAGE: OnceLock<String> = OnceLock::new();
    IMAGE.get_or_init(|| shell_and_sim_at(None))
}

/// That image at the daemon with this address, or at the tests' usual one.
pub fn shell_and_sim_at(host: Option<&str>) -> String {
    let files = ["sh", "sleep"].map(|name| (PathBuf::from("/bin").join(name), format!("bin/{name}")));
    let mut files: Vec<(&Path, &str)> = files
        .iter()
        .map(|(path, name)| (path.as_path(), name.as_str()))
        .collect();
    files.push((stripped(), "app/server"));
    import(&files, "/bin/sh", "shell-and-sim", host, |_| ())
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
    import(&tools, "/bin/sh", tag, None, add)
}

type Archive = tar::Builder<Vec<u8>>;

/// `binaries`: the local file, and its path in the image.
fn import(
    binaries: &[(&Path, &str)],
    entry: &str,
    tag: &str,
    host: Option<&str>,
    add: impl FnOnce(&mut Archive),
) -> String {
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
        .envs(host.map(|host| ("DOCKER_HOST", host)))
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
