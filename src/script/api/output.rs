//! Script API of output: records, tables, text, charts, warnings.

use rhai::plugin::*;
use rhai::{Array, Map};

use crate::fault::{Fault, Result};
use crate::report::{BarChart, HeatMap, LineChart, Page, ScriptPlot, grouped_text_table};
use crate::run::Event;
use crate::script::{Caught, begin_call, from_script, options, to_script};

/// Output of a script while it runs: records, tables, text, warnings.
#[export_module]
pub mod record {
    /// Records a value by name in the run's journal: numbers, strings, booleans, `()`, arrays and maps of them.
    ///
    /// # Errors
    ///
    /// `usage` if the name is empty, or the value contains a function, a handle or a non-finite number; `io` if the
    /// journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// record("tokens_per_second", #{ input: 512, value: 1834.5 });
    /// ```
    #[rhai_fn(return_raw)]
    pub fn record(context: NativeCallContext, name: &str, value: Dynamic) -> Caught<()> {
        let host = begin_call(&context);
        if name.is_empty() {
            return Err(Fault::usage("`record` needs a name").into());
        }
        let value = from_script(&value).map_err(|fault| fault.while_doing(format!("record `{name}`")))?;
        let name = name.to_owned();
        Ok(host.run.note(Event::Record { name, value })?)
    }

    /// Writes rows to `tables/NAME.csv` and `tables/NAME.json` in the run's folder, replacing the table of that name:
    /// call it again with every new row. Returns the path of the CSV file, `()` if the run has no folder.
    ///
    /// Rows are maps. The given columns come first in the CSV file, followed by all other keys; keys of nested maps are
    /// joined by dots.
    ///
    /// # Errors
    ///
    /// `usage` if the name is not a plain word, or a row not a map; `io` if a file cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// keep_table("levels", ["concurrency", "tokens_per_second"], [#{ concurrency: 1, tokens_per_second: 60.5 }]);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn keep_table(context: NativeCallContext, name: &str, columns: Array, rows: Array) -> Caught<Dynamic> {
        let map = Map::from([("columns".into(), columns.into()), ("rows".into(), rows.into())]);
        let TableOptions { columns, rows } = options(map)?;
        let path = begin_call(&context).run.keep_table(name, &columns, &rows)?;
        Ok(path.map_or(Dynamic::UNIT, |path| path.display().to_string().into()))
    }

    /// The rows of a CSV file in the run's own folder, as maps: a table of `keep_table` (`"tables/NAME.csv"`), or a
    /// file of a load (its `timeline.file`). Numbers are converted, an empty cell is `()`; `[]` if the run has no
    /// folder.
    ///
    /// # Errors
    ///
    /// `not_allowed` for a file elsewhere; `io` if it is not a table.
    ///
    /// # Example
    ///
    /// ```rhai
    /// keep_table("levels", [], [#{ concurrency: 1 }]);
    /// for row in read_table("tables/levels.csv") { assert(row.concurrency == 1); }
    /// ```
    #[rhai_fn(return_raw)]
    pub fn read_table(context: NativeCallContext, file: &str) -> Caught<Dynamic> {
        Ok(to_script(&begin_call(&context).run.read_table(file)?)?)
    }

    /// Shows a line of progress to the user, on standard error. For results use `print`, `report` and tables.
    ///
    /// # Errors
    ///
    /// `io` if the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// note("the second pass begins");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn note(context: NativeCallContext, text: &str) -> Caught<()> {
        let text = text.to_owned();
        Ok(begin_call(&context).run.note(Event::Note { text })?)
    }

    /// Shows a result as your own text, and returns the value: as a script's last expression, the text is shown to
    /// people and `--json` contains the value. A map whose `missed` is a text, a limit that is not kept, ends the run with
    /// exit status 4.
    ///
    /// # Errors
    ///
    /// `usage` if the value contains a function, a handle or a non-finite number; `io` if the journal cannot be
    /// written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(show([1, 2, 4], "1, 2 and 4 at once fit") == [1, 2, 4]);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn show(context: NativeCallContext, value: Dynamic, text: &str) -> Caught<Dynamic> {
        let shown = from_script(&value).map_err(|fault| fault.while_doing("show a result"))?;
        let text = text.to_owned();
        let missing = None;
        begin_call(&context).run.note(Event::Shown {
            value: shown,
            text,
            missing,
        })?;
        Ok(value)
    }

    /// Keeps a preliminary result; `missing` names what is still to be measured (levels, engines, starts). It is shown
    /// only if the run is cut short, and by `profiler show`; the next call, and `show`, replace it. Call it after each
    /// measurement.
    ///
    /// # Errors
    ///
    /// The errors of `show`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// show_so_far(#{ finding: "1 fits" }, "1 fits", "levels 2 and 4");
    /// show(#{ finding: "4 fit" }, "4 fit");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn show_so_far(context: NativeCallContext, value: Dynamic, text: &str, missing: &str) -> Caught<()> {
        let value = from_script(&value).map_err(|fault| fault.while_doing("keep a result so far"))?;
        let (text, missing) = (text.to_owned(), Some(missing.to_owned()));
        Ok(begin_call(&context).run.note(Event::Shown { value, text, missing })?)
    }

    /// Warns readers of the results; a repeated text is kept once. Warnings are part of `result.json` and of every
    /// report.
    ///
    /// # Errors
    ///
    /// `io` if the journal cannot be written.
    ///
    /// # Example
    ///
    /// ```rhai
    /// warn("the first request was slow and is left out");
    /// ```
    #[rhai_fn(return_raw)]
    pub fn warn(context: NativeCallContext, text: &str) -> Caught<()> {
        Ok(begin_call(&context).run.warn(text)?)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TableOptions {
    columns: Vec<String>,
    rows: Vec<serde_json::Map<String, serde_json::Value>>,
}

/// A script's data as text that fits the terminal, for `print` or `show`. Charts are in `plot::…`.
#[export_module]
pub mod draw {
    /// A table with headings. All numbers of a column have the same number of decimals, as many as its smallest number
    /// needs; `()` is shown as `-`, and `#{ thin: 410 }` as `~410`. Columns that do not fit continue below, after the first
    /// column again; those whose headings are an array in `headings` stay together.
    ///
    /// # Errors
    ///
    /// `usage` if a row is not an array, or a heading neither a string nor an array of strings.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let text = draw::table(["concurrency", "tokens/s"], [[1, 60.25], [64, 1833.1], [256, ()]]);
    /// assert(text.contains("1833.1") && text.split("\n").len() == 4);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn table(context: NativeCallContext, headings: Array, rows: Array) -> Caught<String> {
        let page = begin_call(&context).settings.page;
        let map = Map::from([("headings".into(), headings.into()), ("rows".into(), rows.into())]);
        let Table { headings, rows } = options(map)?;
        let groups: Vec<&[String]> = headings.iter().map(Heading::names).collect();
        Ok(grouped_text_table(&groups, &rows, page))
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    headings: Vec<Heading>,
    rows: Vec<Vec<serde_json::Value>>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Heading {
    One(String),
    Group(Vec<String>),
}

impl Heading {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Group(names) => names,
        }
    }
}

/// Charts of a script's data. Each call records a chart in the run, which the report shows, and returns it as text that
/// fits the terminal, for `print` or `show`. All functions take one map. `title` describes the chart; `x` and `y` the
/// axes: a label such as `"latency, ms"`, whose unit is recognized (tokens, tokens/s, requests/s, s, ms, %, W, °C,
/// bytes), or a map `#{ label, unit, scale, range }`. `name` is the file name (default: derived from the title; a
/// second chart with the same name replaces the first), `words` the text alternative (default: derived from the data),
/// `caption` a note for readers; `keep: false` only returns the text.
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
    #[rhai_fn(return_raw)]
    pub fn line(context: NativeCallContext, picture: Map) -> Caught<String> {
        Ok(chart(&context, |page| options::<LineChart>(picture)?.lines(page))?)
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
    #[rhai_fn(return_raw)]
    pub fn scatter(context: NativeCallContext, picture: Map) -> Caught<String> {
        Ok(chart(&context, |page| options::<LineChart>(picture)?.scatter(page))?)
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
    #[rhai_fn(return_raw)]
    pub fn bars(context: NativeCallContext, picture: Map) -> Caught<String> {
        Ok(chart(&context, |page| options::<BarChart>(picture)?.draw(page))?)
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
    #[rhai_fn(return_raw)]
    pub fn heat_map(context: NativeCallContext, picture: Map) -> Caught<String> {
        Ok(chart(&context, |page| options::<HeatMap>(picture)?.draw(page))?)
    }
}

/// Draws a chart for the terminal, and records it for the page.
fn chart(context: &NativeCallContext, draw: impl FnOnce(Page) -> Result<ScriptPlot>) -> Result<String> {
    let host = begin_call(context);
    let drawn = draw(host.settings.page)?;
    if drawn.keep {
        let value = serde_json::to_value(&drawn.plot)
            .map_err(|error| Fault::internal(format!("a chart cannot be recorded: {error}")))?;
        host.run.note(Event::Plot { value })?;
    }
    Ok(drawn.text)
}
