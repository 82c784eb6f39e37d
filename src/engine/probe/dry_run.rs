//! Answers probes of a dry run from a simple memory model.

use serde_json::Value;

use crate::boundary::{Overload, Point, Verdict};
use crate::engine::lifecycle::engine::Engine;
use crate::engine::lifecycle::preview::{dry_run_fault, preview};
use crate::fault::{Fault, Result};
use crate::run::{Limits, ProbeAnswer};

/// Maximum probes of a dry run.
const MAX_PROBES: u64 = 300;

/// Answers a probe of a boundary as if half of the memory between the search range's smallest and largest point were
/// available. The first probe fits where there is no boundary yet. Any later probe without a boundary, or beyond the
/// maximum, ends the script. The first probe also previews the starts of `others`.
pub(crate) fn dry_run<'a>(
    engine: &Engine,
    mut others: impl Iterator<Item = &'a Engine>,
    point: &Point,
    requested: Limits,
    overload: Overload,
) -> Result<Value> {
    let mut live = engine.lock();
    let whole = engine.full_limits(requested);
    let fault = match live.dry_run_probes {
        0 => {
            let fault = preview(engine, whole)?;
            others.try_for_each(|other| preview(other, whole).map(drop))?;
            fault
        }
        _ => dry_run_fault(engine),
    };
    let fits = match (engine.context.axes)() {
        Some(axes) if live.dry_run_probes < MAX_PROBES => {
            let largest = Limits::from_axes(Some(&axes), requested).resident();
            requested.resident() <= requested.lower_ends(&axes).resident().midpoint(largest)
        }
        None if live.dry_run_probes == 0 => true,
        _ => return Err(fault),
    };
    live.dry_run_probes += 1;
    let verdict = if fits { Verdict::Ok } else { Verdict::Oom };
    let answer = ProbeAnswer {
        verdict,
        moves: verdict.moves(None, overload),
        point: point.clone(),
        ..ProbeAnswer::default()
    };
    serde_json::to_value(answer).map_err(Fault::internal)
}
