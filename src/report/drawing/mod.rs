//! Tables and plots that scripts draw: plots as data for the report, and both as text that fits the page.
//!
//! Pure. A text is kept in the run's journal as it was printed, so it has no colours.

mod category_charts;
mod line_chart;
mod spec;
mod text_charts;
mod text_table;

pub use category_charts::{BarChart, HeatMap};
pub use line_chart::LineChart;
pub use spec::ScriptPlot;
pub use text_table::grouped_text_table;
