//! Everything that users see: terminal output, live view, HTML pages, charts, comparisons. Only this module and
//! `cli` print.
//!
//! Terminal: `terminal` owns stdout and stderr, `page` holds width and capabilities, `live` shows a run in
//! progress. `summary` and `picture` show a boundary, `breakdown` and `stages` memory by component and stage,
//! `memory` memory over time, `experiment` an experiment, `estimate` memory estimates, `comparison_input` a
//! file of another tool, `drawing` the charts of scripts. `advice` picks the recommended point, `findings` is
//! the summary as a value, `warning_groups` groups similar warnings.
//!
//! Pages: `sections` turns a run's folder into text and charts, `plot` draws the charts, `html` renders both into
//! one file.
//!
//! Comparisons: `comparison` compares runs and checks thresholds, `memory_comparison` compares memory with an
//! external estimate.

mod advice;
mod breakdown;
mod comparison;
mod comparison_input;
mod drawing;
mod estimate;
mod experiment;
mod figure;
mod findings;
pub mod html;
mod live;
mod memory;
mod memory_comparison;
mod page;
mod picture;
pub mod plot;
pub mod sections;
mod spark;
mod stages;
mod summary;
mod table;
mod terminal;
mod unit;
mod warning_groups;

pub use advice::{Advice, advise};
pub use breakdown::breakdown;
pub use comparison::{
    ChangedPoint, ComparedMetric, Comparison, Evaluation, Finding, Rule, Section, SetupDifference, Thresholds,
    UnmatchedMetric, Verdict, comparison_markdown, comparison_text, completeness_warnings, matching_case,
};
pub use comparison_input::{comparison_input, implausible, lines, notes_section};
pub use drawing::{BarChart, HeatMap, LineChart, ScriptPlot, text_table};
pub use estimate::estimates;
pub use experiment::{experiment, planned_starts};
pub use findings::{Findings, RecordedPoint};
pub use live::{Live, script_text};
pub use memory::memory;
pub use memory_comparison::memory_comparison;
pub use page::Page;
pub use picture::draw;
pub use stages::stages;
pub use summary::{Extras, SIMULATED, summarize};
pub use terminal::Terminal;
pub use unit::{Bytes, Clock, Count};
pub use warning_groups::{WarningGroup, group_warnings};
