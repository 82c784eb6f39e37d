//! Finds in-process probes by name (shipped or a script's own), and runs one without an engine.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::resolver::open_own;
use super::signature::{quoted, suggest};
use super::source::{self, Source};
use super::{Host, shipped};
use crate::engine::{Arguments, DefaultsTo, ProbeProgram, ProgramOptions};
use crate::fault::{Fault, Result};
use crate::runtime::{self, Launch, Mount, Origin, RuntimeKind, placeholder_launch, redact};

/// Options of `probe::run`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Options {
    args: Arguments,
    env: BTreeMap<String, String>,
    python: Option<String>,
    timeout: DefaultsTo<600>,
    /// The Docker image; without it, a native process is started.
    image: Option<String>,
    mounts: Vec<Mount>,
    gpus: Option<Value>,
    shm_size: Option<u64>,
    memory_limit: Option<u64>,
}

/// Loads the probe `name`: a shipped one, or a path relative to the main script, such as `./mine.py`. Stores it in the
/// run's folder.
pub(super) fn program(host: &Host, name: &str) -> Result<ProbeProgram> {
    let own = name.contains('/') || name.ends_with(".py");
    let (key, file, source) = if own {
        own_probe(host, name)?
    } else {
        shipped_probe(name)?
    };
    host.run.module(&key, &source.text, &source.sha256)?;
    host.sources.insert(source.clone());
    let mut files: BTreeMap<String, String> = shipped::shared_probe_files().into_iter().collect();
    files.insert(file.clone(), source.text.to_string());
    Ok(ProbeProgram {
        name: name.to_owned(),
        file,
        files,
        sha256: source.sha256,
        shipped: !own,
    })
}

fn own_probe(host: &Host, name: &str) -> Result<(String, String, Source)> {
    let root = host.settings.root();
    let source = open_own(&root, Path::new(name), "probe", name)?;
    let stem = Path::new(name)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let file = match stem.chars().all(plain) && !stem.starts_with('.') && stem.len() <= 100 {
        true => stem,
        false => "probe.py".to_owned(),
    };
    Ok((source::module_name(&root, &source.key), file, source))
}

fn shipped_probe(name: &str) -> Result<(String, String, Source)> {
    let Some(text) = shipped::probe(name) else {
        let fault = Fault::usage(format!("there is no probe `{name}`"));
        let names = quoted(shipped::probes());
        let otherwise = format!("available: {names}; give your own by its path, such as `./mine.py`");
        return Err(suggest(fault, name, shipped::probes(), otherwise));
    };
    let key = format!("std/probes/{name}.py");
    Ok((key.clone(), format!("{name}.py"), Source::new(&key, &text)))
}

/// Runs a probe in its own process or container.
pub(super) fn run_standalone(host: &Host, name: &str, given: Options) -> Result<Value> {
    let probe = program(host, name)?;
    let options = ProgramOptions {
        args: given.args,
        env: BTreeMap::new(),
        python: given.python,
        timeout: given.timeout,
    };
    let ready = probe.with(&options)?;
    let mut launch: Launch = serde_json::from_value(json!({ "gpus": given.gpus.unwrap_or_else(|| json!([])) }))
        .map_err(|error| Fault::usage(format!("option `gpus`: {error}")))?;
    launch = Launch {
        image: given.image,
        env: given.env,
        mounts: given.mounts,
        shm_size: given.shm_size,
        memory_limit: given.memory_limit,
        ..launch
    };
    let kind = match launch.image {
        Some(_) => RuntimeKind::Docker,
        None => RuntimeKind::Process,
    };
    if kind == RuntimeKind::Process
        && !(launch.mounts.is_empty() && launch.memory_limit.is_none() && launch.shm_size.is_none())
    {
        return Err(
            Fault::usage("`mounts`, `memory_limit` and `shm_size` belong to a container")
                .hint("give an `image`; a native process already sees all your files"),
        );
    }
    let launch = placeholder_launch(launch, options.python.as_deref());
    host.permits.check_launch(kind, &launch, &Origin::Script)?;
    if host.settings.dry_run {
        return Err(Fault::dry_run(format!("the probe `{name}` would be run")));
    }
    let env = launch.env.iter().map(|(name, value)| (name, redact::env(name, value)));
    let place = json!({
        "image": launch.image,
        "gpus": launch.gpus,
        "mounts": launch.mounts,
        "env": env.collect::<BTreeMap<_, _>>(),
    });
    let question = probe.journal_key(place, &options);
    probe.run_or_replay(&host.run, question, || {
        let service = host
            .tasks
            .wait(runtime::start(kind, &launch, &host.start_context("probe")))?;
        let captured = host.tasks.wait(service.run_program(&ready));
        host.tasks.finish(service.stop(service.grace()))?;
        captured
    })
}
