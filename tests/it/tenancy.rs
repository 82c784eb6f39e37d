//! A user starts an engine only when the GPUs are free of other processes and back at their baseline. The GPU, or the
//! library of its driver, is simulated by the test.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Arc, Mutex};

use profiler::boundary::Point;
use profiler::engine::{Context, Pool, ProbeOptions};
use profiler::fault::{Fault, Kind};
use profiler::run::{Event, Run};
use profiler::runtime::{Permits, Services};
use profiler::script;
use profiler::telemetry::{Device, Polled, Reading, Source, Tenant};
use serde_json::{Value, json};

use crate::script::bench::Bench;
use crate::support::{Profiler, model};

/// An engine whose process ends at once.
const ENDS: &str = r#"import "std/engines/openai" as openai;
fn launch(options) { #{ command: ["false"], port: 0 } }
fn ready(engine) { false }
fn request(point) { openai::request(point) }
fn facts() { openai::facts() }
fn failures() { openai::failures() }
fn flags(limits) { openai::flags(limits) }
"#;

const MIB: u64 = 1 << 20;

/// An engine on a simulated GPU.
struct Tested {
    engine: Pool,
    services: Arc<Services>,
    run: Arc<Run>,
    samples: Arc<Mutex<VecDeque<(u64, u64)>>>,
    /// MiB in use at each sample, and the number of starts until then.
    seen: Arc<Mutex<Vec<(u64, usize)>>>,
    _bench: Bench,
}

impl Tested {
    /// Each sample is (MiB in use, MiB of it held by process 1). The last one repeats.
    fn new(shared_gpu: bool, samples: &[(u64, u64)]) -> Self {
        Self::with(shared_gpu, samples, json!({}))
    }

    /// With further options of the engine.
    fn with(shared_gpu: bool, samples: &[(u64, u64)], further: Value) -> Self {
        let bench = Bench::new(&[("main.rhai", ""), ("mine.rhai", ENDS)]);
        let host = bench.host();
        let samples = Arc::new(Mutex::new(VecDeque::from(samples.to_vec())));
        let seen: Arc<Mutex<Vec<(u64, usize)>>> = Arc::default();
        let (shown, written) = (Arc::clone(&samples), Arc::clone(&seen));
        let services = Arc::clone(&host.services);
        let context = Context {
            tasks: host.tasks.clone(),
            run: Arc::clone(&host.run),
            permits: Permits::parse(["process"]).unwrap(),
            services: Arc::clone(&host.services),
            prompt_cache: Arc::default(),
            axes: Arc::new(|| None),
            gpus: Arc::new(move |names| {
                assert_eq!(names, ["0"]);
                let (shown, written, services) = (Arc::clone(&shown), Arc::clone(&written), Arc::clone(&services));
                let source: Box<dyn Source> = Box::new(Polled::new("nvml", move || {
                    let reading = look(&shown);
                    written
                        .lock()
                        .unwrap()
                        .push((reading.used() / MIB, services.list().len()));
                    Ok(reading)
                }));
                Ok(Some(source))
            }),
            home: bench.path(""),
            seed: 1,
            shared_gpu,
            wait: None,
            dry_run: false,
        };
        let mut options = json!({ "runtime": "process", "gpus": [0], "settle_timeout": 0.3 });
        options
            .as_object_mut()
            .unwrap()
            .extend(further.as_object().unwrap().clone());
        let adapter = script::adapter(&host, "./mine.rhai").unwrap();
        Self {
            engine: Pool::describe(&context, &adapter, vec![serde_json::from_value(options).unwrap()]).unwrap(),
            services: Arc::clone(&host.services),
            run: Arc::clone(&host.run),
            samples,
            seen,
            _bench: bench,
        }
    }

    fn then(&self, samples: &[(u64, u64)]) {
        *self.samples.lock().unwrap() = samples.iter().copied().collect();
    }

    fn probe(&self) -> Result<Value, Fault> {
        let point = Point::default().with("input", 9).with("output", 9);
        self.engine.probe(&point, ProbeOptions::default())
    }

    /// Starts the engine, which ends by itself.
    #[track_caller]
    fn starts(&self) {
        assert_eq!(self.probe().unwrap_err().kind, Kind::StartFailed);
    }

    /// The number of starts.
    fn started(&self) -> usize {
        self.services.list().len()
    }
}

fn look(samples: &Mutex<VecDeque<(u64, u64)>>) -> Reading {
    let mut samples = samples.lock().unwrap();
    let (used, foreign) = samples[0];
    if samples.len() > 1 {
        samples.pop_front();
    }
    let device = Device {
        id: "GPU-1".into(),
        name: "made up".into(),
        used: used * MIB,
        total: 80_000 * MIB,
    };
    let tenant = Tenant {
        pid: 1,
        device: "GPU-1".into(),
        used: Some(foreign * MIB),
    };
    Reading {
        devices: vec![device],
        tenants: vec![tenant],
        activity: Vec::new(),
    }
}

#[test]
fn a_gpu_that_somebody_else_uses_is_refused_unless_the_user_shares_it() {
    let foreign = Tested::new(false, &[(500, 257)]);
    let fault = foreign.probe().unwrap_err();
    assert_eq!((fault.kind, fault.kind.exit_code()), (Kind::Missing, 3));
    assert!(fault.message.contains("process 1 holds 257 MiB of `GPU-1`"), "{fault}");
    assert!(fault.hint.unwrap().contains("--shared-gpu"));
    assert_eq!(foreign.started(), 0);

    Tested::new(false, &[(500, 256)]).starts();
    Tested::new(true, &[(500, 257)]).starts();
}

/// The driver's library of a machine with one GPU of 80 GiB, half of which process 1 holds.
const DRIVER: &str = r#"
#include <string.h>
typedef unsigned long long u64;
struct memory { unsigned version; u64 total, reserved, free, used; };
struct process { unsigned pid; u64 used; unsigned instances[2]; };
int nvmlInit_v2(void) { return 0; }
int nvmlSystemGetDriverVersion(char *to, unsigned length) { strncpy(to, "570.0", length); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) { *gpu = (void *)1; return 0; }
int nvmlDeviceGetHandleByUUID(const char *id, void **gpu) { *gpu = (void *)1; return 0; }
int nvmlDeviceGetUUID(void *gpu, char *to, unsigned length) { strncpy(to, "GPU-1", length); return 0; }
int nvmlDeviceGetName(void *gpu, char *to, unsigned length) { strncpy(to, "made up", length); return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *gpu, struct memory *to) {
    to->total = 80ull << 30; to->used = to->free = 40ull << 30; to->reserved = 0; return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, struct process *to) {
    if (*count < 1) { *count = 1; return 7; }
    *count = 1; to->pid = 1; to->used = 39ull << 30; return 0;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *gpu, unsigned *count, struct process *to) { *count = 0; return 0; }
"#;

/// Through the driver's library, as on a real machine.
#[test]
fn a_card_that_another_process_holds_is_told_before_the_start() {
    let profiler = Profiler::new().file("nvml.c", DRIVER);
    let folder = profiler.folder().to_path_buf();
    let library = folder.join("libnvidia-ml.so.1");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &folder.join("nvml.c")])
        .status();
    assert!(built.unwrap().success());
    let model = model::write(&folder);
    let run = |more: &[&str]| {
        Profiler::new()
            .env("LD_LIBRARY_PATH", &folder)
            .args("run adaptive --engine vllm --runtime process --program /bin/false --allow process".split(' '))
            .args("--input 128..4096 --output 16 --model".split(' '))
            .arg(&model)
            .args(more)
            .run()
            .code(3)
    };
    let _ = run(&[])
        .stderr("the GPU is not free: process 1 holds 39936 MiB of `GPU-1`")
        .stderr("--shared-gpu")
        .nowhere("starting");
    let _ = run(&["--shared-gpu"]).stderr("starting");
}

/// With `isolate` what stays in use is measured and told, and the search goes on.
#[test]
fn memory_that_stays_is_a_warning_where_points_are_isolated() {
    for shared_gpu in [false, true] {
        let tested = Tested::with(shared_gpu, &[(100, 0)], json!({ "isolate": true }));
        let warned: Arc<Mutex<Vec<Option<f64>>>> = Arc::default();
        let kept = Arc::clone(&warned);
        tested.run.listen(Box::new(move |event| match event {
            Event::Warning(warning) if warning.code == "not_isolated" => kept.lock().unwrap().push(warning.value),
            _ => {}
        }));
        tested.starts();
        tested.then(&[(700, 0), (700, 0), (120, 0)]);
        tested.starts();
        assert_eq!(*warned.lock().unwrap(), [], "it came back");
        let before = tested.started();
        tested.then(&[(700, 0)]);
        tested.starts();
        assert!(tested.started() > before, "it goes on");
        let told = warned.lock().unwrap().clone();
        assert_eq!(told.first(), Some(&Some((600 * MIB) as f64)), "{told:?}");
    }
}

#[test]
fn memory_is_back_at_its_baseline_before_the_next_start() {
    let tested = Tested::with(false, &[(100, 0)], json!({ "settle_timeout": 2 }));
    tested.starts();
    // Freed lazily: sampled twice before it is gone.
    tested.then(&[(700, 0), (700, 0), (120, 0)]);
    tested.starts();
    let seen = tested.seen.lock().unwrap().clone();
    let lazily: Vec<usize> = seen
        .iter()
        .filter(|(used, _)| *used == 700)
        .map(|(_, started)| *started)
        .collect();
    assert_eq!(lazily, [1, 1], "it was started before the memory was back");

    let starts = tested.started();
    tested.then(&[(700, 0)]);
    let fault = tested.probe().unwrap_err();
    assert_eq!(fault.kind, Kind::Missing);
    assert!(
        fault
            .message
            .contains("memory still above the baseline after 2 s: 600 MiB of `GPU-1`"),
        "{fault}"
    );
    assert!(fault.hint.unwrap().contains("settle_timeout"));
    assert_eq!(tested.started(), starts);
}
