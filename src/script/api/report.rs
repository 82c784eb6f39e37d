//! The report of a boundary.

use rhai::Map;
use rhai::plugin::*;

use crate::script::{BoundaryHandle, Caught, boundary_report, from_script, host, to_script};

/// The report of a boundary.
#[export_module]
pub mod report {
    /// Shows a boundary: a chart, the largest points that fit, and what to run. Returns it as a map: `#{ frontier,
    /// recommended, flags, headroom, points, gap, predicted, band, search }`.
    ///
    /// `recommended` is the best point of the frontier (by the product of its shares of the axes) minus a margin of 5 %
    /// on every axis where that is a whole step, `()` if nothing fits; `flags` are the command line flags of the engine
    /// for it, `[]` without an engine; `headroom` is the memory in bytes that was left when the safe point was probed,
    /// `()` if it was not measured; `points` is the result of `map.points()`. All of these are proven. The following
    /// are not: `predicted`, where the boundary is expected between what is proven, is the result of `map.predicted()`,
    /// and `band`, where answers contradict each other, that of `map.band()`. `search` is `()`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 1000] }, #{});
    /// map.record(#{ input: 500 }, "ok");
    /// map.record(#{ input: 600 }, "oom");
    /// let found = report(map);
    /// assert(found.recommended == #{ input: 475 } && found.gap == #{ input: 100 });
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn report(context: NativeCallContext, map: BoundaryHandle) -> Caught<Dynamic> {
        Ok(to_script(&boundary_report::report(&host(&context), &map, None)?)?)
    }

    /// Shows a boundary with the result of a search strategy: how many probes and starts it took, why it ended, and
    /// whether the limit that the engine reports was verified from both sides. It is returned as `search`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search" as search;
    /// let map = boundary(#{ input: [1, 1000] }, #{});
    /// let done = search::adaptive(map, |p| if p.input <= 500 { "ok" } else { "oom" }, #{});
    /// assert(report(map, done).search.probes == done.probes);
    /// ```
    #[rhai_fn(name = "report", return_raw, volatile)]
    pub fn report_search(context: NativeCallContext, map: BoundaryHandle, done: Map) -> Caught<Dynamic> {
        let done = from_script(&Dynamic::from(done))?;
        Ok(to_script(&boundary_report::report(&host(&context), &map, Some(done))?)?)
    }
}
