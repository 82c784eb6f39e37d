//! The phases of a memory series: duration, peak, and sampling rate.

use super::start::seconds;
use crate::report::plot::Span;
use crate::telemetry::{Phase, Row};

/// More spans than this cannot be distinguished in a chart.
const MAX_SPANS: usize = 80;
/// Idle spans shorter than this share of the chart are merged into the phase before.
const MIN_SHARE: f64 = 1.0 / 400.0;

/// The peak of a phase over all of its spans.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PhasePeak {
    pub(super) phase: Phase,
    /// Total duration.
    pub(super) seconds: f64,
    /// Number of samples.
    pub(super) samples: u64,
    /// For each device the highest value in bytes, and when it was first seen, in seconds.
    pub(super) highest: Vec<(u64, f64)>,
}

pub(super) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Baseline => "before",
        Phase::Loading => "loading",
        Phase::Ready => "idle",
        Phase::WarmUp => "warm-up",
        Phase::Load => "load",
        Phase::After => "after",
    }
}

/// The phases of a series in their natural order.
pub(super) fn phase_peaks(rows: &[Row]) -> Vec<PhasePeak> {
    let devices = rows.first().map_or(0, |row| row.used.len());
    let mut all: Vec<PhasePeak> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let peak = match all.iter_mut().position(|peak| peak.phase == row.phase) {
            Some(known) => &mut all[known],
            None => {
                all.push(PhasePeak {
                    phase: row.phase,
                    seconds: 0.0,
                    samples: 0,
                    highest: vec![(0, seconds(row.from)); devices],
                });
                let newest = all.len() - 1;
                &mut all[newest]
            }
        };
        peak.samples += row.looks;
        peak.seconds += seconds(held_until(rows, index) - row.from);
        for (highest, &used) in peak.highest.iter_mut().zip(&row.used) {
            if used > highest.0 {
                *highest = (used, seconds(row.from));
            }
        }
    }
    all.sort_by_key(|peak| peak.phase);
    all
}

/// A sample holds until the next one.
fn held_until(rows: &[Row], index: usize) -> u64 {
    rows.get(index + 1)
        .map_or(rows[index].to, |next| next.from.max(rows[index].from))
}

/// The phases as spans for a chart, and whether short idle spans were merged.
pub(super) fn spans(rows: &[Row]) -> (Vec<Span>, bool) {
    let mut exact: Vec<(Phase, u64, u64)> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let to = held_until(rows, index);
        match exact.last_mut() {
            Some(last) if last.0 == row.phase => last.2 = to,
            _ => exact.push((row.phase, row.from, to)),
        }
    }
    exact.retain(|(_, from, to)| to > from);
    let total = rows.last().map_or(0.0, |row| seconds(row.to));
    let (mut drawn, mut left_out) = merge_short_idle(&exact, total * MIN_SHARE);
    if drawn.len() > MAX_SPANS {
        (drawn, left_out) = merge_short_idle(&exact, f64::INFINITY);
    }
    let span = |(phase, from, to): (Phase, u64, u64)| Span {
        from: seconds(from),
        to: seconds(to),
        label: phase_name(phase).to_owned(),
    };
    (drawn.into_iter().map(span).collect(), left_out)
}

/// Merges idle gaps shorter than `shortest` seconds into the preceding phase. If it is infinite, merges every idle gap
/// between spans of the same phase instead.
fn merge_short_idle(exact: &[(Phase, u64, u64)], shortest: f64) -> (Vec<(Phase, u64, u64)>, bool) {
    let mut drawn: Vec<(Phase, u64, u64)> = Vec::new();
    let mut left_out = false;
    for (index, &(phase, from, to)) in exact.iter().enumerate() {
        let next = exact.get(index + 1).map(|next| next.0);
        let short = |last: Phase| {
            let within = shortest.is_finite() || Some(last) == next;
            phase == Phase::Ready && within && seconds(to - from) < shortest
        };
        match drawn.last_mut() {
            Some(last) if last.0 == phase => last.2 = to,
            Some(last) if short(last.0) => {
                last.2 = to;
                left_out = true;
            }
            _ => drawn.push((phase, from, to)),
        }
    }
    (drawn, left_out)
}

/// How densely memory was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sampling {
    pub(super) samples: u64,
    /// Samples per second, on average.
    pub(super) rate: f64,
    /// The longest known time between two samples, in seconds.
    pub(super) longest: f64,
}

pub(super) fn sampling(rows: &[Row]) -> Sampling {
    let samples = rows.iter().map(|row| row.looks).sum();
    let total = rows
        .first()
        .zip(rows.last())
        .map_or(0.0, |(first, last)| seconds(last.to - first.from));
    let between = rows
        .windows(2)
        .map(|pair| seconds(pair[1].from.saturating_sub(pair[0].to)));
    // The samples of a row are assumed to be evenly spaced.
    let within = rows
        .iter()
        .filter(|row| row.looks > 1)
        .map(|row| seconds(row.to - row.from) / (row.looks - 1) as f64);
    Sampling {
        samples,
        rate: if total > 0.0 { samples as f64 / total } else { 0.0 },
        longest: between.chain(within).fold(0.0, f64::max),
    }
}

/// Seconds without a sample after which a line is interrupted: far more than the sampling period, and wide enough to be
/// seen.
pub(super) fn max_gap(rows: &[Row], total: f64) -> f64 {
    let sampling = sampling(rows);
    let period = if sampling.rate > 0.0 { 1.0 / sampling.rate } else { 0.0 };
    (20.0 * period).max(total / 200.0).max(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(from: u64, to: u64, phase: Phase, looks: u64, used: u64) -> Row {
        Row {
            from: from * 1_000_000,
            to: to * 1_000_000,
            phase,
            looks,
            total: used,
            used: vec![used],
        }
    }

    fn life() -> Vec<Row> {
        vec![
            row(0, 0, Phase::Baseline, 1, 0),
            row(0, 10, Phase::Loading, 11, 5),
            row(11, 20, Phase::Loading, 10, 30),
            row(21, 400, Phase::Load, 380, 31),
            row(401, 401, Phase::Ready, 1, 31),
            row(402, 800, Phase::Load, 399, 40),
            row(801, 900, Phase::Ready, 100, 40),
            row(905, 905, Phase::After, 1, 0),
        ]
    }

    #[test]
    fn phase_has_peak_and_duration() {
        let all = phase_peaks(&life());
        let of = |phase| {
            all.iter()
                .find(|peak| peak.phase == phase)
                .map(|peak| (peak.seconds, peak.samples, peak.highest[0]))
        };
        assert_eq!(of(Phase::Loading), Some((21.0, 21, (30, 11.0))));
        assert_eq!(of(Phase::Load), Some((380.0 + 399.0, 779, (40, 402.0))));
        assert_eq!(
            of(Phase::Ready),
            Some((1.0 + 104.0, 101, (40, 801.0))),
            "the peak where it was first seen"
        );
        assert_eq!(of(Phase::WarmUp), None);
        let total: f64 = all.iter().map(|peak| peak.seconds).sum();
        assert!((total - 905.0).abs() < 1e-9, "{total}");
    }

    #[test]
    fn short_pauses_are_merged() {
        let (drawn, left_out) = spans(&life());
        let labels: Vec<_> = drawn
            .iter()
            .map(|span| (span.label.as_str(), span.from, span.to))
            .collect();
        assert_eq!(
            labels,
            [("loading", 0.0, 21.0), ("load", 21.0, 801.0), ("idle", 801.0, 905.0)]
        );
        assert!(left_out);
    }

    #[test]
    fn many_probes_are_few_spans() {
        let mut rows = vec![row(0, 9, Phase::Loading, 10, 1)];
        for probe in 0..500 {
            rows.push(row(10 + 20 * probe, 11 + 20 * probe, Phase::Load, 2, 2));
            rows.push(row(12 + 20 * probe, 29 + 20 * probe, Phase::Ready, 18, 2));
        }
        let (drawn, left_out) = spans(&rows);
        assert!(drawn.len() < 5 && left_out, "{}", drawn.len());
        assert_eq!(phase_peaks(&rows)[1].samples, 500 * 18, "the table has them all");
    }

    #[test]
    fn longest_time_between_samples() {
        let seen = sampling(&life());
        assert_eq!((seen.samples, seen.longest), (903, 5.0));
        assert_eq!(sampling(&[]), Sampling::default());
    }
}
