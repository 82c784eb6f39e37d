//! Charts and tables that scripts draw: charts as data for the report and as text, tables as text that fits the page.
//!
//! Pure. A text is kept in the run's journal as it was printed, so it has no colours.

mod arguments;
mod charts;
mod text_table;

pub use charts::{BarChart, HeatMap, LineChart, ScriptPlot};
pub use text_table::grouped_text_table;
pub(in crate::report) use text_table::{Column, ColumnFormat, continued, text_table, total_width, width};
