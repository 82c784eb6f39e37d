//! What happened on the time line of a start: its death, the probes that failed, the peak of each phase; as marks and as what is told of a place.

use super::crests::{Crest, title};
use super::start::{Start, seconds};
use crate::memory::compare::Gib;
use crate::report::plot::{Colour, Entry, Layer, Moment, Shape, Spot, Spots};
use crate::run::Asked;

/// Marks of one kind at most: more cannot be told apart, and the table has them all.
const MOST: usize = 300;

/// Deaths, each with an upright line.
pub(super) fn deaths(start: &Start) -> Option<Layer> {
    let mut moments = Vec::new();
    if let Some((cause, at)) = start.failure().zip(start.life.and_then(|life| life.ended)) {
        let at = start.at(at).unwrap_or_else(|| start.end()).min(start.end());
        let label = format!("did not start: {cause}");
        moments.push(Moment { at, label });
    }
    for asked in start.deaths() {
        let Some(at) = start.at(asked.to) else { continue };
        let label = format!("died: {}", verdict(asked));
        moments.push(Moment {
            at: at.min(start.end()),
            label,
        });
    }
    let colour = Colour::Limit;
    (!moments.is_empty()).then_some(Layer::Moments { moments, colour })
}

/// A cross at the most that was in use on a device while each probe that failed was asked.
pub(super) fn failures(start: &Start, device: usize) -> Option<Layer> {
    let places = thinned(asked(start).filter(|asked| asked.fails).collect());
    let points: Vec<(f64, f64)> = places
        .iter()
        .filter_map(|asked| highest(start, device, asked))
        .map(|(at, bytes)| (at, bytes as f64))
        .collect();
    (!points.is_empty()).then(|| Layer::Dots {
        name: "a probe that fails".to_owned(),
        points,
        colour: Colour::Fails,
        shape: Shape::Cross,
    })
}

/// What is told of the peaks of the phases on a device, and of what was asked, in the order of time.
pub(super) fn spots(start: &Start, device: usize, crests: &[Crest]) -> Spots {
    let total = start.devices[device].total;
    let spot = |what: String, at: f64, bytes: u64, verdict: Entry| Spot {
        at: (at, bytes as f64),
        entries: vec![
            what.into(),
            rounded(at, 1).into(),
            gib(bytes).into(),
            total
                .map(|total| rounded(100.0 * bytes as f64 / total as f64, 1))
                .into(),
            verdict,
        ],
    };
    let peaks = crests.iter().map(|crest| {
        let (bytes, at) = crest.highest[device];
        spot(format!("peak while {}", title(crest.phase)), at, bytes, Entry::None)
    });
    let (fails, rest): (Vec<&Asked>, Vec<&Asked>) = asked(start).partition(|asked| asked.fails);
    let told = thinned(fails).into_iter().chain(thinned(rest)).filter_map(|asked| {
        let (at, bytes) = highest(start, device, asked)?;
        let verdict = asked.verdict.as_ref().map(|_| verdict(asked));
        Some(spot(asked.what.clone(), at, bytes, verdict.into()))
    });
    let mut spots: Vec<Spot> = peaks.chain(told).collect();
    spots.sort_by(|one, other| one.at.0.total_cmp(&other.at.0));
    Spots {
        columns: ["what", "at, s", "in use, GiB", "of all, %", "verdict"]
            .map(str::to_owned)
            .to_vec(),
        spots,
    }
}

fn asked<'a>(start: &Start<'a>) -> impl Iterator<Item = &'a Asked> {
    start.life.map_or(&[][..], |life| &life.asked).iter()
}

/// The verdict with its cause: `oom (cuda)`.
pub(super) fn verdict(asked: &Asked) -> String {
    let verdict = asked.verdict.as_deref().unwrap_or("no verdict");
    match &asked.cause {
        Some(cause) => format!("{verdict} ({cause})"),
        None => verdict.to_owned(),
    }
}

/// When most was in use on a device while this was asked, and how much.
fn highest(start: &Start, device: usize, asked: &Asked) -> Option<(f64, u64)> {
    let (from, to) = start.at(asked.from).zip(start.at(asked.to))?;
    let rows = start.series.rows();
    // What was seen before it began holds until the next look.
    let begin = rows.partition_point(|row| seconds(row.from) <= from).saturating_sub(1);
    let end = rows.partition_point(|row| seconds(row.from) <= to).max(begin + 1);
    let rows = rows.get(begin..end)?;
    let bytes = rows.iter().map(|row| row.used[device]).max()?;
    let row = rows.iter().find(|row| row.used[device] == bytes)?;
    Some((seconds(row.from).max(from), bytes))
}

/// Evenly chosen ones of too many.
fn thinned<T>(all: Vec<T>) -> Vec<T> {
    let every = all.len().div_ceil(MOST).max(1);
    all.into_iter().step_by(every).collect()
}

/// So many digits behind the point.
pub(in crate::report::story) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// GiB as a number for tables, with the digits that say something.
pub(in crate::report::story) fn gib(bytes: u64) -> f64 {
    let gib = bytes as f64 / f64::from(1 << 30);
    rounded(gib, if gib < 0.1 { 4 } else { 2 })
}

/// GiB as people read them.
pub(in crate::report::story) fn shown(bytes: u64) -> String {
    Gib(i64::try_from(bytes).unwrap_or(i64::MAX)).to_string()
}
