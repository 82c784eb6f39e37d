//! `draw::…`: figures of a script as text that fits the page.

use rhai::plugin::*;
use rhai::{Array, Map};

use crate::report::sheet;
use crate::script::{Caught, host, options};

/// A script's own figures as text that fits the page of the run: for `print`, or for `show` with the result that they show. Pictures are `plot::…`.
#[export_module]
pub mod draw {
    /// A table: rows of values below their headings. Numbers of one column have as many decimals as the smallest of them needs; `()` is `-`. What
    /// is too wide for the page goes on below, under the first column again.
    ///
    /// # Errors
    ///
    /// `usage` when a row is no array, or a heading no string.
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
        Ok(sheet(&headings, &rows, page))
    }
}

/// What `table` takes.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<serde_json::Value>>,
}
