//! The flags that the installed engine has, by its own `--help`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use super::engine::Engine;
use crate::fault::{Kind, Result};
use crate::run::Limits;
use crate::runtime::{CommandLine, RuntimeKind, run_command};
use crate::task::lock;

/// How long it may take: an engine in Python imports its libraries first.
const TIME: Duration = Duration::from_secs(60);

/// The flags by program and environment: each start of an experiment asks again, most with other options, which change
/// nothing in what a program prints. `None` after a timeout.
static ASKED: Mutex<BTreeMap<Asked, Option<Vec<String>>>> = Mutex::new(BTreeMap::new());

/// The words of the command line without options but the last, and the environment.
type Asked = (Vec<String>, BTreeMap<String, Option<String>>);

/// Flags that an engine's program on this machine prints with `--help`, to check `wanted` against. Empty if the engine is
/// no process of this machine, prints no flags, or ends with a status other than 0. The adapter makes the command line in
/// any case, and so refuses options that the engine does not have.
///
/// # Errors
///
/// Errors of its launch; `missing` if there is no such program.
pub fn known_flags(engine: &Engine, wanted: &[String]) -> Result<BTreeSet<String>> {
    let mut known = BTreeSet::new();
    if !matches!(engine.runtime, RuntimeKind::Process | RuntimeKind::Docker) {
        return Ok(known);
    }
    let launch = engine.launch_for(Limits::SMALLEST)?;
    if wanted.is_empty() || engine.runtime != RuntimeKind::Process || engine.options.container.is_some() {
        return Ok(known);
    }
    engine
        .context
        .permits
        .check_launch(engine.runtime, &launch, &engine.origin()?)?;
    let env: BTreeMap<_, _> = launch
        .env
        .into_iter()
        .map(|(name, value)| (name, Some(value)))
        .collect();
    // vLLM tells all of its flags only with the second word.
    for word in ["--help", "--help=all"] {
        let mut words: Vec<_> = launch.command.iter().map(|one| one.replace("{port}", "0")).collect();
        words.push(word.to_owned());
        let mut program = words.clone();
        program.retain(|one| one == word || !one.starts_with("--"));
        let asked = (program, env.clone());
        let earlier = lock(&ASKED).get(&asked).cloned();
        let flags = if let Some(flags) = earlier {
            flags
        } else {
            let flags = ask(engine, &words, &env)?;
            lock(&ASKED).insert(asked, flags.clone());
            flags
        };
        // Half of the flags would make the other half unknown.
        let Some(flags) = flags else {
            return Ok(BTreeSet::new());
        };
        known.extend(flags);
        if known.is_empty() || wanted.iter().all(|flag| known.contains(flag)) {
            break;
        }
    }
    Ok(known)
}

fn ask(engine: &Engine, words: &[String], env: &BTreeMap<String, Option<String>>) -> Result<Option<Vec<String>>> {
    let line = CommandLine {
        env: env.clone(),
        ..CommandLine::new(words, TIME)
    };
    match engine.wait(run_command(line)) {
        Ok(said) if said.code == Some(0) => Ok(Some(flags_in(&said.stdout))),
        // A script around the engine may not know the word.
        Ok(_) => Ok(Some(Vec::new())),
        Err(fault) if fault.kind == Kind::Timeout => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn flags_in(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let in_flag = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    text.split(|letter| !in_flag(letter)).filter_map(engine_flag).collect()
}

/// The flag of a word of the command line, as `--help` has it: without its value, and with dashes between words.
pub fn engine_flag(word: &str) -> Option<String> {
    let flag = word.split(['=', '.']).next()?;
    let name = flag.strip_prefix("--")?;
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    is_name.then(|| flag.replace('_', "-"))
}
