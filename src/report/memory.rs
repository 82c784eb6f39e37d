//! A run's memory: over time as sparklines for the terminal, and by life-cycle stage as a table.

use std::time::Duration;

use serde_json::Value;

use super::document::wrapped;
use super::plot::{Entry, Sheet};
use super::spark::{column, max_per_column, sparkline};
use super::{Bytes, Clock, Page};
use crate::fmt::gib_number;
use crate::run::Folder;
use crate::telemetry::{SampleFile, Series, read_series};

const MAX_COLUMNS: usize = 72;

/// With more devices than this, one curve shows their sum.
const MAX_DEVICES: usize = 8;

const MAX_ENGINES: usize = 6;

/// The sparklines of a run's folder; `stages` holds the devices' capacities. `None` if no memory was recorded.
#[must_use]
pub fn memory(folder: &Folder, stages: &[(String, Value)], page: Page) -> Option<String> {
    let files = folder.names("memory").ok()?;
    let mut names: Vec<&str> = files
        .iter()
        .filter_map(|file| file.strip_suffix(".csv"))
        .filter(|name| !name.contains(".activity") && !name.contains(".processes"))
        .collect();
    // Sorts `engine-10` after `engine-9`.
    names.sort_by_key(|name| (name.len(), *name));
    let engines: Vec<String> = names
        .iter()
        .take(MAX_ENGINES)
        .map(|name| {
            let usage = stages
                .iter()
                .find(|(engine, _)| engine == name)
                .map_or(&Value::Null, |(_, usage)| usage);
            match folder.read(format!("memory/{name}.csv")) {
                Ok(bytes) => engine(name, &read_series(&bytes.unwrap_or_default()), usage, page),
                Err(fault) => wrapped(&format!("{name}: {}", fault.message), page.width),
            }
        })
        .collect();
    let more = names.len().saturating_sub(MAX_ENGINES);
    let more = if more > 0 {
        format!("\n  and {more} more in memory/")
    } else {
        String::new()
    };
    (!engines.is_empty()).then(|| {
        format!(
            "memory over time, each column the most of its stretch\n{}{more}",
            engines.join("\n")
        )
    })
}

fn engine(name: &str, kept: &SampleFile<Series>, usage: &Value, page: Page) -> String {
    let rows = kept.data.rows();
    let Some(last) = rows.last() else {
        return wrapped(
            &format!("{name}: nothing was seen; {}", kept.notes.join("; ")),
            page.width,
        );
    };
    let end = seconds(last.to);
    let columns = page.width.saturating_sub(4).clamp(8, MAX_COLUMNS);
    let devices = kept.data.devices();
    let capacities = devices.iter().map(|device| capacity(usage, &device.id));
    // Label, memory in use by row, capacity.
    let curves: Vec<(String, Vec<u64>, Option<u64>)> = match devices.len() {
        ..=MAX_DEVICES => {
            let label = |id: &str| match devices.len() {
                1 => name.to_owned(),
                _ => format!("{name}, {}", short(id)),
            };
            let used = |index: usize| rows.iter().map(move |row| row.used.get(index).copied().unwrap_or(0));
            let each = devices.iter().zip(capacities).enumerate();
            each.map(|(index, (device, capacity))| (label(&device.id), used(index).collect(), capacity))
                .collect()
        }
        many => {
            let used = rows.iter().map(|row| row.total).collect();
            vec![(format!("{name}, {many} devices together"), used, capacities.sum())]
        }
    };
    let mut lines = Vec::new();
    for (label, used, capacity) in curves {
        let peak = used.iter().copied().max().unwrap_or(0);
        let limit = capacity.map_or_else(String::new, |capacity| {
            let share = 100.0 * peak as f64 / capacity.max(1) as f64;
            format!(", {share:.0} % of {}", Bytes(capacity))
        });
        let taken = Clock(Duration::from_micros(last.to));
        lines.push(wrapped(
            &format!("{label}: peak {}{limit}, in {taken}", Bytes(peak)),
            page.width,
        ));
        let shares = used.iter().map(|used| *used as f64 / peak.max(1) as f64);
        let shares: Vec<(f64, f64)> = rows.iter().map(|row| seconds(row.from)).zip(shares).collect();
        lines.push(format!("  {}", sparkline(&max_per_column(&shares, end, columns), page)));
    }
    if kept.has_phases {
        let begins = phases(&kept.data)
            .into_iter()
            .map(|(phase, from)| (phase, column(from, 0.0, end, columns)));
        lines.push(phase_labels(begins, columns));
    }
    lines.extend(kept.notes.iter().map(|note| wrapped(&format!("({note})"), page.width)));
    lines.join("\n")
}

/// The first part of a GPU's UUID, which is enough to distinguish the GPUs of one machine.
fn short(id: &str) -> &str {
    match id.strip_prefix("GPU-").and_then(|rest| rest.find('-')) {
        Some(end) => &id[.."GPU-".len() + end],
        None => id,
    }
}

/// The device's total memory.
fn capacity(usage: &Value, id: &str) -> Option<u64> {
    let stages = ["peak", "loaded", "warmed", "baseline", "after"].iter();
    let devices = stages.filter_map(|stage| usage[stage]["per_gpu"].as_array()).flatten();
    let mut same = devices.filter(|device| device["id"] == id);
    same.find_map(|device| device["total"].as_u64())
        .filter(|total| *total > 0)
}

/// The start of each phase's first occurrence.
fn phases(series: &Series) -> Vec<(String, f64)> {
    let mut seen: Vec<(String, f64)> = Vec::new();
    for row in series.rows() {
        let phase = row.phase.to_string();
        if seen.iter().all(|(name, _)| *name != phase) {
            seen.push((phase, seconds(row.from)));
        }
    }
    seen
}

/// Labels at their columns, as far as there is space. The later of two labels in one place wins.
fn phase_labels(begins: impl DoubleEndedIterator<Item = (String, usize)>, columns: usize) -> String {
    let mut line = String::new();
    let mut taken = columns + 1;
    let mut placed = Vec::new();
    for (word, at) in begins.rev() {
        if at + word.len() < taken {
            taken = at;
            placed.push((word, at));
        }
    }
    for (word, at) in placed.into_iter().rev() {
        let blanks = at.saturating_sub(line.len());
        line.push_str(&" ".repeat(blanks));
        line.push_str(&word);
    }
    format!("  {line}")
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The stages' JSON keys and column headings.
const STAGES: [(&str, &str); 5] = [
    ("baseline", "before"),
    ("loaded", "loaded"),
    ("warmed", "warmed up"),
    ("peak", "peak"),
    ("after", "after"),
];

/// The table of all engines, from `memory/<engine>.usage.json`; `None` if no memory was recorded. Several GPUs get rows
/// for maximum, mean and standard deviation. Where other processes used memory, they and the engine have a row each.
#[must_use]
pub fn stages_sheet(engines: &[(String, Value)]) -> Option<Sheet> {
    let mut rows = Vec::new();
    for (engine, usage) in engines {
        let row = |name: String, key: &str| -> Vec<Entry> {
            let figures = STAGES.map(|(stage, _)| usage[stage][key].as_f64().map(gib_number).into());
            std::iter::once(name.into()).chain(figures).collect()
        };
        if usage.is_null() {
            rows.push(row(format!("{engine}, cut off"), "sum"));
            continue;
        }
        if usage["peak"].is_null() {
            continue;
        }
        let gpus = usage["peak"]["per_gpu"].as_array().map_or(0, Vec::len);
        rows.push(row(engine.clone(), "sum"));
        if gpus > 1 {
            let spread = [("highest", "max"), ("mean", "mean"), ("standard deviation", "std")];
            rows.extend(spread.map(|(name, key)| row(format!("{name} of {gpus}"), key)));
        }
        let shared = STAGES
            .iter()
            .any(|(stage, _)| usage[stage]["others"].as_u64().is_some_and(|bytes| bytes > 0));
        if shared {
            rows.push(row("its own".to_owned(), "ours"));
            rows.push(row("of others".to_owned(), "others"));
        }
    }
    let headings = std::iter::once("").chain(STAGES.map(|(_, title)| title));
    (!rows.is_empty()).then(|| Sheet::new(headings, rows).titled("memory in use by stage, GiB"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn phase_labels_are_placed_while_there_is_space() {
        let begins = |begins: &[(&str, usize)], columns| {
            let begins: Vec<_> = begins.iter().map(|(word, at)| ((*word).to_owned(), *at)).collect();
            phase_labels(begins.into_iter(), columns)
        };
        assert_eq!(
            begins(&[("baseline", 0), ("loading", 0), ("ready", 12)], 20),
            "  loading     ready"
        );
        assert_eq!(begins(&[("loading", 0), ("ready", 18)], 20), "  loading");
    }

    #[test]
    fn stages_that_were_not_reached_are_left_open() {
        let gib = |gib: u64| json!({ "sum": gib << 30, "others": 0, "per_gpu": [{}] });
        let usage = json!({ "baseline": gib(1), "loaded": gib(18), "warmed": null, "peak": gib(19), "after": null });
        let unseen = ("engine-2".to_owned(), json!({ "peak": null }));
        let sheet = stages_sheet(&[("engine-1".to_owned(), usage), unseen.clone()]).unwrap();
        let none = Entry::None;
        let row = [
            "engine-1".into(),
            "1.00".into(),
            "18.00".into(),
            none.clone(),
            "19.00".into(),
            none,
        ];
        assert_eq!(sheet.rows, [row.to_vec()]);
        assert_eq!(stages_sheet(&[unseen]), None);
        let cut_off = stages_sheet(&[("engine-1".to_owned(), Value::Null)]).unwrap();
        assert_eq!(cut_off.rows[0][0], "engine-1, cut off".into());
    }

    #[test]
    fn several_gpus_have_a_spread_and_others_a_line() {
        let peak = json!({ "sum": 30_u64 << 30, "max": 20_u64 << 30, "mean": 15.0 * 1_073_741_824.0, "std": 0.0, "others": 1_u64 << 30, "per_gpu": [{}, {}] });
        let sheet = stages_sheet(&[("engine-1".into(), json!({ "peak": peak }))]).unwrap();
        let names: Vec<&Entry> = sheet.rows.iter().map(|row| &row[0]).collect();
        let expected = [
            "engine-1",
            "highest of 2",
            "mean of 2",
            "standard deviation of 2",
            "its own",
            "of others",
        ];
        assert_eq!(names, expected.map(Entry::from).iter().collect::<Vec<_>>());
        assert_eq!(sheet.rows[2][4], "15.00".into());
    }
}
