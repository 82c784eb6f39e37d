//! Where the memory of a model goes: what an engine's peak consists of, and what the model's architecture says that it should be.
//!
//! Pure: figures come in, figures go out. Who measured them (`telemetry`), who reported them (`engine`) and who prints them
//! (`report`) are other rooms. Everything is in bytes; GiB exist only where people read.

mod breakdown;
pub mod compare;
mod component;
mod estimate;
mod footprint;
mod part;
mod provenance;
mod shape;

pub use breakdown::Breakdown;
pub use component::Component;
pub use estimate::{Estimate, Fits, Known, LayerKind, Question, estimate};
pub use footprint::{Alone, Beyond, Footprint, Overhead};
pub use part::Part;
pub use provenance::Provenance;
pub use shape::{Dtype, Headers};
