//! The phases of a series, exactly: when each was, how much it held at its highest and when that was, and how closely it was looked at.

use super::start::seconds;
use crate::report::plot::Span;
use crate::telemetry::{Phase, Row};

/// More stretches than this cannot be told apart in a picture.
const MOST: usize = 80;
/// Idle stretches shorter than this share of the picture are not drawn apart.
const SLIVER: f64 = 1.0 / 400.0;

/// What a phase held, over all of its stretches.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Crest {
    /// The phase.
    pub(super) phase: Phase,
    /// Seconds that it lasted.
    pub(super) seconds: f64,
    /// Looks.
    pub(super) looks: u64,
    /// For each device the highest, in bytes, and when it was first seen, in seconds.
    pub(super) highest: Vec<(u64, f64)>,
}

/// What people call a phase.
pub(super) fn title(phase: Phase) -> &'static str {
    match phase {
        Phase::Baseline => "before",
        Phase::Loading => "loading",
        Phase::Ready => "idle",
        Phase::WarmUp => "warm-up",
        Phase::Load => "load",
        Phase::After => "after",
    }
}

/// The phases that were seen, in the order of a life.
pub(super) fn crests(rows: &[Row]) -> Vec<Crest> {
    let devices = rows.first().map_or(0, |row| row.used.len());
    let mut all: Vec<Crest> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let crest = match all.iter_mut().position(|crest| crest.phase == row.phase) {
            Some(known) => &mut all[known],
            None => {
                all.push(Crest {
                    phase: row.phase,
                    seconds: 0.0,
                    looks: 0,
                    highest: vec![(0, seconds(row.from)); devices],
                });
                let newest = all.len() - 1;
                &mut all[newest]
            }
        };
        crest.looks += row.looks;
        crest.seconds += seconds(until(rows, index) - row.from);
        for (highest, &used) in crest.highest.iter_mut().zip(&row.used) {
            if used > highest.0 {
                *highest = (used, seconds(row.from));
            }
        }
    }
    all.sort_by_key(|crest| crest.phase);
    all
}

/// What was seen holds until the next look.
fn until(rows: &[Row], index: usize) -> u64 {
    rows.get(index + 1)
        .map_or(rows[index].to, |next| next.from.max(rows[index].from))
}

/// The stretches of the phases for a picture, and whether pauses between requests are left out of it.
pub(super) fn spans(rows: &[Row]) -> (Vec<Span>, bool) {
    let mut exact: Vec<(Phase, u64, u64)> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let to = until(rows, index);
        match exact.last_mut() {
            Some(last) if last.0 == row.phase => last.2 = to,
            _ => exact.push((row.phase, row.from, to)),
        }
    }
    exact.retain(|(_, from, to)| to > from);
    let whole = rows.last().map_or(0.0, |row| seconds(row.to));
    let (mut drawn, mut left_out) = joined(&exact, whole * SLIVER);
    if drawn.len() > MOST {
        (drawn, left_out) = joined(&exact, f64::INFINITY);
    }
    let span = |(phase, from, to): (Phase, u64, u64)| Span {
        from: seconds(from),
        to: seconds(to),
        label: title(phase).to_owned(),
    };
    (drawn.into_iter().map(span).collect(), left_out)
}

/// With idle stretches that are shorter than this, in seconds, as a part of what was before them. Where too many would be left, only those between
/// stretches of one phase are, but however long they are.
fn joined(exact: &[(Phase, u64, u64)], shortest: f64) -> (Vec<(Phase, u64, u64)>, bool) {
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

/// How closely memory was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Looks {
    /// How many.
    pub(super) looks: u64,
    /// A second, on average.
    pub(super) rate: f64,
    /// The longest time between two looks that can be told, in seconds.
    pub(super) longest: f64,
}

/// How closely memory was looked at.
pub(super) fn looks(rows: &[Row]) -> Looks {
    let looks = rows.iter().map(|row| row.looks).sum();
    let whole = rows
        .first()
        .zip(rows.last())
        .map_or(0.0, |(first, last)| seconds(last.to - first.from));
    let between = rows
        .windows(2)
        .map(|pair| seconds(pair[1].from.saturating_sub(pair[0].to)));
    // Within a row, all looks are as far from each other as on average.
    let within = rows
        .iter()
        .filter(|row| row.looks > 1)
        .map(|row| seconds(row.to - row.from) / (row.looks - 1) as f64);
    Looks {
        looks,
        rate: if whole > 0.0 { looks as f64 / whole } else { 0.0 },
        longest: between.chain(within).fold(0.0, f64::max),
    }
}

/// After how many seconds without a look a line is interrupted: far more than between most looks, and long enough to be seen.
pub(super) fn gap(rows: &[Row], whole: f64) -> f64 {
    let usual = looks(rows);
    let period = if usual.rate > 0.0 { 1.0 / usual.rate } else { 0.0 };
    (20.0 * period).max(whole / 200.0).max(0.5)
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
    fn a_phase_has_its_peak_and_its_time() {
        let all = crests(&life());
        let of = |phase| {
            all.iter()
                .find(|crest| crest.phase == phase)
                .map(|crest| (crest.seconds, crest.looks, crest.highest[0]))
        };
        assert_eq!(of(Phase::Loading), Some((21.0, 21, (30, 11.0))));
        assert_eq!(of(Phase::Load), Some((380.0 + 399.0, 779, (40, 402.0))));
        assert_eq!(
            of(Phase::Ready),
            Some((1.0 + 104.0, 101, (40, 801.0))),
            "the peak where it was first seen"
        );
        assert_eq!(of(Phase::WarmUp), None);
        let total: f64 = all.iter().map(|crest| crest.seconds).sum();
        assert!((total - 905.0).abs() < 1e-9, "{total}");
    }

    #[test]
    fn pauses_that_cannot_be_seen_are_not_drawn() {
        let (drawn, left_out) = spans(&life());
        let told: Vec<_> = drawn
            .iter()
            .map(|span| (span.label.as_str(), span.from, span.to))
            .collect();
        assert_eq!(
            told,
            [("loading", 0.0, 21.0), ("load", 21.0, 801.0), ("idle", 801.0, 905.0)]
        );
        assert!(left_out);
    }

    #[test]
    fn however_many_probes_the_picture_has_few_stretches() {
        let mut rows = vec![row(0, 9, Phase::Loading, 10, 1)];
        for probe in 0..500 {
            rows.push(row(10 + 20 * probe, 11 + 20 * probe, Phase::Load, 2, 2));
            rows.push(row(12 + 20 * probe, 29 + 20 * probe, Phase::Ready, 18, 2));
        }
        let (drawn, left_out) = spans(&rows);
        assert!(drawn.len() < 5 && left_out, "{}", drawn.len());
        assert_eq!(crests(&rows)[1].looks, 500 * 18, "the table has them all");
    }

    #[test]
    fn the_longest_time_between_two_looks_is_told() {
        let seen = looks(&life());
        assert_eq!((seen.looks, seen.longest), (903, 5.0));
        assert_eq!(looks(&[]), Looks::default());
    }
}
