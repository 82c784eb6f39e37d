//! Options shared by the commands that run scripts; and the user's consent to permissions that these options do not
//! give, asked at a terminal or remembered from before.

use std::collections::HashMap;
use std::io::{IsTerminal as _, stderr, stdin};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::termios::{FlushArg, tcflush};
use serde_json::{Map, Value};

use super::flags::Assignments;
use super::program::Program;
use crate::compare::import;
use crate::fault::{Fault, Result};
use crate::prompt::Hub;
use crate::report::{Page, Terminal};
use crate::run::{Run, add_secrets, is_remembered, named_secrets, remember};
use crate::runtime::{Consent, Permits, Services, Want};
use crate::script::form::{LONGEST, json_or_string};
use crate::script::{Host, Main, Settings, Source, params};
use crate::task::{Tasks, lock};
use crate::tls;

/// Options to run a script with.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct ScriptOptions {
    /// Set a parameter, as the script's own flags do; VALUE is JSON, else a string; dots reach into maps: --set search.max_probes=20
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Parameters")]
    pub(super) set: Vec<String>,
    /// The model, an id or a folder: same as --set model=MODEL
    #[arg(long, help_heading = "Parameters")]
    pub(super) model: Option<String>,
    /// The address of a server that is already running: same as --set url=URL
    #[arg(long, help_heading = "Parameters")]
    pub(super) url: Option<String>,
    /// Parameters from a YAML, TOML or JSON file; --set and the script's own flags win
    #[arg(long, value_name = "FILE", help_heading = "Parameters")]
    pub(super) params: Option<PathBuf>,
    /// Seed of everything random; drawn and recorded when absent
    #[arg(long, value_name = "N", help_heading = "Parameters")]
    pub(super) seed: Option<u64>,
    /// Allow what a script may not do by default: token, process, exec, code, entrypoint, image=PREFIX, mount=PATH,
    /// net=HOST[:PORT], port=N, command=NAME
    #[arg(long, value_name = "WHAT", help_heading = "Permissions and limits")]
    pub(super) allow: Vec<String>,
    /// Most operations of a script between two calls of the API
    #[arg(long, value_name = "N", help_heading = "Permissions and limits")]
    pub(super) max_operations: Option<u64>,
    /// Measure even if other processes use the GPU
    #[arg(long, help_heading = "Permissions and limits")]
    pub(super) shared_gpu: bool,
    /// Values set by the script's own flags.
    #[arg(skip)]
    pub(super) flags: Assignments,
    /// How long to wait for a running server while it loads (503) or rejects requests (429 with Retry-After): 60s when
    /// absent; when given, also until it accepts connections
    #[arg(long, value_name = "TIME", value_parser = wait, help_heading = "Permissions and limits")]
    pub(super) wait: Option<Duration>,
    /// Do not verify the certificate of a server on this machine, such as --url https://127.0.0.1:8000; servers
    /// elsewhere are refused
    #[arg(long, help_heading = "Permissions and limits")]
    pub(super) insecure: bool,
    /// The action of `profiler fleet`, from --detach, --cancel and --follow.
    #[arg(skip)]
    pub(super) wish: String,
}

/// A time such as `60s` or `10m`.
fn wait(text: &str) -> std::result::Result<Duration, String> {
    let time = text
        .parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|time| Duration::try_from(time).ok());
    time.filter(|time| *time <= LONGEST)
        .ok_or_else(|| "give a time with units, such as 60s or 10m; 0s waits for nothing".to_owned())
}

impl ScriptOptions {
    /// Creates the host of a script. A signal ends its services.
    pub(super) fn host(
        &self,
        script: &Path,
        set: Map<String, Value>,
        run: Run,
        dry_run: bool,
        author: Author,
        program: &Program,
    ) -> Result<Arc<Host>> {
        if self.insecure {
            tls::allow_insecure();
        }
        let settings = Settings {
            script: script.to_owned(),
            set,
            allow: self.allow.clone(),
            seed: run.seed(),
            dry_run,
            shared_gpu: self.shared_gpu,
            max_operations: self.max_operations,
            wish: self.wish.clone(),
            wait: self.wait,
            max_memory: None,
            page: Page::from(&program.terminal),
        };
        let mut permits = self.permits(author, &run, &settings.set)?;
        // A fleet passes everything by a file. Who names something beside it can name more.
        if run.is_attempt() && self.params.is_some() && self.assignments()?.is_empty() {
            permits = permits.for_job();
        }
        let services = Arc::new(Services::default());
        program.signals.guard(&services);
        let host = Host::new(program.tasks.clone(), Arc::new(run), permits, services, settings);
        Ok(Arc::new(host))
    }

    /// The assignments of the command line. Later ones win.
    fn assignments(&self) -> Result<Vec<(&str, Value)>> {
        // In JSON, several addresses are a list, and a single address is not valid JSON.
        let short = [
            ("model", self.model.clone().map(Value::String)),
            ("url", self.url.as_deref().map(json_or_string)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(Ok((name, value?))));
        let set = self.set.iter().map(|text| params::assignment(text));
        let flags = self
            .flags
            .iter()
            .map(|(path, value)| Ok((path.as_str(), value.clone())));
        short.chain(set).chain(flags).collect()
    }

    /// The parameters of `--params`, `--set` and flags; later ones win. Registers the secrets among them for redaction.
    pub(super) fn parameters(&self) -> Result<Map<String, Value>> {
        let mut map = match &self.params {
            Some(file) => params::read_file(file)?,
            None => Map::new(),
        };
        for (path, value) in self.assignments()? {
            params::assign(&mut map, path, value)?;
        }
        // Before any of them is written or printed.
        add_secrets(named_secrets(&Value::Object(map.clone())));
        Ok(map)
    }

    /// The permissions of `--allow`, and those from values that `--set` names. Parameters of somebody else's script
    /// allow nothing, whatever their names. Neither does a parameter file, because it may come from somebody else too.
    /// Values that `--set` named to a shipped script are remembered with the run, so that `--resume` alone is enough
    /// later.
    fn permits(&self, author: Author, run: &Run, set: &Map<String, Value>) -> Result<Permits> {
        let mut permits = Permits::parse(&self.allow)?;
        if author == Author::Stranger {
            return Ok(permits);
        }
        let mut named = Vec::new();
        for (path, value) in self.assignments()? {
            add_texts(path, &value, &mut named);
        }
        if run.folder().is_some() {
            let fact = |(path, text): &(String, String)| named_fact(run.id(), path, text);
            // If they cannot be remembered, the user has to name them again.
            let _ = remember(named.iter().map(fact), "");
            let mut recorded = Vec::new();
            for (path, value) in set {
                add_texts(path, value, &mut recorded);
            }
            let known = |one: &(String, String)| !named.contains(one) && is_remembered(&fact(one));
            recorded.retain(known);
            named.extend(recorded);
        }
        let value = |name: &str| {
            let last = named.iter().rev().find(|(path, _)| path == name);
            last.map(|(_, text)| text.as_str()).filter(|text| !text.is_empty())
        };
        Hub::give(value("hf_home"), value("hf_token_env"))?;
        let named = named.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        permits.name(named, author == Author::User, import::is_foreign);
        Ok(permits)
    }
}

/// Adds the strings in a value, with the path of each.
fn add_texts(path: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((path.to_owned(), text.clone())),
        Value::Array(values) => values.iter().for_each(|value| add_texts(path, value, found)),
        Value::Object(values) => values
            .iter()
            .for_each(|(name, value)| add_texts(&format!("{path}.{name}"), value, found)),
        _ => {}
    }
}

/// The entry in the memory file that records a value named on the command line. Hashed, because the text may hold a
/// password.
fn named_fact(run: &str, path: &str, text: &str) -> String {
    format!("named {run} {}", Source::new("", &format!("{path}={text}")).sha256)
}

/// The author of a script, as far as its permissions depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    /// Anybody. The user's own scripts cannot be distinguished from those of others.
    Stranger,
    /// It ships with the program, unchanged.
    Shipped,
    /// The user types it (the REPL).
    User,
}

impl Author {
    pub(super) fn from_script(main: &Main) -> Self {
        if main.has_shipped_text() {
            Self::Shipped
        } else {
            Self::Stranger
        }
    }
}

/// How often to check for an interruption while the user thinks.
const PAUSE: Duration = Duration::from_millis(50);

enum ConsentAnswer {
    Once,
    Always,
    No,
}

/// Decides missing permissions: from what the user always allows, or else by asking at the terminal. `undisturbed`
/// calls its argument while nothing else is printed. Without it, nobody is asked.
pub(super) fn ask_consent<F>(host: &Arc<Host>, undisturbed: Option<F>)
where
    F: Fn(&mut dyn FnMut()) + Send + Sync + 'static,
{
    let undisturbed = undisturbed.map(Arc::new);
    if let Some(undisturbed) = undisturbed.clone() {
        let (tasks, chosen) = (host.tasks.clone(), Mutex::new(HashMap::new()));
        host.run.choose_with(Box::new(move |question, choices| {
            // A choice made once is not requested again.
            let key = (question.to_owned(), choices.to_vec());
            let mut chosen = lock(&chosen);
            if !chosen.contains_key(&key) && stdin().is_terminal() && stderr().is_terminal() {
                let mut answer = Ok(None);
                undisturbed(&mut || answer = choose(&tasks, question, choices));
                chosen.extend(answer?.map(|answer| (key.clone(), answer)));
            }
            Ok(chosen.get(&key).cloned())
        }));
    }
    let weak = Arc::downgrade(host);
    let denied = Mutex::new(Vec::new());
    host.permits.ask_with(move |wants| {
        let Some(host) = weak.upgrade() else {
            return Ok(Consent::No);
        };
        let mut consent = Consent::Now;
        let new: Vec<&Want> = wants.iter().filter(|want| !is_remembered(&fact(&host, want))).collect();
        if !new.is_empty() {
            let mut denied = lock(&denied);
            let may_ask = stdin().is_terminal() && stderr().is_terminal();
            let Some(undisturbed) = undisturbed.as_ref().filter(|_| may_ask) else {
                return Ok(Consent::No);
            };
            // A script that retries does not ask again.
            if new.iter().any(|want| denied.contains(&want.allow)) {
                return Ok(Consent::No);
            }
            let mut answer = Ok(ConsentAnswer::No);
            undisturbed(&mut || answer = prompt(&host, &new));
            match answer? {
                ConsentAnswer::Once => consent = Consent::Run,
                ConsentAnswer::Always => new.iter().try_for_each(|want| {
                    remember([fact(&host, want)], &format!("{} for {}", want.allow, name(&host)))
                })?,
                ConsentAnswer::No => {
                    denied.extend(new.iter().map(|want| want.allow.clone()));
                    return Ok(Consent::No);
                }
            }
        }
        host.run.permit(wants.iter().map(|want| want.allow.clone()));
        Ok(consent)
    });
}

/// The remembered fact that these texts always have this permission. Shipped texts need none.
fn fact(host: &Host, want: &Want) -> String {
    let mut hashes: Vec<String> = host.sources.own().map(|source| source.sha256).collect();
    hashes.sort();
    hashes.push(want.allow.clone());
    format!("allow {}", Source::new("", &hashes.join("\n")).sha256)
}

fn name(host: &Host) -> String {
    match host.settings.script.display().to_string().as_str() {
        "" => "this".to_owned(),
        script => one_line(&format!("`{script}`")),
    }
}

/// Most bytes of an answer.
const MAX_LINE: usize = 4096;

/// Most characters of a name in a question.
const MAX_NAME: usize = 160;

/// A text that a script may have chosen, on one line. What is left out is counted: its end could matter.
fn one_line(text: &str) -> String {
    let letters: Vec<char> = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    if letters.len() <= MAX_NAME {
        return letters.into_iter().collect();
    }
    let (begin, end) = (&letters[..MAX_NAME / 2], &letters[letters.len() - MAX_NAME / 2..]);
    let left_out = letters.len() - MAX_NAME;
    let [begin, end] = [begin, end].map(|part| part.iter().collect::<String>());
    format!("{begin}… {left_out} more characters …{end}")
}

fn prompt(host: &Host, wants: &[&Want]) -> Result<ConsentAnswer> {
    let who = name(host);
    let permissions = wants
        .iter()
        .map(|want| format!("  {} ({})", one_line(&want.to), one_line(&want.allow)));
    let lines: Vec<String> = std::iter::once(format!("{who} wants to")).chain(permissions).collect();
    let terminal = Terminal::detect();
    discard_typed();
    terminal.print_failure(&lines.join("\n"));
    terminal.print_failure("allow it? y: for this run, a: always for this script as it is now (until `profiler doctor --forget-allowed`), N: no");
    let answer = read_line(&host.tasks)?;
    Ok(match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => ConsentAnswer::Once,
        "a" | "always" => ConsentAnswer::Always,
        _ => ConsentAnswer::No,
    })
}

/// Lets the user choose by number or by name; `None` for an empty line.
fn choose(tasks: &Tasks, question: &str, choices: &[String]) -> Result<Option<String>> {
    let terminal = Terminal::detect();
    let numbered = (1..)
        .zip(choices)
        .map(|(number, choice)| format!("  {number:>3}  {choice}"));
    let lines: Vec<String> = std::iter::once(format!("{question}:")).chain(numbered).collect();
    discard_typed();
    terminal.print_failure(&lines.join("\n"));
    loop {
        terminal.print_failure("which one? its number or its name; nothing: none");
        let line = read_line(tasks)?;
        let answer = line.trim();
        let number = answer.parse::<usize>().ok();
        let found = choices
            .iter()
            .find(|choice| *choice == answer)
            .or_else(|| choices.get(number?.checked_sub(1)?));
        if found.is_some() || answer.is_empty() {
            return Ok(found.cloned());
        }
    }
}

/// Drops what was typed before a question is shown: that does not answer it.
fn discard_typed() {
    // It fails only where nobody types.
    let _ = tcflush(stdin(), FlushArg::TCIFLUSH);
}

/// Reads a line from the keyboard. Reading cannot be stopped, so its thread outlives an interruption.
fn read_line(tasks: &Tasks) -> Result<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut line, mut byte) = (Vec::new(), [0]);
        // Not through the standard reader, which keeps further lines for the next question. A closed terminal counts as
        // "no".
        while let Ok(1) = nix::unistd::read(stdin(), &mut byte) {
            if byte[0] == b'\n' || line.len() > MAX_LINE {
                break;
            }
            line.push(byte[0]);
        }
        let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
    });
    loop {
        match receiver.recv_timeout(PAUSE) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Timeout) if !tasks.interrupted() => {}
            Err(_) => return Err(Fault::interrupted()),
        }
    }
}
