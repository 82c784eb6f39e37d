//! Everything that users see: terminal output, live view, HTML pages, charts, comparisons. Only this module and
//! `cli` print.
//!
//! A result is laid out once, as the blocks of `document`, which also renders them for the terminal and in Markdown;
//! `html` renders pages, `plot` draws their charts. `sections` lays out what a run's folder or a file of another tool
//! has, `comparison` the comparison of runs and their thresholds, `estimate` memory estimates.
//! `answer` is what a search found, in the order in which people ask, and all of it as a value; `so_far` what a run found that
//! was cut short.
//!
//! Terminal: `terminal` owns stdout and stderr and knows what they can show, `live` shows a run in progress.
//! `picture` draws a boundary in characters, `drawing` the charts of scripts.

mod comparison;
mod document;
mod drawing;
mod estimate;
pub mod html;
mod live;
mod picture;
pub mod plot;
pub mod sections;
mod sheet;
mod so_far;
mod terminal;

pub use crate::answer::{Advice, Answer, Context, Extras, Findings, advise, candidates, simulated_notice};
pub use crate::fmt::{Bytes, Clock, Count};
pub use crate::warning::{WarningGroup, group_warnings};
pub use comparison::{
    ChangedPoint, Comparison, Finding, Rule, SetupDifference, Thresholds, Verdict, comparison_findings,
    comparison_markdown, comparison_sections, completeness_warnings, implausible, matching_case, threshold_blocks,
};
pub use document::{Block, Fact, List, Section, Weight, grouped_text_table, markdown, text};
pub use drawing::{BarChart, HeatMap, LineChart, ScriptPlot};
pub use estimate::{estimate_errors, estimates, memory_comparison};
pub use live::Live;
pub use picture::draw;
pub use sections::{
    allow_flags, breakdown, breakdown_finding, comparison_input, experiment, experiment_findings, job_result,
    jobs_text, memory, overview, planned_starts, resume_command, run_findings, run_markdown, stages_sheet, with_model,
};
pub use so_far::{SoFar, results};
pub use terminal::{OutputChoice, Page, Terminal};

/// Shown first in every output of a simulated run, where what was simulated is not known or of several kinds.
pub const SIMULATED: &str = "SIMULATED: the engine was a model of one; nothing here was measured on a GPU";

/// [`SIMULATED`] with what was simulated, if all `engines` of a run simulated the same.
pub fn simulated_line(engines: &[String]) -> String {
    match engines {
        [one] => format!("SIMULATED: {one}; nothing here was measured on a GPU"),
        _ => SIMULATED.to_owned(),
    }
}
