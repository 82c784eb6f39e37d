//! The user's permissions: `--allow`, and what the user named on the command line.
//!
//! Scripts are untrusted: whatever reaches beyond a container is checked here by name before anything starts.

mod danger;
mod grant;

pub use grant::Grant;

use std::path::{Path, PathBuf};

use url::{Host, Url};

use crate::fault::{Fault, Kind, Result};

/// Keywords of `--allow`.
const KEYWORDS: [&str; 7] = ["token", "process", "exec", "code", "image", "mount", "net"];

/// Largest file read for a script, in bytes.
const LARGEST_FILE: u64 = 256 << 20;

/// The user's permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    token: bool,
    process: bool,
    exec: bool,
    code: bool,
    images: Vec<String>,
    // Canonical folders; writable if given by `--allow mount=`.
    mounts: Vec<(PathBuf, Access)>,
    hosts: Vec<String>,
    // Whether containers have a network: Docker knows no single hosts.
    network: bool,
    // Servers and environment variables with API keys that the command line names.
    servers: Vec<String>,
    keys: Vec<String>,
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
    /// Parses the values of all `--allow` options: comma-separated lists of `token`, `process`, `exec`, `code`,
    /// `image=PREFIX`, `mount=DIR` and `net=HOST`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown keyword, a missing or unexpected value, or a folder that does not exist.
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
            ("net", Some(host)) => {
                self.hosts.push(host.to_ascii_lowercase());
                self.network = true;
            }
            ("mount", Some(folder)) => {
                let folder = canonical(Path::new(folder)).map_err(|fault| fault.while_doing("`--allow mount`"))?;
                self.mounts.push((folder, Access::Write));
            }
            ("image" | "mount" | "net", None) => {
                return Err(
                    Fault::usage(format!("`--allow {name}` needs a value")).hint(format!("write `--allow {name}=…`"))
                );
            }
            (known, Some(_)) if KEYWORDS.contains(&known) => {
                return Err(Fault::usage(format!("`--allow {known}` takes no value")));
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// Allows attaching to a container named on the command line.
    pub fn name_container(&mut self, name: &str) {
        self.containers.push(name.to_owned());
    }

    /// Allows the host of a URL named on the command line.
    pub fn name_url(&mut self, url: &Url) {
        self.hosts.extend(url.host().map(|host| address(&host, url.port())));
        self.servers.extend(server(url));
    }

    /// Allows giving a server the API key in an environment variable named on the command line.
    pub fn name_key(&mut self, variable: &str) {
        self.keys.push(variable.to_owned());
    }

    /// Whether the API key in this environment variable may be given to a server: the command line names both, or the
    /// user allowed tokens. `OPENAI_API_KEY` need not be named.
    #[must_use]
    pub fn gives_key(&self, url: &Url, variable: &str) -> bool {
        let named = server(url).is_some_and(|server| self.servers.contains(&server));
        self.token || (named && (variable == super::attach::API_KEY || self.keys.iter().any(|key| key == variable)))
    }

    /// Whether an address is this machine's own.
    #[must_use]
    pub fn is_loopback(url: &Url) -> bool {
        match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
            None => false,
        }
    }

    /// Allows reading a model named on the command line: its folder, or the folder of the given file, since a model
    /// has many files. False if there is no such folder.
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

    /// Allows reading a single file named on the command line. False if there is no such file.
    pub fn name_file(&mut self, file: &Path) -> bool {
        let found = canonical(file).ok().filter(|file| file.is_file());
        self.files.extend(found.iter().cloned());
        found.is_some()
    }

    /// Checks an address: loopback, or allowed or named by the user.
    pub fn check_url(&self, url: &Url) -> Result<()> {
        let Some(host) = url.host() else {
            return Err(Fault::usage(format!("`{}` names no host", super::redact::url(url))));
        };
        let bare = address(&host, None);
        if Self::is_loopback(url)
            || self.hosts.contains(&bare)
            || self.hosts.contains(&address(&host, url.port_or_known_default()))
        {
            return Ok(());
        }
        Err(Fault::not_allowed(
            format!("the address `{bare}` is not this machine's own"),
            format!("allow it with `--allow net={bare}`"),
        ))
    }

    /// Checks attaching to a container that this run did not start: its log, environment and addresses are read.
    pub fn check_attach(&self, container: &str) -> Result<()> {
        if self.exec || self.containers.iter().any(|name| name == container) {
            return Ok(());
        }
        Err(Fault::not_allowed(
            format!("the container `{container}` was not started by this run, nor named on the command line"),
            format!("name it with `--set container={container}`, or allow it with `--allow exec`"),
        ))
    }

    /// Checks running commands in, or copying files from or to, a container that this run did not start.
    pub fn check_exec(&self, container: &str) -> Result<()> {
        if self.exec {
            return Ok(());
        }
        Err(Fault::not_allowed(
            format!("`exec` in the container `{container}`, which this run did not start"),
            "allow it with `--allow exec`",
        ))
    }

    /// Checks running a script's code, or setting its environment, in an engine's container, which may have the token
    /// and the model cache.
    pub fn check_program(&self, what: &str) -> Result<()> {
        if self.exec {
            return Ok(());
        }
        Err(Fault::not_allowed(
            format!("{what}, which the script brings, would run in the container of an engine"),
            "allow it with `--allow exec`",
        ))
    }

    /// Checks whether native processes may be started.
    pub fn check_process(&self) -> Result<()> {
        if self.process {
            return Ok(());
        }
        Err(Fault::not_allowed(
            "native processes are not allowed",
            "allow them with `--allow process`, or use the docker runtime",
        ))
    }

    /// Canonical path of a host file or folder that a script may read.
    pub fn check_read(&self, path: &Path) -> Result<PathBuf> {
        self.check_path(path, Access::Read)
    }

    /// Canonical path of a file that a script may read: a trace, prompts, results of another tool. `option` is the
    /// parameter by which a user would name it.
    ///
    /// # Errors
    ///
    /// `usage` if it does not exist; `not_allowed` unless the user named it on the command line in any parameter, or
    /// allowed its folder.
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

    /// Text of a file that [`Permits::check_file`] allows, up to 256 MiB of UTF-8.
    ///
    /// # Errors
    ///
    /// As above; `limit` for a larger file; `usage` if it is not text.
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

    /// Resolves a model or tokenizer named by a script. A path that exists, relative to the script's folder `home` or
    /// the current folder, must lie below `home` or in an allowed folder, and is returned canonically. Any other name
    /// is a hub id.
    ///
    /// # Errors
    ///
    /// `not_allowed`, with the `--allow` needed.
    pub fn check_model(&self, name: &str, home: &Path) -> Result<String> {
        // A script in the current folder has an empty folder path.
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
        let allows_access = |(_, allowed): &&(PathBuf, Access)| access == Access::Read || *allowed == Access::Write;
        if self
            .mounts
            .iter()
            .filter(allows_access)
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

/// Host and port of a server.
fn server(url: &Url) -> Option<String> {
    Some(address(&url.host()?, url.port_or_known_default()))
}

/// `host` or `host:port`, as in `--allow net=`.
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
    let nearest = KEYWORDS
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
