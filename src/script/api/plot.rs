//! `plot::…`: pictures of a script's own figures.

use rhai::Map;
use rhai::plugin::*;
use serde_json::Value;

use crate::fault::{Fault, Result};
use crate::report::{Columns, Drawn, Heat, Lines};
use crate::run::Event;
use crate::script::{Caught, host, options};

/// Pictures of a script's own figures: each call keeps one in the run, where the report shows it, and gives a text of it that fits the page, for `print` or `show`.
///
/// All take one map. `title` says what is drawn; `x` and `y` what is measured along the axes: a label such as `"latency, ms"`, whose unit is known by its name (tokens,
/// tokens/s, requests/s, s, ms, %, W, °C, bytes), or a map `#{ label, unit, scale, range }`. `name` is the name of the file (made of the title without it; a second
/// picture of a name takes the place of the first), `words` what is read aloud in the place of the picture (made of the figures without it), `caption` what
/// must be known to read it; `keep: false` gives the text alone.
#[export_module]
pub mod plot {
    /// Lines through points: `series` is a map of names to `[x, y]` pairs (y may be `()`: a gap), or a list of maps with `name`, `points`, `dashed` and
    /// `band`, an interval around the line as `[x, low, high]`. `log` lists the axes that are logarithmic, `["x", "y"]`; `steps` holds a value until the next;
    /// `marks` are `#{ at, text }`, told at places of x. The text has a row for each x where they are few, and a curve otherwise.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown or wrong key; `io` when the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let text = plot::line(#{
    ///     title: "Throughput",
    ///     x: "concurrency",
    ///     y: "tokens/s",
    ///     series: #{ vllm: [[1, 60], [64, 1833]], tgi: [[1, 55], [64, 1600]] },
    ///     log: ["x"],
    ///     marks: [#{ at: 64, text: "knee" }],
    /// });
    /// assert(text.contains("vllm") && text.contains("knee"));
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn line(context: NativeCallContext, picture: Map) -> Caught<String> {
        let page = host(&context).settings.page;
        Ok(kept(&context, options::<Lines>(picture)?.lines(page)?)?)
    }

    /// Single points: `series` is a map of names to `[x, y]` pairs, or a list of maps with `name` and `points`. `log` and `marks` are those of `plot::line`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown or wrong key; `io` when the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let text = plot::scatter(#{
    ///     title: "Time to first token by input",
    ///     x: "input, tokens",
    ///     y: "TTFT, ms",
    ///     series: #{ cold: [[128, 40.5], [4096, 310.0]], cached: [[128, 12.0], [4096, 15.5]] },
    ///     log: ["x"],
    /// });
    /// assert(text.contains("cold") && text.contains("cached"));
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn scatter(context: NativeCallContext, picture: Map) -> Caught<String> {
        let page = host(&context).settings.page;
        Ok(kept(&context, options::<Lines>(picture)?.scatter(page)?)?)
    }

    /// Bars: `at` lists the places, numbers or names, and `values` has a number or `()` for each. Several things beside each other are `series`, a map of names to
    /// such values or a list of maps with `name`, `values`, `intervals` (`[low, high]` or `()` for each) and `hatched`; several quantities are `panels`, a list of maps with
    /// `y` and `values` or `series`. `marks` are `#{ at, text }`, told at one of `at`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown or wrong key, or values that are not as many as places; `io` when the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let text = plot::bars(#{
    ///     title: "Throughput and latency",
    ///     x: "concurrency",
    ///     at: [1, 64],
    ///     panels: [#{ y: "output tokens/s", values: [60.25, 1833.1] }, #{ y: "p95 TTFT, ms", values: [48.0, 210.5] }],
    ///     marks: [#{ at: 64, text: "knee" }],
    /// });
    /// assert(text.contains("output tokens/s") && text.contains("knee"));
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn bars(context: NativeCallContext, picture: Map) -> Caught<String> {
        let page = host(&context).settings.page;
        Ok(kept(&context, options::<Columns>(picture)?.draw(page)?)?)
    }

    /// A heat map: `columns` lists the places along x, `rows` those along y, the lowest first, and `values` has a row for each of `rows` with a number or `()` for each of
    /// `columns`; `value` says what they are. The text is a table.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown or wrong key, or values that are not as many as places; `io` when the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let text = plot::heat_map(#{
    ///     title: "Throughput by lengths",
    ///     x: "input, tokens",
    ///     y: "output, tokens",
    ///     value: "tokens/s",
    ///     columns: [128, 1024],
    ///     rows: [128, 512],
    ///     values: [[1800.5, 1500.0], [1650.0, ()]],
    /// });
    /// assert(text.contains("tokens/s") && text.contains("1650"));
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn heat_map(context: NativeCallContext, picture: Map) -> Caught<String> {
        let page = host(&context).settings.page;
        Ok(kept(&context, options::<Heat>(picture)?.draw(page)?)?)
    }
}

/// Keeps a picture in the run, and gives its text.
fn kept(context: &NativeCallContext, drawn: Drawn) -> Result<String> {
    if drawn.keep {
        let value: Value = serde_json::to_value(&drawn.plot)
            .map_err(|error| Fault::internal(format!("a picture cannot be kept: {error}")))?;
        host(context).run.note(Event::Plot { value })?;
    }
    Ok(drawn.text)
}
