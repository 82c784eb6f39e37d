//! Experiments: one engine, one knob at several settings, each start anew; what the settings change, held against what equal settings do
//! among themselves. Pure: `std/experiment` starts and measures, this room computes.
//!
//! The unit of the statistics is a start: a load of a thousand requests on one start is one value, as its requests share whatever that
//! start was like. `order` says which setting comes when, `contrast` what a difference is worth, `student` has the quantile that it
//! needs, `outcome` is the whole in the form that runs keep and reports draw.

mod contrast;
mod order;
mod outcome;
mod student;

pub use contrast::{Contrast, Noise, Verdict};
pub use order::order;
pub use outcome::{Comparison, Experiment, Figure, Measured, Metric, Setting, Trial};
pub(crate) use student::quantile;
