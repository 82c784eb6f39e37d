//! What the user allowed: `--allow`, and the things that the user named on the command line.
//!
//! A script is a stranger's code: whatever reaches beyond its container is asked here first, by name, before anything starts.

mod danger;
mod grant;

pub use grant::Grant;

use std::path::{Path, PathBuf};

use url::{Host, Url};

use crate::fault::{Fault, Kind, Result};

/// The words that `--allow` knows, as its help shows them.
const WORDS: [&str; 7] = ["token", "process", "exec", "code", "image", "mount", "net"];

/// The largest file that is read for a script, in bytes.
const LARGEST_FILE: u64 = 256 << 20;

/// What the user allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    token: bool,
    process: bool,
    exec: bool,
    code: bool,
    images: Vec<String>,
    // Canonical folders; writable where `--allow mount=` named them.
    mounts: Vec<(PathBuf, Access)>,
    hosts: Vec<String>,
    containers: Vec<String>,
    // Canonical files.
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Permits {
    /// The values of every `--allow`: each a comma-separated list of `token`, `process`, `exec`, `code`, `image=PREFIX`,
    /// `mount=DIR` and `net=HOST`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown word, a word without the value it needs or with one it does not take, and a folder that is not there.
    pub fn parse<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut permits = Self::default();
        for value in values {
            for word in value.as_ref().split(',').map(str::trim).filter(|word| !word.is_empty()) {
                permits.add(word)?;
            }
        }
        Ok(permits)
    }

    fn add(&mut self, word: &str) -> Result<()> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value).filter(|value| !value.is_empty())),
            None => (word, None),
        };
        match (name, value) {
            ("token", None) if name == word => self.token = true,
            ("process", None) if name == word => self.process = true,
            ("exec", None) if name == word => self.exec = true,
            ("code", None) if name == word => self.code = true,
            ("image", Some(prefix)) => self.images.push(prefix.to_owned()),
            ("net", Some(host)) => self.hosts.push(host.to_ascii_lowercase()),
            ("mount", Some(folder)) => {
                let folder = canonical(Path::new(folder)).map_err(|fault| fault.while_doing("`--allow mount`"))?;
                self.mounts.push((folder, Access::Write));
            }
            ("image" | "mount" | "net", None) => {
                return Err(
                    Fault::usage(format!("`--allow {name}` needs a value")).hint(format!("write `--allow {name}=…`"))
                );
            }
            (known, Some(_)) if WORDS.contains(&known) => {
                return Err(Fault::usage(format!("`--allow {known}` takes no value")));
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// Counts a container named on the command line as allowed for attaching.
    pub fn name_container(&mut self, name: &str) {
        self.containers.push(name.to_owned());
    }

    /// Counts the host of a URL named on the command line as allowed.
    pub fn name_url(&mut self, url: &Url) {
        self.hosts.extend(url.host().map(|host| address(&host, url.port())));
    }

    /// Counts a model named on the command line, a folder or a file in one, as allowed for reading with all that lies beside it: a
    /// model has many files. False when there is no such folder.
    pub fn name_model(&mut self, model: &Path) -> bool {
        let Ok(mut folder) = canonical(model) else {
            return false;
        };
        if folder.is_file() {
            folder.pop();
        }
        self.mounts.push((folder, Access::Read));
        true
    }

    /// Counts a file named on the command line as allowed for reading, alone. False when there is no such file.
    pub fn name_file(&mut self, file: &Path) -> bool {
        let found = canonical(file).ok().filter(|file| file.is_file());
        self.files.extend(found.iter().cloned());
        found.is_some()
    }

    /// Whether requests may go to this address: loopback, or what the user allowed or named.
    pub fn check_url(&self, url: &Url) -> Result<()> {
        let Some(host) = url.host() else {
            return Err(Fault::usage(format!("`{}` names no host", super::redact::url(url))));
        };
        let loopback = match &host {
            Host::Domain(name) => *name == "localhost",
            Host::Ipv4(ip) => ip.is_loopback(),
            Host::Ipv6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
        };
        let bare = address(&host, None);
        if loopback || self.hosts.contains(&bare) || self.hosts.contains(&address(&host, url.port_or_known_default())) {
            return Ok(());
        }
        Err(Fault::not_allowed(
            format!("the address `{bare}` is not this machine's own"),
            format!("allow it with `--allow net={bare}`"),
        ))
    }

    /// Whether a container that this run did not start may be attached to: its log, its environment and its addresses are read.
    pub fn check_attach(&self, container: &str) -> Result<()> {
        if self.exec || self.containers.iter().any(|name| name == container) {
            return Ok(());
        }
        Err(Fault::not_allowed(
            format!("the container `{container}` was not started by this run, nor named on the command line"),
            format!("name it with `--set container={container}`, or allow it with `--allow exec`"),
        ))
    }

    /// Whether commands may run in a container that this run did not start, and files be copied out of it or into it.
    pub fn check_exec(&self, container: &str) -> Result<()> {
        if self.exec {
            return Ok(());
        }
        Err(Fault::not_allowed(
            format!("`exec` in the container `{container}`, which this run did not start"),
            "allow it with `--allow exec`",
        ))
    }

    /// Whether code or environment that a script brings may run in the container of an engine, which may have the token and the model cache.
    pub fn check_program(&self, what: &str) -> Result<()> {
        if self.exec {
            return Ok(());
        }
        Err(Fault::not_allowed(
            format!("{what}, which the script brings, in the container of an engine"),
            "allow it with `--allow exec`",
        ))
    }

    /// Whether native processes may be started.
    pub fn check_process(&self) -> Result<()> {
        if self.process {
            return Ok(());
        }
        Err(Fault::not_allowed(
            "native processes are not allowed",
            "allow them with `--allow process`, or use the docker runtime",
        ))
    }

    /// The real path of a file or folder of the host that a script may read.
    pub fn check_read(&self, path: &Path) -> Result<PathBuf> {
        self.check_path(path, Access::Read)
    }

    /// The real path of a file that a script names and may read: a trace, prompts, results of another tool. `option` is the parameter by which
    /// a user would name it.
    ///
    /// # Errors
    ///
    /// `usage` when it is not there; `not_allowed`, unless the user named it on the command line, in whatever parameter, or allowed its folder.
    pub fn check_file(&self, file: &Path, option: &str) -> Result<PathBuf> {
        let real = canonical(file)?;
        if self.files.contains(&real) {
            return Ok(real);
        }
        self.check_read(&real).map_err(|fault| {
            let folder = real.parent().unwrap_or(&real).display();
            fault.hint(format!(
                "name it on the command line with `--set {option}={}`, or allow its folder with `--allow mount={folder}`",
                file.display()
            ))
        })
    }

    /// The text of a file that [`Permits::check_file`] allows, up to 256 MiB of UTF-8.
    ///
    /// # Errors
    ///
    /// As there; `limit` for a larger file; `usage` for one that is not text.
    pub fn read_file(&self, file: &Path, option: &str) -> Result<String> {
        let real = self.check_file(file, option)?;
        let size = std::fs::metadata(&real)
            .map_err(|error| Fault::io(&real, &error))?
            .len();
        if size > LARGEST_FILE {
            return Err(
                Fault::new(Kind::Limit, format!("`{}` has {} MiB", file.display(), size >> 20)).hint(format!(
                    "at most {} MiB are read: give a part of it",
                    LARGEST_FILE >> 20
                )),
            );
        }
        let bytes = std::fs::read(&real).map_err(|error| Fault::io(&real, &error))?;
        String::from_utf8(bytes)
            .map_err(|_| Fault::usage(format!("`{}` is not text", file.display())).hint("give a file of UTF-8 text"))
    }

    /// A model or tokenizer as a script names it. What is there, beside the script in `home` or where the program was started, must lie
    /// below `home` or where the user allowed reading, and is given by its real path; any other name is left to the hub.
    ///
    /// # Errors
    ///
    /// `not_allowed`, with the `--allow` that it needs.
    pub fn check_model(&self, name: &str, home: &Path) -> Result<String> {
        // A script in the current folder has a folder without a name.
        let home = Path::new(".").join(home);
        let Some(real) = [home.join(name), PathBuf::from(name)]
            .iter()
            .find_map(|path| path.canonicalize().ok())
        else {
            return Ok(name.to_owned());
        };
        if !canonical(&home).is_ok_and(|home| real.starts_with(home)) {
            self.check_read(&real)?;
        }
        Ok(real.display().to_string())
    }

    fn check_path(&self, path: &Path, access: Access) -> Result<PathBuf> {
        let real = canonical(path)?;
        let wide_enough = |(_, allowed): &&(PathBuf, Access)| access == Access::Read || *allowed == Access::Write;
        if self
            .mounts
            .iter()
            .filter(wide_enough)
            .any(|(folder, _)| real.starts_with(folder))
        {
            return Ok(real);
        }
        let how = match access {
            Access::Read => "reading",
            Access::Write => "writing to",
        };
        Err(Fault::not_allowed(
            format!("{how} `{}` is not allowed", real.display()),
            format!("allow it with `--allow mount={}`", real.display()),
        ))
    }
}

/// `host` or `host:port`, as `--allow net=` writes them.
fn address(host: &Host<impl AsRef<str> + std::fmt::Display>, port: Option<u16>) -> String {
    match port {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    }
}

fn canonical(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).map_err(|error| Fault::usage(format!("`{}`: {error}", path.display())))
}

fn unknown(word: &str) -> Fault {
    let nearest = WORDS
        .iter()
        .map(|known| (strsim::damerau_levenshtein(word, known), known))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    let fault = Fault::usage(format!("`--allow` does not know `{word}`"));
    match nearest {
        Some((_, known)) => fault.hint(format!("did you mean `{known}`?")),
        None => fault.hint("known: token, process, exec, code, image=PREFIX, mount=DIR, net=HOST"),
    }
}

#[cfg(test)]
mod tests;
