//! The end of a search, for people and for scripts.

use rhai::Map;
use rhai::plugin::*;

use crate::script::{BoundaryHandle, Caught, from_script, host, reporting, to_script};

/// The end of a search.
#[export_module]
pub mod report {
    /// Shows a boundary: a picture, the largest points that fit, what to run. Gives the same as a map: `#{ frontier, recommended,
    /// flags, headroom, points, gap, predicted, band, search }`.
    ///
    /// `recommended` is the point of the frontier that offers most (by the product of its shares of the axes) less a margin of
    /// 5 % on every axis of which that is a whole step, `()` where nothing fits; `flags` is what to paste into the engine's command line for it, `[]` without an
    /// engine; `headroom` is the memory in bytes that was left when the safe point was probed, `()` where it was not measured;
    /// `points` is what `map.points()` gives. All that is proven. What is not stands apart: `predicted`, where the boundary is expected to run between what is proven, is what
    /// `map.predicted()` gives, and `band`, where answers contradict each other, what `map.band()` does. `search` is `()`.
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
        Ok(to_script(&reporting::report(&host(&context), &map, None)?)?)
    }

    /// The same with what a strategy returned: how many probes and starts it took, what ended it, and whether the boundary that the engine's own report
    /// predicts was verified from both sides. It is shown, and given as `search`.
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
        Ok(to_script(&reporting::report(&host(&context), &map, Some(done))?)?)
    }
}
