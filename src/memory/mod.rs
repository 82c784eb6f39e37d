//! Memory of a model by component: measured breakdowns of an engine, and estimates from the model's architecture.
//!
//! Pure: `telemetry` measures, `engine` reads what engines report, and `report` prints. All values are bytes; GiB
//! appear only in output for people.

mod breakdown;
pub mod compare;
mod estimate;
mod footprint;
mod shape;

pub use breakdown::{Breakdown, Component, Part, Provenance};
pub use estimate::{Estimate, EstimateRequest, Fits, LayerKind, ModelFiles, estimate};
pub use footprint::{BaselineMemory, Footprint, Overhead, OverheadBaseline};
pub use shape::{Dtype, Headers};
