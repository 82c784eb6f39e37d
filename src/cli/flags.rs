//! The parameters of a script as flags of `profiler run`: `--input 2000` sets what `--set input=2000` does.
//!
//! Only the script knows which flags exist and which of them need a value. So they are removed from the command line
//! before the rest is parsed. An option of the program wins over a parameter with the same name.

use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};
use serde_json::Value;
use tokio::runtime::Builder;

use super::foreign;
use crate::fault::{Fault, Result};
use crate::run::{Folder, Manifest};
use crate::script::form::{Takes, flag_name, parameter_path};
use crate::script::params::{Declared, settable};
use crate::script::{self, CANNOT_LIST, Diagnostic, Host, Main, Settings, shipped, suggest};
use crate::sim;
use crate::task::Tasks;

/// Values set by flags: the paths of parameters and their values.
pub(super) type Assignments = Vec<(String, Value)>;

/// Removes the flags of a script from the words of a command line; the first word is the program. Returns the remaining
/// words, with hyphens in option names, and the assignments.
pub(super) fn extract(
    command: &Command,
    words: Vec<OsString>,
) -> Result<(Vec<OsString>, Assignments), Box<Diagnostic>> {
    let Some(line) = CommandLine::read(command, &words) else {
        return Ok((words, Vec::new()));
    };
    if line.flags.is_empty() {
        return Ok((line.known, Vec::new()));
    }
    let Some((script, declared)) = line.script()? else {
        let fault = Fault::usage(format!(
            "`{}` is a script's flag, but no script is named",
            line.flags[0]
        ));
        return Err(Box::new(
            fault.hint("name it: profiler run adaptive --input 2000").into(),
        ));
    };
    let flags = settable(&declared);
    let mut known = words[..=line.at].to_vec();
    let mut assignments = Vec::new();
    let mut rest = words[line.at + 1..].iter().peekable();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        if text == "--" {
            known.push(word.clone());
            known.extend(rest.by_ref().cloned());
            break;
        }
        let Some(split) = Flag::split(&text) else {
            known.push(word.clone());
            continue;
        };
        if let Some(option) = line.option(&split.name) {
            known.push(option.spelled(word, &split));
            if option.takes_value && split.value.is_none() {
                known.extend(rest.next().cloned());
            }
            continue;
        }
        let Flag { name, value: inline } = split;
        let flag = find(&flags, &name).ok_or_else(|| unknown(&script, &name, &flags, &line))?;
        let value = match inline {
            Some(value) => flag.form.parse(value),
            None => following(&flag, &name, &mut rest)?,
        };
        assignments.push((flag.name, value));
    }
    Ok((known, assignments))
}

/// The value of a flag from the next word. A boolean flag needs none.
fn following<'a>(
    flag: &Declared,
    name: &str,
    rest: &mut Peekable<impl Iterator<Item = &'a OsString>>,
) -> Result<Value, Box<Diagnostic>> {
    let is_bool = flag.form.takes == Takes::Bool;
    let is_value = |word: &str| {
        if is_bool {
            ["true", "false"].contains(&word)
        } else {
            !word.starts_with("--")
        }
    };
    match rest.next_if(|next| is_value(&next.to_string_lossy())) {
        Some(word) => Ok(flag.form.parse(&word.to_string_lossy())),
        None if is_bool => Ok(true.into()),
        None => Err(Box::new(without_value(name, flag).into())),
    }
}

/// The command with the flags of the script on the command line, for shell completion.
pub(super) fn with_flags(command: Command, words: &[OsString]) -> Command {
    let declared = CommandLine::read(&command, words).and_then(|line| line.script().ok().flatten());
    let Some((_, declared)) = declared else { return command };
    let hosts: Vec<String> = options(&command).into_iter().map(|option| option.name).collect();
    let mut flags = settable(&declared);
    for flag in &mut flags {
        match flag.name.as_str() {
            "engine" => (flag.form.values)
                .extend(shipped::modules().filter_map(|name| Some(name.strip_prefix("engines/")?.to_owned()))),
            "profile" => flag.form.values.extend(sim::names().map(str::to_owned)),
            _ => {}
        }
    }
    // A shell evaluates these names, and they may come from an untrusted script.
    flags.retain(|flag| !hosts.contains(&flag_name(&flag.name)) && flag.name.chars().all(is_plain));
    flags.sort_by_key(|flag| flag_name(&flag.name));
    flags.dedup_by_key(|flag| flag_name(&flag.name));
    command.mut_subcommand("run", |run| run.args(flags.into_iter().map(argument)))
}

/// The parameters that no flag sets, because an option of the program has the same name.
pub(super) fn hidden_by_options<'a>(command: &Command, declared: &'a [Declared]) -> Vec<&'a str> {
    let options = options(command);
    // These options set the parameters with the same name.
    let set_by_options = ["model", "url"];
    let names = declared.iter().map(|one| one.name.as_str());
    names
        .filter(|name| !set_by_options.contains(name) && options.iter().any(|option| option.name == flag_name(name)))
        .collect()
}

/// A script's parameters, for help and completion, when no command is running yet.
pub(super) fn declared(script: &Path, main: &Main) -> Result<Vec<Declared>, Box<Diagnostic>> {
    let runtime = Builder::new_current_thread()
        .build()
        .map_err(|error| Fault::no_thread("asynchronous runtime", &error))?;
    let settings = Settings {
        script: script.to_owned(),
        ..Settings::default()
    };
    script::describe_params(&Host::idle(&Tasks::new(runtime.handle().clone()), settings), main)
}

/// An option of the program.
struct HostOption {
    name: String,
    takes_value: bool,
}

impl HostOption {
    /// The option as a word, with hyphens.
    fn spelled(&self, word: &OsStr, flag: &Flag) -> OsString {
        match flag.value {
            _ if word.to_string_lossy().starts_with(&format!("--{}", self.name)) => word.to_owned(),
            Some(value) => format!("--{}={value}", self.name).into(),
            None => format!("--{}", self.name).into(),
        }
    }
}

/// The index of the command in the words of a command line, after the global options.
pub(super) fn command_at(words: &[OsString]) -> usize {
    let is_option = |word: &OsString| word.to_string_lossy().starts_with('-');
    let mut at = 1;
    while words.get(at).is_some_and(is_option) {
        at += if words[at] == "--color" { 2 } else { 1 };
    }
    at
}

/// The options of `profiler run`, and the global ones.
fn options(command: &Command) -> Vec<HostOption> {
    let run = command.find_subcommand("run");
    let own = run.into_iter().flat_map(Command::get_arguments);
    let all = own.chain(command.get_arguments());
    let named = all.filter_map(|option| Some((option, option.get_long()?)));
    named
        .map(|(option, name)| HostOption {
            name: name.to_owned(),
            takes_value: option.get_action().takes_values(),
        })
        .chain([HostOption {
            name: "version".to_owned(),
            takes_value: false,
        }])
        .collect()
}

/// A word that begins with `--`: `--input=2000`, or `--input` with its value in the next word or without one.
struct Flag<'a> {
    /// `input`, with hyphens.
    name: String,
    value: Option<&'a str>,
}

impl<'a> Flag<'a> {
    fn split(word: &'a str) -> Option<Self> {
        let text = word.strip_prefix("--").filter(|text| !text.is_empty())?;
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        Some(Self {
            name: flag_name(name),
            value,
        })
    }
}

/// A command line that begins with `profiler run`.
struct CommandLine {
    options: Vec<HostOption>,
    /// Index of the word `run`.
    at: usize,
    /// All words, with hyphens in the names of options.
    known: Vec<OsString>,
    /// Flags that are not options of the program.
    flags: Vec<String>,
    /// Words that may be the script or the value of a flag.
    others: Vec<PathBuf>,
    resume: Option<PathBuf>,
}

impl CommandLine {
    fn read(command: &Command, words: &[OsString]) -> Option<Self> {
        let at = command_at(words);
        if words.get(at)? != "run" {
            return None;
        }
        let mut line = Self {
            options: options(command),
            at,
            known: words[..=at].to_vec(),
            flags: Vec::new(),
            others: Vec::new(),
            resume: None,
        };
        let mut rest = words[at + 1..].iter();
        while let Some(word) = rest.next() {
            let text = word.to_string_lossy();
            if text == "--" {
                line.known.push(word.clone());
                line.others.extend(rest.clone().map(PathBuf::from));
                line.known.extend(rest.by_ref().cloned());
                break;
            }
            let Some(flag) = Flag::split(&text) else {
                line.known.push(word.clone());
                line.others
                    .extend((text == "-" || !text.starts_with('-')).then(|| word.into()));
                continue;
            };
            let Some(option) = line.options.iter().find(|option| option.name == flag.name) else {
                line.known.push(word.clone());
                line.flags.push(text.into_owned());
                continue;
            };
            line.known.push(option.spelled(word, &flag));
            let value = match flag.value {
                None if option.takes_value => rest.next().inspect(|next| line.known.push((*next).clone())).cloned(),
                value => value.map(OsString::from),
            };
            if flag.name == "resume" {
                line.resume = value.map(PathBuf::from);
            }
        }
        Some(line)
    }

    fn option(&self, name: &str) -> Option<&HostOption> {
        self.options.iter().find(|option| option.name == name)
    }

    /// The script and its parameters; `None` if the line has no script.
    fn script(&self) -> Result<Option<(PathBuf, Vec<Declared>)>, Box<Diagnostic>> {
        let resumed = || {
            let manifest = Manifest::read(&Folder::open(self.resume.as_ref()?).ok()?).ok()?;
            Some(PathBuf::from(manifest.script.path))
        };
        // A word before the script may be the value of a flag.
        let named = self.others.iter().find(|word| Main::open(word).is_ok());
        let Some(script) = named.or(self.others.first()).cloned().or_else(resumed) else {
            return Ok(None);
        };
        let main = Main::open(&script)?;
        let declared = declared(&script, &main).map_err(|mut diagnostic| {
            if diagnostic.fault.message.starts_with(CANNOT_LIST) {
                diagnostic.fault.hint = Some("set them with `--set KEY=VALUE`".to_owned());
            }
            diagnostic
        })?;
        Ok(Some((script, declared)))
    }
}

/// The parameter of a flag, or of an entry in a map that accepts any key.
fn find(flags: &[Declared], name: &str) -> Option<Declared> {
    let named = flags.iter().find(|flag| flag_name(&flag.name) == name);
    named.cloned().or_else(|| {
        let (map, key) = name.split_once('.')?;
        let map = flags.iter().find(|flag| flag_name(&flag.name) == map)?;
        let inside = format!("{}.", map.name);
        let is_free = map.form.takes == Takes::Map && !flags.iter().any(|flag| flag.name.starts_with(&inside));
        is_free.then(|| Declared::within(map, &parameter_path(key)))
    })
}

fn unknown(script: &Path, name: &str, flags: &[Declared], line: &CommandLine) -> Box<Diagnostic> {
    let script = script.display();
    let fault = Fault::usage(format!(
        "`{script}` has no parameter, and `profiler run` no option, `--{name}`"
    ));
    if let Some(hint) = foreign::hint(name, |own| flags.iter().any(|flag| flag.name == own)) {
        return Box::new(fault.hint(hint).into());
    }
    let names: Vec<String> = flags.iter().map(|flag| flag_name(&flag.name)).collect();
    let options = line.options.iter().map(|option| option.name.as_str());
    let known: Vec<String> = names
        .iter()
        .map(String::as_str)
        .chain(options)
        .map(|name| format!("--{name}"))
        .collect();
    let otherwise = format!("`profiler run {script} --help` lists them");
    Box::new(suggest(fault, &format!("--{name}"), known.iter().map(String::as_str), otherwise).into())
}

fn without_value(name: &str, flag: &Declared) -> Fault {
    let fault = Fault::usage(format!("`--{name}` needs a value: {}", flag.meaning));
    match &flag.form.example {
        Some(example) => fault.hint(format!("such as `--{name} {example}`")),
        None => fault.hint(format!("write `--{name} VALUE`")),
    }
}

fn is_plain(one: char) -> bool {
    one.is_ascii_alphanumeric() || "_-.".contains(one)
}

/// A parameter as an argument of the command line.
fn argument(flag: Declared) -> Arg {
    let name = flag_name(&flag.name);
    let argument = Arg::new(format!("parameter {name}"))
        .long(name)
        .help(flag.meaning.replace(char::is_control, ""));
    match flag.form.takes {
        Takes::Bool => argument.action(ArgAction::SetTrue),
        _ => {
            let (values, has_path) = (flag.form.values, flag.form.path);
            let offered = move |begun: &OsStr| offered(&values, has_path, begun);
            argument.action(ArgAction::Set).add(ArgValueCompleter::new(offered))
        }
    }
}

/// The values with this beginning, and the files and folders if a path is possible.
fn offered(values: &[String], has_path: bool, begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun_text = begun.to_string_lossy();
    // A shell evaluates these, and they may come from an untrusted script.
    let plain = values.iter().filter(|value| value.chars().all(is_plain));
    let named = plain.filter(|value| value.starts_with(&*begun_text));
    let paths = has_path.then(|| PathCompleter::any().complete(begun));
    named
        .map(CompletionCandidate::new)
        .chain(paths.into_iter().flatten())
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::answer::RUN_OPTIONS;
    use crate::cli::Arguments;

    #[test]
    fn a_printed_command_knows_which_parameters_have_no_flag() {
        let mut names: Vec<String> = options(&Arguments::command())
            .into_iter()
            .map(|option| option.name)
            .collect();
        names.retain(|name| !["model", "url"].contains(&name.as_str()));
        names.push("help".to_owned());
        names.sort();
        names.dedup();
        assert_eq!(names, RUN_OPTIONS);
    }
}
