//! What people see: the live view, the boundary as a picture, tables. With `cli`, the only room that prints.
//!
//! `terminal` owns the two streams, `page` says what a text may be made of, `picture`, `table` and `summary` make texts of
//! a boundary, `advice` says what to run, `findings` is that as a value; `breakdown` is the table of where memory goes.

mod advice;
mod beside;
mod breakdown;
mod comparison;
mod estimate;
mod figure;
mod findings;
mod live;
mod page;
mod picture;
mod stages;
mod subject;
mod summary;
mod table;
mod terminal;
mod unit;

pub use advice::{Advice, advise};
pub use beside::{Beside, Line, Section, beside, partner};
pub use breakdown::breakdown;
pub use comparison::comparison;
pub use estimate::estimates;
pub use findings::{Findings, Row};
pub use live::Live;
pub use page::Page;
pub use picture::draw;
pub use stages::stages;
pub use subject::{implausible, notes, subject};
pub use summary::{Extras, SIMULATED, summarize};
pub use terminal::Terminal;
pub use unit::{Bytes, Clock, Count};
