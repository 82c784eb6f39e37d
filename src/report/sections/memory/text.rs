//! Memory over time in sentences (peaks, their distance from the limits, sampling rate) and as tables (phases of a
//! start, all starts, stages).

use serde_json::Value;

use crate::report::memory::STAGES;
use crate::report::plot::{Entry, Sheet};
use crate::report::sections::format::{gib, gib_text, rounded};
use crate::report::sections::memory::device::Device;
use crate::report::sections::memory::phases::{PhasePeak, phase_name, sampling};
use crate::report::sections::memory::start::{Start, verdict};

/// The chart in words.
pub(super) fn alt_text(start: &Start, peaks: &[PhasePeak]) -> String {
    let mut sentences = vec![outcome(start)];
    for (index, device) in start.devices.iter().enumerate() {
        sentences.push(device_peak(device, index, peaks));
        let phases: Vec<String> = peaks
            .iter()
            .map(|peak| {
                let (bytes, at) = peak.highest[index];
                format!("{} {} at {at:.1} s", phase_name(peak.phase), gib_text(bytes))
            })
            .collect();
        if start.devices.len() == 1 && start.phased {
            sentences.push(format!("Peaks by phase: {}.", phases.join(", ")));
        }
    }
    sentences.push(sampling_text(start));
    sentences.join(" ")
}

/// How it ended: `engine-1 was sampled for 61.7 s.`
fn outcome(start: &Start) -> String {
    let (name, end) = (&start.name, start.end());
    let what = start
        .life
        .map(|life| life.what.as_str())
        .filter(|what| !what.is_empty());
    let what = what.map_or_else(String::new, |what| format!(" ({what})"));
    if let Some(cause) = start.failure() {
        return format!("{name}{what} did not start: {cause}; it was sampled for {end:.1} s.");
    }
    let deaths: Vec<String> = start
        .deaths()
        .map(|operation| format!("it died during {}: {}", operation.what, verdict(operation)))
        .collect();
    match deaths.is_empty() {
        true => format!("{name}{what} was sampled for {end:.1} s."),
        false => format!("{name}{what} was sampled for {end:.1} s; {}.", deaths.join("; ")),
    }
}

pub(super) fn device_peak(device: &Device, index: usize, peaks: &[PhasePeak]) -> String {
    let each = peaks.iter().map(|peak| (peak, peak.highest[index]));
    // Of equal peaks, the earliest.
    let first = |one: &(&PhasePeak, (u64, f64)), other: &(&PhasePeak, (u64, f64))| {
        let highest = one.1.0.cmp(&other.1.0);
        highest.then(other.1.1.total_cmp(&one.1.1))
    };
    let Some((peak, (bytes, at))) = each.max_by(first) else {
        return format!("{} was not sampled.", device.named());
    };
    let phase = phase_name(peak.phase);
    let mut sentence = format!("On {} at most {} was in use", device.named(), gib_text(bytes));
    if let Some(total) = device.total {
        let share = 100.0 * bytes as f64 / total as f64;
        sentence += &format!(
            ", {share:.1} % of {}: {} were left",
            gib_text(total),
            gib_text(total.saturating_sub(bytes))
        );
    }
    sentence += &format!(" (at {at:.1} s, {phase}).");
    if let Some((fraction, budget)) = device.budget {
        let (word, distance) = if bytes > budget {
            ("above", bytes - budget)
        } else {
            ("below", budget - bytes)
        };
        sentence += &format!(
            " That is {} {word} memory_fraction {fraction}, which is {}.",
            gib_text(distance),
            gib_text(budget)
        );
    }
    sentence
}

fn sampling_text(start: &Start) -> String {
    let seen = sampling(start.series.rows());
    let mut sentence = format!(
        "{} samples, {:.0} per second; at most {} between two of them",
        seen.looks,
        seen.rate,
        duration(seen.longest)
    );
    let sampling = &start.usage["sampling"];
    let lost = sampling["lost"].as_u64().filter(|&lost| lost > 0);
    if let Some(lost) = lost {
        sentence += &format!("; {lost} were lost");
    }
    if let Some(errors) = sampling["errors"].as_u64().filter(|&errors| errors > 0) {
        let why = sampling["last_error"].as_str().unwrap_or("for an unknown reason");
        sentence += &format!("; {errors} failed, the last one: {why}");
    }
    sentence + "."
}

/// A short time: `5 ms`, `1.2 s`.
fn duration(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else {
        format!("{seconds:.1} s")
    }
}

/// All starts in one paragraph.
pub(super) fn summary(starts: &[Start]) -> Option<String> {
    let every = starts.iter().flat_map(|start| {
        let devices = start.devices.iter().enumerate();
        devices.map(move |(index, device)| (start, device, start.peak(index)))
    });
    let share = |device: &Device, bytes: u64| device.total.map_or(0.0, |total| bytes as f64 / total as f64);
    let (start, device, bytes) = every.max_by(|one, other| {
        let shares = share(one.1, one.2).total_cmp(&share(other.1, other.2));
        // Of equal peaks, the first start.
        shares.then(one.2.cmp(&other.2)).then(std::cmp::Ordering::Greater)
    })?;
    let mut sentence = format!("The fullest device was {}: {}", device.named(), gib_text(bytes));
    if let Some(total) = device.total {
        sentence += &format!(" of {} ({:.1} %)", gib_text(total), 100.0 * share(device, bytes));
    }
    if starts.len() > 1 {
        sentence += &format!(", in {}", start.name);
    }
    sentence += ".";
    let failed = starts.iter().filter(|start| start.failure().is_some()).count();
    let died = starts.iter().filter(|start| start.deaths().next().is_some()).count();
    if starts.len() > 1 || failed + died > 0 {
        let starts = starts.len();
        let plural = if starts == 1 { "start" } else { "starts" };
        sentence += &format!(" Of {starts} {plural}, {failed} did not become ready, and {died} died while serving.");
    }
    Some(sentence)
}

/// The peak of each device in each phase of a start.
pub(super) fn phases_sheet(start: &Start, peaks: &[PhasePeak]) -> Sheet {
    let several = start.devices.len() > 1;
    let mut rows = Vec::new();
    for peak in peaks {
        for (device, &(bytes, at)) in start.devices.iter().zip(&peak.highest) {
            let mut row: Vec<Entry> = vec![phase_name(peak.phase).into()];
            row.extend(several.then(|| device.label.as_str().into()));
            row.extend([
                gib(bytes).into(),
                device.total.map(|total| percent(bytes, total)).into(),
            ]);
            row.extend([
                rounded(at, 1).into(),
                rounded(peak.seconds, 1).into(),
                (peak.looks as f64).into(),
            ]);
            rows.push(row);
        }
    }
    let mut columns = vec!["phase"];
    columns.extend(several.then_some("device"));
    columns.extend(["peak, GiB", "of all, %", "first at, s", "lasted, s", "samples"]);
    Sheet::new(columns, rows)
}

fn percent(bytes: u64, total: u64) -> f64 {
    rounded(100.0 * bytes as f64 / total as f64, 1)
}

/// A row for each start, with its fullest device and its end.
pub(super) fn starts_sheet(starts: &[Start]) -> Sheet {
    let row = |start: &Start| -> Vec<Entry> {
        let fullest = (0..start.devices.len()).max_by_key(|&device| start.peak(device));
        let bytes = fullest.map(|device| start.peak(device));
        let total = fullest.and_then(|device| start.devices[device].total);
        let operations = start.life.map_or(&[][..], |life| &life.measurements);
        let failed = operations.iter().filter(|operations| operations.fails).count();
        let ready = start.life.and_then(|life| Some(life.ready? - life.began));
        let ended = match (start.failure(), start.deaths().count()) {
            (Some(cause), _) => format!("did not start: {cause}"),
            (None, 0) => match start.life {
                Some(life) if life.what.is_empty() => "went on".to_owned(),
                Some(_) => "was stopped".to_owned(),
                None => String::new(),
            },
            (None, _) => "died".to_owned(),
        };
        let what = start.life.map(|life| life.what.as_str()).unwrap_or_default();
        let counts = [operations.len() as f64, failed as f64];
        vec![
            start.name.as_str().into(),
            or_none(what),
            or_none(&ended),
            ready.map(|seconds| rounded(seconds, 1)).into(),
            rounded(start.end(), 1).into(),
            bytes.map(gib).into(),
            bytes.zip(total).map(|(bytes, total)| percent(bytes, total)).into(),
            counts[0].into(),
            counts[1].into(),
        ]
    };
    Sheet::new(
        [
            "start",
            "engine and limits",
            "how it ended",
            "ready after, s",
            "sampled, s",
            "peak, GiB",
            "of all, %",
            "operations",
            "failed",
        ],
        starts.iter().map(row),
    )
    .titled("All starts")
}

fn or_none(text: &str) -> Entry {
    if text.is_empty() { Entry::None } else { text.into() }
}

/// Memory of each engine by stage: total, its own, other processes', and of the fullest device.
pub(super) fn stages_sheet(engines: &[(String, Value)]) -> Option<Sheet> {
    let mut rows = Vec::new();
    for (engine, usage) in engines.iter().filter(|(_, usage)| !usage["peak"].is_null()) {
        let devices = usage["peak"]["per_gpu"].as_array().map_or(0, Vec::len);
        let mut lines = vec![(engine.clone(), "sum")];
        if devices > 1 {
            lines.push((format!("{engine}, fullest of {devices}"), "max"));
        }
        lines.extend([
            (format!("{engine}, its own"), "ours"),
            (format!("{engine}, of others"), "others"),
        ]);
        for (name, key) in lines {
            let figures = STAGES.map(|(stage, _)| usage[stage][key].as_u64());
            if key == "others" && figures.iter().flatten().all(|&bytes| bytes == 0) {
                continue;
            }
            if figures.iter().all(Option::is_none) {
                continue;
            }
            let figures = figures.into_iter().map(|bytes| bytes.map(gib).into());
            rows.push(std::iter::once(name.into()).chain(figures).collect());
        }
    }
    let columns = STAGES.map(|(_, title)| format!("{title}, GiB"));
    (!rows.is_empty()).then(|| {
        Sheet::new(std::iter::once(String::new()).chain(columns), rows)
            .titled("Memory by the stages of each engine's life")
    })
}
