//! Fetches scripts from a Git repository. The system's `git` reads blobs and checks nothing out, so links, filters and
//! hooks of the repository have no effect.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::time::Duration;

use super::files::{Files, MAX_FILE, MAX_FILES, add, check_size, file_name, is_taken, too_much};
use crate::fault::{Fault, Kind, Result};
use crate::outside::{self, Bounded};
use crate::runtime::{CommandLine, Input, Limits, Take, run_command};
use crate::task::Tasks;
use crate::temporary::Temporary;

/// How long each step of `git` may take.
const TIME: Duration = Duration::from_secs(60);

/// Limits of each process of `git`. A repository that is cloned to its last commit alone rarely has a tenth of it.
const GIT: Limits = Limits {
    memory: Some(512 << 20),
    file: Some(256 << 20),
};

/// Most bytes of a list of files.
const MAX_LIST: u64 = 8 << 20;

/// A place in a repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Git {
    pub(super) address: String,
    pub(super) revision: String,
    path: String,
}

impl Git {
    /// `[git+]ADDRESS[@REVISION][#PATH]`; `None` for anything else. Without `git+`, the address ends in `.git` or begins with
    /// `git@` or `ssh://`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (place, path) = text.split_once('#').unwrap_or((text, ""));
        let marked = place.strip_prefix("git+");
        let place = marked.unwrap_or(place);
        let (address, revision) = match place.rsplit_once(".git@") {
            Some((address, revision)) => (format!("{address}.git"), revision),
            None => match place.rsplit_once('@') {
                Some((address, revision)) if address.contains('/') && !revision.contains([':', '/']) => {
                    (address.to_owned(), revision)
                }
                _ => (place.to_owned(), "HEAD"),
            },
        };
        let known =
            marked.is_some() || place.starts_with("git@") || place.starts_with("ssh://") || address.ends_with(".git");
        known.then(|| Self {
            address,
            revision: revision.to_owned(),
            path: path.trim_matches('/').to_owned(),
        })
    }

    /// The text whose end names the scripts: the path, or the address.
    pub(super) fn place(&self) -> &str {
        if self.path.is_empty() {
            &self.address
        } else {
            &self.path
        }
    }

    /// The commit, and the files at its path.
    pub(super) fn fetch(&self, tasks: &Tasks) -> Result<(String, Files)> {
        let parts = [&self.address, &self.revision, &self.path];
        if parts.iter().any(|part| part.starts_with('-')) {
            return Err(Fault::usage("this is no address of a repository").hint("git+ADDRESS[@REVISION][#PATH]"));
        }
        let folder = Temporary::folder()?;
        let git = |args: &[&str], input: &str, most: u64| run_git(tasks, folder.path(), args, input, most);
        git(&["init", "--quiet", "--bare"], "", MAX_LIST)?;
        let mut fetch = vec!["fetch", "--quiet", "--depth=1", "--no-tags", "--"];
        fetch.extend([&*self.address, &*self.revision]);
        git(&fetch, "", MAX_LIST)?;
        let commit = git(&["rev-parse", "FETCH_HEAD^{commit}"], "", MAX_LIST)?;
        let commit = String::from_utf8_lossy(&commit).trim().to_owned();
        let mut list = vec!["ls-tree", "-r", "-z", "--long", &commit];
        list.extend((!self.path.is_empty()).then_some(self.path.as_str()));
        let listed = git(&list, "", MAX_LIST)?;
        let (mut files, mut wanted) = (Files::new(), Vec::new());
        for line in listed.split(|byte| *byte == 0) {
            let line = String::from_utf8_lossy(line);
            let Some((facts, path)) = line.split_once('\t') else {
                continue;
            };
            let [mode, _, blob, size] = facts.split_whitespace().collect::<Vec<_>>()[..] else {
                continue;
            };
            // The path below the folder, or the name of the file itself.
            let name = match path.strip_prefix(&self.path).map(|rest| rest.trim_start_matches('/')) {
                None | Some("") => file_name(path),
                Some(below) => below.to_owned(),
            };
            // Skips links and submodules.
            if !mode.starts_with("100") || !is_taken(&name) {
                continue;
            }
            check_size(path, size.parse().unwrap_or(u64::MAX))?;
            add(&mut files, name.clone(), Vec::new())?;
            wanted.push((name, blob.to_owned()));
        }
        let blobs: String = wanted.iter().map(|(_, blob)| format!("{blob}\n")).collect();
        let contents = git(
            &["cat-file", "--batch"],
            &blobs,
            MAX_FILES as u64 * (MAX_FILE + MAX_HEAD),
        )?;
        let mut contents = BufReader::new(contents.as_slice());
        for (name, blob) in wanted {
            files.insert(name, next_blob(&mut contents, &blob)?);
        }
        if files.is_empty() {
            let (address, path, revision) = (&self.address, &self.path, &self.revision);
            return Err(
                Fault::usage(format!("`{address}` has no script `{path}` at `{revision}`"))
                    .hint("git+ADDRESS[@REVISION][#PATH] with the path of a script or of its folder"),
            );
        }
        Ok((commit, files))
    }
}

/// Longest first line of a blob in the output of `git cat-file --batch`.
const MAX_HEAD: u64 = 256;

/// The next blob in the output of `git cat-file --batch`: a line `ID blob SIZE`, the contents, and a line end.
fn next_blob(output: &mut BufReader<&[u8]>, blob: &str) -> Result<Vec<u8>> {
    let broken = || Fault::new(Kind::Http, format!("git cat-file: `{blob}` is missing or no file"));
    let mut head = Vec::new();
    outside::line(output, &mut head, MAX_HEAD).map_err(|_| broken())?;
    let head = String::from_utf8_lossy(&head).into_owned();
    let size = match head.split_whitespace().collect::<Vec<_>>()[..] {
        [id, "blob", size] if id == blob => size.parse::<u64>().ok().filter(|size| *size <= MAX_FILE),
        _ => None,
    };
    let size = size.ok_or_else(broken)?;
    let contents = Bounded::new(output.take(size), size).all().map_err(|_| broken())?;
    if contents.len() as u64 != size || !output.fill_buf().is_ok_and(|rest| rest.starts_with(b"\n")) {
        return Err(broken());
    }
    output.consume(1);
    Ok(contents)
}

/// Runs the system's `git` and returns its output of at most `most` bytes. It never prompts, runs no commands from an
/// address, and ignores other repositories. It ends with this program and after [`TIME`].
fn run_git(tasks: &Tasks, folder: &Path, args: &[&str], input: &str, most: u64) -> Result<Vec<u8>> {
    // One thread and small files in parts, so that memory does not grow with the machine or with a blob.
    let settings = [
        "-c",
        "pack.threads=1",
        "-c",
        "core.bigFileThreshold=1m",
        "-c",
        "gc.auto=0",
        // One pack, whose size is limited, and no loose files.
        "-c",
        "fetch.unpackLimit=1",
    ];
    let words = ["git"].into_iter().chain(settings).chain(args.iter().copied());
    let words: Vec<String> = words.map(str::to_owned).collect();
    let mut line = CommandLine::new(&words, TIME);
    line.input = Input::Text(input);
    line.folder = Some(folder.to_owned());
    line.limits = GIT;
    line.env = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ALLOW_PROTOCOL", "https:http:ssh:file"),
    ]
    .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
    .into();
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
        line.env.insert(variable.to_owned(), None);
    }
    let (sender, output) = std::sync::mpsc::channel();
    let take: Take = Box::new(move |pipe| {
        let read = Bounded::new(pipe, most).all();
        let read = read.map_err(|error| match outside::is_too_large(&error) {
            true => too_much("the repository"),
            false => Fault::new(Kind::Io, format!("`git`: {error}")),
        });
        // The receiver waits for the command.
        read.map(|bytes| sender.send(bytes).unwrap_or_default())
    });
    line.take = Some(take);
    let captured = tasks.wait(run_command(line)).map_err(|fault| match fault.kind {
        Kind::Missing => fault.hint("install Git, or add a file, a folder or an https address"),
        Kind::Timeout => Fault::new(
            Kind::Timeout,
            format!("git {} did not end within {} s", args[0], TIME.as_secs()),
        )
        .hint("look at the address by hand, or add a file or a folder of it"),
        _ => fault,
    })?;
    if captured.code == Some(0) {
        return Ok(output.try_recv().unwrap_or_default());
    }
    let stderr = captured.stderr_tail(20);
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines = lines.join("; ").replace(char::is_control, " ");
    let shown: String = lines.chars().take(1000).collect();
    Err(Fault::new(Kind::Http, format!("git {}: {shown}", args[0])))
}

#[cfg(test)]
mod tests {
    use super::Git;

    #[test]
    fn a_repository_is_named_with_revision_and_path() {
        let git = |address: &str, revision: &str, path: &str| {
            Some(Git {
                address: address.into(),
                revision: revision.into(),
                path: path.into(),
            })
        };
        for (text, parsed) in [
            (
                "git+https://example.org/me/it",
                git("https://example.org/me/it", "HEAD", ""),
            ),
            (
                "git+https://example.org/me/it@v1#a/b.rhai",
                git("https://example.org/me/it", "v1", "a/b.rhai"),
            ),
            (
                "https://example.org/me/it.git@fix/one#sub/",
                git("https://example.org/me/it.git", "fix/one", "sub"),
            ),
            (
                "git@example.org:me/it.git",
                git("git@example.org:me/it.git", "HEAD", ""),
            ),
            (
                "git@example.org:me/it.git@v2",
                git("git@example.org:me/it.git", "v2", ""),
            ),
            (
                "ssh://git@example.org/me/it",
                git("ssh://git@example.org/me/it", "HEAD", ""),
            ),
            ("git+/srv/repository@v1", git("/srv/repository", "v1", "")),
            ("https://example.org/it.rhai", None),
            ("./it.rhai", None),
        ] {
            assert_eq!(Git::parse(text), parsed, "{text}");
        }
    }
}
