//! The client under measurement, in its own process: drives one load and prints its timestamps and its cost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nix::sys::resource::UsageWho;
use profiler::load::{
    BuildRequest, Control, LoadConfig, QueuedRequest, RequestOutcome, RequestRecord, RequestSource, Slots, run_load,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::arrivals::Poisson;
use crate::clock;

/// The load to drive.
pub struct Load {
    pub slots: Slots,
    /// Number of requests.
    pub count: u64,
    /// Tokens per answer.
    pub tokens: u64,
    /// Arrivals per second; `None` in a closed loop.
    pub rate: Option<f64>,
}

impl Load {
    /// A closed loop: `streams` concurrent streams, each for `waves` answers.
    pub fn closed(streams: u64, waves: u64, tokens: u64) -> Self {
        Self {
            slots: Slots::closed(streams, Duration::ZERO),
            count: streams * waves,
            tokens,
            rate: None,
        }
    }
}

/// Requests that differ only in their number.
struct Alike {
    given: Mutex<(u64, Option<Poisson>)>,
    count: u64,
    tokens: u64,
}

impl RequestSource for Alike {
    fn next(&self) -> profiler::fault::Result<Option<BuildRequest>> {
        let mut given = self.given.lock().unwrap();
        let number = given.0;
        given.0 += 1;
        let body = json!({
            "model": "mock", "user": number.to_string(), "stream": true, "max_tokens": self.tokens,
            "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": "word ".repeat(64) }],
        });
        if number >= self.count {
            return Ok(None);
        }
        let (at, output) = (given.1.as_mut().map(Poisson::next), self.tokens);
        Ok(Some(Box::new(move || {
            Ok(QueuedRequest {
                at,
                body: Bytes::from(body.to_string()),
                decoder: profiler::engine::decoder(profiler::engine::Protocol::OpenaiChat),
                timeout: Duration::from_secs(60),
                input: 64,
                output,
            })
        })))
    }

    fn ended(&self, _: &RequestRecord) -> Control {
        Control::Continue
    }
}

/// Drives a load and prints one JSON document.
pub fn run(url: &str, load: Load) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let source = Arc::new(Alike {
        given: Mutex::new((0, load.rate.map(Poisson::new))),
        count: load.count,
        tokens: load.tokens,
    });
    let plan = LoadConfig {
        slots: load.slots,
        limit: None,
        grace: Duration::ZERO,
        keep_text: true,
        must_connect: true,
        key: None,
        cancel: CancellationToken::new(),
    };
    let before = clock::cpu(UsageWho::RUSAGE_SELF);
    let driven = runtime
        .block_on(run_load(&format!("{url}/v1/chat/completions"), plan, source))
        .unwrap();
    let after = clock::cpu(UsageWho::RUSAGE_SELF);
    // Read before printing adds to it.
    let rss = rss();
    let zero = clock::reading(driven.clock.began);
    let nanos = |at: Duration| u64::try_from((zero + at).as_nanos()).unwrap();
    let records: Vec<_> = driven
        .records
        .iter()
        .map(|record| {
            let completed = record.outcome == RequestOutcome::Completed;
            json!([
                record.index,
                completed,
                nanos(record.sent),
                record.first_token.map(nanos),
                record.itl_ms,
                record.tpot_ms(load.tokens)
            ])
        })
        .collect();
    let late = driven.records.iter().map(|record| ms(record.sent - record.scheduled));
    let watch = &driven.health;
    let document = json!({
        "user": (after.0 - before.0).as_secs_f64(), "system": (after.1 - before.1).as_secs_f64(), "rss_kib": rss,
        "ttft_ms": ttft(&driven.records), "itl_ms": driven.records.iter().flat_map(|record| &record.itl_ms).collect::<Vec<_>>(),
        "duration": driven.duration.as_secs_f64(), "events": watch.events, "reads": watch.reads, "wakes": watch.wakes,
        "cpu_share": watch.stats.cpu, "longest_pause_ms": watch.stats.longest_pause_ms,
        "longest_wait_ms": watch.stats.longest_wait_ms, "waited_share": watch.stats.waited,
        "late_ms": late.collect::<Vec<_>>(),
        "send_late_ms": watch.send_late_ms.iter().copied().fold(0.0, f32::max),
        "unprepared": watch.stats.unprepared, "opened_late": watch.stats.opened_late, "records": records,
    });
    println!("{document}");
}

/// TTFT as the other clients define it, from sending the request to the first token, for completed requests only.
fn ttft(records: &[RequestRecord]) -> Value {
    let completed = records
        .iter()
        .filter(|record| record.outcome == RequestOutcome::Completed);
    completed
        .filter_map(|record| Some(ms(record.first_token? - record.sent)))
        .collect()
}

/// Peak resident memory of this process, in KiB.
fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
