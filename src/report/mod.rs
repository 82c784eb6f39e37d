//! Everything that users see: terminal output, live view, HTML pages, charts, comparisons. Only this module and
//! `cli` print.
//!
//! Terminal: `terminal` owns stdout and stderr, `page` holds width and capabilities, `live` shows a run in
//! progress. `summary` and `picture` show a boundary, `breakdown` memory by component, `memory` memory over time,
//! `experiment` an experiment, `changes` what changed in a sentence, `estimate` memory estimates, `comparison_input`
//! a file of another tool, `drawing` the charts of scripts. `answer` is what a search found, in the order in which people ask;
//! `findings` is all of it as a value;
//! `warning_groups` groups similar warnings.
//!
//! Pages: `sections` turns a run's folder into text and charts, `plot` draws the charts, `html` renders both into
//! one file.
//!
//! `comparison` compares runs and checks thresholds.

mod answer;
mod breakdown;
mod changes;
mod comparison;
mod comparison_input;
mod document;
mod drawing;
mod estimate;
mod evidence;
mod experiment;
mod findings;
pub mod html;
mod live;
mod memory;
mod page;
mod picture;
pub mod plot;
mod prose;
pub mod sections;
mod spark;
mod summary;
mod table;
mod terminal;
mod warning_groups;

pub use crate::fmt::{Bytes, Clock, Count};
pub use answer::{Answer, Context};
pub use breakdown::{breakdown, finding as breakdown_finding};
pub use comparison::{
    ChangedPoint, ComparedMetric, Comparison, Evaluation, Finding, Rule, Section, SetupDifference, Thresholds,
    UnmatchedMetric, Verdict, comparison_findings, comparison_markdown, comparison_text, completeness_warnings,
    matching_case,
};
pub use comparison_input::{comparison_input, implausible, lines, notes_section};
pub use document::Fact;
pub use drawing::{BarChart, HeatMap, LineChart, ScriptPlot, grouped_text_table};
pub use estimate::{estimates, memory_comparison};
pub use experiment::{experiment, findings as experiment_findings, planned_starts};
pub use findings::{Advice, Findings, RecordedPoint, advise};
pub use live::{Live, with_notice};
pub use memory::{memory, stages};
pub use page::Page;
pub use picture::draw;
pub use summary::{Extras, SIMULATED, simulated_line, summarize};
pub use terminal::{OutputChoice, Terminal};
pub use warning_groups::{WarningGroup, group_warnings};
