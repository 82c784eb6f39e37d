//! What people see: the live view, the boundary as a picture, tables. With `cli`, the only room that prints.
//!
//! `terminal` owns the two streams, `page` says what a text may be made of, `picture` and `summary` make texts of a
//! boundary, `advice` says what to run.

mod advice;
mod page;
mod picture;
mod terminal;
mod unit;

pub use advice::{Advice, advise};
pub use page::Page;
pub use picture::draw;
pub use terminal::Terminal;
pub use unit::{Bytes, Clock, Count};
