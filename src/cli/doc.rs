//! Documentation commands. `profiler list`: the shipped scripts with their summaries, added scripts, and on request
//! modules and probes. `profiler run SCRIPT --help`: the script's purpose, its parameters (the important ones first),
//! and examples. `profiler doc`: the script API, generated from the registered functions. `profiler completions`: shell
//! completion of `profiler`. `profiler man`: the manual pages, for packagers.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};
use clap_complete::env::{CompleteEnv, Shells};
use serde::Serialize;
use serde_json::Value;

use super::program::{Program, Status, json_text};
use super::{Arguments, flags};
use crate::answer::allow_flags;
use crate::fault::{Fault, Result};
use crate::fmt::{columns, wrap};
use crate::script::form::{Takes, flag_name};
use crate::script::params::{Declared, in_script, settable};
use crate::script::reference::{FunctionDoc, Reference};
use crate::script::shipped::{self, Shipped};
use crate::script::{self, Added, Header, Lock, Main, Source, interpreter};

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A function, method, module or type; or words to search for in all texts
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Markdown, JSON, or definitions for an editor's Rhai language server
    #[arg(long, value_enum, default_value_t = Format::Md)]
    format: Format,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Md,
    Json,
    Definitions,
}

/// Prints the reference, or the requested part of it.
pub(super) fn execute(args: &Args, program: &Program) -> Result<Status> {
    // The interpreter runs nothing.
    let here = Path::new(".");
    let reference = Reference::new(&interpreter(&program.idle_host(here), here));
    let subject = args.words.join(" ");
    let part = match subject.as_str() {
        "" => None,
        subject => Some(reference.find(subject)),
    };
    let text = match (args.format, part) {
        (Format::Md, None) => reference.markdown(),
        (Format::Md, Some(part)) => found(&reference, part, &subject)?,
        (Format::Json, None) => format!("{:#}", reference.json()),
        (Format::Json, Some(part)) => format!("{:#}", part?.json()),
        (Format::Definitions, None) => reference.definitions(),
        (Format::Definitions, Some(_)) => {
            return Err(Fault::usage("definitions cover the whole script API").hint("leave WORD out"));
        }
    };
    match args.format {
        Format::Md => program.terminal.print_markdown(&text)?,
        Format::Json | Format::Definitions => program.terminal.print(text.trim_end())?,
    }
    Ok(0)
}

/// The documentation of the item with this name, and a line for each other function whose text contains the words, best
/// first.
fn found(reference: &Reference, part: Result<Reference>, subject: &str) -> Result<String> {
    let named: Vec<String> = part
        .iter()
        .flat_map(Reference::functions)
        .map(FunctionDoc::title)
        .collect();
    let mentioned = reference
        .search(subject)
        .into_iter()
        .filter(|function| !named.contains(&function.title()));
    let lines: Vec<String> = mentioned
        .map(|function| format!("- `{}`: {}", function.title(), function.summary.replace('\n', " ")))
        .collect();
    let heading = match &part {
        Err(fault) if lines.is_empty() => return Err(fault.clone()),
        Err(_) => format!("# Functions whose text has `{subject}`"),
        Ok(part) if lines.is_empty() => return Ok(part.excerpt()),
        Ok(part) => format!("{}\n# Also in the text of", part.excerpt()),
    };
    Ok(format!("{heading}\n\n{}\n", lines.join("\n")))
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct ShellArgs {
    /// The shell to print them for
    shell: Shell,
}

/// Prints the text that a shell evaluates once. For each word it then calls this program, which knows the parameters of
/// scripts.
pub(super) fn complete(args: &ShellArgs, program: &Program) -> Result<Status> {
    let (shell, name) = (args.shell.to_string(), "profiler");
    let mut text = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell) {
        let written = completer.write_registration(COMPLETE, name, name, name, &mut text);
        written.map_err(Fault::internal)?;
    }
    program.terminal.print(String::from_utf8_lossy(&text).trim_end())?;
    Ok(0)
}

/// The variable that is set when a shell requests completions.
const COMPLETE: &str = "PROFILER_COMPLETE";

/// Answers a shell that requests completions for the last of these words; false if no shell does.
pub(super) fn complete_words(words: &[OsString]) -> clap::error::Result<bool> {
    let typed = words
        .iter()
        .position(|word| word == "--")
        .map_or(words.len(), |at| at + 1);
    let command = || {
        let command = Arguments::command().mut_subcommand("run", |run| {
            run.mut_arg("script", |script| script.add(ArgValueCompleter::new(scripts)))
        });
        flags::with_flags(command, &words[typed..])
    };
    CompleteEnv::with_factory(command)
        .var(COMPLETE)
        .try_complete(words, std::env::current_dir().ok().as_deref())
}

/// The scripts whose names have this beginning: shipped and added ones, and files.
fn scripts(begun: &OsStr) -> Vec<CompletionCandidate> {
    let added = Lock::read().unwrap_or_default();
    let names = shipped::scripts().map(str::to_owned).chain(added.all.into_keys());
    let begun_text = begun.to_string_lossy();
    let named = names
        .filter(|name| name.starts_with(&*begun_text))
        .map(CompletionCandidate::new);
    named.chain(PathCompleter::file().complete(begun)).collect()
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct ManArgs {
    /// Where to write profiler.1, profiler-run.1 and so on
    folder: PathBuf,
}

pub(super) fn write_pages(args: &ManArgs) -> Result<Status> {
    let written = std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), &args.folder));
    written.map_err(|error| Fault::io(&args.folder, &error))?;
    Ok(0)
}

/// Arguments.
#[derive(clap::Args, Debug)]
pub(super) struct ListArgs {
    /// List what scripts can import too: modules of the standard library, and in-process probes
    #[arg(long)]
    modules: bool,
    /// Everything as one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    scripts: Vec<Shipped>,
    modules: Vec<Shipped>,
    probes: Vec<Shipped>,
    added: Vec<ListedScript>,
}

/// An added script.
#[derive(Serialize)]
struct ListedScript {
    #[serde(flatten)]
    shown: Shipped,
    /// Whether its files match the lock.
    intact: bool,
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    entry: Added,
}

impl ListedScript {
    fn new(name: String, entry: Added) -> Self {
        let intact = entry.is_intact(&name);
        let text = entry.text(&name);
        let summary = match &text {
            _ if !intact => "has changed since it was added: `profiler update` fetches it again".to_owned(),
            Some(text) => shipped::summary(text),
            None => format!("{} files", entry.files.len()),
        };
        Self {
            intact,
            header: text.map(|text| Header::parse(&text)).unwrap_or_default(),
            shown: Shipped { name, summary },
            entry,
        }
    }
}

pub(super) fn list(args: &ListArgs, program: &Program) -> Result<Status> {
    let listing = Listing {
        scripts: shipped::described_scripts(),
        modules: shipped::described_modules(),
        probes: shipped::described_probes(),
        added: Lock::read()?
            .all
            .into_iter()
            .map(|(name, entry)| ListedScript::new(name, entry))
            .collect(),
    };
    let text = if args.json {
        json_text(&listing)?
    } else {
        listing_text(&listing, args.modules, program.terminal.width)
    };
    program.terminal.print(&text)?;
    Ok(0)
}

fn listing_text(listing: &Listing, modules: bool, width: usize) -> String {
    let mut parts = vec![table("Scripts, for `profiler run NAME`:", &listing.scripts, width)];
    if modules {
        parts.push(table(
            "Modules, for `import \"NAME\" as alias;`:",
            &listing.modules,
            width,
        ));
        parts.push(table("Probes, for `engine.run_probe(NAME)`:", &listing.probes, width));
    }
    if !listing.added.is_empty() {
        let row = |one: &ListedScript| {
            let notes = header_lines(&one.header).join(", ");
            let summary = &one.shown.summary;
            let text = if notes.is_empty() {
                summary.clone()
            } else {
                format!("{summary} ({notes})")
            };
            (one.shown.name.clone(), text)
        };
        let rows: Vec<_> = listing.added.iter().map(row).collect();
        parts.push(format!("Added by `profiler add`:\n{}", columns(&rows, width)));
    }
    let more =
        "`profiler run NAME --help` shows a script's parameters, `profiler list --modules` what scripts can import.";
    parts.push(wrap(more, width, 0));
    parts.join("\n\n")
}

fn table(title: &str, rows: &[Shipped], width: usize) -> String {
    let rows: Vec<_> = rows.iter().map(|one| (one.name.clone(), one.summary.clone())).collect();
    format!("{title}\n{}", columns(&rows, width))
}

/// The parameters that most runs set.
const MAIN: [&str; 6] = ["engine", "url", "model", "input", "output", "concurrency"];

pub(super) fn script_help(path: &Path, main: &Main, program: &Program) -> Result<Status> {
    let (declared, unlisted) = match script::describe_params(&program.idle_host(path), main) {
        Ok(declared) => (declared, None),
        Err(found) if found.fault.message.starts_with(script::CANNOT_LIST) => {
            let place = found.location().unwrap_or_else(|| path.display().to_string());
            let why = format!(
                "Its parameters are known only once it runs: it does something before it calls `params` ({place})."
            );
            (Vec::new(), Some(why))
        }
        Err(found) => return Ok(program.complain(&found)),
    };
    let name = path.display().to_string();
    let description: Vec<&str> = script::description(&main.source.text).collect();
    let mut parts: Vec<String> = description
        .join("\n")
        .split("\n\n")
        .map(|paragraph| wrap(paragraph, program.terminal.width, 0))
        .filter(|paragraph| !paragraph.is_empty())
        .collect();
    let header = header_lines(&Header::parse(&main.source.text));
    parts.extend((!header.is_empty()).then(|| header.join("\n")));
    parts.push(format!("Usage: profiler run {name} [OPTIONS]"));
    match unlisted {
        Some(why) => parts.push(wrap(&why, program.terminal.width, 0)),
        None => parts.extend(parameters(&declared, path, program)),
    }
    parts.push(examples(&name, &declared));
    parts.push(wrap(
        "`-` and `_` are alike in names, and `--set KEY=VALUE` sets a parameter too. `profiler run --help` shows the options that every script has.",
        program.terminal.width,
        0,
    ));
    program.terminal.print(&parts.join("\n\n"))?;
    Ok(0)
}

/// Lines about a script's version, author and requirements; empty if it states none.
pub(super) fn header_lines(header: &Header) -> Vec<String> {
    let lines = [
        header.version.as_ref().map(|version| format!("version {version}")),
        header.author.as_ref().map(|author| format!("author {author}")),
        header.license.as_ref().map(|license| format!("license {license}")),
        (!header.allow.is_empty()).then(|| format!("needs {}", allow_flags(&header.allow).join(" "))),
    ];
    lines.into_iter().flatten().collect()
}

/// The parameters in groups: the main ones, the script's own, those of its search, and those of the engine.
fn parameters(declared: &[Declared], path: &Path, program: &Program) -> Vec<String> {
    if declared.is_empty() {
        return vec!["It takes no parameters.".to_owned()];
    }
    let engine_script = Main {
        source: Source::new(
            "engine parameters",
            "import \"std/engines\" as engines; params(engines::parameters())",
        ),
        root: ".".into(),
        shipped: true,
    };
    let shared = script::describe_params(&program.idle_host(path), &engine_script).unwrap_or_default();
    let hidden = flags::hidden_by_options(&Arguments::command(), declared);
    let row = |one: &Declared| (usage(one, hidden.contains(&one.name.as_str())), explanation(one));
    let is_main = |one: &&Declared| MAIN.contains(&one.name.as_str());
    let is_shared = |one: &&Declared| shared.iter().any(|other| other.name == one.name);
    let main = MAIN
        .iter()
        .filter_map(|name| declared.iter().find(|one| one.name == *name));
    let (engine, own): (Vec<_>, Vec<_>) = declared.iter().filter(|one| !is_main(one)).partition(is_shared);
    let all = settable(declared);
    let options = all.iter().filter(|one| one.name.starts_with("search."));
    let groups = [
        ("Main parameters:", main.map(row).collect::<Vec<_>>()),
        ("Further parameters of this script:", own.into_iter().map(row).collect()),
        ("Search:", options.map(row).collect()),
        ("Engine:", engine.into_iter().map(row).collect()),
    ];
    let shown = groups.into_iter().filter(|(_, rows)| !rows.is_empty());
    shown
        .map(|(title, rows)| format!("{title}\n{}", columns(&rows, program.terminal.width)))
        .collect()
}

/// How to set a parameter. If an option of the program has the same name, only `--set` does.
fn usage(one: &Declared, is_hidden: bool) -> String {
    let name = flag_name(&one.name);
    match one.form.takes {
        _ if is_hidden => format!("--set {}=VALUE", one.name),
        Takes::Bool => format!("--{name}"),
        Takes::Any => format!("--{name} <VALUE>"),
        Takes::Int => format!("--{name} <N>"),
        Takes::Float => format!("--{name} <X>"),
        Takes::String => format!("--{name} <TEXT>"),
        Takes::List => format!("--{name} <A,B,…>"),
        Takes::Range => format!("--{name} <N|A..B>"),
        Takes::Lengths => format!("--{name} <N|A..B|MAP>"),
        Takes::Map if one.form.lists => format!("--{name}.<KEY> <A,B,…>"),
        Takes::Map => format!("--{name}.<KEY> <VALUE>"),
    }
}

/// The meaning of a parameter, its default and an example.
fn explanation(one: &Declared) -> String {
    let default = match &one.default {
        Value::Null | Value::Bool(false) => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Object(map) if map.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        default => Some(in_script(default)),
    }
    .map(|default| format!(" [default: {default}]"))
    .unwrap_or_default();
    let example = one
        .form
        .example
        .as_ref()
        .map(|example| format!(" [such as {example}]"))
        .unwrap_or_default();
    format!("{}{default}{example}", one.meaning)
}

/// Example command lines with parameters that the script has.
fn examples(name: &str, declared: &[Declared]) -> String {
    let default = |name: &str| declared.iter().find(|one| one.name == name).map(|one| &one.default);
    let mut lines = vec![format!("  profiler run {name}")];
    let mut example = |options: &str| lines.push(format!("  profiler run {name} {options}"));
    if default("model").is_some() {
        example("--model Qwen/Qwen3-8B --dry-run");
    }
    if default("url").is_some() {
        example("--url http://localhost:8000");
    }
    match (default("input"), default("concurrency")) {
        (Some(Value::Array(_)), _) => example("--input 1..32768 --output 1..4096"),
        (Some(_), Some(Value::Array(_))) => example("--input 2000 --output 500 --concurrency 1,8,64"),
        (Some(_), _) => example("--input 2000 --output 500"),
        (None, _) => {}
    }
    if default("search").is_some_and(Value::is_object) {
        example("--search.max-probes 20 --search.coverage 0.9");
    }
    // A script that sets `tensor_parallel` itself chooses the GPUs too.
    if default("gpus").is_some_and(Value::is_array) {
        example("--gpus 0,1 --tensor-parallel 2");
    }
    format!("Examples:\n{}", lines.join("\n"))
}
