//! A start in sentences: what was in use at the most, when, how close that came to the limit, and how closely it was looked at.

use super::crests::{Crest, looks, title};
use super::device::Device;
use super::marks::{shown, verdict};
use super::picture::highest;
use super::start::Start;

/// All that matters of a start: what is read aloud in the place of its picture.
pub(super) fn start(start: &Start, crests: &[Crest]) -> String {
    let mut sentences = vec![ended(start)];
    for (index, device) in start.devices.iter().enumerate() {
        sentences.push(peak(device, index, crests));
        let phases: Vec<String> = crests
            .iter()
            .map(|crest| {
                let (bytes, at) = crest.highest[index];
                format!("{} {} at {at:.1} s", title(crest.phase), shown(bytes))
            })
            .collect();
        if start.devices.len() == 1 && start.phased {
            sentences.push(format!("Peaks by phase: {}.", phases.join(", ")));
        }
    }
    sentences.push(looked(start));
    sentences.join(" ")
}

/// What became of it: `engine-1 ran for 61.7 s.`
fn ended(start: &Start) -> String {
    let (name, end) = (&start.name, start.end());
    let what = start
        .life
        .map(|life| life.what.as_str())
        .filter(|what| !what.is_empty());
    let what = what.map_or_else(String::new, |what| format!(" ({what})"));
    if let Some(cause) = start.failure() {
        return format!("{name}{what} did not start: {cause}; it was looked at for {end:.1} s.");
    }
    let deaths: Vec<String> = start
        .deaths()
        .map(|asked| format!("it died when it was asked {}: {}", asked.what, verdict(asked)))
        .collect();
    match deaths.is_empty() {
        true => format!("{name}{what} was looked at for {end:.1} s."),
        false => format!("{name}{what} was looked at for {end:.1} s; {}.", deaths.join("; ")),
    }
}

/// The peak of a device, in one sentence.
pub(super) fn peak(device: &Device, index: usize, crests: &[Crest]) -> String {
    let each = crests.iter().map(|crest| (crest, crest.highest[index]));
    // Of several that are alike, the first in time.
    let first = |one: &(&Crest, (u64, f64)), other: &(&Crest, (u64, f64))| {
        let highest = one.1.0.cmp(&other.1.0);
        highest.then(other.1.1.total_cmp(&one.1.1))
    };
    let Some((crest, (bytes, at))) = each.max_by(first) else {
        return format!("{} was not seen.", device.named());
    };
    let phase = title(crest.phase);
    let mut sentence = format!("On {} at most {} was in use", device.named(), shown(bytes));
    if let Some(total) = device.total {
        let share = 100.0 * bytes as f64 / total as f64;
        sentence += &format!(
            ", {share:.1} % of {}: {} were left",
            shown(total),
            shown(total.saturating_sub(bytes))
        );
    }
    sentence += &format!(" (at {at:.1} s, {phase}).");
    if let Some((fraction, budget)) = device.budget {
        let (word, apart) = if bytes > budget {
            ("above", bytes - budget)
        } else {
            ("below", budget - bytes)
        };
        sentence += &format!(
            " That is {} {word} memory_fraction {fraction}, which is {}.",
            shown(apart),
            shown(budget)
        );
    }
    sentence
}

/// How closely it was looked at.
fn looked(start: &Start) -> String {
    let seen = looks(start.series.rows());
    let mut sentence = format!(
        "{} looks, {:.0} a second; at most {} between two of them",
        seen.looks,
        seen.rate,
        span(seen.longest)
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
fn span(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else {
        format!("{seconds:.1} s")
    }
}

/// All starts together: the first paragraph of the part.
pub(super) fn together(starts: &[Start]) -> Option<String> {
    let every = starts.iter().flat_map(|start| {
        let devices = start.devices.iter().enumerate();
        devices.map(move |(index, device)| (start, device, highest(start.series.rows(), index)))
    });
    let share = |device: &Device, bytes: u64| device.total.map_or(0.0, |total| bytes as f64 / total as f64);
    let (start, device, bytes) = every.max_by(|one, other| {
        let shares = share(one.1, one.2).total_cmp(&share(other.1, other.2));
        // The first of those that are alike.
        shares.then(one.2.cmp(&other.2)).then(std::cmp::Ordering::Greater)
    })?;
    let mut sentence = format!("The fullest device was {}: {}", device.named(), shown(bytes));
    if let Some(total) = device.total {
        sentence += &format!(" of {} ({:.1} %)", shown(total), 100.0 * share(device, bytes));
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
        sentence +=
            &format!(" Of {starts} {plural}, {failed} did not become ready, and {died} died while being asked.");
    }
    Some(sentence)
}
