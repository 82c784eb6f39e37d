//! A script's parameters: `set` parses `--set` and `--params`, `declare` merges them with the defaults, `describe`
//! lists them without running the script.

mod declare;
mod describe;
mod set;

pub use declare::{Declared, Param};
pub(super) use declare::{declared, merge_values};
pub use describe::describe;
pub use set::{assign, assignment, read_file};
