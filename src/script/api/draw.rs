//! `draw::…`: a script's data as text.

use rhai::plugin::*;
use rhai::{Array, Map};

use crate::report::text_table;
use crate::script::{Caught, host, options};

/// A script's data as text that fits the terminal, for `print` or `show`. Charts are in `plot::…`.
#[export_module]
pub mod draw {
    /// A table with headings. All numbers of a column have the same number of decimals, as many as its smallest number
    /// needs; `()` is shown as `-`. Columns that do not fit continue below, after the first column again.
    ///
    /// # Errors
    ///
    /// `usage` if a row is not an array, or a heading not a string.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let text = draw::table(["concurrency", "tokens/s"], [[1, 60.25], [64, 1833.1], [256, ()]]);
    /// assert(text.contains("1833.1") && text.split("\n").len() == 4);
    /// ```
    #[rhai_fn(return_raw, volatile)]
    pub fn table(context: NativeCallContext, headings: Array, rows: Array) -> Caught<String> {
        let page = host(&context).settings.page;
        let map = Map::from([("headings".into(), headings.into()), ("rows".into(), rows.into())]);
        let Table { headings, rows } = options(map)?;
        Ok(text_table(&headings, &rows, page))
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<serde_json::Value>>,
}
