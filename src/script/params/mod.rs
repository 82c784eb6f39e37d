//! A script's parameters: what it declares, what the user set, and what comes of both.
//!
//! `set` reads `--set` and `--params`, `declare` lays them over the defaults, `describe` lists a script's parameters without
//! running it.

mod declare;
mod describe;
mod set;

pub use declare::{Declared, Param};
pub(super) use declare::{declared, lay_over};
pub use describe::describe;
pub use set::{assign, assignment, read_file};
