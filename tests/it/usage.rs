//! A user reads memory by the stages of an engine's life: of real processes and containers, of the simulated engine,
//! and on a fake GPU.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use profiler::boundary::Point;
use profiler::engine::{Context, Pool, ProbeOptions, Usage};
use profiler::runtime::Permits;
use profiler::script::{self, Host};
use profiler::telemetry::{Device, Polled, Reading, Source, Tenant};
use serde_json::{Value, json};

use crate::engine::value;
use crate::script::bench::Bench;
use crate::support::container::{Container, docker};
use crate::support::{Profiler, engines, eventually, image, needs_docker};

const MIB: u64 = 1 << 20;

/// A sample of the fake GPU, in MiB: in use, held by the engine according to the driver, held by other processes.
#[derive(Clone, Copy)]
struct Look(u64, Option<u64>, u64);

/// An engine in its own process, on a fake GPU.
struct Tested {
    engine: Pool,
    host: Arc<Host>,
    _bench: Bench,
}

impl Tested {
    /// Each GPU source that the engine opens sees the next sample: before the start, while it runs (the sampler),
    /// loaded, warmed, after.
    fn new(samples: [Look; 5]) -> Self {
        let bench = Bench::new(&[("main.rhai", ""), ("mine.rhai", &engines::process(0.0, "[]"))]);
        let host = bench.allowing("process");
        let asked = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&host);
        let context = Context {
            tasks: host.tasks.clone(),
            run: Arc::clone(&host.run),
            permits: Permits::parse(["process"]).unwrap(),
            services: Arc::clone(&host.services),
            prompt_cache: Arc::default(),
            axes: Arc::new(|| None),
            gpus: Arc::new(move |_| {
                let look = samples[asked.fetch_add(1, Ordering::SeqCst).min(4)];
                // The engine's process is known once it runs, and stays known after it ends.
                let pid = Mutex::new(None);
                let seen = Arc::clone(&seen);
                let source = Polled::new("nvml", move || {
                    let mut pid = pid.lock().unwrap();
                    *pid = pid.or_else(|| first_process(&seen));
                    Ok(reading(look, *pid))
                });
                Ok(Some(Box::new(source) as Box<dyn Source>))
            }),
            home: bench.path(""),
            seed: 1,
            shared_gpu: true,
            wait: None,
            dry_run: false,
        };
        let options = json!({ "runtime": "process", "gpus": [0] });
        let adapter = script::adapter(&host, "./mine.rhai").unwrap();
        let engine = Pool::describe(&context, &adapter, vec![serde_json::from_value(options).unwrap()]).unwrap();
        Self {
            engine,
            host,
            _bench: bench,
        }
    }

    fn probe(&self) -> Value {
        let point = Point::default().with("input", 9).with("output", 9);
        self.engine.probe(&point, ProbeOptions::default()).unwrap()
    }

    /// Runs an engine through all stages.
    fn live(&self) -> Usage {
        assert_eq!(
            profiler::engine::usage(self.engine.first()).unwrap(),
            Usage::default(),
            "before the start"
        );
        assert_eq!(self.probe()["verdict"], "ok");
        assert_eq!(
            profiler::engine::usage(self.engine.first()).unwrap().after,
            None,
            "it still runs"
        );
        self.engine.stop().unwrap();
        profiler::engine::usage(self.engine.first()).unwrap()
    }
}

fn first_process(host: &Host) -> Option<u32> {
    let service = host.services.list().into_iter().next()?;
    host.tasks.wait(service.pids()).unwrap().first().copied()
}

fn reading(look: Look, pid: Option<u32>) -> Reading {
    let Look(used, ours, others) = look;
    let tenant = |pid, mib: u64| Tenant {
        pid,
        device: "GPU-1".into(),
        used: Some(mib * MIB),
    };
    let mut tenants = vec![tenant(1, others)];
    tenants.extend(pid.zip(ours).map(|(pid, ours)| tenant(pid, ours)));
    Reading {
        devices: vec![Device {
            id: "GPU-1".into(),
            name: "made up".into(),
            used: used * MIB,
            total: 80_000 * MIB,
        }],
        tenants,
        activity: Vec::new(),
    }
}

/// For each stage, in MiB: total, the engine's, other processes', and the provenance.
fn shown(usage: &Usage) -> Vec<(u64, u64, u64, String)> {
    [&usage.baseline, &usage.loaded, &usage.warmed, &usage.peak, &usage.after]
        .map(|stage| {
            let stage = stage.as_ref().unwrap();
            let provenance = stage.per_gpu[0].provenance.unwrap().to_string();
            (
                stage.sum / MIB,
                stage.ours.unwrap() / MIB,
                stage.others.unwrap() / MIB,
                provenance,
            )
        })
        .into()
}

fn expected(stages: [(u64, u64, u64, &str); 5]) -> Vec<(u64, u64, u64, String)> {
    stages
        .map(|(sum, ours, others, how)| (sum, ours, others, how.to_owned()))
        .into()
}

#[test]
fn each_stage_is_a_look_of_its_own_and_the_other_tenant_is_never_ours() {
    let tested = Tested::new([
        Look(1100, None, 1000),
        Look(9300, Some(8000), 1200),
        Look(7100, Some(6000), 1000),
        Look(9200, Some(8000), 1100),
        Look(1600, None, 1500),
    ]);
    let usage = tested.live();
    assert_eq!(usage.source.as_deref(), Some("nvml"));
    assert_eq!(
        shown(&usage),
        expected([
            (1100, 0, 1000, "measured"),
            (7100, 6000, 1000, "measured"),
            (9200, 8000, 1100, "measured"),
            (9300, 8000, 1200, "measured"),
            (1600, 0, 1500, "computed"),
        ])
    );
    let peak = usage.peak.unwrap();
    let ours: Vec<_> = peak
        .processes
        .iter()
        .map(|holder| (holder.used.unwrap() / MIB, holder.ours))
        .collect();
    assert_eq!(ours, [(1200, Some(false)), (8000, Some(true))]);
    assert!(peak.over_time.unwrap().seconds > 0.0);
    assert_eq!(usage.baseline.unwrap().over_time, None, "a moment");

    // A restart has its own stages.
    assert_eq!(tested.probe()["verdict"], "ok");
    assert_eq!(profiler::engine::usage(tested.engine.first()).unwrap().after, None);
    tested
        .host
        .tasks
        .finish(tested.host.services.stop_all(Duration::ZERO))
        .unwrap();
}

#[test]
fn where_the_driver_does_not_name_the_engine_its_memory_is_called_computed() {
    let usage = Tested::new([
        Look(1100, None, 1000),
        Look(9300, None, 1200),
        Look(7100, None, 1000),
        Look(9200, None, 1100),
        Look(1110, None, 1000),
    ])
    .live();
    assert_eq!(
        shown(&usage),
        expected([
            (1100, 0, 1000, "measured"),
            (7100, 6000, 1000, "computed"),
            (9200, 8000, 1100, "computed"),
            (9300, 8000, 1200, "computed"),
            (1110, 10, 1000, "computed"),
        ])
    );
}

/// The shell holds 40 MB from the start, and 60 MB more while the file `grow` exists. The engine is its child.
const HOLDS: &str = r#"
(
    until [ -e "$0/grow" ]; do sleep 0.02; done
    more=$(head -c 60000000 /dev/zero | tr "\0" x)
    : > "$0/grown"
    while [ -e "$0/grow" ]; do sleep 0.02; done
) &
held=$(head -c 40000000 /dev/zero | tr "\0" x)
: > "$0/held"
"$@"
:
"#;

#[test]
fn host_memory_of_real_processes_is_seen_stage_by_stage() {
    let folder = tempfile::tempdir().unwrap();
    let plain = engines::process(0.0, "[]");
    let (at, shell) = (
        folder.path().display(),
        HOLDS.replace('\\', "\\\\").replace('"', "\\\""),
    );
    let adapter = plain.replace(
        "command: [",
        &format!(
            "command: [\"sh\", \"-c\", \"{}\", \"{at}\", ",
            shell.replace('\n', "\\n")
        ),
    );
    let bench = Bench::new(&[
        ("mine.rhai", adapter.as_str()),
        (
            "main.rhai",
            r#"
            import "std/engines" as engines;
            let engine = engines::describe("./mine.rhai", #{ runtime: "process", limits: #{ input: 100, output: 10 } });
            let before = engine.usage();
            engine.start();
            print("held");
            let idle = engine.usage();
            print("grown");
            let deadline = elapsed() + 20;
            while engine.usage().peak.sum < idle.loaded.sum + (57 << 20) {
                assert(elapsed() < deadline, "its growth was never seen");
                sleep(0.02);
            }
            print("shrink");
            while engine.memory().used > idle.loaded.sum + (20 << 20) {
                assert(elapsed() < deadline, "it never shrank");
                sleep(0.02);
            }
            let answer = engine.probe(#{ input: 20, output: 4 });
            let warm = engine.usage();
            engine.stop();
            #{ before: before, idle: idle, answer: answer, warm: warm, after: engine.usage() }
            "#,
        ),
    ]);
    let host = bench.allowing("process");
    let at = folder.path().to_owned();
    // The script prints the next change to the processes, and the listener waits until it has happened.
    host.run.listen(Box::new(move |event| {
        let profiler::run::Event::Print { text } = event else {
            return;
        };
        match text.as_str() {
            "shrink" => std::fs::remove_file(at.join("grow")).unwrap(),
            mark => {
                if mark == "grown" {
                    std::fs::write(at.join("grow"), "").unwrap();
                }
                eventually(mark, || at.join(mark).exists());
            }
        }
    }));
    let seen = match bench.run_in(&host) {
        Ok(seen) => seen,
        Err(diagnostic) => panic!("{}", diagnostic.render(false)),
    };
    let bytes = |pointer: &str| {
        seen.pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("{pointer}: {seen}"))
    };
    assert!(seen["before"]["loaded"].is_null());
    assert_eq!(seen["answer"]["verdict"], "ok", "{seen}");
    assert_eq!(seen["idle"]["source"], "host");
    assert_eq!(bytes("/warm/baseline/sum"), 0, "a tree that is not there holds nothing");
    let (idle, peak, warmed) = (
        bytes("/idle/loaded/sum"),
        bytes("/after/peak/sum"),
        bytes("/warm/warmed/sum"),
    );
    assert!(idle > 38 * MIB, "{idle}");
    assert!(peak >= idle + 57 * MIB, "{peak} {idle}");
    assert!(warmed + 30 * MIB < peak, "{warmed} {peak}");
    assert!(
        bytes("/warm/loaded/sum") + 30 * MIB < peak,
        "the newest idle look counts, not the highest"
    );
    assert_eq!(bytes("/after/after/sum"), 0);
    assert!(seen["warm"]["after"].is_null());
    for stage in ["/idle/loaded", "/warm/warmed", "/after/peak"] {
        let share = |field: &str| &seen.pointer(stage).unwrap()["per_gpu"][0][field];
        assert_eq!((share("ours"), share("others")), (share("used"), &json!(0)), "{stage}");
        assert_eq!(share("provenance"), "measured", "{stage}");
    }
    let processes = seen["warm"]["warmed"]["processes"].as_array().unwrap();
    let holds = |process: &Value| process["name"] == "sh" && process["used"].as_u64().unwrap() > 38 * MIB;
    assert!(processes.iter().any(holds), "{processes:?}");
    assert!(processes.iter().all(|process| process["ours"] == true), "{processes:?}");
}

#[test]
fn what_was_seen_is_kept_in_the_folder_of_the_run() {
    let script = "import \"std/engines\" as engines;
        let engine = engines::describe(\"sim\", #{ limits: #{ input: 100, output: 20, concurrency: 2 },
            sim: #{ time_scale: 0.02 }, sample_hz: 1000 });
        engine.send(\"some words\");
        engine.load(#{ concurrency: 2, requests: 4, input: 64, output: 4 });
        engine.stop();
        engine.usage()";
    let outcome = Profiler::new()
        .file("one.rhai", script)
        .args(["run", "one.rhai", "--out", "run", "--json"])
        .run()
        .success();
    let kept = |name: &str| std::fs::read_to_string(outcome.folder().join("run/memory").join(name)).unwrap();
    let usage: Value = serde_json::from_str(&kept("engine-1.usage.json")).unwrap();
    for stage in ["baseline", "loaded", "warmed", "peak", "after"] {
        assert!(usage[stage]["sum"].as_u64().unwrap() > 0, "{stage}: {usage}");
    }
    assert_eq!(usage["after"]["sum"], usage["baseline"]["sum"]);
    assert_eq!(usage["peak"]["per_gpu"][0]["id"], "sim0");
    assert!(usage["sampling"]["taken"].as_u64().unwrap() > 10, "{usage}");
    let series = kept("engine-1.csv");
    let at = |phase: &str| {
        series
            .find(&format!(",{phase},"))
            .unwrap_or_else(|| panic!("no {phase}: {series}"))
    };
    assert!(at("baseline") < at("loading"), "{series}");
    assert!(at("loading") < at("warm_up") && at("warm_up") < at("load"), "{series}");
    assert!(at("load") < at("after"), "{series}");
    let processes = kept("engine-1.processes.csv");
    assert!(
        processes.starts_with("from_s,to_s,samples,pid,device,used\n"),
        "{processes}"
    );
    assert!(processes.contains(",sim0,"), "{processes}");
}

#[test]
fn a_start_that_fails_leaves_its_peak_and_what_came_back() {
    let usage = value(
        "let engine = engines::describe(\"sim\", #{ memory_fraction: 0.3, sim: #{ time_scale: 0.01 } });
         let answer = engine.probe(#{ input: 30, output: 10 });
         assert(answer.verdict == \"start_failed\", answer.verdict);
         engine.usage()",
    );
    assert!(usage["loaded"].is_null() && usage["warmed"].is_null(), "{usage}");
    assert!(
        usage["peak"]["sum"].as_u64() > usage["baseline"]["sum"].as_u64(),
        "{usage}"
    );
    assert_eq!(usage["after"]["sum"], usage["baseline"]["sum"]);
}

#[test]
fn the_memory_of_a_container_is_its_own() {
    if !needs_docker() {
        return;
    }
    let bench = Bench::new(&[
        ("mine.rhai", engines::container(0.0, "[]").as_str()),
        (
            "main.rhai",
            r#"
            import "std/engines" as engines;
            let engine = engines::describe("./mine.rhai", #{ runtime: "docker", limits: #{ input: 100, output: 10 } });
            engine.probe(#{ input: 20, output: 4 });
            let running = engine.usage();
            engine.stop();
            [running, engine.usage()]
            "#,
        ),
    ]);
    let host = bench.allowing("image=profiler-test/");
    let seen = match bench.run_in(&host) {
        Ok(seen) => seen,
        Err(diagnostic) => panic!("{}", diagnostic.render(false)),
    };
    let running = &seen[0];
    assert_eq!(running["source"], "host");
    assert_eq!(running["baseline"]["sum"], 0);
    let loaded = &running["loaded"]["per_gpu"][0];
    assert!(
        loaded["ours"].as_u64().unwrap() > MIB && loaded["ours"] == loaded["used"],
        "{loaded}"
    );
    assert!(loaded["id"].as_str().unwrap().len() > 8, "a cgroup: {loaded}");
    assert!(running["warmed"]["sum"].as_u64().unwrap() > MIB && running["after"].is_null());
    assert_eq!(seen[1]["after"]["sum"], 0);
}

#[test]
fn an_engine_that_was_attached_to_has_no_baseline_and_no_end() {
    if !needs_docker() {
        return;
    }
    let image = image::sim();
    let name = format!("profiler-test-usage-{}", std::process::id());
    let profile = [
        "--profile",
        "llama-8b-24gb-vllm",
        "--time-scale",
        "0",
        "--max-model-len",
        "4096",
    ];
    let mut words = vec!["run", "--detach", "--label", "profiler-test=usage", "--name", &name];
    words.extend(["--publish", "127.0.0.1:0:8000", image]);
    words.extend(profile);
    let container = Container(docker(&words));
    let bench = Bench::new(&[(
        "main.rhai",
        r#"
        import "std/engines" as engines;
        let p = params(#{ container: param("", "the container") });
        let engine = engines::attach("vllm", #{ container: p.container });
        engine.probe(#{ input: 20, output: 4 });
        let running = engine.usage();
        engine.stop();
        [running, engine.usage()]
        "#,
    )])
    .set(json!({ "container": name }));
    let host = bench.allowing("exec");
    let seen = match bench.run_in(&host) {
        Ok(seen) => seen,
        Err(diagnostic) => panic!("{}", diagnostic.render(false)),
    };
    for usage in [&seen[0], &seen[1]] {
        assert_eq!(usage["source"], "host");
        assert!(usage["baseline"].is_null() && usage["after"].is_null(), "{usage}");
        for stage in ["loaded", "warmed", "peak"] {
            let share = &usage[stage]["per_gpu"][0];
            assert!(share["used"].as_u64().unwrap() > MIB, "{stage}: {usage}");
            assert_eq!(
                (&share["ours"], &share["provenance"]),
                (&share["used"], &json!("measured"))
            );
        }
    }
    drop(container);
}
