//! Memory over time as sparklines: one per engine and device, with the phases below.

use std::time::Duration;

use serde_json::Value;

use super::spark::{column, max_per_column, sparkline};
use super::table::wrapped;
use super::{Bytes, Clock, Page};
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
        .filter(|name| !name.ends_with(".activity") && !name.ends_with(".processes"))
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
    let each = devices.len() <= MAX_DEVICES;
    let mut lines = Vec::new();
    let mut draw = |label: &str, value: &dyn Fn(usize) -> u64, capacity: Option<u64>| {
        let values: Vec<(f64, f64)> = (0..rows.len())
            .map(|row| (seconds(rows[row].from), value(row) as f64))
            .collect();
        let peak = (0..rows.len()).map(value).max().unwrap_or(0);
        let (top, share) = (
            peak.max(1) as f64,
            capacity.map(|capacity| 100.0 * peak as f64 / capacity.max(1) as f64),
        );
        let limit = match (capacity, share) {
            (Some(capacity), Some(share)) => format!(", {share:.0} % of {}", Bytes(capacity)),
            _ => String::new(),
        };
        lines.push(wrapped(
            &format!(
                "{label}: peak {}{limit}, in {}",
                Bytes(peak),
                Clock(Duration::from_micros(last.to))
            ),
            page.width,
        ));
        let heights: Vec<Option<f64>> = max_per_column(&values, end, columns)
            .into_iter()
            .map(|height| height.map(|height| height / top))
            .collect();
        lines.push(format!("  {}", sparkline(&heights, page)));
    };
    match each {
        true => {
            for (index, device) in devices.iter().enumerate() {
                let label = match devices.len() {
                    1 => name.to_owned(),
                    _ => format!("{name}, {}", short(&device.id)),
                };
                draw(
                    &label,
                    &|row| rows[row].used.get(index).copied().unwrap_or(0),
                    capacity(usage, &device.id),
                );
            }
        }
        false => {
            let all = devices
                .iter()
                .map(|device| capacity(usage, &device.id))
                .sum::<Option<u64>>();
            draw(
                &format!("{name}, {} devices together", devices.len()),
                &|row| rows[row].total,
                all,
            );
        }
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

#[cfg(test)]
mod tests {
    use super::phase_labels;

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
}
