//! Implements `report(map)`: summarizes a boundary with what the run knows about it.

use serde_json::Value;

use super::{BoundaryHandle, Host};
use crate::boundary::Point;
use crate::engine::Limits;
use crate::fault::{Fault, Result};
use crate::report::{Extras, Findings, summarize};
use crate::run::Event;

/// Summarizes a boundary, with the statistics of its search, and notes the report in the run.
pub(super) fn report(host: &Host, map: &BoundaryHandle, search: Option<Value>) -> Result<Findings> {
    map.check_listable()?;
    let boundary = map.lock();
    let engine = host.state().engine.upgrade();
    let flags = |point: &Point| match (&engine, Limits::of_point(point)) {
        (Some(engine), Ok(limits)) => engine.flags(Some(limits)),
        // Flags exist only for an engine and for axes that are lengths.
        _ => Ok(Vec::new()),
    };
    let findings = Findings::new(&boundary, search, flags, |safe| host.run.headroom(map.index(), safe))?;
    let extras = Extras {
        flags: findings.flags.clone(),
        headroom: findings.headroom,
        search: findings.search.clone(),
        simulated: host.run.simulated(),
    };
    let text = summarize(&boundary, &extras, host.settings.page)?;
    drop(boundary);
    let value = serde_json::to_value(&findings).map_err(|error| Fault::internal(error.to_string()))?;
    host.run.note(Event::Report {
        boundary: map.index(),
        value,
        text,
    })?;
    Ok(findings)
}
