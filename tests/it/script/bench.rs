//! A folder of scripts and a host to run them in.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use profiler::run::{Event, Run};
use profiler::runtime::Permits;
use profiler::script::{self, Diagnostic, Host, Main, Settings};
use profiler::task::Tasks;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A folder of scripts, run without a command line.
#[must_use]
pub struct Bench {
    folder: TempDir,
    runtime: Runtime,
    settings: Settings,
}

impl Bench {
    /// A folder with these files.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self {
            folder,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap(),
            settings: Settings {
                max_memory: Some(u64::MAX),
                ..Settings::default()
            },
        }
    }

    /// A folder with only `main.rhai`.
    pub fn script(text: &str) -> Self {
        Self::new(&[("main.rhai", text)])
    }

    /// Sets parameters, as `--set` does.
    pub fn set(mut self, values: Value) -> Self {
        self.settings.set = values.as_object().unwrap().clone();
        self
    }

    /// Limits operations, as `--max-operations` does.
    pub fn max_operations(mut self, most: u64) -> Self {
        self.settings.max_operations = Some(most);
        self
    }

    /// Applies the program's memory limit for scripts, which counts the whole process.
    pub fn bounded(mut self) -> Self {
        self.settings.max_memory = None;
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn host(&self) -> Arc<Host> {
        self.allowing("")
    }

    /// A host with `--allow`.
    pub fn allowing(&self, allow: &str) -> Arc<Host> {
        let settings = Settings {
            script: self.path("main.rhai"),
            ..self.settings.clone()
        };
        // Unique per host: the tests share a process, and stopping a run stops all processes with its name.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let run = Arc::new(Run::ephemeral(&format!(
            "bench-{}",
            COUNT.fetch_add(1, Ordering::Relaxed)
        )));
        profiler::own_program::set(env!("CARGO_BIN_EXE_profiler"));
        let tasks = Tasks::new(self.runtime.handle().clone());
        Arc::new(Host::new(
            tasks,
            run,
            // The servers of the tests listen on this machine.
            Permits::parse(["net=127.0.0.1", allow]).unwrap(),
            Arc::default(),
            settings,
        ))
    }

    pub fn run_in(&self, host: &Arc<Host>) -> Result<Value, Box<Diagnostic>> {
        script::run(host, &Main::open(&host.settings.script)?)
    }

    /// Runs `main.rhai`.
    pub fn run(&self) -> Result<Value, Box<Diagnostic>> {
        self.run_in(&self.host())
    }

    /// Runs `main.rhai`, which must succeed.
    #[track_caller]
    pub fn value(&self) -> Value {
        match self.run() {
            Ok(value) => value,
            Err(diagnostic) => panic!("{}", diagnostic.render(false)),
        }
    }

    /// Runs `main.rhai`, which must fail. Returns the rendered error without the folder's path.
    #[track_caller]
    pub fn error(&self) -> String {
        match self.run() {
            Ok(value) => panic!("it gave {value}"),
            Err(diagnostic) => self.shown(&diagnostic),
        }
    }

    pub fn shown(&self, diagnostic: &Diagnostic) -> String {
        let folder = format!("{}/", self.folder.path().display());
        diagnostic.render(false).replace(&folder, "")
    }
}

/// The lines that a run prints.
pub fn printed(host: &Host) -> Arc<std::sync::Mutex<Vec<String>>> {
    let lines: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    host.run.listen(Box::new(move |event| {
        if let Event::Print { text } = event {
            kept.lock().unwrap().push(text.clone());
        }
    }));
    lines
}
