//! Output of a script while it runs: records, tables, text, warnings.

use rhai::plugin::*;
use rhai::{Array, Map};

use crate::fault::Fault;
use crate::run::Event;
use crate::script::{Caught, from_script, host, options, to_script};

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
    #[rhai_fn(return_raw, volatile)]
    pub fn record(context: NativeCallContext, name: &str, value: Dynamic) -> Caught<()> {
        let host = host(&context);
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
    #[rhai_fn(return_raw, volatile)]
    pub fn keep_table(context: NativeCallContext, name: &str, columns: Array, rows: Array) -> Caught<Dynamic> {
        let map = Map::from([("columns".into(), columns.into()), ("rows".into(), rows.into())]);
        let Table { columns, rows } = options(map)?;
        let path = host(&context).run.keep_table(name, &columns, &rows)?;
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
    #[rhai_fn(return_raw, volatile)]
    pub fn read_table(context: NativeCallContext, file: &str) -> Caught<Dynamic> {
        Ok(to_script(&host(&context).run.read_table(file)?)?)
    }

    /// Shows a line to the user, like `print`.
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
    #[rhai_fn(return_raw, volatile)]
    pub fn note(context: NativeCallContext, text: &str) -> Caught<()> {
        let text = text.to_owned();
        Ok(host(&context).run.note(Event::Print { text })?)
    }

    /// Shows a result as your own text, and returns the value: as a script's last expression, the text is shown to
    /// people and `--json` contains the value.
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
    #[rhai_fn(return_raw, volatile)]
    pub fn show(context: NativeCallContext, value: Dynamic, text: &str) -> Caught<Dynamic> {
        let value_json = from_script(&value).map_err(|fault| fault.while_doing("show a result"))?;
        let text = text.to_owned();
        host(&context).run.note(Event::Shown {
            value: value_json,
            text,
        })?;
        Ok(value)
    }

    /// Warns readers of the results; the same text is kept once. Warnings are part of `result.json` and of every
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
    #[rhai_fn(return_raw, volatile)]
    pub fn warn(context: NativeCallContext, text: &str) -> Caught<()> {
        Ok(host(&context).run.warn(text)?)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    columns: Vec<String>,
    rows: Vec<serde_json::Map<String, serde_json::Value>>,
}
