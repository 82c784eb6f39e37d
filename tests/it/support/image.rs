//! Docker images of one program: the binary and the shared libraries that `ldd` names, and nothing else.
//! No registry is needed, and a change of the binary gives another image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Imports an image of `binary` as `tag`, its entry point the binary itself, and gives the tag.
pub fn of(binary: &Path, tag: &str) -> String {
    let tag = format!("profiler-test/{tag}:latest");
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_path_with_name(binary, "app/server").unwrap();
    for library in libraries(binary) {
        // Libraries are found through links; the file behind the link is what the container needs.
        let file = fs::canonicalize(&library).unwrap();
        archive
            .append_path_with_name(file, library.strip_prefix("/").unwrap())
            .unwrap();
    }
    let mut folder = tar::Header::new_gnu();
    folder.set_entry_type(tar::EntryType::Directory);
    folder.set_mode(0o1777);
    folder.set_size(0);
    archive.append_data(&mut folder, "tmp/", std::io::empty()).unwrap();

    let mut import = Command::new("docker")
        .args(["import", "--change", r#"ENTRYPOINT ["/app/server"]"#, "-", &tag])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut import.stdin.take().unwrap(), &archive.into_inner().unwrap()).unwrap();
    assert!(
        import.wait().unwrap().success(),
        "docker import of {} failed",
        binary.display()
    );
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
