//! The version of an engine before it is started: from its image's tag, or from the metadata of its Python package.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The version in an image's tag: `0.24.0` of `vllm/vllm-openai:v0.24.0`.
pub(super) fn of_image(image: &str) -> Option<String> {
    let (_, tag) = image.rsplit_once(':')?;
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    let end = tag.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(tag.len());
    Some(tag[..end].to_owned()).filter(|version| version.contains('.'))
}

/// The version of the installed Python package of this name, where `program` would import it from. Runs nothing.
pub(super) fn of_package(name: &str, program: &str, env: &BTreeMap<String, String>) -> Option<String> {
    let variable = |name: &str| env.get(name).cloned().or_else(|| std::env::var(name).ok());
    let paths = |name: &str| variable(name).map(|list| std::env::split_paths(&list).collect::<Vec<_>>());
    let program = if program.contains('/') {
        PathBuf::from(program)
    } else {
        let mut found = paths("PATH")?.into_iter().map(|folder| folder.join(program));
        found.find(|path| path.is_file())?
    };
    // A script begins with the interpreter that runs it.
    let mut first = String::new();
    let _ = BufReader::new(File::open(&program).ok()?.take(256)).read_line(&mut first);
    let interpreter = first.strip_prefix("#!").and_then(|line| line.split_whitespace().next());
    let programs = [Some(program.as_path()), interpreter.map(Path::new)];
    let prefixes = programs
        .into_iter()
        .flatten()
        .filter_map(|program| program.parent()?.parent());
    let installed = prefixes.flat_map(|prefix| {
        let versions = entries(&prefix.join("lib")).filter(|path| has_name(path, |name| name.starts_with("python3")));
        versions.flat_map(|folder| ["site-packages", "dist-packages"].map(|kind| folder.join(kind)))
    });
    let folders = paths("PYTHONPATH").unwrap_or_default().into_iter().chain(installed);
    let start = format!("{name}-");
    folders
        .flat_map(|folder| entries(&folder).collect::<Vec<_>>())
        .find_map(|entry| {
            let name = entry.file_name()?.to_str()?;
            Some(name.strip_prefix(&start)?.strip_suffix(".dist-info")?.to_owned())
        })
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

fn has_name(path: &Path, is: impl Fn(&str) -> bool) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_a_version_or_not() {
        let of = |image| of_image(image);
        assert_eq!(of("vllm/vllm-openai:v0.24.0").as_deref(), Some("0.24.0"));
        assert_eq!(of("lmsysorg/sglang:v0.5.19-rocm700-mi30x").as_deref(), Some("0.5.19"));
        assert_eq!(of("localhost:5000/vllm"), None);
        assert_eq!(of("vllm/vllm-openai:latest"), None);
    }

    #[test]
    fn a_package_is_found_where_its_program_imports_it_from() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in [
            "bin",
            "lib/python3.12/site-packages/vllm-0.24.0.dist-info",
            "site/vllm-0.13.0.dist-info",
        ] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("bin/vllm"), "#!/no/such/python\n").unwrap();
        let program = at("bin/vllm").display().to_string();
        let of = |env: &BTreeMap<String, String>| of_package("vllm", &program, env);
        assert_eq!(of(&BTreeMap::new()).as_deref(), Some("0.24.0"));
        let env = BTreeMap::from([("PYTHONPATH".to_owned(), at("site").display().to_string())]);
        assert_eq!(of(&env).as_deref(), Some("0.13.0"), "a path that is searched first");
        assert_eq!(of_package("sglang", &program, &BTreeMap::new()), None);
    }
}
