//! Experiments: one engine with one option at several settings, each started anew, and the effect of the settings
//! compared with the variation between equal starts.
//!
//! Pure computation; `std/experiment` starts engines and measures. The statistical unit is a start: a load of a
//! thousand requests on one start is one value, because its requests share that start. `order` randomizes the
//! settings, `contrast` compares them, `student` has the t quantile, and `outcome` is the result as stored and
//! reported.

mod contrast;
mod order;
mod outcome;
mod student;

pub use contrast::{Contrast, Noise, Verdict};
pub use order::order;
pub use outcome::{Comparison, Experiment, Figure, Measurements, Metric, Setting, Trial};
pub(crate) use student::quantile;
