//! The figures of one row: the client's timestamps compared with the server's.

use std::collections::HashMap;

use serde_json::Value;

use crate::mock::FIRST;

/// A row is invalid if the server's writes were later than this.
const LATE_MS: f64 = 2.0;

/// Above this share of the time, it matters that the client could not run. Its other threads are pinned to the same
/// core.
const CROWDED: f64 = 0.005;

/// The columns shared by both closed-loop tables.
const COLUMNS: &str = "TTFT error mean, ms | p99 | ITL error p1, ms | p50 | p99 | CPU per event, µs | user | system | RSS, MB | lost | server late p99, ms | note |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// One measurement.
pub struct Row {
    /// The client's output.
    pub said: Value,
    /// For each stream: its id, when the request was read, and when each token was written.
    pub stamped: Value,
    /// The share of the time that the hypervisor stole.
    pub stolen: f64,
    /// Time between two tokens of a stream, in milliseconds.
    pub gap: u64,
}

impl Row {
    pub const HEAD_OF_BUNDLES: &'static str = "\
| streams × gap | tokens in an event | TPOT, ms | error mean, % | p99, % | lost | note |
|---|---|---|---|---|---|---|";

    /// TPOT of each request against the server's timestamps, where each event carries `bundle` of `tokens` tokens.
    pub fn bundled(&self, streams: u64, tokens: u64, bundle: u64) -> String {
        let truth: HashMap<u64, f64> = self
            .streams()
            .filter_map(|stream| {
                let stamps = stream[2].as_array()?;
                let span = stamps.last()?.as_i64()? - stamps.first()?.as_i64()?;
                let tpot = span as f64 / 1e6 / (tokens - bundle) as f64;
                Some((stream[0].as_str()?.parse().ok()?, tpot))
            })
            .collect();
        let records = self.said["records"].as_array().unwrap().iter();
        let pairs: Vec<(f64, f64)> = records
            .filter_map(|record| Some((record[5].as_f64()?, *truth.get(&record[0].as_u64()?)?)))
            .collect();
        let mean = pairs.iter().map(|(told, _)| told).sum::<f64>() / pairs.len() as f64;
        let errors = sorted(
            pairs
                .iter()
                .map(|(told, truth)| 100.0 * (told / truth - 1.0).abs())
                .collect(),
        );
        format!(
            "| {streams} × {} ms | {bundle} | {mean:.3} | {:.3} | {:.3} | {} | {} |",
            self.gap,
            errors.iter().sum::<f64>() / errors.len() as f64,
            at(&errors, 99.0).unwrap_or(f64::NAN),
            truth.len() - pairs.len(),
            self.notes().join(", ")
        )
    }

    /// The header of a closed-loop table.
    pub fn head() -> String {
        format!("| streams × gap | client | {COLUMNS}")
    }

    pub const HEAD_OF_ARRIVALS: &'static str = "\
| arrivals | requests | lost | sent late mean, ms | p50 | p99 | max | CPU of the client, % of a core | on an unready connection | note |
|---|---|---|---|---|---|---|---|---|---|";

    /// A row of this program's client: each timestamp is compared with the server's for the same token.
    pub fn exact(&self, streams: u64) -> String {
        let stamps: HashMap<u64, &Value> = self
            .streams()
            .map(|stream| (stream[0].as_str().unwrap().parse().unwrap(), stream))
            .collect();
        let errors = self.said["records"].as_array().unwrap().iter().filter_map(|record| {
            let written = stamps.get(&record[0].as_u64()?)?[2][0].as_i64()?;
            Some((record[3].as_i64()? - written) as f64 / 1e6)
        });
        self.line("profiler", streams, errors.collect())
    }

    /// A row of any client, whose clock may differ from the server's. Compares its TTFT by rank with the server's time
    /// from reading the request to writing the first token.
    pub fn by_ranks(&self, name: &str, streams: u64) -> String {
        let told = sorted(self.list("ttft_ms"));
        let truth = self
            .streams()
            .map(|stream| (stream[2][0].as_i64().unwrap() - stream[1].as_i64().unwrap()) as f64 / 1e6);
        let truth = sorted(truth.collect());
        // Values are matched by rank, so the mean of the errors is the difference of the means.
        let errors = told.iter().zip(0..);
        let errors = errors.map(|(ttft, at): (_, usize)| ttft - truth[at * truth.len() / told.len()]);
        self.line(name, streams, errors.collect())
    }

    /// An open-loop row.
    pub fn arrivals(&self, rate: u64) -> String {
        let late = sorted(self.list("late_ms"));
        let mean = late.iter().sum::<f64>() / late.len() as f64;
        let cells = [Some(mean), at(&late, 50.0), at(&late, 99.0), at(&late, 100.0)];
        let cells: Vec<String> = cells.iter().flatten().map(|value| format!("{value:.3}")).collect();
        format!(
            "| Poisson, {rate}/s | {} | {} | {} | {:.0} | {} | {} |",
            late.len(),
            self.lost(),
            cells.join(" | "),
            self.said["cpu_share"].as_f64().unwrap() * 100.0,
            self.said["opened_late"],
            self.notes().join(", ")
        )
    }

    fn streams(&self) -> impl Iterator<Item = &Value> {
        self.stamped.as_array().unwrap().iter()
    }

    fn list(&self, name: &str) -> Vec<f64> {
        let list = self.said[name].as_array();
        list.map(|list| list.iter().filter_map(Value::as_f64).collect())
            .unwrap_or_default()
    }

    /// Requests that the server answered but the client does not report.
    fn lost(&self) -> i64 {
        self.streams().count() as i64 - self.list("ttft_ms").len() as i64
    }

    /// True if nearly every token was written on schedule.
    pub fn server_in_time(&self) -> bool {
        self.server_late().is_none_or(|late| late <= LATE_MS)
    }

    /// The 99th percentile of the delay of the server's writes, in milliseconds.
    fn server_late(&self) -> Option<f64> {
        let mut late = Vec::new();
        for stream in self.streams() {
            let mut due = stream[1].as_u64().unwrap() + u64::try_from(FIRST.as_nanos()).unwrap();
            for stamp in stream[2].as_array().unwrap() {
                late.push((stamp.as_u64().unwrap() - due) as f64 / 1e6);
                due += self.gap * 1_000_000;
            }
        }
        at(&sorted(late), 99.0)
    }

    fn line(&self, name: &str, streams: u64, errors: Vec<f64>) -> String {
        let mut true_gaps = Vec::new();
        let mut events = 0;
        for stream in self.streams() {
            let stamps: Vec<i64> = stream[2]
                .as_array()
                .unwrap()
                .iter()
                .map(|at| at.as_i64().unwrap())
                .collect();
            events += stamps.len();
            true_gaps.extend(stamps.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6));
        }
        let (gaps, true_gaps) = (sorted(self.list("itl_ms")), sorted(true_gaps));
        let gap_error = |p: f64| at(&gaps, p).zip(at(&true_gaps, p)).map(|(told, truth)| told - truth);
        let cost = |name: &str| self.said[name].as_f64().map(|seconds| seconds * 1e6 / events as f64);
        let both = cost("user").zip(cost("system")).map(|(user, system)| user + system);
        let mean = (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64);
        let cells = [
            mean,
            at(&sorted(errors), 99.0),
            gap_error(1.0),
            gap_error(50.0),
            gap_error(99.0),
            both,
            cost("user"),
            cost("system"),
            self.said["rss_kib"].as_f64().map(|kib| kib * 1.024e-3),
        ];
        let shown = |cell: &Option<f64>| cell.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let cells: Vec<String> = cells.iter().map(shown).collect();
        format!(
            "| {streams} × {} ms | {name} | {} | {} | {} | {} |",
            self.gap,
            cells.join(" | "),
            self.lost(),
            shown(&self.server_late()),
            self.notes().join(", ")
        )
    }

    fn notes(&self) -> Vec<String> {
        let late = !self.server_in_time();
        let mut notes = Vec::from_iter(late.then(|| "server late".to_owned()));
        if self.stolen > 0.01 {
            notes.push(format!("{:.0} % of the CPU stolen", self.stolen * 100.0));
        }
        if let Some(waited) = self.said["waited_share"].as_f64().filter(|share| *share > CROWDED) {
            notes.push(format!(
                "others had the client's core for {:.1} % of the time",
                waited * 100.0
            ));
        }
        notes
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Nearest-rank percentile.
fn at(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (p / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}
