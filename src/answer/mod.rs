//! The answer of a search, in the order in which people ask: the limit, how sure it is, what to run, why not more, how much
//! room is left, what to ask next.
//!
//! Pure. An answer is classified first: `outcome` is what kind of answer it is, with `limit` and `rows` for what a limit or a
//! table has; `confidence` is how sure it is, `offers` what to run, and `classified` is all of it. Then `words` says it in
//! sentences. [`Findings`] adds what else is known of the boundary, with the operating point that `advice` recommends.
//! `evidence` says of single probes why they fail.

mod advice;
mod classified;
mod command;
mod confidence;
mod context;
pub(crate) mod evidence;
mod findings;
mod limit;
mod offers;
mod outcome;
mod rows;
mod words;

pub use advice::{Advice, advise};
pub use command::{allow_flags, run_command};
pub use context::{Context, RunFacts};
pub use findings::Findings;
pub use outcome::State;
pub use rows::{Candidate, candidates};
pub use words::{Answer, Command};
