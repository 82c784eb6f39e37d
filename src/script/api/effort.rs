//! What a search over a boundary spent, what the next point settles, and how much is left.

use rhai::plugin::*;
use rhai::{Array, Map};

use super::boundary::{count, from_point, maybe, size, to_point};
use crate::run::Event;
use crate::script::boundary::BoundaryHandle;
use crate::script::{Caught, Spent, host, to_script};

/// Notes how far a search is.
fn tell(
    context: &NativeCallContext,
    map: &BoundaryHandle,
    probes: i64,
    coverage: f64,
    seconds_left: Option<f64>,
) -> Caught<()> {
    let done = size(probes, "progress")? as u64;
    let (expected, proven) = {
        let map = map.lock();
        (map.expected(done, coverage)?, map.coverage()?)
    };
    Ok(host(context).run.note(Event::Progress {
        done,
        expected,
        coverage: proven,
        seconds_left,
    })?)
}

/// What a search over a boundary spends and expects.
#[export_module]
pub mod effort {
    /// What the points that the boundary held before a resume had cost, in recording order: `#{ point, verdict, probes, starts, seconds,
    /// gpu_seconds, report, peak }`, retries included; `report` is what the engine reported of its bounds, and `peak` the most memory that was in use, in bytes, `()` where nothing. A search adds `spent: #{ probes, starts, seconds, gpu_seconds }` to the answers that it records; from others it is
    /// read as far as they tell it themselves.
    ///
    /// # Errors
    ///
    /// `limit` when there are more than a list may hold: some 285,000 over two axes.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// assert(map.spent().len() == map.resumed());
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn spent(map: &mut BoundaryHandle) -> Caught<Array> {
        map.listable()?;
        let row = |spent: &Spent| -> Caught<Dynamic> {
            let report = spent.report.as_ref().map(to_script).transpose()?;
            Ok(Map::from([
                ("point".into(), from_point(&spent.point)),
                ("verdict".into(), spent.verdict.clone().into()),
                ("probes".into(), spent.probes.into()),
                ("starts".into(), spent.starts.into()),
                ("seconds".into(), spent.seconds.into()),
                ("gpu_seconds".into(), spent.gpu_seconds.into()),
                ("report".into(), report.unwrap_or(Dynamic::UNIT)),
                ("peak".into(), spent.peak.map_or(Dynamic::UNIT, Dynamic::from)),
            ])
            .into())
        };
        map.resumed().iter().map(row).collect()
    }

    /// What asking a point settles, in lattice points of the box: `#{ fits, fails, chance }`, the volume proven to fit if it fits, that proven to fail if it fails,
    /// and how likely it fits, 0 to 1. All are guesses for choosing; nothing is proven by them.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// let told = map.settles(#{ input: 50 });
    /// assert(told.fits == 50.0 && told.fails == 51.0 && told.chance > 0.5);
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn settles(map: &mut BoundaryHandle, point: Map) -> Caught<Map> {
        let told = map.lock().settles(&to_point(&point)?)?;
        Ok(Map::from([
            ("fits".into(), told.fits.into()),
            ("fails".into(), told.fails.into()),
            ("chance".into(), told.chance.into()),
        ]))
    }

    /// Shows the reader of the run how far a search is: how many probes were made, about how many there will be in all, and
    /// the coverage so far.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.progress(1, 0.95);
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn progress(context: NativeCallContext, map: &mut BoundaryHandle, probes: i64, coverage: f64) -> Caught<()> {
        tell(&context, map, probes, coverage, None)
    }

    /// The same with an estimate of the seconds that are left, `()` where there is none.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.progress(1, 0.95, 12.5);
    /// ```
    #[rhai_fn(name = "progress", return_raw, volatile, pure)]
    pub fn progress_with(
        context: NativeCallContext,
        map: &mut BoundaryHandle,
        probes: i64,
        coverage: f64,
        seconds_left: Dynamic,
    ) -> Caught<()> {
        tell(&context, map, probes, coverage, seconds_left.as_float().ok())
    }

    /// About how many probes there will be in all once `coverage` is reached, when `probes` were made: if the open volume goes on shrinking as it
    /// does for smooth boundaries. `()` while too little is known.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// assert(map.expected(0, 0.95) == ());
    /// map.record(#{ input: 100 }, "ok");
    /// assert(map.expected(1, 0.95) == 1);
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn expected(map: &mut BoundaryHandle, probes: i64, coverage: f64) -> Caught<Dynamic> {
        let expected = map.lock().expected(size(probes, "expected")? as u64, coverage)?;
        Ok(maybe(expected, |expected| count(expected.into()).into()))
    }
}
