//! The timeline of a load: one row per metrics sample, with client and device data since the previous row.
//!
//! The file is CSV with the columns of [`COLUMNS`]; unknown values are empty, never zero.

use std::io::{self, Write};

use super::energy::total_watts;
use super::{EngineMetrics, MemoryInUse, MetricsSample, Observations, PowerSample};
use crate::load::{RequestOutcome, RequestRecord};

/// The columns of the file.
pub const COLUMNS: &str = "seconds,running,waiting,kv_usage,preemptions,prefix_hit_rate,used_bytes,power_w,in_flight,done,\
                           output_tokens_per_s,round_trip_ms";

/// One row of the timeline. Rates cover the time since the previous row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimelineRow {
    /// Seconds since the start of the load: when the engine's response arrived.
    pub seconds: f64,
    /// Running requests.
    pub running: Option<u64>,
    /// Requests waiting in the engine.
    pub waiting: Option<u64>,
    /// KV cache usage, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Preemptions since the first sample.
    pub preemptions: Option<u64>,
    /// Prefix cache hit rate since the previous row; `None` without queries.
    pub prefix_hit_rate: Option<f64>,
    /// Peak bytes in use on all devices together since the previous row.
    pub used_bytes: Option<u64>,
    /// Watts of all devices together, in the last sample before this row.
    pub power_w: Option<f64>,
    /// Requests in flight.
    pub in_flight: u64,
    /// Completed requests.
    pub done: u64,
    /// Tokens received per second since the previous row.
    pub output_tokens_per_s: f64,
    /// Response time of the metrics page; `None` if there is none.
    pub round_trip_ms: Option<f64>,
}

/// The rows of a load, oldest first. Without a metrics page, one row per polling period.
pub fn timeline(observed: &Observations, records: &[RequestRecord]) -> Vec<TimelineRow> {
    let has_metrics_page = !observed.samples.is_empty();
    let mut rows: Vec<TimelineRow> = if has_metrics_page {
        let first = observed.samples.iter().find_map(|sample| sample.metrics.as_ref());
        let mut before = first;
        observed
            .samples
            .iter()
            .map(|sample| sample_row(sample, first, &mut before))
            .collect()
    } else {
        ticks(observed.hz, records)
    };
    join_memory(&mut rows, &observed.memory);
    join_power(&mut rows, &observed.power);
    join_requests(&mut rows, records);
    rows
}

/// Writes the header and the rows.
///
/// # Errors
///
/// Fails if writing fails.
pub fn write(out: &mut impl Write, rows: &[TimelineRow]) -> io::Result<()> {
    fn field<T: ToString>(value: Option<T>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let rounded = |value: Option<f64>, digits: usize| value.map(|value| format!("{value:.digits$}"));
    writeln!(out, "{COLUMNS}")?;
    for row in rows {
        writeln!(
            out,
            "{:.6},{},{},{},{},{},{},{},{},{},{:.3},{}",
            row.seconds,
            field(row.running),
            field(row.waiting),
            field(row.kv_usage),
            field(row.preemptions),
            field(rounded(row.prefix_hit_rate, 6)),
            field(row.used_bytes),
            field(rounded(row.power_w, 3)),
            row.in_flight,
            row.done,
            row.output_tokens_per_s,
            field(rounded(row.round_trip_ms, 3)),
        )?;
    }
    Ok(())
}

fn sample_row<'a>(
    sample: &'a MetricsSample,
    first: Option<&EngineMetrics>,
    before: &mut Option<&'a EngineMetrics>,
) -> TimelineRow {
    let metrics = sample.metrics.as_ref();
    let gained = |count: fn(&EngineMetrics) -> Option<u64>, since: Option<&EngineMetrics>| {
        count(metrics?)?.checked_sub(count(since?)?)
    };
    let queries = gained(|metrics| metrics.prefix_queries, *before).filter(|queries| *queries > 0);
    let found = gained(|metrics| metrics.prefix_hits, *before);
    let moment = TimelineRow {
        seconds: sample.at,
        running: metrics.and_then(|metrics| metrics.queue.running),
        waiting: metrics.and_then(|metrics| metrics.queue.waiting),
        kv_usage: metrics.and_then(|metrics| metrics.queue.kv_usage),
        preemptions: gained(|metrics| metrics.queue.preemptions, first),
        prefix_hit_rate: queries.zip(found).map(|(queries, hits)| share(hits, queries)),
        round_trip_ms: Some((sample.at - sample.requested_at) * 1e3),
        ..TimelineRow::default()
    };
    *before = metrics.or(*before);
    moment
}

/// `part` / `whole`; `whole` must not be zero.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn ticks(hz: f64, records: &[RequestRecord]) -> Vec<TimelineRow> {
    let end = records
        .iter()
        .map(|record| record.ended.as_secs_f64())
        .fold(0.0, f64::max);
    if hz <= 0.0 {
        return Vec::new();
    }
    let at = |tick: u32| f64::from(tick) / hz;
    let tick = |tick| TimelineRow {
        seconds: at(tick),
        ..TimelineRow::default()
    };
    (0..)
        .take_while(|number| at(*number) < end + 1.0 / hz)
        .map(tick)
        .collect()
}

/// Sets the peak memory since the previous row.
fn join_memory(rows: &mut [TimelineRow], memory: &[MemoryInUse]) {
    let mut next = 0;
    let mut since = f64::NEG_INFINITY;
    for row in rows {
        // Memory at the previous row is still valid unless a later sample changed it.
        while next + 1 < memory.len() && memory[next + 1].from <= since {
            next += 1;
        }
        let here = memory[next.min(memory.len())..]
            .iter()
            .take_while(|used| used.from <= row.seconds);
        row.used_bytes = here.map(|used| used.bytes).max();
        since = row.seconds;
    }
}

fn join_power(rows: &mut [TimelineRow], power: &[PowerSample]) {
    for row in rows {
        let count = power.partition_point(|sample| sample.from <= row.seconds);
        let last = count.checked_sub(1).map(|last| &power[last]);
        row.power_w = last
            .filter(|sample| sample.devices.iter().any(|one| one.power_w.is_some()))
            .map(total_watts);
    }
}

/// Sets requests in flight, completed requests and token rates. A request's tokens are spread evenly over its events.
fn join_requests(rows: &mut [TimelineRow], records: &[RequestRecord]) {
    if rows.is_empty() {
        return;
    }
    let row_of = |rows: &[TimelineRow], at: f64| rows.partition_point(|row| row.seconds < at);
    let mut tokens = vec![0.0; rows.len()];
    let (mut sent, mut ended, mut done) = (
        vec![0_u64; rows.len() + 1],
        vec![0_u64; rows.len() + 1],
        vec![0_u64; rows.len() + 1],
    );
    for record in records {
        sent[row_of(rows, record.sent.as_secs_f64())] += 1;
        let end = row_of(rows, record.ended.as_secs_f64());
        ended[end] += 1;
        done[end] += u64::from(record.outcome == RequestOutcome::Completed);
        let Some(first) = record.first_token else { continue };
        let produced = record.produced();
        let each = share(produced, u64::from(record.events.max(1)));
        let mut row = row_of(rows, first.as_secs_f64());
        for at in record.token_times().map(|at| at.as_secs_f64()) {
            while row < rows.len() && rows[row].seconds < at {
                row += 1;
            }
            if let Some(tokens) = tokens.get_mut(row) {
                *tokens += each;
            }
        }
    }
    let (mut current, mut completed) = (0, 0);
    let mut since: Option<f64> = None;
    for (number, row) in rows.iter_mut().enumerate() {
        current += sent[number];
        current -= ended[number];
        completed += done[number];
        row.in_flight = current;
        row.done = completed;
        let width = since.map_or(row.seconds.max(0.0), |since| row.seconds - since);
        row.output_tokens_per_s = if width > 0.0 { tokens[number] / width } else { 0.0 };
        since = Some(row.seconds);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::engine_side::EngineQueue;
    use crate::load::{Counts, FailureForm};
    use crate::telemetry::DeviceActivity;

    fn record(sent: f64, first: f64, itl_ms: &[f32], output: u64, outcome: RequestOutcome) -> RequestRecord {
        let at = Duration::from_secs_f64;
        let last = first + itl_ms.iter().map(|gap| f64::from(*gap) / 1e3).sum::<f64>();
        RequestRecord {
            index: 0,
            warmup: false,
            input: 10,
            output,
            scheduled: at(sent),
            sent: at(sent),
            first_byte: Some(at(first)),
            first_token: Some(at(first)),
            last_token: Some(at(last)),
            ended: at(last),
            itl_ms: itl_ms.to_vec(),
            events: itl_ms.len() as u32 + 1,
            tokens_seen: None,
            counts: Counts {
                input: Some(10),
                output: Some(output),
            },
            text: None,
            finish: None,
            outcome,
            ..RequestRecord::default()
        }
    }

    fn sample(at: f64, metrics: Option<EngineMetrics>) -> MetricsSample {
        MetricsSample {
            requested_at: at - 0.002,
            at,
            metrics,
        }
    }

    fn observed() -> Observations {
        let metrics = |running, preemptions, queries, hits| {
            Some(EngineMetrics {
                queue: EngineQueue {
                    running: Some(running),
                    waiting: Some(1),
                    kv_usage: Some(0.25),
                    preemptions: Some(preemptions),
                    paused: None,
                },
                prefix_queries: Some(queries),
                prefix_hits: Some(hits),
                ..EngineMetrics::default()
            })
        };
        let used = |from, to, bytes| MemoryInUse { from, to, bytes };
        let power = |at, power| PowerSample {
            from: at,
            to: at,
            devices: vec![DeviceActivity {
                device: "g".into(),
                power_w: power,
                busy_percent: None,
            }],
        };
        Observations {
            hz: 10.0,
            samples: vec![
                sample(-0.05, metrics(0, 7, 100, 50)),
                sample(0.1, metrics(2, 7, 120, 60)),
                sample(0.2, None),
                sample(0.3, metrics(1, 9, 220, 160)),
            ],
            memory: vec![used(-1.0, 0.04, 10), used(0.05, 0.06, 90), used(0.07, 0.4, 20)],
            power: vec![power(0.0, Some(100.0)), power(0.25, Some(300.0))],
            ..Observations::default()
        }
    }

    #[test]
    fn row_combines_engine_devices_and_requests() {
        let failed = RequestOutcome::failed(FailureForm::Broken, "");
        let records = [
            record(0.0, 0.05, &[30.0, 100.0], 6, RequestOutcome::Completed),
            record(0.0, 0.08, &[200.0], 2, failed),
        ];
        let rows = timeline(&observed(), &records);
        let mut text = Vec::new();
        write(&mut text, &rows).unwrap();
        let want = [
            COLUMNS,
            "-0.050000,0,1,0.25,0,,10,,0,0,0.000,2.000",
            // Two events of two tokens and one of one in 0.15 s; the short memory peak is kept.
            "0.100000,2,1,0.25,0,0.500000,90,100.000,2,0,33.333,2.000",
            "0.200000,,,,,,20,100.000,1,1,20.000,2.000",
            "0.300000,1,1,0.25,2,1.000000,20,300.000,0,1,10.000,2.000",
            "",
        ];
        assert_eq!(String::from_utf8(text).unwrap(), want.join("\n"));
    }

    #[test]
    fn rows_without_a_metrics_page_have_the_same_rate() {
        let records = [record(0.0, 0.05, &[200.0], 2, RequestOutcome::Completed)];
        let bare = Observations {
            samples: Vec::new(),
            ..observed()
        };
        let rows = timeline(&bare, &records);
        assert_eq!(rows.len(), 4, "0.0 to 0.3 s");
        assert_eq!((rows[3].done, rows[3].running, rows[3].round_trip_ms), (1, None, None));
        let tokens: f64 = rows
            .windows(2)
            .map(|pair| pair[1].output_tokens_per_s * (pair[1].seconds - pair[0].seconds))
            .sum();
        assert!((tokens - 2.0).abs() < 1e-9, "{tokens}");
        assert_eq!(timeline(&Observations::default(), &records), []);
    }
}
