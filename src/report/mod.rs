//! Everything that users see: terminal output, live view, HTML pages, charts, comparisons. Only this module and
//! `cli` print.
//!
//! A result is laid out once, as the blocks of `document`, which also renders them for the terminal and in Markdown;
//! `html` renders pages, `plot` draws their charts. `sections` lays out what a run's folder or a file of another tool
//! has, `comparison` the comparison of runs and their thresholds, `estimate` memory estimates. `recorded_answer` is the
//! answer of a boundary in a run's folder, `so_far` lays out the results of a run that was cut short, `commands` are
//! the commands that resume or repeat a run.
//!
//! Terminal: `terminal` owns stdout and stderr and knows what they can show, `live` shows a run in progress.
//! `picture` draws a boundary in characters, `drawing` the charts of scripts.

mod commands;
mod comparison;
mod document;
mod drawing;
mod estimate;
pub mod html;
mod live;
mod picture;
pub mod plot;
mod recorded_answer;
pub mod sections;
mod sheet;
mod so_far;
mod terminal;

pub use crate::fmt::{Bytes, Clock, Count};
pub use crate::warning::{WarningGroup, group_warnings};
pub use commands::{resume_command, with_model};
pub use comparison::{
    ChangedPoint, Comparison, Finding, MetricVerdict, Rule, SetupDifference, Thresholds, comparison_findings,
    comparison_markdown, comparison_sections, completeness_warnings, implausible, matching_case, threshold_blocks,
};
pub use document::{Block, Fact, List, Section, Weight, grouped_text_table, markdown, text};
pub use drawing::{BarChart, HeatMap, LineChart, ScriptPlot};
pub use estimate::{estimate_errors, estimates, memory_comparison};
pub use live::Live;
pub use picture::draw;
pub use recorded_answer::Extras;
pub use sections::{
    breakdown, breakdown_finding, comparison_input, experiment, experiment_findings, job_result, jobs_text, memory,
    overview, planned_starts, run_findings, run_markdown, serving_section, serving_sketch, stages_sheet, trials_sheet,
};
pub use so_far::{SoFar, results};
pub use terminal::{OutputChoice, Page, Terminal};

use crate::run::RecordedRun;

/// The first line of every output of a simulated run whose simulated engine is unknown, or that simulated several
/// kinds.
pub const SIMULATED: &str = "SIMULATED: the engine was a model of one; nothing here was measured on a GPU";

/// [`SIMULATED`] with what was simulated, if all `engines` of a run simulated the same.
pub fn simulated_line(engines: &[String]) -> String {
    match engines {
        [one] => format!("SIMULATED: {one}; nothing here was measured on a GPU"),
        _ => SIMULATED.to_owned(),
    }
}

/// The notice of a recorded run, if it was simulated.
pub fn simulated_notice(found: &RecordedRun) -> Option<String> {
    (found.manifest.simulated).then(|| simulated_line(&found.totals.simulated()))
}
