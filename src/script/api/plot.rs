//! `plot::…`: charts of a script's data.

use rhai::Map;
use rhai::plugin::*;
use serde_json::Value;

use crate::fault::{Fault, Result};
use crate::report::{BarChart, HeatMap, LineChart, ScriptPlot};
use crate::run::Event;
use crate::script::{Caught, host, options};

/// Charts of a script's data. Each call records a chart in the run, which the report shows, and returns it as text that
/// fits the terminal, for `print` or `show`. All functions take one map. `title` describes the chart; `x` and `y` the
/// axes: a label such as `"latency, ms"`, whose unit is recognized (tokens, tokens/s, requests/s, s, ms, %, W, °C,
/// bytes), or a map `#{ label, unit, scale, range }`. `name` is the file name (default: derived from the title; a
/// second chart of the same name replaces the first), `words` the text alternative (default: derived from the data),
/// `caption` what a reader must know; `keep: false` only returns the text.
#[export_module]
pub mod plot {
    /// Lines through points: `series` is a map of names to `[x, y]` pairs (y may be `()`: a gap), or a list of maps
    /// with `name`, `points`, `dashed` and `band`, an interval around the line as `[x, low, high]`. `log` lists the
    /// logarithmic axes, `["x", "y"]`; `steps` draws a step function; `marks` are `#{ at, text }`, labels at x values.
    /// The text is a table with a row for each x if there are few, and otherwise a curve.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown or wrong key; `io` if the journal cannot be written.
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
        Ok(record_chart(&context, options::<LineChart>(picture)?.lines(page)?)?)
    }

    /// A scatter plot: `series` is a map of names to `[x, y]` pairs, or a list of maps with `name` and `points`. `log`
    /// and `marks` are as in `plot::line`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown or wrong key; `io` if the journal cannot be written.
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
        Ok(record_chart(&context, options::<LineChart>(picture)?.scatter(page)?)?)
    }

    /// Bars: `at` lists the categories, numbers or names, and `values` has a number or `()` for each. For grouped bars,
    /// `series` is a map of names to such values or a list of maps with `name`, `values`, `intervals` (`[low, high]` or
    /// `()` for each) and `hatched`; for several quantities, `panels` is a list of maps with `y` and `values` or
    /// `series`. `marks` are `#{ at, text }`, labels at one of `at`.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown or wrong key, or a wrong number of values; `io` if the journal cannot be written.
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
        Ok(record_chart(&context, options::<BarChart>(picture)?.draw(page)?)?)
    }

    /// A heat map: `columns` lists the x categories, `rows` the y categories, lowest first, and `values` has a row for
    /// each of `rows` with a number or `()` for each of `columns`; `value` describes the values. The text is a table.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown or wrong key, or a wrong number of values; `io` if the journal cannot be written.
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
        Ok(record_chart(&context, options::<HeatMap>(picture)?.draw(page)?)?)
    }
}

/// Records a chart in the run and returns its text.
fn record_chart(context: &NativeCallContext, drawn: ScriptPlot) -> Result<String> {
    if drawn.keep {
        let value: Value = serde_json::to_value(&drawn.plot)
            .map_err(|error| Fault::internal(format!("a chart cannot be recorded: {error}")))?;
        host(context).run.note(Event::Plot { value })?;
    }
    Ok(drawn.text)
}
