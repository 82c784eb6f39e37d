//! `profiler run SCRIPT --help`: what the script does, its parameters, the important ones first, and examples.

use std::path::Path;

use serde_json::Value;

use super::program::{Program, Status};
use crate::fault::Result;
use crate::fmt::{columns, wrap};
use crate::report::allow_flags;
use crate::script::params::{Declared, search_options};
use crate::script::{self, Header, Main, Source};

/// The parameters that most runs set.
const MAIN: [&str; 6] = ["engine", "url", "model", "input", "output", "concurrency"];

pub(super) fn print(path: &Path, main: &Main, program: &Program) -> Result<Status> {
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
    let about: Vec<&str> = script::description(&main.source.text).collect();
    let about = about.join("\n");
    let paragraphs = about
        .split("\n\n")
        .map(|paragraph| wrap(paragraph, program.terminal.width, 0));
    let mut parts: Vec<String> = paragraphs.filter(|paragraph| !paragraph.is_empty()).collect();
    let said = said(&Header::of(&main.source.text));
    parts.extend((!said.is_empty()).then(|| said.join("\n")));
    parts.push(format!("Usage: profiler run {name} [--set KEY=VALUE]... [OPTIONS]"));
    match unlisted {
        Some(why) => parts.push(wrap(&why, program.terminal.width, 0)),
        None => parts.extend(parameters(&declared, path, program)),
    }
    parts.push(examples(&name, &declared));
    parts.push("`profiler run --help` shows the options that every script has.".to_owned());
    program.terminal.print(&parts.join("\n\n"))?;
    Ok(0)
}

/// What a script says of itself, in lines; nothing if it says neither who made it nor what it needs.
pub(super) fn said(header: &Header) -> Vec<String> {
    let lines = [
        header.version.as_ref().map(|version| format!("version {version}")),
        header.author.as_ref().map(|author| format!("author {author}")),
        header.license.as_ref().map(|license| format!("license {license}")),
        (!header.allow.is_empty()).then(|| format!("needs {}", allow_flags(&header.allow).join(" "))),
    ];
    lines.into_iter().flatten().collect()
}

/// The parameters in groups: the main ones, the script's own, those of its search, those of the engine.
fn parameters(declared: &[Declared], path: &Path, program: &Program) -> Vec<String> {
    if declared.is_empty() {
        return vec!["It takes no parameters.".to_owned()];
    }
    let shared = "import \"std/engines\" as engines; params(engines::parameters())";
    let shared = Main {
        source: Source::new("engine parameters", shared),
        root: ".".into(),
        shipped: true,
    };
    let shared = script::describe_params(&program.idle_host(path), &shared).unwrap_or_default();
    let row = |one: &Declared| (format!("{}={}", one.name, in_script(&one.default)), one.meaning.clone());
    let is_main = |one: &&Declared| MAIN.contains(&one.name.as_str());
    let is_shared = |one: &&Declared| shared.iter().any(|other| other.name == one.name);
    let main = MAIN
        .iter()
        .filter_map(|name| declared.iter().find(|one| one.name == *name));
    let (engine, own): (Vec<_>, Vec<_>) = declared.iter().filter(|one| !is_main(one)).partition(is_shared);
    let options = search_options(declared).into_iter().map(|one| {
        let default = one.default.as_str().unwrap_or_default();
        (format!("search.{}={default}", one.name), one.meaning)
    });
    let groups = [
        (
            "Main parameters and their defaults; () is not set:",
            main.map(row).collect(),
        ),
        ("Further parameters of this script:", own.into_iter().map(row).collect()),
        ("Search:", options.collect::<Vec<_>>()),
        ("Engine:", engine.into_iter().map(row).collect()),
    ];
    let shown = groups.into_iter().filter(|(_, rows)| !rows.is_empty());
    shown
        .map(|(title, rows)| format!("{title}\n{}", columns(&rows, program.terminal.width)))
        .collect()
}

/// A value as scripts write it.
fn in_script(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "()".to_owned(),
        Value::Array(items) => format!("[{}]", list(items.iter().map(in_script).collect())),
        Value::Object(map) if map.is_empty() => "#{}".to_owned(),
        Value::Object(map) => {
            let items = map.iter().map(|(key, value)| format!("{key}: {}", in_script(value)));
            format!("#{{ {} }}", list(items.collect()))
        }
        other => other.to_string(),
    }
}

/// Command lines with parameters that the script has.
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
        (Some(Value::Array(_)), _) => example("--set 'input=[1,32768]' --set 'output=[1,4096]'"),
        (Some(_), Some(Value::Array(_))) => example("--set input=2000 --set output=500 --set 'concurrency=[1,8,64]'"),
        (Some(_), _) => example("--set input=2000 --set output=500"),
        (None, _) => {}
    }
    if default("search").is_some_and(Value::is_object) {
        example("--set search.max_probes=20 --set search.coverage=0.9");
    }
    // A script that sets `tensor_parallel` itself chooses the GPUs too.
    if default("gpus").is_some_and(Value::is_array) {
        example("--set 'gpus=[0,1]' --set tensor_parallel=2");
    }
    format!(
        "Examples (VALUE is JSON or plain text; quote what the shell would read):\n{}",
        lines.join("\n")
    )
}
