//! Reads and writes results of other tools.

use rhai::Map;
use rhai::plugin::*;

use crate::script::results::{read, write};
use crate::script::{BoundaryHandle, Caught, host, to_script};

/// Reads and writes results of other tools.
#[export_module]
pub mod results {
    /// Reads the boundary in a file of another tool: `#{ format, model, axes, points, notes }`.
    ///
    /// `points` is a list of `#{ point, answer }` in the order of the file, for `map.record(point, answer)`. An answer
    /// moves the boundary only if the file says that memory ran out. `notes` lists what is uncertain in the file.
    ///
    /// A file is read only if the user named it on the command line, in a parameter called `resume_from`, or if it is
    /// in a folder of `--allow mount=DIR`. A resumed run replays the earlier result.
    ///
    /// # Errors
    ///
    /// `not_allowed` for any other file; `usage` if it does not exist, has no known format, or contains no boundary.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let p = params(#{ resume_from: param((), "a file of tgi-profiler to go on from") });
    /// let earlier = if p.resume_from == () { [] } else { read_results(p.resume_from).points };
    /// let map = boundary(#{ input: [128, 8192], output: [128, 4096] }, #{});
    /// for row in earlier {
    ///     map.record(row.point, row.answer);
    /// }
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn read_results(context: NativeCallContext, path: &str) -> Caught<Dynamic> {
        Ok(to_script(&read(&host(&context), path)?)?)
    }

    /// Writes a boundary into the run's folder in another tool's format, and returns the path of the file; `()` if the
    /// run has no folder. The only format is `"tgi-profiler"`: `profile_res_<UTC time>.json`, over `input` and
    /// `output`.
    ///
    /// Options: `model` (`""`), `gpus` (`[0]`), and `search` (`#{}`), the options of `neighbours::search`. That format
    /// has only success and failure: an inconclusive point is a failure there, with our verdict as `error_type` and its
    /// cause as `error_msg`, by which `read_results` and `profiler show` recognize it. Of a short output only the
    /// verdict is kept, not what it proves.
    ///
    /// # Errors
    ///
    /// `usage` for another format, or a boundary over other axes; `io` if the file cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [128, 8192], output: [128, 4096] }, #{});
    /// map.record(#{ input: 1000, output: 500 }, "ok");
    /// export_results(map, "tgi-profiler", #{ model: "meta-llama/Llama-3.1-8B-Instruct" });
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn export_results(
        context: NativeCallContext,
        map: BoundaryHandle,
        format: &str,
        options: Map,
    ) -> Caught<Dynamic> {
        let path = write(&host(&context), &map, format, options)?;
        Ok(path.map_or(Dynamic::UNIT, |path| path.display().to_string().into()))
    }
}
