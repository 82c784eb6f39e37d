//! Results of other tools, read and written.

use rhai::Map;
use rhai::plugin::*;

use crate::script::results::{read, write};
use crate::script::{BoundaryHandle, Caught, host, to_script};

/// Results of other tools, read and written.
#[export_module]
pub mod results {
    /// Reads the boundary that a file of another tool holds: `#{ format, model, axes, points, notes }`.
    ///
    /// `points` is a list of `#{ point, answer }` in the order of the file, each of which `map.record(point, answer)` takes; an
    /// answer moves the boundary only where the file says that memory ran out. `notes` tells what the file leaves in doubt.
    ///
    /// A script has no files of its own: only one is read that the user named on the command line, with a parameter called
    /// `resume_from`, or that lies in a folder of `--allow mount=DIR`. A resumed run gets what it got before.
    ///
    /// # Errors
    ///
    /// `not_allowed` for any other file; `usage` where there is none, where it is of no known format, or holds no boundary.
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

    /// Writes a boundary into the run's folder as another tool would, and gives the path of the file; `()` where the run leaves no
    /// folder. The only format is `"tgi-profiler"`: `profile_res_<UTC time>.json`, over `input` and `output`.
    ///
    /// Options: `model` (`""`), `gpus` (`[0]`), and `search` (`#{}`), the options of `neighbours::search`. That format knows only
    /// success and failure: what moves nothing is a failure there, with our verdict as `error_type` and its cause as `error_msg`, by
    /// which `read_results` and `profiler show` tell it apart. Only the verdict of a short output is kept, not what it proves.
    ///
    /// # Errors
    ///
    /// `usage` for another format, or a boundary over other axes than these two; `io` when the file cannot be written.
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
