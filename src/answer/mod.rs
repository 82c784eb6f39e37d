//! The answer of a search, ordered as users ask: the limit, how sure it is, what to run, why not more, how much room is
//! left, and the run to do next.
//!
//! Pure. An answer is classified first: `outcome` is the kind of answer, with the details of a limit in `limit` and of
//! a table in `rows`; `confidence` is how sure it is, `offers` lists what to run, and `classified` combines them. Then
//! `words` puts it into sentences. [`Findings`] adds the other facts about the boundary and the operating point that
//! `advice` recommends. `evidence` explains why a single probe failed.

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
pub use command::{RUN_OPTIONS, allow_flags, run_command};
pub use context::{AnswerContext, RunFacts};
pub use findings::Findings;
pub use outcome::OutcomeKind;
pub use rows::{AdviceCandidate, candidates};
pub use words::{SearchAnswer, WorkloadFlags};
