//! The cost of a search, the value of the next point, and the expected remaining effort.

use rhai::plugin::*;
use rhai::{Array, Map};

use super::boundary::{count, from_point, maybe, size, to_point};
use crate::run::Event;
use crate::script::boundary::BoundaryHandle;
use crate::script::{Caught, PointCost, host, to_script};

fn report_progress(
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

/// The cost and progress of a search.
#[export_module]
pub mod effort {
    /// The cost of the points that the boundary had before a resume, in recording order: `#{ point, verdict, probes,
    /// starts, seconds, gpu_seconds, report, peak }`, including retries. `report` is what the engine reported about its
    /// limits, `peak` the peak memory in bytes; both may be `()`. A search records
    /// `spent: #{ probes, starts, seconds, gpu_seconds }` in the answers that it adds; without it, the values are taken
    /// from the answer itself where possible.
    ///
    /// # Errors
    ///
    /// `limit` if there are more than a list can hold: about 285,000 over two axes.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// assert(map.spent().len() == map.resumed());
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn spent(map: &mut BoundaryHandle) -> Caught<Array> {
        map.check_listable()?;
        let row = |spent: &PointCost| -> Caught<Dynamic> {
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

    /// The expected value of probing a point, in lattice points: `#{ fits, fails, chance }`. `fits` is the volume
    /// proven to fit if it fits, `fails` the volume proven to fail if it fails, `chance` the probability that it fits,
    /// 0 to 1. These are estimates for choosing points; they prove nothing.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// let gain = map.settles(#{ input: 50 });
    /// assert(gain.fits == 50.0 && gain.fails == 51.0 && gain.chance > 0.5);
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn settles(map: &mut BoundaryHandle, point: Map) -> Caught<Map> {
        let gain = map.lock().expected_gain(&to_point(&point)?)?;
        Ok(Map::from([
            ("fits".into(), gain.fits.into()),
            ("fails".into(), gain.fails.into()),
            ("chance".into(), gain.chance.into()),
        ]))
    }

    /// Reports the progress of a search to the user: probes made, estimated total, and coverage so far.
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
        report_progress(&context, map, probes, coverage, None)
    }

    /// Reports progress with an estimate of the remaining seconds, or `()`.
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
        report_progress(&context, map, probes, coverage, seconds_left.as_float().ok())
    }

    /// The estimated total number of probes until `coverage` is reached, after `probes` probes, if the open volume
    /// keeps shrinking as it does for smooth boundaries. `()` while too little is known.
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
