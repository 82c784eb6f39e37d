//! The time line of a load: one row for each look at the engine, and what the client and the devices did since the row before.
//!
//! As a file it is CSV with the columns of [`COLUMNS`]; what is unknown is empty, never zero.

use std::io::{self, Write};

use super::energy::total;
use super::seen::{Look, Power, Seen, State, Used};
use crate::load::{Outcome, Record};

/// The columns of the file.
pub const COLUMNS: &str = "seconds,running,waiting,kv_usage,preemptions,prefix_hit_rate,used_bytes,power_w,in_flight,done,\
                           output_tokens_per_s,round_trip_ms";

/// One row. What lies between two looks is told of the time since the row before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Seconds since the load's clock began: when the engine's answer was there.
    pub seconds: f64,
    /// Requests that the engine serves.
    pub running: Option<u64>,
    /// Requests that wait in the engine.
    pub waiting: Option<u64>,
    /// KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Preemptions since the first look.
    pub preemptions: Option<u64>,
    /// Share found in the prefix cache of what was looked up there since the row before; `None` where nothing was.
    pub prefix_hit_rate: Option<f64>,
    /// The most bytes in use on all devices together since the row before.
    pub used_bytes: Option<u64>,
    /// Watts of all devices together, at the last look before it.
    pub power_w: Option<f64>,
    /// Requests sent and not ended.
    pub in_flight: u64,
    /// Requests that ended well.
    pub done: u64,
    /// Tokens that arrived since the row before, a second.
    pub output_tokens_per_s: f64,
    /// How long the metrics page took to answer; `None` where there is none.
    pub round_trip_ms: Option<f64>,
}

/// The rows of a load, oldest first. Of an engine without a metrics page there is one for each period in which it would have been looked at.
#[must_use]
pub fn timeline(seen: &Seen, records: &[Record]) -> Vec<Moment> {
    let paged = !seen.looks.is_empty();
    let mut rows: Vec<Moment> = if paged {
        let first = seen.looks.iter().find_map(|look| look.state.as_ref());
        let mut before = first;
        let looks = seen.looks.iter();
        looks.map(|look| looked(look, first, &mut before)).collect()
    } else {
        ticks(seen.hz, records)
    };
    join_memory(&mut rows, &seen.memory);
    join_power(&mut rows, &seen.power);
    join_requests(&mut rows, records);
    rows
}

/// Writes rows with their header.
///
/// # Errors
///
/// What writing fails with.
pub fn write(out: &mut impl Write, rows: &[Moment]) -> io::Result<()> {
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

fn looked<'a>(look: &'a Look, first: Option<&State>, before: &mut Option<&'a State>) -> Moment {
    let state = look.state.as_ref();
    let gained = |count: fn(&State) -> Option<u64>, since: Option<&State>| count(state?)?.checked_sub(count(since?)?);
    let looked_up = gained(|state| state.prefix_queries, *before).filter(|queries| *queries > 0);
    let found = gained(|state| state.prefix_hits, *before);
    let moment = Moment {
        seconds: look.at,
        running: state.and_then(|state| state.running),
        waiting: state.and_then(|state| state.waiting),
        kv_usage: state.and_then(|state| state.kv_usage),
        preemptions: gained(|state| state.preemptions, first),
        prefix_hit_rate: looked_up.zip(found).map(|(queries, hits)| share(hits, queries)),
        round_trip_ms: Some((look.at - look.asked) * 1e3),
        ..Moment::default()
    };
    *before = state.or(*before);
    moment
}

/// `part` of `whole`, which is not zero.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn ticks(hz: f64, records: &[Record]) -> Vec<Moment> {
    let end = records
        .iter()
        .map(|record| record.ended.as_secs_f64())
        .fold(0.0, f64::max);
    if hz <= 0.0 {
        return Vec::new();
    }
    let at = |tick: u32| f64::from(tick) / hz;
    let tick = |tick| Moment {
        seconds: at(tick),
        ..Moment::default()
    };
    (0..)
        .take_while(|number| at(*number) < end + 1.0 / hz)
        .map(tick)
        .collect()
}

/// Memory that was in use at any time since the row before.
fn join_memory(rows: &mut [Moment], memory: &[Used]) {
    let mut next = 0;
    let mut since = f64::NEG_INFINITY;
    for row in rows {
        // What was in force when the row before was taken is still there unless a later look says otherwise.
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

fn join_power(rows: &mut [Moment], power: &[Power]) {
    for row in rows {
        let known = power.partition_point(|look| look.from <= row.seconds);
        let last = known.checked_sub(1).map(|last| &power[last]);
        row.power_w = last
            .filter(|look| look.devices.iter().any(|one| one.power.is_some()))
            .map(total);
    }
}

/// Requests under way and done at each row, and tokens by the events that brought them: a request's tokens are spread evenly over its events.
fn join_requests(rows: &mut [Moment], records: &[Record]) {
    if rows.is_empty() {
        return;
    }
    let row_of = |rows: &[Moment], at: f64| rows.partition_point(|row| row.seconds < at);
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
        done[end] += u64::from(record.outcome == Outcome::Completed);
        let Some(first) = record.first_token else { continue };
        let produced = record.counts.output.or(record.tokens_seen).unwrap_or(record.events);
        let each = share(produced, record.events.max(1));
        let mut at = first.as_secs_f64();
        let mut row = row_of(rows, at);
        let gaps = record.gaps_ms.iter().map(|gap| f64::from(*gap) / 1e3);
        for gap in std::iter::once(0.0).chain(gaps) {
            at += gap;
            while row < rows.len() && rows[row].seconds < at {
                row += 1;
            }
            if let Some(tokens) = tokens.get_mut(row) {
                *tokens += each;
            }
        }
    }
    let (mut under_way, mut well) = (0, 0);
    let mut since: Option<f64> = None;
    for (number, row) in rows.iter_mut().enumerate() {
        under_way += sent[number];
        under_way -= ended[number];
        well += done[number];
        row.in_flight = under_way;
        row.done = well;
        let width = since.map_or(row.seconds.max(0.0), |since| row.seconds - since);
        row.output_tokens_per_s = if width > 0.0 { tokens[number] / width } else { 0.0 };
        since = Some(row.seconds);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::joined::Watts;
    use crate::load::{Counts, Failure, FailureForm};

    fn record(sent: f64, first: f64, gaps_ms: &[f32], output: u64, outcome: Outcome) -> Record {
        let at = Duration::from_secs_f64;
        let last = first + gaps_ms.iter().map(|gap| f64::from(*gap) / 1e3).sum::<f64>();
        Record {
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
            gaps_ms: gaps_ms.to_vec(),
            events: gaps_ms.len() as u64 + 1,
            tokens_seen: None,
            counts: Counts {
                input: Some(10),
                output: Some(output),
            },
            text: None,
            finish: None,
            outcome,
        }
    }

    fn look(at: f64, state: Option<State>) -> Look {
        Look {
            asked: at - 0.002,
            at,
            state,
        }
    }

    fn seen() -> Seen {
        let state = |running, preemptions, queries, hits| {
            Some(State {
                running: Some(running),
                waiting: Some(1),
                kv_usage: Some(0.25),
                preemptions: Some(preemptions),
                prefix_queries: Some(queries),
                prefix_hits: Some(hits),
                ..State::default()
            })
        };
        let used = |from, to, bytes| Used { from, to, bytes };
        let power = |at, power| Power {
            from: at,
            to: at,
            devices: vec![Watts {
                device: "g".into(),
                power,
                busy: None,
            }],
        };
        Seen {
            hz: 10.0,
            looks: vec![
                look(-0.05, state(0, 7, 100, 50)),
                look(0.1, state(2, 7, 120, 60)),
                look(0.2, None),
                look(0.3, state(1, 9, 220, 160)),
            ],
            memory: vec![used(-1.0, 0.04, 10), used(0.05, 0.06, 90), used(0.07, 0.4, 20)],
            power: vec![power(0.0, Some(100.0)), power(0.25, Some(300.0))],
            ..Seen::default()
        }
    }

    #[test]
    fn a_row_joins_engine_devices_and_requests() {
        let failed = Outcome::Failed(Failure {
            form: FailureForm::Broken,
            message: String::new(),
        });
        let records = [
            record(0.0, 0.05, &[30.0, 100.0], 6, Outcome::Completed),
            record(0.0, 0.08, &[200.0], 2, failed),
        ];
        let rows = timeline(&seen(), &records);
        let mut text = Vec::new();
        write(&mut text, &rows).unwrap();
        let want = [
            COLUMNS,
            "-0.050000,0,1,0.25,0,,10,,0,0,0.000,2.000",
            // Two events of two tokens, one of one, in 0.15 s; the short rise of memory is not lost.
            "0.100000,2,1,0.25,0,0.500000,90,100.000,2,0,33.333,2.000",
            "0.200000,,,,,,20,100.000,1,1,20.000,2.000",
            "0.300000,1,1,0.25,2,1.000000,20,300.000,0,1,10.000,2.000",
            "",
        ];
        assert_eq!(String::from_utf8(text).unwrap(), want.join("\n"));
    }

    #[test]
    fn without_a_metrics_page_rows_come_at_the_same_rate() {
        let records = [record(0.0, 0.05, &[200.0], 2, Outcome::Completed)];
        let bare = Seen {
            looks: Vec::new(),
            ..seen()
        };
        let rows = timeline(&bare, &records);
        assert_eq!(rows.len(), 4, "0.0 to 0.3 s");
        assert_eq!((rows[3].done, rows[3].running, rows[3].round_trip_ms), (1, None, None));
        let tokens: f64 = rows
            .windows(2)
            .map(|pair| pair[1].output_tokens_per_s * (pair[1].seconds - pair[0].seconds))
            .sum();
        assert!((tokens - 2.0).abs() < 1e-9, "{tokens}");
        assert_eq!(timeline(&Seen::default(), &records), []);
    }
}
