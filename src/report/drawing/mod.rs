//! Tables and plots that scripts draw: plots as data for the report, and both as text that fits the page.
//!
//! Pure. A text is kept in the run's journal as it was printed, so it has no colours.

mod bar_chart;
mod format;
mod heat_map;
mod line_chart;
mod output;
mod spec;
mod text_bars;
mod text_curve;
mod text_scatter;
mod text_table;

pub use bar_chart::BarChart;
pub use heat_map::HeatMap;
pub use line_chart::LineChart;
pub use output::ScriptPlot;
pub use text_table::text_table;
