//! Measures how long the report page of a large run takes to build and to open: 10,000 points, and an hour of GPU
//! memory at 100 Hz from eight GPUs.
//!
//! `cargo bench --bench report -- [POINTS] [SECONDS]` (10000, 3600) writes the folder of such a run, calls `profiler
//! report` on it five times, opens the page in Chromium five times, and prints one Markdown table. The run is invented,
//! so its page says SIMULATED. It asserts nothing, because the figures depend on the machine.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a bench prints, and stops where it cannot measure; it uses a part of the tests' browser"
)]

#[path = "../../tests/it/support/browser.rs"]
mod browser;
mod invented;
#[path = "../../tests/it/support/temp.rs"]
mod temp;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use browser::{Browser, Screen};
use temp::temp;

const TIMES: usize = 5;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse::<usize>().ok());
    let points = numbers.next().unwrap_or(10_000);
    let seconds = numbers.next().unwrap_or(3600) as u64;
    let folder = temp();
    let run = folder.path().join("run");
    invented::write(&run, points, seconds);
    let series = std::fs::metadata(run.join("memory/engine-1.csv")).unwrap().len();
    let journal = std::fs::metadata(run.join("journal.jsonl")).unwrap().len();
    println!(
        "{points} points (journal: {:.1} MB), {seconds} s of memory at 100 Hz from 8 GPUs (series: {:.1} MB), SIMULATED\n",
        megabytes(journal),
        megabytes(series)
    );
    let page = folder.path().join("page.html");
    let made: Vec<f64> = (0..TIMES).map(|_| make(&run, &page)).collect();
    println!("| | median | slowest |\n|---|---|---|");
    row("made", &made);
    let size = std::fs::metadata(&page).unwrap().len();
    let opened = tokio::runtime::Runtime::new().unwrap().block_on(open(&page));
    row(
        "opened: loaded",
        &opened.iter().map(|times| times.0).collect::<Vec<_>>(),
    );
    row(
        "opened: first drawn",
        &opened.iter().map(|times| times.1).collect::<Vec<_>>(),
    );
    println!("\nthe page: {:.2} MB", megabytes(size));
}

fn make(run: &Path, page: &Path) -> f64 {
    let begun = Instant::now();
    let status = Command::new(env!("CARGO_BIN_EXE_profiler"))
        .args(["report".as_ref(), run.as_os_str(), "--html".as_ref(), page.as_os_str()])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "profiler report: {status}");
    begun.elapsed().as_secs_f64()
}

/// Seconds from the start of the navigation to the load event and to the first paint.
async fn open(page: &Path) -> Vec<(f64, f64)> {
    const DRAWN: &str = "const paint = performance.getEntriesByName('first-contentful-paint')[0];\
        const load = performance.getEntriesByType('navigation')[0];\
        return [load.loadEventEnd, paint ? paint.startTime : null]";
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let browser = Browser::open(page, Screen::WIDE).await;
        let told = loop {
            let told = browser.tell(DRAWN).await;
            if told[0].as_f64() > Some(0.0) && told[1].is_number() {
                break told;
            }
        };
        times.push((told[0].as_f64().unwrap() / 1e3, told[1].as_f64().unwrap() / 1e3));
        browser.close().await;
    }
    times
}

fn row(name: &str, seconds: &[f64]) {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    println!(
        "| {name} | {:.2} s | {:.2} s |",
        sorted[sorted.len() / 2],
        sorted[sorted.len() - 1]
    );
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
