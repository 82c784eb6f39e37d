//! Measures how well the sampler keeps its rate, and its cost: memory of one GPU, with its processes and power ten
//! times per second.
//!
//! `cargo bench --bench telemetry -- [SECONDS] [HZ] [GPU] [alone]` (60, 1000, 0) prints one Markdown table, which the
//! README quotes. `alone` leaves out processes and power, which shows their cost. The built file
//! (`target/release/deps/telemetry-*`) has no further dependencies and can be copied to a machine with a GPU. Without a
//! GPU it samples the memory of its own process, and says so. It asserts nothing, because the figures depend on the
//! machine.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops where it cannot measure"
)]

use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use procfs::process::{Process, Task};
use profiler::fault::Result;
use profiler::telemetry::host::{Roots, Tree};
use profiler::telemetry::{Reading, SLOW_HZ, Sampler, Source, gpu_source, gpus};

/// Duration of each call, in microseconds.
type Times = Arc<Mutex<Vec<f64>>>;

/// A source with timed calls.
struct Timed {
    inner: Box<dyn Source>,
    quick: Times,
    whole: Times,
    /// True to leave out processes and power.
    alone: bool,
}

impl Source for Timed {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn read(&mut self) -> Result<Reading> {
        timed(&self.whole, || self.inner.read())
    }

    fn read_memory(&mut self) -> Result<Reading> {
        timed(&self.quick, || self.inner.read_memory())
    }

    fn slow_source(&self) -> Option<Box<dyn Source>> {
        if self.alone {
            return None;
        }
        Some(Box::new(Self {
            alone: false,
            inner: self.inner.slow_source()?,
            quick: Arc::clone(&self.quick),
            whole: Arc::clone(&self.whole),
        }))
    }
}

fn timed<T>(times: &Times, call: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = call();
    times.lock().unwrap().push(began.elapsed().as_secs_f64() * 1e6);
    result
}

fn main() {
    // Cargo itself passes `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let number = |index: usize, usual: f64| args.get(index).map_or(usual, |arg| arg.parse().unwrap());
    let (seconds, hz) = (number(0, 60.0), number(1, 1000.0));
    let gpu = args.get(2).map_or("0", String::as_str);

    let (what, inner) = source(gpu);
    let (quick, whole) = (Times::default(), Times::default());
    let timed = Timed {
        alone: args.get(3).is_some_and(|arg| arg == "alone"),
        inner,
        quick: Arc::clone(&quick),
        whole: Arc::clone(&whole),
    };
    let (used, began) = (cpu_seconds(), Instant::now());
    let sampler = Sampler::start(Box::new(timed), hz).unwrap();
    sleep(Duration::from_secs_f64(seconds));
    // Read before the threads end, because per-thread usage is available only while they live.
    let threads = threads();
    let (used, elapsed) = (cpu_seconds() - used, began.elapsed().as_secs_f64());
    let record = sampler.stop();
    let health = record.health;

    let due = health.taken + health.lost;
    println!("| what | figure |");
    println!("|---|---|");
    row("looked at", &what);
    row("seconds, looks a second", &format!("{elapsed:.1}, {hz}"));
    row("samples due", &due.to_string());
    row(
        "on time within 0.5 ms",
        &format!("{:.3} %", (health.taken - health.late) as f64 * 100.0 / due as f64),
    );
    row("late, missed", &format!("{}, {}", health.late, health.lost));
    row("worst lateness, ms", &format!("{:.3}", health.latest_us as f64 / 1e3));
    row("failed", &health.errors.to_string());
    row(
        "CPU time of the process",
        &format!("{:.2} % of one core", used * 100.0 / elapsed),
    );
    for (name, seconds) in threads {
        row(
            &format!("of it thread `{name}`"),
            &format!("{:.2} %", seconds * 100.0 / elapsed),
        );
    }
    row("memory query: p50, p99, highest, µs", &quantiles(&quick));
    row(
        "samples at processes and power",
        &format!("{} ({SLOW_HZ} a second)", health.beside),
    );
    row("such a look: p50, p99, highest, µs", &quantiles(&whole));
    row("rows of processes kept", &record.slow.processes().len().to_string());
    row("rows kept", &record.series.rows().len().to_string());
}

fn row(what: &str, figure: &str) {
    println!("| {what} | {figure} |");
}

fn source(gpu: &str) -> (String, Box<dyn Source>) {
    match gpus() {
        Ok(_) => {
            let mut source = gpu_source(&[gpu.to_owned()]).unwrap();
            let name = source.read().unwrap().devices[0].name.clone();
            (format!("{name} ({})", source.name()), source)
        }
        Err(absent) => (
            format!("host memory of this process, as there is no GPU: {absent}"),
            Box::new(Tree::new(std::process::id(), Roots::default())),
        ),
    }
}

fn cpu_seconds() -> f64 {
    let stat = Process::myself().unwrap().stat().unwrap();
    (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
}

/// Name and CPU seconds of each thread.
fn threads() -> Vec<(String, f64)> {
    let seconds = |task: Task| {
        let stat = task.stat().ok()?;
        Some((
            stat.comm,
            (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
        ))
    };
    let tasks = Process::myself().unwrap().tasks().unwrap().flatten();
    tasks.filter_map(seconds).collect()
}

fn quantiles(times: &Times) -> String {
    let mut times = times.lock().unwrap().clone();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| {
        times
            .get(((times.len() - 1) as f64 * share) as usize)
            .copied()
            .unwrap_or(f64::NAN)
    };
    if times.is_empty() {
        return "none".to_owned();
    }
    format!("{:.1}, {:.1}, {:.1}", at(0.5), at(0.99), at(1.0))
}
