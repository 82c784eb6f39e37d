//! Probes an engine of this machine for a run of another one: the other end of an engine on a host of a cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use serde_json::json;

use super::host::context;
use super::{Diagnostic, Host, Settings, Source, adapter, on_thread};
use crate::engine::{Engine, Hello, Question, Reply};
use crate::fault::{Fault, Result};
use crate::run::{Run, add_secrets, named_secrets};
use crate::runtime::{Permits, Services};
use crate::task::Tasks;

/// Takes the first line, and then answers questions until there are no more lines; each reply is passed to `say`.
///
/// # Errors
///
/// `missing` if there is no memory for a thread.
pub fn serve(
    lines: Receiver<String>,
    tasks: &Tasks,
    services: &Arc<Services>,
    say: impl Fn(&Reply) + Clone + Send + Sync + 'static,
) -> Result<(), Box<Diagnostic>> {
    on_thread(|| {
        let mut lines = lines.into_iter();
        let Some(first) = lines.next() else { return Ok(()) };
        let begun = begin(&first, tasks, services, say.clone());
        for line in lines {
            let begun = begun.as_ref().map_err(Fault::clone);
            let answered = begun.and_then(|(host, engine)| {
                let question: Question = parsed(&line)?;
                host.state().axes.clone_from(&question.axes);
                engine.work(question)
            });
            if let Err(fault) = answered {
                say(&Reply::Fault(fault));
            }
        }
        Ok(())
    })
}

/// Describes the engine. What its run notes is passed on.
fn begin(
    line: &str,
    tasks: &Tasks,
    services: &Arc<Services>,
    say: impl Fn(&Reply) + Send + Sync + 'static,
) -> Result<(Arc<Host>, Engine)> {
    let hello: Hello = parsed(line)?;
    add_secrets(named_secrets(&json!(hello.options)));
    let run = Run::ephemeral(&hello.run);
    run.listen(Box::new(move |event| say(&Reply::Event(event.clone()))));
    let mut permits = Permits::parse(&hello.allow)?;
    if let Some(named) = &hello.named {
        permits.name(named.iter().map(|(name, text)| (name.as_str(), text.as_str())), false);
    }
    let settings = Settings {
        script: PathBuf::from("engine"),
        seed: hello.seed,
        shared_gpu: hello.shared_gpu,
        ..Settings::default()
    };
    let host = Host::new(tasks.clone(), Arc::new(run), permits, Arc::clone(services), settings);
    let host = Arc::new(host);
    let adapter = match &hello.text {
        Some(text) => {
            let source = Source::new(&format!("{}.rhai", hello.engine), text);
            adapter::from_source(&host, &hello.engine, &source)?
        }
        None => adapter::load(&host, &hello.engine)?,
    };
    let engine = Engine::describe(&context(&host), &adapter, vec![hello.options])?;
    Ok((host, engine))
}

fn parsed<T: serde::de::DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line).map_err(|error| {
        Fault::usage(format!(
            "version {} does not understand what it is asked: {error}",
            env!("PROFILER_VERSION")
        ))
        .hint("put the same version of the program on all hosts")
    })
}
