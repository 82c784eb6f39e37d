//! Plans the verification of a predicted limit: which point to probe next, what is left, and what was verified.
//!
//! A [`LimitPrediction`] says how likely a point fits. Both sides of the predicted limit are probed at a few [`Place`]s: at
//! the ends of the boundary, in its middle, and at the workload that the user named. Everything between the places stays
//! predicted, not proven. A prediction that was made before the probes (`stated`: an engine's own report, a memory
//! model) is verified place by place, and given up at the first answer that contradicts it. The prediction of the limits
//! that agree with all answers (`fitted`) changes with every answer, so it is verified where those limits differ most.
//! `narrow` continues until the tolerances of the axes are met.
//!
//! All functions depend on the recorded answers and the probes in flight alone, so a resumed search gets the same
//! points.

mod certificate;
mod fitted;
mod narrow;
mod place;
mod prediction;
mod report;
mod stated;
mod step;
#[cfg(test)]
mod tests;

pub use certificate::Certificate;
pub use narrow::Narrowing;
pub use place::{Place, PlaceKind};
pub use prediction::LimitPrediction;
pub use report::ReportedLimit;
pub use step::VerificationStep;
