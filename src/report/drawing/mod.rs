//! What a script draws of its own figures: a table, and pictures that are data for the report and a text for the terminal. Pure: each text fits a page.
//!
//! `given` is what scripts may write, `lines`, `columns` and `heat` make pictures of it, `bars`, `curve`, `dots` and `sheet` texts. A text is kept in the
//! run's journal as it was drawn, so that it has no colours.

mod bars;
mod cells;
mod columns;
mod curve;
mod dots;
mod given;
mod heat;
mod kept;
mod lines;
mod sheet;

pub use columns::Columns;
pub use heat::Heat;
pub use kept::Drawn;
pub use lines::Lines;
pub use sheet::sheet;
