//! The end of a search, for people and for scripts.

use rhai::plugin::*;

use crate::script::{BoundaryHandle, Caught, host, reporting, to_script};

/// The end of a search.
#[export_module]
pub mod report {
    /// Shows a boundary: a picture, the largest points that fit, what to run. Gives the same as a map: `#{ frontier, recommended,
    /// flags, headroom, points, gap }`.
    ///
    /// `recommended` is the point of the frontier that offers most (by the product of its shares of the axes) less a margin of
    /// 5 % on every axis, `()` where nothing fits; `flags` is what to paste into the engine's command line for it, `[]` without an
    /// engine; `headroom` is the memory in bytes that was left when the safe point was probed, `()` where it was not measured;
    /// `points` is what `map.points()` gives.
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
        Ok(to_script(&reporting::report(&host(&context), &map)?)?)
    }
}
