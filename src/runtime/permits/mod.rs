//! The user's permissions: `--allow`, values named on the command line, and answers to the prompt.
//!
//! Scripts are untrusted: access to anything outside the script is denied unless it is allowed. A missing permission is
//! a [`Want`].

mod grant;
mod want;

pub use grant::{Grant, Origin};
pub use want::Want;

use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use nix::unistd::{AccessFlags, access};
use url::{Host, Url};

use super::address::{API_KEY, server_url};
use crate::fault::{Fault, Kind, Result};
use crate::run::hide_url;
use crate::runtime::Mount;
use crate::task::lock;
use crate::{file, http};

/// Keywords of `--allow`: those with a value, and those without.
const WITH_VALUE: [&str; 5] = ["command", "image", "mount", "net", "port"];
const PLAIN: [&str; 5] = ["token", "process", "exec", "code", "entrypoint"];

/// Largest file read for a script, in bytes.
const LARGEST_FILE: u64 = 256 << 20;

/// The user's permissions. Clones share the answers to the prompt, and the ports that the run opened.
#[derive(Clone, Debug, Default)]
pub struct Permits {
    /// The words of `--allow`.
    given: Vec<String>,
    allowed: Allowed,
    /// Values on the command line of a shipped script; `None` for any other script.
    named: Option<Named>,
    /// Whether they are those of a fleet's job, for which nobody names anything on the command line.
    of_job: bool,
    shared: Arc<Shared>,
}

/// Permissions given with `--allow` or by an answer to the prompt.
#[derive(Clone, Debug, Default)]
struct Allowed {
    token: bool,
    process: bool,
    exec: bool,
    code: bool,
    entrypoint: bool,
    images: Vec<String>,
    // Canonical paths with read and write access.
    mounts: Vec<PathBuf>,
    hosts: Vec<String>,
    ports: Vec<u16>,
    commands: Vec<String>,
}

/// Values named on the command line.
#[derive(Clone, Debug, Default)]
struct Named {
    // Host and port.
    servers: Vec<String>,
    // Environment variables with API keys.
    keys: Vec<String>,
    containers: Vec<String>,
    // Images and programs.
    starts: Vec<String>,
    // Canonical paths of files, and of the folders of models and mounts.
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    // Files that a shipped script may write.
    outputs: Vec<String>,
    /// Whether the user types the script (the REPL). Ports of this machine and images in it then count as named by the
    /// user.
    typed: bool,
}

#[derive(Default)]
struct Shared {
    /// Return the base URL of a service that this run started, while it runs.
    started: Mutex<Vec<Box<RunningUrl>>>,
    /// Host and port of containers that may be attached to.
    containers: Mutex<Vec<String>>,
    /// Whether the user's or a shipped script has loaded a file. From then on, not all code is typed or shipped.
    has_files: AtomicBool,
    /// Files that a shipped script may write, resolved.
    outputs: Mutex<Vec<PathBuf>>,
    wants: Mutex<Vec<Want>>,
    /// Permissions from answers to the prompt, and their words.
    allowed: Mutex<Allowed>,
    answered: Mutex<Vec<String>>,
    ask: OnceLock<Box<Ask>>,
}

/// The base URL of a service while it runs.
type RunningUrl = dyn Fn() -> Option<String> + Send + Sync;

/// The user's answer to wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Not allowed.
    No,
    /// Allowed for this request only. An answer "always" is remembered for the texts loaded by then, and looked up
    /// again at the next request.
    Now,
    /// Allowed until the run ends.
    Run,
}

/// Asks the user for all of these permissions together.
type Ask = dyn Fn(&[Want]) -> Result<Consent> + Send + Sync;

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Allowed {
    /// Adds a comma-separated list of words. `\,` is a comma within a word.
    fn add(&mut self, words: &str) -> Result<()> {
        let words = words.replace(r"\,", "\0");
        let mut words = words.split(',').map(|word| word.trim().replace('\0', ","));
        words.try_for_each(|word| if word.is_empty() { Ok(()) } else { self.add_word(&word) })
    }

    fn add_word(&mut self, word: &str) -> Result<()> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value).filter(|value| !value.is_empty())),
            None => (word, None),
        };
        match (name, value) {
            ("token", None) if name == word => self.token = true,
            ("process", None) if name == word => self.process = true,
            ("exec", None) if name == word => self.exec = true,
            ("code", None) if name == word => self.code = true,
            ("entrypoint", None) if name == word => self.entrypoint = true,
            ("command", Some(name)) => self.commands.push(name.to_owned()),
            ("image", Some(prefix)) => self.images.push(prefix.to_owned()),
            ("net", Some(host))
                if !host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte)) =>
            {
                return Err(Fault::usage(format!("`--allow net={host}`: that is no host"))
                    .hint("give the name or the address of one host, without `*`"));
            }
            ("net", Some(host)) => self.hosts.push(host.to_ascii_lowercase()),
            ("port", Some(port)) => self.ports.push(port.parse().map_err(|_| {
                Fault::usage(format!("`--allow port={port}`: that is no port")).hint("give a number from 0 to 65535")
            })?),
            ("mount", Some(folder)) => {
                let folder = canonical(Path::new(folder)).map_err(|fault| fault.while_doing("`--allow mount`"))?;
                self.mounts.push(folder);
            }
            (name, None) if WITH_VALUE.contains(&name) => {
                return Err(
                    Fault::usage(format!("`--allow {name}` needs a value")).hint(format!("write `--allow {name}=…`"))
                );
            }
            (name, Some(_)) if PLAIN.contains(&name) => {
                return Err(Fault::usage(format!("`--allow {name}` takes no value")));
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

impl Permits {
    /// Parses the values of all `--allow` options: comma-separated lists of `token`, `process`, `exec`, `code`,
    /// `entrypoint`, `image=PREFIX`, `mount=PATH`, `net=HOST[:PORT]`, `port=N` and `command=NAME`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown keyword, a missing or unexpected value, or a folder that does not exist.
    pub fn parse<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut permits = Self::default();
        for value in values {
            permits.allowed.add(value.as_ref())?;
            permits.given.push(value.as_ref().to_owned());
        }
        Ok(permits)
    }

    /// Allows the values of command-line parameters of a shipped script: addresses, containers, images, programs, model
    /// folders, and files. With `typed`, the user types the script, so ports of this machine and images that it names
    /// are allowed too. `is_results` says which folders are read like a file, besides those of runs.
    pub fn name<'a>(
        &mut self,
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
        typed: bool,
        is_results: impl Fn(&Path) -> bool,
    ) {
        let named = self.named.get_or_insert_default();
        named.typed = typed;
        for (parameter, text) in parameters {
            named.add(parameter, text, &is_results);
        }
    }

    /// The permissions of a fleet's job, or of another attempt whose command line a scheduler wrote.
    #[must_use]
    pub fn for_job(self) -> Self {
        Self { of_job: true, ..self }
    }

    /// The permissions for code that is not the user's: without the values named on the command line.
    pub fn for_foreign_code(&self) -> Self {
        Self {
            named: None,
            ..self.clone()
        }
    }

    /// Sets the function that asks for missing permissions. Later calls have no effect; without it, nobody is asked.
    pub fn ask_with(&self, ask: impl Fn(&[Want]) -> Result<Consent> + Send + Sync + 'static) {
        // There is only one prompt.
        let _ = self.shared.ask.set(Box::new(ask));
    }

    /// All permissions requested so far, allowed or not, in the order of the first request.
    pub fn wants(&self) -> Vec<Want> {
        lock(&self.shared.wants).clone()
    }

    /// The permissions given at the prompt, as words of `--allow`.
    pub fn answered(&self) -> Vec<String> {
        lock(&self.shared.answered).clone()
    }

    /// All permissions as arguments of `--allow`, for processes that do a part of the run.
    pub fn arguments(&self) -> Vec<String> {
        self.given.iter().cloned().chain(self.answered()).collect()
    }

    /// Allows connecting to a service that this run started, while it runs: as long as `url` returns its base URL.
    /// Afterwards its port may belong to another program.
    pub(super) fn open_port(&self, url: impl Fn() -> Option<String> + Send + Sync + 'static) {
        lock(&self.shared.started).push(Box::new(url));
    }

    /// Whether a running service of this run has this address.
    fn serves(&self, url: &Url) -> bool {
        let started = lock(&self.shared.started);
        let mut bases = started.iter().filter_map(|url| Url::parse(&url()?).ok());
        own_address(url).is_some_and(|address| bases.any(|base| own_address(&base).as_ref() == Some(&address)))
    }

    /// Records that a file was loaded. From then on, the code is no longer only typed by the user or shipped.
    pub fn load_file(&self) {
        if self.named.is_some() {
            self.shared.has_files.store(true, Ordering::Relaxed);
        }
    }

    /// The values named on the command line, as long as only the user or a shipped script can use them.
    fn named(&self) -> Option<&Named> {
        let named = self.named.as_ref();
        named.filter(|named| named.typed || !self.shared.has_files.load(Ordering::Relaxed))
    }

    /// The remedy to name something by an option of the script, where that would allow it.
    fn naming(&self, option: &str) -> Option<String> {
        let named = self.named().filter(|_| !self.of_job);
        named.map(|_| format!("name it with `--{option}`"))
    }

    fn is_typed(&self) -> bool {
        self.names(|named| named.typed) && !self.shared.has_files.load(Ordering::Relaxed)
    }

    /// Whether `--allow` or an answer allows it.
    fn allows(&self, test: impl Fn(&Allowed) -> bool) -> bool {
        test(&self.allowed) || test(&lock(&self.shared.allowed))
    }

    fn names(&self, test: impl Fn(&Named) -> bool) -> bool {
        self.named().is_some_and(test)
    }

    /// Asks once for all missing permissions.
    ///
    /// # Errors
    ///
    /// `not_allowed`, with the `--allow` that grants all of them; `interrupted`.
    fn settle(&self, wants: Vec<Want>) -> Result<()> {
        let missing: Vec<Want> = wants.iter().filter(|want| !want.allowed).cloned().collect();
        let mut consent = Consent::No;
        if let Some(ask) = self.shared.ask.get()
            && !missing.is_empty()
        {
            consent = ask(&missing)?;
        }
        for mut want in wants {
            if consent != Consent::No && !want.allowed {
                want.allowed = true;
                if consent == Consent::Run {
                    lock(&self.shared.allowed).add(&want.allow)?;
                }
                let mut answered = lock(&self.shared.answered);
                if !answered.contains(&want.allow) {
                    answered.push(want.allow.clone());
                }
            }
            let mut known = lock(&self.shared.wants);
            match known.iter_mut().find(|known| known.allow == want.allow) {
                Some(known) => known.allowed = want.allowed,
                None => known.push(want),
            }
        }
        if missing.is_empty() || consent != Consent::No {
            return Ok(());
        }
        Err(want::refusal(&missing))
    }

    /// Whether a server may get the API key in this environment variable: the command line names both, or the user
    /// allowed tokens. `OPENAI_API_KEY` need not be named.
    pub fn gives_key(&self, url: &Url, variable: &str) -> bool {
        let server = server(url).unwrap_or_default();
        self.gives_key_to(variable, |named| {
            named.servers.contains(&server) || self.is_container(&server)
        })
    }

    /// Like [`Permits::gives_key`], for a server in a container.
    pub fn gives_container_key(&self, container: &str, variable: &str) -> bool {
        self.gives_key_to(variable, |named| named.containers.iter().any(|name| name == container))
    }

    fn gives_key_to(&self, variable: &str, is_named: impl Fn(&Named) -> bool) -> bool {
        let key = |named: &Named| variable == API_KEY || named.keys.iter().any(|key| key == variable);
        self.gives_tokens() || self.names(|named| key(named) && is_named(named))
    }

    /// Allows connecting to a container that the script may attach to.
    pub(super) fn open_container(&self, base_url: &str) {
        let server = server_url(base_url).ok().as_ref().and_then(server);
        lock(&self.shared.containers).extend(server);
    }

    /// Whether this is the address of a container that may be attached to.
    pub(super) fn is_of_container(&self, url: &Url) -> bool {
        server(url).is_some_and(|server| self.is_container(&server))
    }

    fn is_container(&self, server: &str) -> bool {
        lock(&self.shared.containers).iter().any(|known| known == server)
    }

    /// Whether the user allowed tokens.
    pub fn gives_tokens(&self) -> bool {
        self.allows(|allowed| allowed.token)
    }

    /// Checks an address: it belongs to a service of this run, or the user allowed or named it.
    pub fn check_url(&self, url: &Url) -> Result<()> {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Fault::usage(format!("`{}` names no host", hide_url(url))));
        };
        let (bare, server) = (address(&host, None), address(&host, Some(port)));
        let own = http::is_loopback(url);
        let named = self.names(|named| named.servers.contains(&server));
        if self.serves(url) || self.is_container(&server) || named || (own && self.is_typed()) {
            return Ok(());
        }
        let listed = |allowed: &Allowed| {
            let host = allowed.hosts.iter().any(|host| *host == bare || *host == server);
            host || (own && allowed.ports.contains(&port))
        };
        let want = if own {
            Want::new(
                format!("port={port}"),
                format!("connect to `{server}`, which this run did not start"),
            )
        } else {
            Want::new(
                format!("net={server}"),
                format!("connect to `{server}`, which is not on this machine"),
            )
        };
        let remedy = self.naming(&format!("url {server}"));
        self.settle(vec![want.or(remedy).allowed(self.allows(listed))])?;
        if let Host::Domain(name) = host
            && !own
        {
            http::keep_elsewhere(name);
        }
        Ok(())
    }

    /// Checks attaching to a container that this run did not start, which reads its log, environment and addresses.
    pub fn check_attach(&self, container: &str) -> Result<()> {
        if self.names(|named| named.containers.iter().any(|name| name == container)) {
            return Ok(());
        }
        let want = Want::new(
            "exec",
            format!("attach to the container `{container}`, which this run did not start"),
        );
        let remedy = self.naming(&format!("container {container}"));
        self.settle(vec![want.or(remedy).allowed(self.allows(|allowed| allowed.exec))])
    }

    /// Checks running a program in a container that this run did not start.
    pub fn check_exec(&self, container: &str) -> Result<()> {
        self.settle(vec![self.exec_want(container)])
    }

    fn exec_want(&self, container: &str) -> Want {
        let what = format!("run a program in the container `{container}`, which this run did not start");
        Want::new("exec", what).allowed(self.allows(|allowed| allowed.exec))
    }

    /// Checks running a script's code, or setting its environment, in an engine's container, which may have the token
    /// and the model cache.
    pub fn check_program(&self, what: &str) -> Result<()> {
        self.require_exec(format!(
            "run {what}, which the script brings, in the container of an engine"
        ))
    }

    fn require_exec(&self, what: String) -> Result<()> {
        let allowed = self.allows(|allowed| allowed.exec);
        self.settle(vec![Want::new("exec", what).allowed(allowed)])
    }

    /// Checks running a command of this machine, by the name that the script gives.
    pub fn check_command(&self, name: &str) -> Result<()> {
        let want = Want::new(
            format!("command={name}"),
            format!("run the command `{name}`, which can do all that you can"),
        );
        let listed = |allowed: &Allowed| allowed.commands.iter().any(|known| known == name);
        self.settle(vec![want.allowed(self.allows(listed))])
    }

    /// Checks whether native processes may be started.
    pub fn check_process(&self) -> Result<()> {
        self.settle(vec![self.process_want()])
    }

    /// Checks starting jobs. Shipped scripts and scripts that the user types may; others need the permission to start
    /// processes.
    pub fn check_jobs(&self) -> Result<()> {
        match self.named() {
            Some(_) => Ok(()),
            None => self.check_process(),
        }
    }

    fn process_want(&self) -> Want {
        let want = Want::new("process", "start native processes, which can do all that you can");
        let remedy = Some("use the runtime `docker`".to_owned());
        want.or(remedy).allowed(self.allows(|allowed| allowed.process))
    }

    /// Returns the canonical path of a host file or folder after checking that the script may read it.
    pub fn check_read(&self, path: &Path) -> Result<PathBuf> {
        let real = canonical(path)?;
        self.settle(self.path_want(&real, Access::Read).into_iter().collect())?;
        Ok(real)
    }

    /// Returns the canonical path of a file after checking that the script may read it: a trace, prompts, results of
    /// another tool. `option` is the parameter that a user would name it with.
    ///
    /// # Errors
    ///
    /// `usage` if it does not exist; `not_allowed` unless the user allowed it, or named it on the command line in any
    /// parameter of a shipped script.
    pub fn check_file(&self, file: &Path, option: &str) -> Result<PathBuf> {
        let real = canonical(file)?;
        if self.names(|named| named.files.contains(&real)) {
            return Ok(real);
        }
        // A folder that is not a run's is not read like a file, whoever names it.
        let name = real.is_file().then(|| format!("{option} {}", file.display()));
        let remedy = name.and_then(|name| self.naming(&name));
        let want = self.path_want(&real, Access::Read).map(|want| want.or(remedy));
        self.settle(want.into_iter().collect())?;
        Ok(real)
    }

    /// As [`Permits::check_output`], for a file that the script calls `named` and that was resolved to `absolute`. If the
    /// command line names it, the script may then write it under its real path.
    ///
    /// # Errors
    ///
    /// The errors of [`Permits::check_output`].
    pub fn check_named_output(&self, named: &str, absolute: &str) -> Result<PathBuf> {
        if self.names(|all| all.outputs.iter().any(|one| one == named)) {
            let (_, real) = real_output(absolute)?;
            lock(&self.shared.outputs).push(real);
        }
        self.check_output(absolute)
    }

    /// Returns the real path of a file, which need not exist, after checking that the script may write it.
    ///
    /// # Errors
    ///
    /// `usage` for a path that is no name of a file; `not_allowed` unless the user named it on the command line, as
    /// `output` of a shipped script, or allowed its folder; `io` if the folder cannot be written to.
    pub fn check_output(&self, file: &str) -> Result<PathBuf> {
        let (existing, real) = real_output(file)?;
        let is_named = self.names(|named| named.outputs.iter().any(|named| named == file));
        if !is_named && !lock(&self.shared.outputs).contains(&real) {
            let listed = |allowed: &Allowed| allowed.mounts.iter().any(|folder| real.starts_with(folder));
            // A file that does not exist cannot be allowed, but its folder can.
            let want = Want::new(
                format!("mount={}", existing.display()),
                format!("write to `{}`", real.display()),
            );
            self.settle(vec![want.allowed(self.allows(listed))])?;
        }
        // A file is replaced, which its folder must allow too.
        let folder = real.parent().filter(|_| existing == real);
        for path in [Some(existing.as_path()), folder].into_iter().flatten() {
            access(path, AccessFlags::W_OK).map_err(|error| {
                Fault::io(path, &error.into()).hint("choose another place, or change who may write there")
            })?;
        }
        Ok(real)
    }

    /// Text of a file that [`Permits::check_file`] allows, up to 256 MiB of UTF-8.
    ///
    /// # Errors
    ///
    /// The errors of [`Permits::check_file`]; `limit` for a larger file; `usage` if it is not text.
    pub fn read_file(&self, file: &Path, option: &str) -> Result<String> {
        if file.is_dir() {
            return Err(Fault::usage(format!("`{}` is a folder", file.display())).hint("give the path of a file"));
        }
        let real = self.check_file(file, option)?;
        let opened = file::open(&real)?;
        // A container with write access could have replaced it by a link in the meantime.
        let now = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        if !now.is_ok_and(|now| now == real) {
            return Err(Fault::new(
                Kind::Io,
                format!("`{}` was replaced while it was opened", file.display()),
            ));
        }
        let read = file::read_opened(opened, &real, LARGEST_FILE).map_err(|fault| match fault.kind {
            Kind::Limit => fault.hint("give a part of it"),
            _ => fault,
        });
        String::from_utf8(read?)
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

    /// The permission to use a canonical path; `None` if the command line names it for reading, so that none is needed.
    fn path_want(&self, real: &Path, access: Access) -> Option<Want> {
        let below = |folder: &PathBuf| real.starts_with(folder);
        if access == Access::Read && self.names(|named| named.folders.iter().any(below)) {
            return None;
        }
        let how = match access {
            Access::Read => "read",
            Access::Write => "write to",
        };
        let allowed = self.allows(|allowed| allowed.mounts.iter().any(&below));
        let want = Want::new(
            format!("mount={}", real.display()),
            format!("{how} `{}`", real.display()),
        );
        Some(want.allowed(allowed))
    }
}

impl Named {
    /// Adds the files, models or addresses in a parameter's value. Missing files are reported when the script uses
    /// them.
    fn add(&mut self, parameter: &str, text: &str, is_results: impl Fn(&Path) -> bool) {
        let real = canonical(Path::new(text));
        // A run is a folder.
        let is_named = |file: &&PathBuf| file.is_file() || file.join("manifest.json").is_file() || is_results(file);
        self.files.extend(real.iter().filter(is_named).cloned());
        match parameter.rsplit('.').next().unwrap_or(parameter) {
            "url" => self.servers.extend(server_url(text).ok().as_ref().and_then(server)),
            "api_key_env" => self.keys.push(text.to_owned()),
            "container" => self.containers.push(text.to_owned()),
            "image" | "program" => self.starts.push(text.to_owned()),
            // In most scripts it is a number of tokens, and then no script writes a file of that name.
            "output" => self.outputs.push(text.to_owned()),
            "mounts" => {
                let whole = Mount::from_str(text).map(|mount| vec![mount]);
                let several = || text.split(',').filter_map(|one| one.trim().parse().ok()).collect();
                let mounts: Vec<Mount> = whole.unwrap_or_else(|_| several());
                self.folders
                    .extend(mounts.iter().filter_map(|mount| canonical(Path::new(&mount.host)).ok()));
            }
            // A model has many files, so its folder is added. A name that is not a path is a model of the hub.
            "model" | "models" | "tokenizer" => self.folders.extend(real.ok().map(|mut model| {
                if model.is_file() {
                    model.pop();
                }
                model
            })),
            _ => {}
        }
    }
}

/// Host and port of a server.
fn server(url: &Url) -> Option<String> {
    Some(address(&url.host()?, url.port_or_known_default()))
}

/// Host and port of a server, with `localhost` for every spelling of this machine's own address.
fn own_address(url: &Url) -> Option<String> {
    if http::is_loopback(url) {
        Some(format!("localhost:{}", url.port_or_known_default()?))
    } else {
        server(url)
    }
}

/// `host` or `host:port`, as in `--allow net=`.
fn address(host: &Host<impl AsRef<str> + std::fmt::Display>, port: Option<u16>) -> String {
    match port {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    }
}

/// The real path of a file, which need not exist, and the part of it that exists: the file itself, or a folder.
fn real_output(file: &str) -> Result<(PathBuf, PathBuf)> {
    let wrong = |what: String| Fault::usage(format!("`{file}`: {what}"));
    let path = std::path::absolute(file).map_err(|error| wrong(error.to_string()))?;
    if path.file_name().is_none() || file.ends_with('/') {
        return Err(wrong("it is no name of a file".to_owned()));
    }
    for part in path.ancestors() {
        let Ok(existing) = part.canonicalize() else {
            if part.is_symlink() {
                return Err(wrong(format!("`{}` is a link to nothing", part.display())));
            }
            continue;
        };
        let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
        if rest.components().any(|part| part == Component::ParentDir) {
            return Err(
                wrong("it has `..` below a folder that does not exist".to_owned()).hint("name the folder itself")
            );
        }
        let is_file = rest.as_os_str().is_empty();
        return match (is_file, existing.is_dir()) {
            (true, true) => Err(wrong("it is a folder".to_owned()).hint("name a file in it")),
            (true, false) if existing.is_file() => Ok((existing.clone(), existing)),
            (true, false) => Err(wrong("it is no regular file".to_owned())),
            (false, true) => {
                let real = existing.join(rest);
                Ok((existing, real))
            }
            (false, false) => Err(wrong(format!("`{}` is not a folder", existing.display()))),
        };
    }
    Err(wrong("it has no folder".to_owned()))
}

fn canonical(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Fault::usage(format!("there is no `{}`", path.display()))
            .hint("give a path that exists, from the current folder or from `/`"),
        _ => Fault::usage(format!("`{}`: {error}", path.display())),
    })
}

fn unknown(word: &str) -> Fault {
    let known = WITH_VALUE.iter().chain(&PLAIN);
    let nearest = known
        .map(|known| (strsim::damerau_levenshtein(word, known), known))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    let fault = Fault::usage(format!("`--allow` does not know `{word}`"));
    match nearest {
        Some((_, known)) => fault.hint(format!("did you mean `{known}`?")),
        None => fault.hint(
            r"known: token, process, exec, code, entrypoint, image=PREFIX, mount=PATH, net=HOST[:PORT], port=N, command=NAME; write a comma within a path as `\,`",
        ),
    }
}

#[cfg(test)]
mod tests;
